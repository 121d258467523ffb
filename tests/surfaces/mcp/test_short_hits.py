"""Search results for a model are short text: one entry per memory, outcomes before command lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.surfaces.conftest import Shell

from lorelog.retrieval.token_estimate import estimate_tokens

MAX_TOKENS = 700


def note(number: int, topic: str) -> str:
    """A captured note with an outcome, files and a long list of commands."""
    commands = "\n".join(f"  - `make {topic}-{step} --verbose --config deploy/{topic}.yaml`" for step in range(8))
    return (
        f"### 1{number % 10}:{number:02}\n"
        f"<!-- session:s{number} turn:t memory:0195c1f2-7d2e-7abc-8000-{number:012} type:turn origin:agent -->\n"
        f"- User asked: please look at the {topic} pipeline, it fails on the build machine since yesterday\n"
        f"- Outcome: The {topic} pipeline failed because the cache key changed. The key now has the lock file's hash, "
        f"and the {topic} job passes again on the build machine.\n"
        f"  - The old caches were removed by hand, because they cannot expire.\n"
        f"- Files: ci/{topic}.yaml, scripts/{topic}.sh\n- Commands:\n{commands}\n"
        f"- Errors: Bash `make {topic}-0`: exit status 2\n\n"
    )


def journal(project: Path) -> None:
    folder = project / ".lorelog" / "memory"
    folder.mkdir(parents=True)
    topics = ("docs", "release", "lint", "image", "wheel", "upload", "bench")
    text = "".join(note(number, topic) for number, topic in enumerate(topics))
    (folder / "2026-11-15.md").write_text(f"# 2026-11-15\n\n{text}", "utf-8")


def test_five_hits_cost_at_most_700_tokens(project: Path, shell: Shell) -> None:
    """Five memories with id, date and source fit into 700 tokens; as JSON they cost thousands."""
    journal(project)
    shell("index")
    text = shell("search", "pipeline fails on the build machine", "--short", "-k", 5).out

    assert (
        len(
            re.findall(
                r"^\d\. 2026-11-15 1\d:\d\d .*\.lorelog/memory/2026-11-15\.md:\d+ id \w+ \(~", text, re.MULTILINE
            )
        )
        == 5
    )
    assert estimate_tokens(text) <= MAX_TOKENS
    reply = shell("search", "pipeline fails on the build machine", "--json", "-k", 5).json
    assert estimate_tokens(json.dumps(reply)) > 4 * MAX_TOKENS


def test_a_snippet_prefers_the_outcome(project: Path, shell: Shell) -> None:
    """The quotation is of the outcome, although request and commands have the words too; a command is found alone."""
    journal(project)
    shell("index")
    text = shell("search", "release pipeline", "--short", "-k", 1).out
    assert "\n> - Outcome: The release pipeline failed because" in text
    assert "make release" not in text

    assert "make release-3" in shell("search", "release-3", "--short", "-k", 1, "--lane", "lexical").out


def test_a_memory_in_several_chunks_is_one_entry(project: Path, shell: Shell) -> None:
    """A long memory is shown once, and the others follow, with --short and without."""
    long = "\n\n".join(f"The otter report, part {number}: " + "otters swim far. " * 60 for number in range(8))
    shell("add", long)
    shell("add", "Otters are counted in May.")
    chunks = shell("search", "otters", "--json", "-k", 5).json["hits"]
    assert len({hit["anchor"]["memory"] for hit in chunks}) == len(chunks) == 2

    text = shell("search", "otters", "--short", "-k", 5).out
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 2
    assert "counted in May" in text


def test_nothing_found_is_said(project: Path, shell: Shell) -> None:
    """A search without hits prints one line."""
    assert shell("search", "otters", "--short").out == "No results found.\n"
