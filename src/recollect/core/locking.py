"""Waiting for a file's lock, with an end. Whoever waits says by its own error who holds it and what to do."""

from __future__ import annotations

import fcntl
import time

_PAUSE_S = 0.01


def locks_within(descriptor: int, wait_s: float) -> bool:
    """Take the lock of an open file for this process alone; return whether it came in so many seconds."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True
