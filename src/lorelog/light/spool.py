"""The spool: events that hooks leave for the daemon, one small file each, in `<home>/spool`.

A hook must finish within milliseconds, whatever else is broken, and must not lose an event if the machine stops. So an
event is written to a temporary file, flushed, and renamed. Its name is a UUIDv7, so names sort by time.

An event points to a conversation and never contains its text: that is read later, from the host's own files, and
redacted before it is written anywhere.
"""

from __future__ import annotations

import os
import time

from lorelog.core.atomic_file import sync_folder, write_atomic
from lorelog.core.errors import SourceError, StoreUnwritable, UsageError
from lorelog.core.ids import new_id
from lorelog.light.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


MAX_EVENT_BYTES = 65_536
"""Size limit of one event."""
EVENT_VERSION = 1
EVENT_FIELDS = (
    "id",
    "at",
    "host",
    "moment",
    "session",
    "turn",
    "transcript",
    "directory",
    "project",
    "branch",
    "commit",
)
OPTIONAL_FIELDS = ("agent", "source", "answer")
_FOLDER_MODE = 0o700
_STALE_S = 3600.0
"""Age after which a temporary file is no longer being written."""
_MAX_PARKED = 1_000


def write_event(home: str, event: dict[str, Any]) -> str:
    """Write an event durably and return its path. Raise StoreUnwritable or UsageError."""
    identity = str(event.get("id") or new_id())
    line = dumps({**event, "v": EVENT_VERSION, "id": identity}).encode() + b"\n"
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
                os.makedirs(missing, _FOLDER_MODE, exist_ok=True)
            sync_folder(home)
            write_atomic(final, line)
    except OSError as error:
        raise StoreUnwritable(
            f"{folder} cannot be written: {error.strerror or error}", hint="make it writable, or set LORELOG_HOME"
        ) from error
    return final


def list_events(home: str) -> list[str]:
    """Return the paths of the waiting events, oldest first, and remove stale temporary files."""
    folder = f"{home}/spool"
    names = _list_names(folder)
    for name in names:
        if name.endswith(".tmp"):
            _remove_stale(f"{folder}/{name}")
    return [f"{folder}/{name}" for name in names if _is_event(name)]


def count_waiting(home: str) -> tuple[int, float]:
    """Return the number of waiting events, and the age of the oldest in seconds."""
    folder = f"{home}/spool"
    try:
        names = [name for name in os.listdir(folder) if _is_event(name)]
    except OSError:
        return 0, 0.0
    for name in _oldest_first(names):
        try:
            return len(names), max(0.0, time.time() - os.stat(f"{folder}/{name}").st_mtime)
        except OSError:
            continue  # another process has just removed it
    return 0, 0.0


def read_event(path: str) -> dict[str, Any]:
    """Return an event; missing fields are empty, unknown ones are kept. Raise SourceError for an invalid file."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            data = file.read(MAX_EVENT_BYTES + 1)
        if len(data) > MAX_EVENT_BYTES:
            raise SourceError(f"{path} is larger than the limit of {MAX_EVENT_BYTES:,} bytes")
        event = loads(data)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is not an event: {error}") from None
    if not isinstance(event, dict):
        raise SourceError(f"{path} is not an event: it is not a JSON object")
    for name in (*EVENT_FIELDS, *OPTIONAL_FIELDS):
        value = event.get(name)
        event[name] = value if isinstance(value, str) else ""
    environment = event.get("environment")
    values = environment if isinstance(environment, dict) else {}
    event["environment"] = {name: value for name, value in values.items() if isinstance(value, str)}
    offset = event.get("offset")
    event["offset"] = offset if isinstance(offset, int) and not isinstance(offset, bool) else 0
    event["again"] = event.get("again") is True
    event["id"] = event["id"] or os.path.basename(path).removesuffix(".json")
    return event


def remove_event(path: str) -> None:
    """Remove an event that was captured."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be removed: {error.strerror or error}") from error


def park_event(path: str, why: str) -> None:
    """Move an event aside with the reason of its failure; the oldest parked events are deleted."""
    folder, name = f"{os.path.dirname(path)}/failed", os.path.basename(path)
    try:
        os.makedirs(folder, _FOLDER_MODE, exist_ok=True)
        with open(f"{folder}/{name.removesuffix('.json')}.why", "w", encoding="utf-8", opener=_open_private) as file:
            file.write(why[:1_000] + "\n")
        os.replace(path, f"{folder}/{name}")
        parked = [parked_name for parked_name in _list_names(folder) if _is_event(parked_name)]
        for parked_name in parked[:-_MAX_PARKED]:
            remove_event(f"{folder}/{parked_name}")
            remove_event(f"{folder}/{parked_name.removesuffix('.json')}.why")
    except FileNotFoundError:
        return  # another process has handled it
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be moved aside: {error.strerror or error}") from error


def _open_regular(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe would block


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_event(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _oldest_first(names: list[str]) -> Iterator[str]:
    """Yield names in order, sorting only if the first is gone: a hook calls this, and the spool may be long."""
    if names:
        yield min(names)
        yield from sorted(names)


def _list_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _remove_stale(path: str) -> None:
    try:
        if time.time() - os.lstat(path).st_mtime > _STALE_S:
            os.unlink(path)
    except OSError:
        return
