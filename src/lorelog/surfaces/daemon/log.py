"""The daemon's log: lines with a time, in a file that is turned over before it grows large.

It is the process's standard output and error too, so that what libraries print and what the interpreter says when it dies
ends there. A log that cannot be written (a full disk, a deleted home) is no reason to stop working.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Lock

_MOST_BYTES = 1_000_000
_KEPT = 2
"""Older files beside the current one."""
_LONGEST = 4_000
"""Characters of one entry."""


class Log:
    """Written by many threads."""

    def __init__(self, path: str, *, most_bytes: int = _MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._broken = False

    def open(self) -> None:
        """Make the file the process's standard output and error; where it cannot be opened, they go nowhere."""
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)

    def write(self, text: str) -> None:
        """Write an entry."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        entry = f"{stamp} [{os.getpid()}] {text[:_LONGEST]}\n".encode("utf-8", "replace")
        with self._lock, suppress(OSError):
            if os.fstat(2).st_size > self._most_bytes:
                self._turn_over()
            os.write(2, entry)

    def _turn_over(self) -> None:
        # Never in a folder that went away: a deleted home must not come back with a log in it.
        for number in range(_KEPT, 0, -1):
            older = f"{self.path}.{number - 1}" if number > 1 else self.path
            with suppress(FileNotFoundError):
                os.replace(older, f"{self.path}.{number}")  # noqa: PTH105
        if os.path.isdir(os.path.dirname(self.path)):  # noqa: PTH112, PTH120
            self.open()
