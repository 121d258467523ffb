"""STAND-IN until the branches are merged: replaced by the module of the same name from room-guards."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# ruff: noqa: PTH123


def check_guards(file: str, project: str, call: Mapping[str, Any], root: str) -> dict[str, str] | None:
    """Return the strongest guard that a tool call matches, or None. Never raises."""
    return None


def guard_problem(file: str) -> dict[str, str] | None:
    """Return why the guards of a file were not applied, as {"error": reason}; None if they were. Never raises."""
    try:
        with open(file, "rb") as stream:
            for line in stream.read().split(b"\n"):
                if line.strip() and not isinstance(json.loads(line), dict):
                    raise TypeError("a line is not an object")  # noqa: TRY301
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001
        return {"error": f"guards were not applied: {type(error).__name__}: {error}"}
    return None


def guard_notices(file: str, project: str, today: str) -> list[str]:
    """Return a sentence for each guard of a project that retired within the last days before `today`. Never raises."""
    return []
