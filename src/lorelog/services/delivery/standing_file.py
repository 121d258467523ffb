"""Reads the standing memories of a project, as `services.delivery.standing` wrote them.

A hook loads this module: it imports `time` and our JSON only. Unreadable files and lines are skipped.
"""

from __future__ import annotations

import time

from lorelog.core.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# ruff: noqa: PTH123  (pathlib takes 10 ms to import)

MIN_SINK_DELIVERIES = 5
"""A memory that was delivered this often and never used is listed for review, and shown after others."""
MAX_STANDING_BYTES = 1_000_000
"""A longer file cannot be read while an agent waits; the oldest memories in it are ignored."""


def read_standing(files: tuple[str, ...], today: str = "") -> list[dict[str, Any]]:
    """Return the standing memories without those that expired since: newest first, those never used at the end."""
    today = today or time.strftime("%Y-%m-%d")
    memories = [
        memory for file in files for memory in _read_file(file) if not "" < str(memory.get("expires", "")) < today
    ]
    newest = sorted(memories, key=lambda memory: str(memory.get("date", "")), reverse=True)
    return sorted(newest, key=_is_never_used)


def _is_never_used(memory: dict[str, Any]) -> bool:
    count = memory.get("unused")
    return isinstance(count, int) and count >= MIN_SINK_DELIVERIES


def _read_file(file: str) -> list[dict[str, Any]]:
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_STANDING_BYTES)
    except OSError:
        return []
    memories = []
    for line in data.split(b"\n"):
        try:
            memory = loads(line) if line else None
        except ValueError:
            continue
        if isinstance(memory, dict) and isinstance(memory.get("id"), str) and isinstance(memory.get("text"), str):
            memories.append(memory)
    return memories
