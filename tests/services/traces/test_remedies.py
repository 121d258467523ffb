"""Commands that keep failing, and what passed instead."""

from __future__ import annotations

import pytest

from lorelog.services.traces.remedies import Remedy, command_shape, error_kind, find_remedies
from lorelog.services.traces.tables import TracedCall

FAILS, PASSES = "Exit code 2\nerror: unrecognized subcommand 'bun'", ""


def session(name: str, *runs: tuple[str, str] | str) -> list[TracedCall]:
    """Return calls: commands with their errors, and names of written files."""
    calls = []
    for number, run in enumerate(runs):
        command, error = ("", "") if isinstance(run, str) else run
        files = (run,) if isinstance(run, str) else ()
        calls.append(
            TracedCall(
                id=f"{name}{number}",
                at=number,
                source="turn",
                session=name,
                tool="Bash",
                command=command,
                error=error,
                failed=bool(error),
                files=files,
            )
        )
    return calls


def remedies(*sessions: list[TracedCall]) -> list[Remedy]:
    return find_remedies(call for calls in sessions for call in calls)


def test_a_command_that_fails_in_two_sessions_has_the_remedy_of_most() -> None:
    """The remedy is the next command that passed and is nearly the same; counts are of sessions."""
    failing = [("rtk bun run test", FAILS), ("rtk bun run test", FAILS), ("bun run test", PASSES)]

    (found,) = remedies(session("a", *failing), session("b", *failing), session("c", ("rtk bun run test", FAILS)))

    assert (found.shape, found.command, found.sessions, found.remedied) == ("rtk bun run test", "bun run test", 3, 2)
    assert found.text().startswith(
        "`rtk bun run test` failed in 3 earlier sessions (error: unrecognized subcommand 'bun'), last on "
    )


@pytest.mark.parametrize(
    "runs",
    [
        [("make lint", "1 problem"), "src/a.py", ("make lint-all", PASSES)],
        [("make lint", "1 problem"), ("make lint", PASSES)],
        [("make lint", "1 problem"), ("ls", PASSES)],
        [("make lint", PASSES), ("make lint", "1 problem"), ("make lint fix", PASSES)],
        [("make lint", "Sibling tool call errored"), ("make lint fix", PASSES)],
        [("make lint && make docs", "1 problem"), ("make lint docs", PASSES)],
    ],
    ids=["a file was written", "the same command", "another purpose", "passes as often", "not run", "two commands"],
)
def test_there_is_no_remedy_without_evidence(runs: list[tuple[str, str] | str]) -> None:
    """A command that passed after a change, or passes as often, is not wrong in itself."""
    assert remedies(session("a", *runs), session("b", *runs)) == []


def test_two_ways_of_failing_are_two_errors() -> None:
    """Failures count together only if they say the same."""
    first = session("a", ("gh pr diff 1 --stat", "unknown flag: --stat"), ("gh pr diff 1 --name-only", PASSES))
    other = session("b", ("gh pr diff 2 --stat", "not logged in"), ("gh pr diff 2 --name-only", PASSES))
    again = session("c", ("gh pr diff 3 --stat", "unknown flag: --stat"), ("gh pr diff 3 --name-only", PASSES))

    assert remedies(first, other) == []
    assert [remedy.shape for remedy in remedies(first, other, again)] == ["gh pr diff * --stat"]


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        ("cd /tmp/x && bun run test", "bun run test"),
        ("git commit -m 'Add a thing'", "git commit -m *"),
        ("sed -n 1,5p src/a.py", "sed -n * *"),
        ("npm test && npm run lint", ""),
    ],
)
def test_a_shape_keeps_words_and_options(command: str, shape: str) -> None:
    """Names, numbers and quotes are masked; of several commands it is not known which failed."""
    assert command_shape(command) == shape


def test_the_kind_of_an_error_has_no_numbers_and_paths() -> None:
    """The line about the exit status says nothing; numbers and paths differ from run to run."""
    assert error_kind("Exit code 1\n$ biome check\n\n/home/a/x.py:12: bad thing 7") == "… bad thing …"
