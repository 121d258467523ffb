"""`lorelog debug` and `lorelog why`."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, run_process, write

STACK = "Traceback (most recent call last):\n  File \"/app/db.py\", line 3, in load\n    x\nKeyError: 'id'\n"


def pipe(monkeypatch: pytest.MonkeyPatch, given: bytes) -> None:
    """Replace standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))


def test_a_log_is_taken_in_and_shown(shell: Shell, project: Path) -> None:
    """Errors are grouped by signature, reading a log twice adds nothing, and --each shows frames."""
    log = write(project / "app.log", STACK * 2 + "src/a.c:1:2: error: 'x' undeclared\n")
    taken = shell("debug", "ingest", log)
    assert taken.status == 0
    assert taken.out.startswith("Read 9 lines of app.log: 3 errors, all new.\n")
    assert "3 errors, 0 new." in shell("debug", "ingest", log).out

    shown = shell("debug", "errors").out.splitlines()
    assert sorted(line.split()[0] for line in shown) == ["1×", "2×"]
    each = shell("debug", "errors", "KeyError", "--each").out
    assert each.count("KeyError: 'id'") == 2
    assert "load /app/db.py:3" in each
    assert shell("debug", "errors", "--file", "a.c", "--json").json["total_count"] == 1
    assert shell("debug", "errors", "--function", "load", "--json").json["groups"][0]["times"] == 2
    assert shell("debug", "errors", "--text", "undeclared", "--json").json["total_count"] == 1
    assert shell("debug", "errors", "TypeError").out == "No errors traced.\n"
    assert shell("debug", "errors", "--from", "turn", "--json").json["errors"] == []


@pytest.mark.parametrize("given", [STACK.encode(), gzip.compress(STACK.encode()), b"\xff\xfe\xfa\n" + STACK.encode()])
def test_standard_input_is_read(shell: Shell, monkeypatch: pytest.MonkeyPatch, given: bytes) -> None:
    """Plain and gzipped logs and invalid UTF-8 are read; `-` is the default."""
    for words in (["-"], []):
        pipe(monkeypatch, given)
        assert shell("debug", "ingest", *words, "--json").json["found"] == 1
    assert shell("debug", "errors", "--json").json["total_count"] == 1


@pytest.mark.slow
def test_a_pipe_is_read_by_a_process_of_its_own(project: Path, tmp_path: Path) -> None:
    """A pipe into `lorelog debug ingest` works as a process."""
    import subprocess

    from tests.surfaces.conftest import command_line

    done = subprocess.run(
        command_line("debug", "ingest"), input=STACK, capture_output=True, text=True, cwd=project, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Read 4 lines of standard input: 1 error, all new.")
    asked = run_process(["why", "KeyError: 'id'"], project)
    assert "seen 1 time" in asked.out


def test_calls_are_shown(shell: Shell, project: Path) -> None:
    """Calls have name, duration and error, but not the texts."""
    shell("add", "the otter moved to Lisbon")
    shell("search", "otter lisbon")
    shell("call", "memory.get", "--json", '{"id": "no-such-memory"}')
    shell("call", "memory.search", "--json", '{"queri": "otter"}')
    reply = shell("debug", "calls", "--json").json
    assert [one["tool_name"] for one in reply["tool_calls"]] == [
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
    shell("debug", "ingest", write(project / "app.log", STACK))
    shell("add", "KeyError id: the importer skips the header, so import with --header", "--type", "lesson")
    told = shell("why", "KeyError: 'id'").out
    assert "seen 1 time" in told
    assert "(same message: KeyError: 'id')" in told
    assert "app.log:1" in told
    assert "the importer skips the header" in told
    pipe(monkeypatch, b"collected 3 items\n" + STACK.encode() + b"\xff\n")
    exact = shell("why", "-", "--json").json
    assert [one["match"] for one in exact["seen"]] == ["exact"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["debug", "ingest", "gone.log"], "is not a file"),
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
    """`debug ingest` and `why -` without a pipe are usage errors with a hint."""
    monkeypatch.setattr(sys, "stdin", None)
    for words in (["debug", "ingest"], ["why", "-"]):
        done = shell(*words)
        assert (done.status, "standard input is empty" in done.err) == (2, True)


def test_traces_that_are_switched_off_take_nothing_in(
    shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --daemon required, the reason for no daemon is reported."""
    monkeypatch.setenv("LORELOG_TRACES_ENABLED", "false")
    done = shell("debug", "ingest", write(project / "app.log", STACK))
    assert done.status == 2
    assert "traces.enabled" in done.err


@pytest.mark.slow
def test_a_home_that_is_read_only_still_answers(shell: Shell, project: Path, home: Path) -> None:
    """With traces.enabled off, stored traces are shown, nothing is added, and no call fails."""
    shell("debug", "ingest", write(project / "app.log", STACK))
    shell("debug", "errors")
    folder = home / "data" / "default"
    held = sorted(path.name for path in folder.iterdir())
    for path in (folder, *folder.iterdir()):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        done = run_process(["debug", "errors", "--json"], project, env={"LORELOG_DAEMON_WARM": "off"}, mortal=True)
        calls = run_process(["debug", "calls"], project, env={"LORELOG_DAEMON_WARM": "off"}, mortal=True)
    finally:
        for path in (folder, *folder.iterdir()):
            path.chmod(0o700 if path.is_dir() else 0o600)
    assert (done.status, done.json["total_count"]) == (0, 1)
    assert calls.status == 0
    assert sorted(path.name for path in folder.iterdir()) == held
