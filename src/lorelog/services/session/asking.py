"""What an event asks `session.capture` for, and from where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

ASKED = (
    "host",
    "session",
    "transcript",
    "turn",
    "moment",
    "at",
    "offset",
    "directory",
    "branch",
    "commit",
    "agent",
    "source",
    "answer",
    "again",
)
"""Fields of an event that the operation takes under the same name."""
_MOMENT = "turn-end"


def arguments_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as the operation's arguments."""
    given = {name: event[name] for name in ASKED if event.get(name) not in (None, "")}
    return {"moment": _MOMENT, **given}


def directory_of(event: Mapping[str, Any], home: str) -> str:
    """Return where to stand for an event: its directory, or its project where that is gone, or nowhere in particular."""
    for name in ("directory", "project"):
        place = event.get(name)
        if isinstance(place, str) and os.path.isabs(place) and os.path.isdir(place):  # noqa: PTH112, PTH117
            return place
    return home
