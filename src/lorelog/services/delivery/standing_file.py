"""Reads the derived files of standing memories while an agent waits. Standard library only."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# ruff: noqa: PTH123  (pathlib takes 10 ms to import)

_MAX_BYTES = 4_000_000


def read_standing(files: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the standing memories, newest first; files and lines that cannot be read are skipped."""
    memories: list[dict[str, Any]] = []
    for file in files:
        try:
            with open(file, "rb") as stream:
                data = stream.read(_MAX_BYTES)
        except OSError:
            continue
        for text in data.split(b"\n"):
            try:
                memory = json.loads(text) if text else None
            except ValueError:
                continue
            if isinstance(memory, dict) and isinstance(memory.get("text"), str):
                memories.append(memory)
    return sorted(memories, key=lambda memory: str(memory.get("date", "")), reverse=True)
