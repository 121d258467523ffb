"""Files that a command leaves behind: written whole or not at all, and a log that many may append to.

Standard library only: with a daemon that answers, the command that writes them has loaded little else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lorelog.core.errors import StoreBusy, UsageError
from lorelog.core.locking import locks_within

# ruff: noqa: PTH103, PTH105, PTH108, PTH112, PTH113, PTH114, PTH118, PTH120, PTH123  (pathlib takes 10 ms to import)

LOG = "lorelog_context_log.jsonl"
_ENTRY = "lorelog_context_{0}.json"
_PRIVATE = 0o600
_WAIT_S = 10.0
_TRIES = 1000


def write_whole(path: str, text: str, *, follow: bool = True) -> None:
    """Put a text where a path leads, so that every reader sees the old file or the new one. Others may do so at once.

    A link is followed as a shell would; without `follow` it is replaced. Raise UsageError where no file can be.
    """
    target = os.path.realpath(path) if follow else path
    if os.path.lexists(target) and not (os.path.isfile(target) or os.path.islink(target)):
        raise UsageError(f"{path} is no regular file", hint="name a file, or leave it out to have it printed")
    parent = os.path.dirname(target) or "."
    if not os.path.isdir(parent):
        raise UsageError(f"there is no directory {parent}", hint="make it first")
    aside = f"{target}.{os.getpid()}.{time.monotonic_ns()}.new"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        os.replace(aside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


def write_log(folder: str, payload: Mapping[str, Any]) -> str:
    """Keep what was answered, for its owner alone: a file of its own, and a line of the log. Return the file's path."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    moment = time.time_ns() // 1_000_000
    entry = {"at": moment, **payload}
    for later in range(_TRIES):  # two commands may be answered in one millisecond
        path = os.path.join(folder, _ENTRY.format(moment + later))
        try:
            _write_new(path, json.dumps(entry, ensure_ascii=False, indent=2) + "\n")
        except FileExistsError:
            continue
        _append(os.path.join(folder, LOG), json.dumps(entry, ensure_ascii=False) + "\n")
        return path
    raise StoreBusy(f"{folder} has a log of every moment", hint="try again")


def _write_new(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    with open(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "replace"))


def _append(path: str, line: str) -> None:
    """Append a line. A kill may leave half of one: the next begins on a line of its own."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, _PRIVATE)
    with open(descriptor, "r+b", buffering=0) as file:
        if not locks_within(descriptor, _WAIT_S):
            raise StoreBusy(f"{path} is locked by another program", hint="try again")
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        left = (b"\n" if torn else b"") + line.encode("utf-8", "replace")
        while left:
            left = left[file.write(left) or 0 :]
