"""The main commands as a user runs them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.code.repositories import git
from tests.surfaces.conftest import Shell, write

from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.surfaces.cli.commands import COMMANDS, guide
from lorelog.surfaces.mcp.calls import render_search

JOURNAL = """# 2026-03-05

## Session 14:00

### 14:30
<!-- session:s1 turn:t1 transcript:~/.claude/projects/app/one two.jsonl -->
- Chose Redis for the price cache with a TTL of five minutes

### 15:10
<!-- memory:0199aaaa-0000-7000-8000-000000000001 type:decision tags:postgres,schema origin:agent -->
- Decided to keep Postgres for orders

## Session 16:00

### 16:05
- `parse_config()` in src/app/config.py fails on empty files
"""


@pytest.fixture
def indexed(shell: Shell, project: Path) -> Path:
    """A project with an indexed journal and a page of notes."""
    write(project / "memory" / "2026-03-05.md", JOURNAL)
    write(project / "docs" / "guide.md", "# Guide\n\nHow to deploy: run make deploy.\n")
    assert shell("index", "memory", "docs").status == 0
    return project


def test_expand_shows_the_section_and_the_transcript(shell: Shell, indexed: Path) -> None:
    """`expand` shows the section from the file, and the transcript."""
    hit = shell("search", "redis", "--json").json["hits"][0]

    done = shell("show", hit["id"][:10])
    reply = shell("show", hit["id"], "--json").json

    assert "Chose Redis" in done.out
    assert "session s1  turn t1" in done.out
    assert "transcript ~/.claude/projects/app/one two.jsonl  (not available)" in done.out
    assert (reply["start_line"], reply["end_line"]) == (5, 7)
    assert reply["transcript"]["exists"] is False
    assert shell("show", hit["id"], "--lines", 1, "--json").json["start_line"] == 4


def test_hits_as_tab_separated_lines(shell: Shell, indexed: Path) -> None:
    """`--format tsv` prints id, path, line, confidence, date and first line of each hit, and nothing else."""
    hits = shell("search", "redis", "--json").json["hits"]
    done = shell("search", "redis", "--format", "tsv")

    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[:3] for row in rows] == [[hit["id"], hit["source"], str(hit["start_line"])] for hit in hits]
    assert {len(row) for row in rows} == {6}
    assert shell("search", "redis", "--format", "tsv", "--json").status == 2


def test_hits_as_markdown_and_as_json_lines(shell: Shell, indexed: Path) -> None:
    """`--format jsonl` prints the JSON of a hit on each line, and `markdown` a section per hit with its id, place and text, without comments."""
    hits = shell("search", "redis", "--json").json["hits"]

    assert [json.loads(line) for line in shell("search", "redis", "--format", "jsonl").out.splitlines()] == hits
    page = shell("search", "redis", "--format", "markdown").out
    assert [line[:5] for line in page.splitlines() if line.startswith("## ")] == [
        f"## {n}." for n in range(1, len(hits) + 1)
    ]
    assert f"- `{hits[0]['id']}`\n" in page
    assert f"{Path(hits[0]['source']).name}:{hits[0]['start_line']}-{hits[0]['end_line']}" in page
    assert "Chose Redis" in page
    assert "<!--" not in page
    assert shell("search", "redis", "--format", "jsonl", "--json").status == 2


def test_each_layer_tells_what_the_next_one_costs(shell: Shell, indexed: Path) -> None:
    """A hit has the cost of its section, which is correct, and the section that of the transcript; the next command is named."""
    talk = json.dumps(
        {"type": "user", "uuid": "t1", "sessionId": "s1", "cwd": str(indexed), "message": {"content": "x"}}
    )
    write(Path.home() / ".claude" / "projects" / "app" / "one two.jsonl", talk.ljust(27_000))
    hit = shell("search", "redis", "--json").json["hits"][0]
    section = shell("show", hit["id"], "--json").json

    assert shell("search", "redis").out.endswith("lorelog show ID shows one in full.\n")
    assert hit["tokens"] > 0
    assert (section["tokens"], section["transcript"]["tokens"]) == (hit["expand_tokens"], 10_000)
    shown = shell("show", hit["id"][:8]).out
    assert f"~{section['tokens']} tokens" in shown
    assert "transcript ~/.claude/projects/app/one two.jsonl  ~10,000 tokens" in shown


def test_a_token_budget_shows_texts_and_names_what_it_left_out(shell: Shell, indexed: Path) -> None:
    """Sections are printed without anchors, and without a clock that the anchored date repeats; tokens used and hits left out go to standard error."""
    every = shell("search", "redis postgres parse_config", "-k", 10, "--token-budget", 5000)
    some = shell("search", "redis postgres parse_config", "-k", 10, "--token-budget", 200)
    none = shell("search", "redis postgres parse_config", "-k", 10, "--token-budget", 1)

    assert ["\n### 16:05\n" in every.out, "### 15:10" in every.out, "<!--" in every.out] == [True, False, False]
    assert estimate_tokens(some.out) <= 200
    assert "lorelog show" not in every.out
    assert "of 5,000 tokens" in every.err
    assert "left out" not in every.err
    assert some.err.count("left out: ") == 1
    to_agent = render_search(
        shell("search", "redis postgres parse_config", "-k", 10, "--token-budget", 200, "--json").json
    )
    assert re.fullmatch(
        r"About \d+ of 200 tokens\. Left out: \d hits?, of \d+ or more: get_memory id [\w, ]+",
        to_agent.text.splitlines()[-1],
    )
    assert 0 < some.out.count("\n\n") < every.out.count("\n\n")
    assert (none.out, none.status) == ("", 0)
    assert "no hit fits into 1 tokens" in none.err


def test_expand_says_when_the_file_changed_or_went(shell: Shell, indexed: Path) -> None:
    """Indexed text can be shown after its file changed, with a note."""
    hit = shell("search", "redis", "--json").json["hits"][0]
    journal = indexed / "memory" / "2026-03-05.md"
    journal.write_text("# all new\n", "utf-8")

    changed = shell("show", hit["id"])
    journal.unlink()
    gone = shell("show", hit["id"])

    assert "Chose Redis" in changed.out
    assert "has changed" in changed.err
    assert "Chose Redis" in gone.out
    assert "as it was indexed" in gone.err


def test_add_is_searchable_at_once(shell: Shell, project: Path) -> None:
    """A memory is in today's journal with its anchor, and found by the next command."""
    done = shell("add", "Kafka consumers must commit offsets manually", "--type", "lesson", "--tag", "kafka", "--json")

    assert done.status == 0
    reply = done.json
    text = Path(reply["source"]).read_text("utf-8")
    assert reply["source"].startswith(str(project / ".lorelog" / "memory"))
    assert f"<!-- memory:{reply['memory']} type:lesson tags:kafka origin:user -->" in text
    lines = text.split("\n")[reply["start_line"] - 1 : reply["end_line"]]
    assert lines[0].startswith("### ")
    assert lines[-1] == "Kafka consumers must commit offsets manually"
    hit = shell("search", "kafka offsets", "--tag", "kafka", "--json").json["hits"][0]
    assert hit["id"] == reply["id"]
    assert hit["type"] == "lesson"


