"""Flushing the spool without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorelog.light import spool
from lorelog.services.sessions import drain
from lorelog.services.sessions.drain import Drainer
from lorelog.surfaces.cli.commands.hosts import _drain_spool


def event(session: str) -> dict[str, Any]:
    return {"v": 1, "host": "claude", "moment": "turn-end", "session": session, "directory": "/"}


def test_what_hooks_spool_meanwhile_is_seen_to(tmp_path: Path) -> None:
    """A flush looks at the spool again before it ends, because hooks do not start a second one."""
    home = str(tmp_path)
    coming = ["second", "third"]
    seen: list[str] = []

    def capture(told: dict[str, Any]) -> dict[str, Any]:
        seen.append(told["session"])
        if coming:
            spool.write_event(home, event(coming.pop(0)))
        return {"captured": [{}]}

    spool.write_event(home, event("first"))
    drained = _drain_spool(Drainer(home, capture), 0.0)

    assert seen == ["first", "second", "third"]
    assert (drained.events, drained.captured) == (3, 3)
    assert drain.list_events(home) == []
