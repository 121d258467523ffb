"""The open tasks that a session is shown when it starts: read from a small file that whoever writes records keeps.

Standard library only, and little of it: a hook loads this while an agent waits.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# ruff: noqa: PTH123  (pathlib takes 10 ms to import)

OPEN_TASKS = "open-tasks.jsonl"
MOST_BYTES = 131_072
"""A longer file is not read in the time that an agent waits."""


def open_tasks(file: str, projects: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the open tasks of some projects, those first that were worked on last; none where there is no such file."""
    try:
        with open(file, "rb") as opened:
            held = opened.read(MOST_BYTES + 1)
    except OSError:
        return []
    if not held or len(held) > MOST_BYTES:
        return []
    return [one for one in put_together(held) if one.get("project", "") in projects]


def put_together(held: bytes) -> list[dict[str, Any]]:
    """Return what lines say of each task that is open, the newest first. Lines that say nothing are passed over."""
    import json

    lines: list[dict[str, Any]] = []
    for line in held.split(b"\n"):
        try:
            told = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(told, dict) and isinstance(told.get("id"), str) and isinstance(told.get("seq"), int):
            lines.append(told)
    tasks: dict[str, dict[str, Any]] = {}
    for told in sorted(lines, key=lambda one: int(one["seq"])):
        tasks[told["id"]] = tasks.pop(told["id"], {}) | told
    return [one for one in reversed(tasks.values()) if one.get("goal") and not one.get("done")]
