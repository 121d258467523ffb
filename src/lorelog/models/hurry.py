"""A socket against one deadline: whoever answers byte by byte, or not at all, does not outlast it.

A socket's own time limit begins anew with every byte, so a server that drips its headers, or says "100 Continue" for ever,
could hold a search for hours. Here every single wait is for what is left of the whole time.
"""

from __future__ import annotations

import io
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def remaining(deadline: float) -> float:
    """Return the seconds until a deadline (of `time.monotonic`). Raise TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def connect(address: tuple[str, int], deadline: float) -> socket.socket:
    """Connect to a name and port. Each address of a name gets its share of the time: one that is silent leaves some."""
    found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    for tried, (family, kind, protocol, _, place) in enumerate(found, 1):
        channel = socket.socket(family, kind, protocol)
        try:
            channel.settimeout(remaining(deadline) / (1 + len(found) - tried))
            channel.connect(place)
            channel.settimeout(remaining(deadline))
        except BaseException as error:
            channel.close()
            if tried == len(found) or not isinstance(error, OSError):
                raise
        else:
            return channel
    raise OSError("the name has no address")


class HurriedSocket:
    """A socket as `http.client` reads from it, against a deadline."""

    def __init__(self, channel: socket.socket, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what is said, as a file."""
        return io.BufferedReader(_HurriedReader(self._channel, self._deadline))


class _HurriedReader(io.RawIOBase):
    def __init__(self, channel: socket.socket, deadline: float) -> None:
        self._channel = channel
        self._deadline = deadline
        # A file of the socket's own keeps it open until it is read to its end, though the connection is closed before.
        self._said = channel.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._channel.settimeout(remaining(self._deadline))
        return self._said.readinto(buffer)

    def close(self) -> None:
        self._said.close()
        super().close()
