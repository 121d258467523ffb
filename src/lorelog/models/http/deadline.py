"""Socket I/O with one deadline for a whole exchange.

A socket's own timeout restarts with every byte, so a server that sends its headers byte by byte, or repeats "100 Continue",
could hold a search for hours. Here every wait is limited to the rest of the whole time.
"""

from __future__ import annotations

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def seconds_left(deadline: float) -> float:
    """Return the seconds until a deadline (of `time.monotonic`). Raise TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def connect(address: tuple[str, int], deadline: float) -> socket.socket:
    """Connect to a name and port. Each address gets a share of the time, so that a silent one leaves some for the rest."""
    name, port = address
    # As bytes: for text, Python loads the tables of internationalized names first.
    host = name.encode("ascii") if name.isascii() else name
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, resolved) in enumerate(addresses, 1):
        channel = socket.socket(family, kind, protocol)
        try:
            channel.settimeout(seconds_left(deadline) / (1 + len(addresses) - number))
            channel.connect(resolved)
            channel.settimeout(seconds_left(deadline))
        except BaseException as error:
            channel.close()
            if number == len(addresses) or not isinstance(error, OSError):
                raise
        else:
            return channel
    raise OSError("the name has no address")


class DeadlineSocket:
    """The part of the socket interface that `http.client` reads from, with a deadline."""

    def __init__(self, channel: socket.socket, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._channel, self._deadline))


class _DeadlineReader(io.RawIOBase):
    def __init__(self, channel: socket.socket, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline
        # The socket's own file keeps it open until it is read to the end, even if the connection is closed before.
        self._file = channel.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._channel.settimeout(seconds_left(self._deadline))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
