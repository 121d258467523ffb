"""How many requests may be under way at once, and how long everyone waits after a server has said: too many.

A limit is the server's word about an account, not about one request: whoever is told holds all others back too, and half
as many go on together afterwards. Each answer that comes back well lets one more go, up to where it began.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic


class Pace:
    """Turns for requests to one server. Threads may share it. `most` of 0 bounds nothing."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._allowed = most
        self._busy = 0
        self._until = 0.0
        self._changed = Condition()

    @contextmanager
    def turn(self, *, urgent: bool = False) -> Iterator[None]:
        """Wait for one's turn and keep it. Who is urgent (a question, for which somebody waits) passes those at work."""
        with self._changed:
            while True:
                wait = self._until - monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                elif urgent or not self._most or self._busy < self._allowed:
                    break
                else:
                    self._changed.wait()
            self._busy += not urgent
        try:
            yield
        finally:
            with self._changed:
                self._busy -= not urgent
                self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let nobody begin for so long, and half as many at once from then on."""
        with self._changed:
            self._until = max(self._until, monotonic() + seconds)
            self._allowed = max(1, self._allowed // 2)

    def ease(self) -> None:
        """Let one more go at once."""
        with self._changed:
            self._allowed = min(self._most, self._allowed + 1)
            self._changed.notify_all()
