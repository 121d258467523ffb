"""`lorelog debug` and `lorelog why`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tests.services.traces.stored_errors import store_errors
from tests.surfaces.conftest import Shell

STACK = "Traceback (most recent call last):\n  File \"/app/db.py\", line 3, in load\n    x\nKeyError: 'id'\n"


def pipe(monkeypatch: pytest.MonkeyPatch, given: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))


def test_errors_are_shown(shell: Shell, project: Path) -> None:
    """Errors are grouped by signature, filtered by type, function, file and text, and --each shows frames."""
    store_errors(project, STACK * 2 + "src/a.c:1:2: error: 'x' undeclared\n")

    shown = shell("debug", "errors").out.splitlines()
    assert sorted(line.split()[0] for line in shown) == ["1×", "2×"]
    each = shell("debug", "errors", "KeyError", "--each").out
    assert each.count("KeyError: 'id'") == 2
    assert "load /app/db.py:3" in each
    assert shell("debug", "errors", "--file", "a.c", "--json").json["total_count"] == 1
    assert shell("debug", "errors", "--function", "load", "--json").json["groups"][0]["times"] == 2
    assert shell("debug", "errors", "--text", "undeclared", "--json").json["total_count"] == 1
    assert shell("debug", "errors", "TypeError").out == "No errors traced.\n"
    assert shell("debug", "errors", "--from", "operation", "--json").json["errors"] == []


def test_calls_are_shown(shell: Shell, project: Path) -> None:
    """Calls have name, duration and error, but not the texts."""
    shell("add", "the otter moved to Lisbon")
    shell("search", "otter lisbon")
    shell("call", "memory.get", "--json", '{"id": "no-such-memory"}')
    shell("call", "memory.search", "--json", '{"queri": "otter"}')
    reply = shell("debug", "calls", "--json").json
    assert [call["tool_name"] for call in reply["tool_calls"]] == [
        "memory.search",
        "memory.get",
        "memory.search",
        "memory.add",
    ]
    text = shell("debug", "calls", "--tool", "memory", "--from", "operation").out
    assert "memory.add" in text
    assert "Lisbon" not in text
    assert "otter" not in text
    failed = shell("debug", "calls", "--failed").out
    assert "failed: usage: memory.search: there is no field 'queri'" in failed
    assert shell("debug", "calls", "--since", "2999-01-01").out == "No calls traced.\n"
    assert shell("debug", "calls", "--session", "s-9", "--json").json["total_count"] == 0
    assert shell("debug", "calls", "-n", "1").err.endswith("in total; use -n to show more\n")


def test_why_tells_what_is_known(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`why` takes the error as arguments or on standard input."""
    assert "Not seen before" in shell("why", "KeyError: 'id'").out
    store_errors(project, STACK)
    shell("add", "KeyError id: the importer skips the header, so import with --header", "--type", "lesson")
    told = shell("why", "KeyError: 'id'").out
    assert "seen 1 time" in told
    assert "(same message: KeyError: 'id')" in told
    assert "the importer skips the header" in told
    pipe(monkeypatch, b"collected 3 items\n" + STACK.encode() + b"\xff\n")
    exact = shell("why", "-", "--json").json
    assert [item["match"] for item in exact["seen"]] == ["exact"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why", "  "], "the error text is empty"),
        (["debug", "calls", "--since", "lately"], "'lately' is not a day"),
        (["debug", "calls", "--since", "2026-13-40T00:00"], "is not a time"),
        (["debug", "calls", "-n", "0"], "-n must be at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(shell: Shell, words: list[str], said: str) -> None:
    """Invalid arguments are usage errors without a traceback."""
    done = shell(*words)
    assert done.status in {1, 2}
    assert said in done.err


def test_a_terminal_is_not_waited_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """`why -` without a pipe is a usage error with a hint."""
    monkeypatch.setattr(sys, "stdin", None)

    done = shell("why", "-")

    assert (done.status, "standard input is empty" in done.err) == (2, True)
