"""Looks up the cues of memories while an agent waits. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def event_cues(files: tuple[str, ...], event: str, today: str) -> list[dict[str, Any]]:
    """Return the memories with a cue for an event or a day."""
    return []
