"""One connection as the daemon sees it: bytes that came and bytes to go, both bounded."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorelog.surfaces.daemon.wire import MOST_BYTES

if TYPE_CHECKING:
    from lorelog.surfaces.daemon.job import Job

_AT_ONCE = 262_144


class Line:
    """Belongs to the thread that waits for sockets; no other touches it."""

    def __init__(self, connection: socket.socket, *, crowded: bool) -> None:
        self.connection = connection
        self.crowded = crowded
        """Whether it came when there were too many: only the daemon's own operations are answered."""
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.job: Job | None = None
        self.ended = False
        """Whether the other side has said all it will."""
        self.closing = False
        """Whether nothing more is read: the last answer goes out, and that is it."""
        self.close_by = float("inf")
        self.shut_down = False
        self.moved = time.monotonic()
        """When bytes last came or went."""
        self._searched = 0

    def receive(self) -> int:
        """Take what has come; return how many bytes."""
        try:
            received = self.connection.recv(_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            received = b""
        if not received:
            self.ended = True
            return 0
        self.moved = time.monotonic()
        if not self.closing:
            self.incoming += received
        return len(received)

    def next_line(self) -> bytes | None:
        """Return the next whole line without its end, or None."""
        end = self.incoming.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self.incoming)
            return None
        line = bytes(self.incoming[:end])
        del self.incoming[: end + 1]
        self._searched = 0
        return line

    def is_full(self) -> bool:
        """Say whether what has come cannot become a request any more, if no whole line is among it."""
        return len(self.incoming) >= MOST_BYTES

    def wants_more(self) -> bool:
        """Say whether there is room for more: what comes while an answer is made waits here."""
        return not self.ended and not self.is_full()

    def say(self, answer: dict[str, Any] | bytes) -> bool:
        """Send an answer as far as the other side takes it now, keep the rest; return whether the line still stands."""
        self.outgoing += answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
        return self.flush()

    def flush(self) -> bool:
        """Send what is kept; return whether the line still stands."""
        while self.outgoing:
            try:
                sent = self.connection.send(self.outgoing[:_AT_ONCE])
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                self.outgoing.clear()
                self.ended = True
                return False
            self.moved = time.monotonic()
            del self.outgoing[:sent]
        return True

    def shut(self, linger_s: float) -> None:
        """Say nothing more after what is kept. What still comes is read and dropped, for so long.

        Who hangs up on unread bytes may take the answer away with them.
        """
        if not self.closing:
            self.closing = True
            self.close_by = time.monotonic() + linger_s
        self.incoming.clear()
        self._searched = 0
        if not self.outgoing:
            self.shut_down = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self.connection.close()
