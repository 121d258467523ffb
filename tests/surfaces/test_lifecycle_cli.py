"""Supersede, expire, feedback and duplicates in the CLI."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell

from lorelog.core.record import DIGEST_MARK


@pytest.fixture
def identity(shell: Shell) -> str:
    """The id of a memory of otters."""
    return str(shell("add", "seven otters in the river", "--type", "count", "--json").json["id"])


def test_supersede_says_how_to_take_it_back(shell: Shell, identity: str) -> None:
    """The new memory is printed with its location; the hint works and restores the old memory."""
    done = shell("supersede", identity, "eight otters in the river")

    assert done.status == 0
    assert done.out.startswith("Remembered in .lorelog/memory/")
    assert "seven" not in shell("search", "otters").out
    hidden = shell("search", "otters", "--include-superseded").out
    words = ("search", "otters", "--include-superseded")
    shown = (hidden, shell("show", identity).out, shell(*words, "--short").out, shell(*words, "--format", "tsv").out)
    for text in shown:
        assert re.search(r"superseded by 01\S+: eight otters in the river", text)
    command = done.err.split("'")[1].split()
    assert shell(*command[1:]).status == 0
    assert "seven" in shell("search", "otters").out


def test_supersede_reads_standard_input_like_add(
    shell: Shell, identity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`-` reads the text from standard input."""
    piped = tmp_path / "text"
    piped.write_text("nine otters\n", "utf-8")
    with piped.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert shell("supersede", identity, "-").status == 0

    assert "nine otters" in shell("list").out


def test_expire_takes_a_day_a_span_or_never(shell: Shell, identity: str) -> None:
    """Each change prints one line; a past day hides the memory, and `never` shows it again."""
    assert shell("expire", identity, "2020-01-01").out.endswith(": hidden, expired on 2020-01-01\n")
    assert shell("search", "otters").out == "Nothing found.\n"
    assert "expired on 2020-01-01" in shell("list", "--include-expired").out
    assert "seven" in shell("search", "otters", "--include-expired").out
    assert shell("expire", identity, "never").out.endswith(": never expires\n")
    assert "seven" in shell("search", "otters").out
    assert "review on 2020-01-02" in shell("expire", identity, "--review", "2020-01-02").out
    assert "review due since 2020-01-02" in shell("list", "--due").out
    assert "1 memory is due" in shell("doctor").out
    shell("expire", identity, "--review", "never")
    assert "no memory is due" in shell("list", "--due").err


@pytest.mark.parametrize(
    ("words", "said"), [(("expire", "{}"), "DAY or --review is required"), (("expire", "{}", "someday"), "not a day")]
)
def test_a_day_is_needed(shell: Shell, identity: str, words: tuple[str, ...], said: str) -> None:
    """Neither nothing nor anything is a day."""
    done = shell(*(word.format(identity) for word in words))

    assert done.status == 2
    assert said in done.err


def test_add_tells_what_fades(shell: Shell) -> None:
    """A memory with an expiry is printed with the day and reason; a digest is refused with status 2."""
    done = shell("add", "make", "--type", "trace")
    assert (done.status, "note: shown until" in done.err) == (0, True)
    assert "as requested" in shell("add", "frozen for now", "--expires", "2w").err
    refused = shell("call", "memory.add", "--json", json.dumps({"text": f"{DIGEST_MARK} -->"}))
    assert refused.status == 2
    assert "not remembered" in refused.json["error"]["message"]


def test_feedback_and_eval(shell: Shell, identity: str) -> None:
    """Feedback is confirmed, and `eval --feedback` measures by it."""
    assert "nothing was judged relevant yet" in shell("eval", "--feedback").err
    done = shell("feedback", "Otters?", identity, "relevant")
    assert (done.status, done.out) == (0, f"{identity[:8]} (seven otters in the river) is relevant to 'otters'\n")
    assert "already recorded" in shell("feedback", "otters", identity, "relevant").err
    measured = shell("eval", "--feedback", "--json").json
    assert measured["judged"] == 1
    assert shell("eval").status == 2


def test_duplicates_names_the_one_to_keep(shell: Shell, identity: str) -> None:
    """The newest of a group comes first, the others with their similarity; no group prints a message."""
    assert shell("duplicates").out == "No near-duplicate memories.\n"
    shell("add", "seven otters in the river!")

    lines = shell("duplicates").out.splitlines()

    assert lines[0] == "1. 2 memories"
    assert lines[1].split()[0] == "keep"
    assert lines[3].split()[0] == "1.00"
    assert identity[:8] in lines[3]
