"""Walls that sessions run into again and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.traces.test_how import ran

from lorelog.services.traces.friction import Wall, find_walls, project_file
from lorelog.services.traces.tables import TracedAction

SESSIONS = ("s1", "s2", "s3")


def walls(*actions: TracedAction, root: str = "") -> list[Wall]:
    return list(find_walls(actions, lambda file: project_file(root, file), 5))


def failing(session: str) -> Iterator[TracedAction]:
    """Yield a command that fails, and the one that passes instead."""
    yield ran("rtk bun run test", session=session, day=1, error="error: unrecognized subcommand 'bun'")
    yield ran("bun run test", session=session, day=2)


def read(file: str, session: str, number: int = 0) -> TracedAction:
    return replace(ran("", f"{file} {number}", session=session), tool="Read", file=file, chars=400)


def test_a_command_that_keeps_failing_is_a_wall_with_its_remedy() -> None:
    """What failed in the same way in three sessions is told with its cost and with the command that passed instead."""
    (wall,) = walls(*(action for session in SESSIONS for action in failing(session)))
    assert (wall.kind, wall.what, wall.sessions, wall.calls, wall.tokens) == ("fails", "rtk bun run test", 3, 3, 7)
    assert "unrecognized subcommand" in wall.remedy
    assert "`bun run test` passed instead" in wall.remedy


@pytest.mark.parametrize(
    "actions",
    [
        [action for session in SESSIONS[:2] for action in failing(session)],
        [ran("make test", session=name, day=day, error="1 failed" * (not day)) for name in SESSIONS for day in (0, 1)],
        [ran("git merge main", session=name, error="merge failed") for name in SESSIONS],
        [ran("make", session=name, error="Sibling tool call errored") for name in SESSIONS],
    ],
    ids=["two sessions", "it passed as often", "nothing passed instead", "never ran"],
)
def test_ordinary_failures_are_left_out(actions: list[TracedAction]) -> None:
    """Two sessions, a test that passes in the end, failures without a remedy, and calls that never ran are not told."""
    assert walls(*actions) == []


def test_files_that_are_read_again_are_walls(tmp_path: Path) -> None:
    """A file that three sessions read twice is told by its place in the project, whichever checkout named it; a file that is gone is not."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").touch()
    reads = [read(f"/home/{name}/app/src/a.py", name, number) for name in SESSIONS for number in (0, 1)]
    gone = [read("src/gone.py", name, number) for name in SESSIONS for number in (0, 1)]
    once = [read("src/a.py", f"once {number}") for number in range(3)]
    (wall,) = walls(*reads, *gone, *once, root=str(tmp_path))
    assert (wall.kind, wall.what, wall.sessions, wall.calls, wall.tokens) == ("reread", "src/a.py", 3, 3, 300)
    assert [project_file(str(tmp_path), file) for file in ("../src/a.py", "x" * 300, "\0", "")] == [""] * 4
