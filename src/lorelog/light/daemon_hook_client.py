"""Calls to the daemon from a hook, which must not delay the agent.

Connecting never blocks: a full queue is reported at once. `wake` sends one line and reads nothing; `ask_within` has one
deadline for the whole call. Neither starts a daemon.
"""

from __future__ import annotations

import time

from lorelog.core.errors import DaemonError, DaemonNotRunning, LorelogError
from lorelog.light.daemon_connection import caller_fields, connect_nonblocking, request_line
from lorelog.light.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as bare_socket
    from collections.abc import Mapping
    from typing import Any

    from lorelog.light.daemon_address import DaemonAddress

_MAX_RESPONSE_BYTES = 1_000_000


def wake(address: DaemonAddress) -> bool:
    """Tell the daemon that the spool has a new event. Return whether a daemon runs, even if it is too busy to read this.

    Raise DaemonError if the socket belongs to another user.
    """
    try:
        connection = connect_nonblocking(address)
    except DaemonNotRunning:
        return False
    except OSError:
        return True  # its queue is full; it reads the spool anyway
    try:
        connection.send(request_line("daemon.wake", None, None))
    except OSError:
        pass  # it is stopping; the next daemon reads the spool
    finally:
        connection.close()
    return True


def ask_within(
    address: DaemonAddress, timeout_s: float, op: str, arguments: Mapping[str, Any], directory: str
) -> dict[str, Any]:
    """Call an operation and return its result. Raise LorelogError if that fails or takes longer than `timeout_s`."""
    from lorelog.light.daemon_liveness import is_marked_unresponsive, unresponsive_error

    deadline = time.monotonic() + timeout_s
    if is_marked_unresponsive(address, probe=False):
        raise unresponsive_error(address)
    line = request_line(op, arguments, caller_fields(address, directory, None))
    try:
        connection = connect_nonblocking(address)
    except OSError as error:
        raise DaemonError(f"cannot connect to the daemon: {error}") from error
    try:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        connection.sendall(line)
        return _read_result(connection, deadline)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DaemonError(f"the daemon did not respond in time: {error}") from error
    finally:
        connection.close()


def _read_result(connection: bare_socket, deadline: float) -> dict[str, Any]:
    buffer = b""
    while len(buffer) < _MAX_RESPONSE_BYTES:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        received = connection.recv(262_144)
        if not received:
            break
        buffer += received
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            response = loads(line)
            if "ok" in response:
                if not response["ok"]:
                    raise LorelogError(str(response["error"]["message"]))
                result = response.get("result")
                return result if isinstance(result, dict) else {}
    raise DaemonError("the daemon closed the connection")
