"""One writer at a time: a file lock that says who holds it and since when.

The operating system's lock (flock) is the truth, because it dies with its process, kill -9 included; what is
written in the file is only for the message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorelog.core.errors import StoreBusy
from lorelog.core.locking import locks_within


@contextmanager
def hold(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock at `path`; raise StoreBusy when someone else keeps it longer than `wait_s`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, path, wait_s)
        _sign(descriptor)
        yield
    finally:
        # Closing releases the lock. The file stays: removing it would let two processes lock two different files.
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, wait_s: float) -> None:
    if not locks_within(descriptor, wait_s):
        raise StoreBusy(
            f"the index is being written by {_owner(descriptor)} ({path.name})",
            hint="wait for it to finish, or end that process; its lock ends with it",
        )


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": int(time.time())}).encode(), 0)


def _owner(descriptor: int) -> str:
    try:
        signed = json.loads(os.pread(descriptor, 200, 0))
        age = max(0, int(time.time()) - signed["since"])
    except (ValueError, KeyError, TypeError):
        return "another process"
    return f"process {signed['pid']}, for {age} s"
