"""Flushing the spool without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorelog.services.session import spool
from lorelog.services.session.drain import Drainer
from lorelog.surfaces.cli.hosts_flush import _drain


def event(session: str) -> dict[str, Any]:
    return {"v": 1, "host": "claude", "moment": "turn-end", "session": session, "directory": "/"}


def test_what_hooks_spool_meanwhile_is_seen_to(tmp_path: Path) -> None:
    """A hook that finds a flush at work starts none, so the one at work looks again before it ends."""
    home = str(tmp_path)
    coming = ["second", "third"]
    seen: list[str] = []

    def capture(told: dict[str, Any]) -> dict[str, Any]:
        seen.append(told["session"])
        if coming:
            spool.write_event(home, event(coming.pop(0)))
        return {"captured": [{}]}

    spool.write_event(home, event("first"))
    drained = _drain(Drainer(home, capture), 0.0)

    assert seen == ["first", "second", "third"]
    assert (drained.events, drained.captured) == (3, 3)
    assert spool.spooled(home) == []
