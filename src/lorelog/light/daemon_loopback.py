"""The daemon's connections on systems without Unix sockets: TCP on loopback, with a token.

The path of the socket is then a file that only its owner can read, with the port and a token. Any process of the machine can
connect to the port, so a connection begins with the token; one that does not is closed. Imported where it is used: a
system with Unix sockets never loads it.
"""

from __future__ import annotations

import hmac
import os
import socket
from contextlib import suppress

TOKEN_BYTES = 32
"""Length of a token as it is sent: hexadecimal digits."""
_HOST = "127.0.0.1"
_TOKEN_TIMEOUT_S = 0.2
"""A client sends its token with the connection, so the daemon waits no longer for it."""


def open_listener(path: str) -> socket.socket:
    """Listen on a free port, and write port and a new token to `path`, readable by its owner only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((_HOST, 0))
        with suppress(FileNotFoundError):
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            token = os.urandom(TOKEN_BYTES // 2).hex()
            os.write(descriptor, f"{listener.getsockname()[1]} {token}\n".encode())
        finally:
            os.close(descriptor)
    except OSError:
        listener.close()
        raise
    return listener


def connect(path: str, timeout_s: float) -> socket.socket:
    """Connect to the daemon whose port and token are in `path`, and send the token. Raise OSError if that fails."""
    port, token = read_endpoint(path)
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Loopback connects at once, or not at all: a non-blocking connection would need a second step here.
        connection.settimeout(timeout_s or _TOKEN_TIMEOUT_S)
        connection.connect((_HOST, port))
        connection.sendall(token)
        connection.settimeout(timeout_s)
    except OSError:
        connection.close()
        raise
    return connection


def read_endpoint(path: str) -> tuple[int, bytes]:
    """Return the port and the token in a file. Raise ConnectionRefusedError if it has none."""
    with open(path, "rb") as file:
        port, _, token = file.read(200).strip().partition(b" ")
    if not port.isdigit() or len(token) != TOKEN_BYTES:
        raise ConnectionRefusedError(f"{path} has no port and token")
    return int(port), token


def has_token(client: socket.socket, path: str) -> bool:
    """Return whether a new connection begins with the daemon's token, which is taken off it."""
    try:
        _, expected = read_endpoint(path)
        client.settimeout(_TOKEN_TIMEOUT_S)
        received = b""
        while len(received) < TOKEN_BYTES:
            part = client.recv(TOKEN_BYTES - len(received))
            if not part:
                return False
            received += part
    except OSError:
        return False
    return hmac.compare_digest(received, expected)
