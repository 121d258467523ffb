"""STAND-IN until the branches are merged: replaced by the module of the same name from room-guards."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def check_guards(file: str, project: str, call: Mapping[str, Any], root: str) -> dict[str, Any] | None:
    """Return the verdict of the first guard that matches a tool call."""
    return None
