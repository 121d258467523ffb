"""What becomes of memories, at a shell: said in a line, taken back with another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell


@pytest.fixture
def identity(shell: Shell) -> str:
    """The id of a memory of otters."""
    return str(shell("add", "seven otters in the river", "--type", "count", "--json").json["id"])


def test_supersede_says_how_to_take_it_back(shell: Shell, identity: str) -> None:
    """The new memory is shown with its place; the hint works, and the old one is back."""
    done = shell("supersede", identity, "eight otters in the river")

    assert done.status == 0
    assert done.out.startswith("Remembered in .lorelog/memory/")
    assert "seven" not in shell("search", "otters").out
    hidden = shell("search", "otters", "--include-superseded").out
    assert "superseded by 01" in hidden
    assert "superseded by 01" in shell("get", identity).out
    command = done.err.split("'")[1].split()
    assert shell(*command[1:]).status == 0
    assert "seven" in shell("search", "otters").out


def test_supersede_reads_standard_input_like_add(
    shell: Shell, identity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A dash stands for what is piped in."""
    piped = tmp_path / "text"
    piped.write_text("nine otters\n", "utf-8")
    with piped.open(encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert shell("supersede", identity, "-").status == 0

    assert "nine otters" in shell("list").out


def test_expire_takes_a_day_a_span_or_never(shell: Shell, identity: str) -> None:
    """Each is confirmed in one line; a day that is over hides, and `never` shows again."""
    assert shell("expire", identity, "2020-01-01").out.endswith(": hidden from now on, its last day was 2020-01-01\n")
    assert shell("search", "otters").out == "Nothing found.\n"
    assert "expired: was shown until 2020-01-01" in shell("list", "--include-expired").out
    assert "seven" in shell("search", "otters", "--include-expired").out
    assert shell("expire", identity, "never").out.endswith(": shown for good\n")
    assert "seven" in shell("search", "otters").out
    assert "to be looked at again from 2020-01-02 on" in shell("expire", identity, "--review", "2020-01-02").out
    assert "to be looked at again since 2020-01-02" in shell("list", "--due").out
    assert "1 memory is due" in shell("doctor").out
    shell("expire", identity, "--review", "never")
    assert "no memory is due" in shell("list", "--due").err


@pytest.mark.parametrize(
    ("words", "said"), [(("expire", "{}"), "which day"), (("expire", "{}", "someday"), "not a day")]
)
def test_a_day_is_needed(shell: Shell, identity: str, words: tuple[str, ...], said: str) -> None:
    """Neither nothing nor anything is a day."""
    done = shell(*(word.format(identity) for word in words))

    assert done.status == 2
    assert said in done.err


def test_add_tells_what_fades(shell: Shell) -> None:
    """What is kept for a while is said with its day and the reason; an agent's chatter is refused with exit 2."""
    done = shell("add", "ok")
    assert (done.status, "note: shown until" in done.err) == (0, True)
    assert "as asked for" in shell("add", "frozen for now", "--expires", "2w").err
    refused = shell("call", "memory.add", "--json", json.dumps({"text": "Done!", "origin": "agent"}))
    assert refused.status == 2
    assert "not remembered" in refused.json["error"]["message"]


def test_feedback_and_eval(shell: Shell, identity: str) -> None:
    """What is said about an answer is confirmed, and searches are measured by it."""
    assert "nothing was judged relevant yet" in shell("eval", "--feedback").err
    done = shell("feedback", "Otters?", identity, "relevant")
    assert (done.status, done.out) == (
        0,
        f"{shell('get', identity, '--json').json['memory']['anchor']['memory']} is relevant to 'otters'\n",
    )
    assert "said before" in shell("feedback", "otters", identity, "relevant").err
    measured = shell("eval", "--feedback", "--json").json
    assert measured["judged"] == 1
    assert shell("eval").status == 2


def test_duplicates_names_the_one_to_keep(shell: Shell, identity: str) -> None:
    """The newest of a group comes first, the others with how near they are; without any, that is said."""
    assert shell("duplicates").out == "No memories say nearly the same.\n"
    shell("add", "seven otters in the river!")

    lines = shell("duplicates").out.splitlines()

    assert lines[0] == "1. 2 memories"
    assert lines[1].split()[0] == "keep"
    assert lines[2].split()[0] == "1.00"
    assert identity in lines[2]


def test_null_takes_back_and_nothing_is_an_error(shell: Shell, identity: str) -> None:
    """Over JSON a day that is null is taken back, one that is not there stays, and a request without any is refused."""
    assert shell("call", "set_expiry", "--json", json.dumps({"id": identity, "expires": "14d"})).status == 0
    given = {"id": identity, "review_after": "2020-01-01"}
    assert shell("call", "set_expiry", "--json", json.dumps(given)).json["expires"] != ""
    cleared = shell("call", "set_expiry", "--json", json.dumps({"id": identity, "expires": None})).json
    assert (cleared["expires"], cleared["review_after"]) == ("", "2020-01-01")
    nothing = shell("call", "set_expiry", "--json", json.dumps({"id": identity}))
    assert nothing.status == 2
    assert "neither" in nothing.json["error"]["message"]
