"""The spool: events that hooks leave for the daemon, one small file each, in `<home>/spool`.

A hook must finish within milliseconds, whatever else is broken, and must not lose an event if the machine stops. So an
event is written to a temporary file, flushed, and renamed. Its name is a UUIDv7, so names sort by time.

An event points to a conversation and never contains its text: that is read later, from the host's own files, and
redacted before it is written anywhere. `services.sessions.drain` reads the events.
"""

from __future__ import annotations

import os
import time

from lorelog.core.atomic_file import sync_folder, write_atomic
from lorelog.core.errors import StoreUnwritable, UsageError
from lorelog.core.ids import new_id
from lorelog.light.quick_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MAX_EVENT_BYTES = 65_536
"""Size limit of one event."""
_EVENT_VERSION = 1


def write_event(home: str, event: dict[str, Any]) -> str:
    """Write an event durably and return its path. Raise StoreUnwritable or UsageError."""
    identity = str(event.get("id") or new_id())
    line = dumps({**event, "v": _EVENT_VERSION, "id": identity}).encode() + b"\n"
    if len(line) > MAX_EVENT_BYTES:
        raise UsageError(f"the event has {len(line):,} bytes; the limit is {MAX_EVENT_BYTES:,}")
    folder = f"{home}/spool"
    final = f"{folder}/{identity}.json"
    try:
        try:
            write_atomic(final, line)
        except FileNotFoundError:
            # makedirs applies the mode to the last folder only.
            for missing in (home, folder):
                os.makedirs(missing, 0o700, exist_ok=True)
            sync_folder(home)
            write_atomic(final, line)
    except OSError as error:
        raise StoreUnwritable(
            f"{folder} cannot be written: {error.strerror or error}", hint="make it writable, or set LORELOG_HOME"
        ) from error
    return final


def count_waiting(home: str) -> tuple[int, float]:
    """Return the number of waiting events, and the age of the oldest in seconds."""
    folder = f"{home}/spool"
    try:
        names = [name for name in os.listdir(folder) if is_event_name(name)]
    except OSError:
        return 0, 0.0
    while names:
        oldest = min(names)
        try:
            return len(names), max(0.0, time.time() - os.stat(f"{folder}/{oldest}").st_mtime)
        except OSError:
            names.remove(oldest)  # another process has just removed it
    return 0, 0.0


def is_event_name(name: str) -> bool:
    """Return whether a file of the spool is a complete event."""
    return name.endswith(".json") and not name.startswith(".")