def test_global_memories_are_seen_from_every_project(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A global memory is found in other projects; a project's own only with --all-projects."""
    git(project, "init", "-q")
    shell("add", "global zebra", "--global")
    shell("add", "local zebra")
    other = project.parent / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.chdir(other)

    here = shell("search", "zebra", "--json").json["hits"]
    everywhere = shell("search", "zebra", "--all-projects", "--json").json["hits"]
    nothing = shell("search", "local", "--lane", "lexical")

    assert [hit["content"].split("\n")[-1] for hit in here] == ["global zebra"]
    assert len(everywhere) == 2
    assert "--all-projects" in nothing.err


def test_stats_and_reset(shell: Shell, indexed: Path) -> None:
    """`stats` counts the index; `reset` deletes it and keeps the files; `index` rebuilds it."""
    assert shell("status", "index", "--json").json["documents"] == 2
    assert "documents   2" in shell("status", "index").out
    assert "fake provider is for tests" in shell("status", "index").err
    refused = shell("reset")
    assert (refused.status, "--yes" in refused.err) == (2, True)

    assert shell("reset", "--yes").status == 0
    assert shell("status", "index", "--json").json["chunks"] == 0
    assert (indexed / "memory" / "2026-03-05.md").read_text("utf-8") == JOURNAL
    assert shell("index").status == 0

    assert shell("status", "index", "--json").json["documents"] == 2


def test_a_missing_key_stops_only_commands_that_need_it(
    shell: Shell, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an API key, memories are stored and found by keywords; only commands that need the model fail."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
    write(home / "config.toml", '[embedding]\napi_key = "env:TEAM_KEY"\n')

    added = shell("add", "the quoll hunts at night")

    assert added.status == 0
    assert "TEAM_KEY" in added.err or "no API key" in added.err
    assert shell("search", "quoll", "--json").json["hits"]
    assert shell("status", "index").status == shell("list").status == 0


@pytest.mark.parametrize("name", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_completion_scripts_know_the_commands(shell: Shell, name: str) -> None:
    """The completion script names every command and every option."""
    script = shell("completion", name).out
    options = {option for action in guide._iter_actions(guide.build_full_parser()) for option in action.option_strings}

    assert [word for word in {*COMMANDS, *options} if word.lstrip("-") not in script] == []


@pytest.mark.parametrize(("line", "wanted"), [("lorelog sea", "search"), ("lorelog index draf", "drafts")])
def test_bash_completes_commands_and_paths(shell: Shell, project: Path, line: str, wanted: str) -> None:
    """After sourcing the script, bash completes commands and the paths they take."""
    (project / "drafts").mkdir()
    write(project / "complete.sh", shell("completion", "bash").out)
    words = line.split()
    script = (
        "source complete.sh\n"
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}\n"
        "$(complete -p lorelog | sed -E 's/.*-F ([^ ]+) .*/\\1/') lorelog\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], cwd=project, capture_output=True, text=True, check=False)

    assert wanted in done.stdout.split(), done.stderr


def test_config_shows_values_with_their_origin(shell: Shell, project: Path, home: Path) -> None:
    """Settings can be set and shown with their origin; unknown ones are rejected with a suggestion."""
    assert shell("config", "set", "search.k", 7).status == 0
    assert shell("config", "set", "--local", "search.k", 9).status == 0

    assert shell("config", "get", "search.k").out == "9\n"
    listed = shell("config", "list", "--json").json["settings"]
    assert listed["search.k"] == {"value": 9, "origin": f"project: {project / '.lorelog.toml'}"}
    assert listed["embedding.provider"]["origin"] == "environment: LORELOG_EMBEDDING_PROVIDER"
    assert shell("config", "unset", "--local", "search.k").status == 0
    assert shell("config", "get", "search.k", "--json").json["value"] == 7
    wrong = shell("config", "set", "search.kk", 1)
    assert (wrong.status, "search.k" in wrong.err) == (1, True)
    refused = shell("config", "set", "--local", "embedding.base_url", "http://evil.example")
    assert refused.status == 1
    assert "embedding.base_url" in refused.err
