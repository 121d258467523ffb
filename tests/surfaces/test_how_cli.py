"""`lorelog how` and `lorelog friction`."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.traces.test_friction import SESSIONS, failing, read
from tests.surfaces.conftest import Shell

from lorelog import Lorelog
from lorelog.wiring import open_engine, resolve_location


@pytest.fixture
def told(project: Path) -> Path:
    """A project with a wall of each kind that has a remedy."""
    (project / "app.py").touch()
    rows = [action for session in SESSIONS for action in failing(session)]
    rows += [read("app.py", name, number) for name in SESSIONS for number in (0, 1)]
    with open_engine(resolve_location(project=str(project)), {}) as engine:
        engine.place.create()
        engine.traces().tables().add(actions=[replace(row, project=engine.place.project.id) for row in rows])
    return project


def test_fixes_wait_for_a_person(told: Path, shell: Shell) -> None:
    """`--fix` puts a guard and a rule into the inbox, once; nothing is on before a person approves it, and what was refused stays out."""
    assert "rtk bun run test" in shell("friction").out
    assert len(shell("friction", "--fix", "--json").json["walls"]) == 2
    assert shell("friction", "--fix").err == "note: nothing new to propose\n"
    with Lorelog(project=told) as memory:
        waiting = {item.kind: item.id for item in memory.review.list() if item.kind in ("guard", "rule")}
        assert set(waiting) == {"guard", "rule"}
        assert [guard.state for guard in memory.guard.list().guards] == ["off"]
        refused = {"id": waiting["rule"], "kind": "rule", "label": "refuse"}
        approved = {"id": waiting["guard"], "kind": "guard", "label": "approve"}
        memory.review.decide(verdicts=[refused, approved])  # type: ignore[list-item]
        assert [(guard.state, guard.action) for guard in memory.guard.list().guards] == [("on", "warn")]
        assert list(memory.debug.friction(fix=True)) == []


def test_how_shows_what_passed(told: Path, shell: Shell) -> None:
    """`lorelog how` shows the command that passed with its runs."""
    shown = shell("how", "bun", "run", "test").out.splitlines()
    assert shown[0] == "bun run test"
    assert "3 runs in 3 sessions" in shown[1]
