"""Talking with a daemon without waiting for it: what a hook may do, whose agent waits.

A daemon that hangs must cost a hook nothing. So connecting never blocks (a full queue says so at once), waking sends one line
and hears nothing, and asking has one deadline for all of it. Nothing is started from here.
"""

from __future__ import annotations

import json
import time
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as bare_socket

from lorelog.core.errors import DaemonAbsent, DaemonError, LorelogError
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon.address import check_socket
from lorelog.surfaces.daemon.wire import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lorelog.surfaces.daemon.address import Address

_MOST_BYTES = 1_000_000
"""Of an answer that is put before a model."""


def wake(address: Address) -> bool:
    """Tell a daemon that something waits to be seen to; return whether one is there, though it may be too busy to hear.

    Raise DaemonError when what is there is not ours to talk with.
    """
    request = {"protocol": PROTOCOL, "version": VERSION, "op": "daemon.wake", "arguments": {}}
    try:
        connection = _connected(address)
    except DaemonAbsent:
        return False
    except OSError:
        return True  # its queue is full: it lives, and looks into the spool when it gets to it
    try:
        connection.send(json.dumps(request).encode() + b"\n")
    except OSError:
        pass  # it is leaving; what waits is found by the next
    finally:
        connection.close()
    return True


def ask_within(
    address: Address, seconds: float, op: str, arguments: Mapping[str, Any], directory: str
) -> dict[str, Any]:
    """Have a daemon carry out an operation that is done in so many seconds, or raise LorelogError."""
    deadline = time.monotonic() + seconds
    from lorelog.surfaces.daemon.client import caller_at, request_line

    line = request_line(op, arguments, caller_at(address, directory, None))
    try:
        connection = _connected(address)
    except OSError as error:
        raise DaemonError(f"the daemon cannot be reached: {error}") from error
    try:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        connection.sendall(line)
        return _heard(connection, deadline)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DaemonError(f"the daemon did not answer in time: {error}") from error
    finally:
        connection.close()


def _heard(connection: bare_socket, deadline: float) -> dict[str, Any]:
    held = b""
    while len(held) < _MOST_BYTES:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv(262_144)
        if not received:
            break
        held += received
        *lines, held = held.split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "ok" in answer:
                if not answer["ok"]:
                    raise LorelogError(str(answer["error"]["message"]))
                result = answer.get("result")
                return result if isinstance(result, dict) else {}
    raise DaemonError("the daemon went away")


def _connected(address: Address) -> bare_socket:
    """Return a connection that never blocks. Raise DaemonAbsent where nobody listens, OSError where nobody could be asked."""
    if not check_socket(address):
        raise DaemonAbsent("no daemon is running")
    connection = bare_socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(address.socket)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        raise DaemonAbsent("no daemon is running") from None
    except OSError:
        connection.close()
        raise
    return connection
