"""STAND-IN until the branches are merged: replaced by the module of the same name from room-cues."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def match_cues(files: tuple[str, ...], call: Mapping[str, Any], *, root: str, moment: str) -> list[dict[str, Any]]:
    """Return the memories whose cues match a tool call, most specific first."""
    return []
