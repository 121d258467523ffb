"""The spool: what hooks leave for the daemon, one small file per event, in `<home>/spool`.

A hook must be done in a moment whatever else is broken, and nothing that it was told may be lost when the machine stops just
then. So an event is written beside its place, flushed, and renamed: it is there whole or not at all. Its name is a
UUIDv7, so that names sort as the events came.

An event points to a conversation and never holds any of it: what was said is read later, from where the host keeps it, and
redacted before it is written anywhere.
"""

from __future__ import annotations

import json
import os
import time

from lorelog.core.errors import SourceError, StoreUnwritable, UsageError
from lorelog.core.identity import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# ruff: noqa: PTH103, PTH104, PTH105, PTH108, PTH116, PTH119, PTH120, PTH208  (pathlib takes 10 ms to import)

MOST_BYTES = 65_536
"""Of one event."""
VERSION = 1
FIELDS = ("id", "at", "host", "moment", "session", "turn", "transcript", "directory", "project", "branch", "commit")
FURTHER = ("agent", "source", "answer")
_PRIVATE = 0o700
_STALE_S = 3600.0
"""What was begun so long ago is not being written any more."""
_MOST_PARKED = 1_000


def write_event(home: str, event: dict[str, Any]) -> str:
    """Write an event down and return its path; it is safe when this returns. Raise StoreUnwritable where that cannot be."""
    identity = str(event.get("id") or new_id())
    line = json.dumps({**event, "v": VERSION, "id": identity}).encode() + b"\n"
    if len(line) > MOST_BYTES:
        raise UsageError(f"an event of {len(line):,} bytes is more than the spool takes ({MOST_BYTES:,})")
    folder = f"{home}/spool"
    written, final = f"{folder}/.{identity}.tmp", f"{folder}/{identity}.json"
    try:
        _write_whole(folder, written, line)
        try:
            os.rename(written, final)
        except OSError:
            os.unlink(written)
            raise
        _sync(folder)
    except OSError as error:
        raise StoreUnwritable(
            f"{folder} cannot be written: {error.strerror or error}", hint="make it writable, or set LORELOG_HOME"
        ) from error
    return final


def spooled(home: str) -> list[str]:
    """Return the paths of the events that wait, oldest first. Takes away what was begun and left long ago."""
    folder = f"{home}/spool"
    names = _names(folder)
    for name in names:
        if name.endswith(".tmp"):
            _remove_stale(f"{folder}/{name}")
    return [f"{folder}/{name}" for name in names if _is_event(name)]


def waiting(home: str) -> tuple[int, float]:
    """Return how many events wait, and for how many seconds the oldest has."""
    folder = f"{home}/spool"
    try:
        names = [name for name in os.listdir(folder) if _is_event(name)]
    except OSError:
        return 0, 0.0
    for name in _oldest_first(names):
        try:
            return len(names), max(0.0, time.time() - os.stat(f"{folder}/{name}").st_mtime)
        except OSError:
            continue  # somebody has just seen to it
    return 0, 0.0


def read_event(path: str) -> dict[str, Any]:
    """Return an event: what is missing in it is empty, what is unknown is kept. Raise SourceError for what is none."""
    try:
        with open(path, "rb", opener=_opener) as file:
            held = file.read(MOST_BYTES + 1)
        if len(held) > MOST_BYTES:
            raise SourceError(f"{path} is larger than an event can be")
        event = json.loads(held)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is no event: {error}") from None
    if not isinstance(event, dict):
        raise SourceError(f"{path} is no event: it holds no object")
    for name in (*FIELDS, *FURTHER):
        value = event.get(name)
        event[name] = value if isinstance(value, str) else ""
    environment = event.get("environment")
    told = environment if isinstance(environment, dict) else {}
    event["environment"] = {name: value for name, value in told.items() if isinstance(value, str)}
    offset = event.get("offset")
    event["offset"] = offset if isinstance(offset, int) and not isinstance(offset, bool) else 0
    event["again"] = event.get("again") is True
    event["id"] = event["id"] or os.path.basename(path).removesuffix(".json")
    return event


def remove(path: str) -> None:
    """Take away an event that was seen to."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be removed: {error.strerror or error}") from error


def park(path: str, why: str) -> None:
    """Put an event aside that cannot be seen to, with the reason beside it; the oldest such are forgotten."""
    folder, name = f"{os.path.dirname(path)}/failed", os.path.basename(path)
    try:
        os.makedirs(folder, _PRIVATE, exist_ok=True)
        with open(f"{folder}/{name.removesuffix('.json')}.why", "w", encoding="utf-8", opener=_private) as file:
            file.write(why[:1_000] + "\n")
        os.replace(path, f"{folder}/{name}")
        parked = [one for one in _names(folder) if _is_event(one)]
        for one in parked[:-_MOST_PARKED]:
            remove(f"{folder}/{one}")
            remove(f"{folder}/{one.removesuffix('.json')}.why")
    except FileNotFoundError:
        return  # somebody else has seen to it
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be put aside: {error.strerror or error}") from error


def _write_whole(folder: str, path: str, line: bytes) -> None:
    try:
        descriptor = _create(path)
    except FileNotFoundError:
        for made in (
            os.path.dirname(folder),
            folder,
        ):  # each for its owner only, which makedirs does for the last alone
            os.makedirs(made, _PRIVATE, exist_ok=True)
        _sync(os.path.dirname(folder))
        descriptor = _create(path)
    try:
        written = 0
        while written < len(line):
            written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _sync(folder: str) -> None:
    """Make a new name as durable as its bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_event(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _oldest_first(names: list[str]) -> Iterator[str]:
    """Yield names in order. They are sorted only where the first does not do: a hook asks, and very many may wait."""
    if names:
        yield min(names)
        yield from sorted(names)


def _names(folder: str) -> list[str]:
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
