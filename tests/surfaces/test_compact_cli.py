"""`lorelog compact`, from the command to the summary that search finds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write

WRITER = r"""
import re, sys
text = sys.stdin.read()
found = re.findall(r'<source-(\w+) id="(\w+)"[^>]*>\n(.*?)\n</source-\1>', text, re.DOTALL)
for _, one, body in found:
    print(f"- {body.splitlines()[-1]} [{one}]")
print("- It took 99 days [%s]" % found[0][1])
"""
NOTES = "# Cache\n\nThe Redis TTL is 60 seconds.\n\n## Importer\n\nThe importer retries 3 times.\n"


@pytest.fixture
def written(project: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexed notes, and a program that summarizes them."""
    write(project / "notes" / "2026-03-01.md", NOTES)
    program = write(tmp_path / "writer.py", WRITER)
    monkeypatch.setenv("LORELOG_LLM_PROVIDER", "command")
    monkeypatch.setenv("LORELOG_LLM_COMMAND", f"{sys.executable} {program}")
    assert shell("index", "notes").status == 0
    return project


def test_a_program_sums_up_and_its_inventions_are_shown(written: Path, shell: Shell) -> None:
    """The summary is printed and in today's journal, dropped lines are on standard error, and the receipt has the purpose."""
    done = shell("compact")

    assert done.status == 0
    assert "- The Redis TTL is 60 seconds. [" in done.out
    assert "Summarized 2 chunks in .lorelog/memory/" in done.out
    assert "99" not in done.out.partition("Summed up")[0]
    assert "its sources do not contain 99 days: It took 99 days" in done.err
    (journal,) = (written / ".lorelog" / "memory").glob("*.md")
    assert "memory:compact-" in journal.read_text("utf-8")
    hits = shell("search", "redis importer retries ttl", "--json").json["hits"]
    assert [hit["anchor"]["covers"] for hit in hits if hit["type"] == "summary"] == [2]
    assert [line["purpose"] for line in shell("status", "cost", "--json", "--by", "purpose").json["lines"]] == [
        "compact"
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--llm", "nobody"), "unknown provider 'nobody'"),
        (("--since", "soon"), "is not a day"),
        (("--prompt-file", "none.txt"), "none.txt cannot be read"),
    ],
)
def test_what_cannot_be_asked_for_is_said(written: Path, shell: Shell, words: tuple[str, ...], said: str) -> None:
    """An unknown provider, an invalid day and a missing file are errors."""
    done = shell("compact", *words)

    assert done.status in (1, 2)
    assert said in done.err


def test_another_provider_does_not_get_the_key_of_the_chosen_one(
    written: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider given on the command line is used with its own key, and named in errors about it."""
    for name, value in {"PROVIDER": "openai", "API_KEY": "env:TEAM_API_KEY"}.items():
        monkeypatch.setenv(f"LORELOG_LLM_{name}", value)
    monkeypatch.setenv("TEAM_API_KEY", "k-1234567890")
    done = shell("compact", "--llm", "anthropic")

    assert done.status == 1
    assert "ANTHROPIC_API_KEY" in done.err
    assert "k-1234567890" not in done.err
