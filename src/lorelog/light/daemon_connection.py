"""Connections to the daemon's socket, and requests as they are sent over it.

Uses `_socket` rather than `socket`: importing the latter took 6 ms, a tenth of a warm command.
"""

from __future__ import annotations

import os
from _socket import SOCK_STREAM
from _socket import socket as bare_socket
from _thread import allocate_lock

from lorelog.core.errors import DaemonError, DaemonNotRunning, DaemonUnresponsive
from lorelog.core.version import VERSION
from lorelog.light.daemon_address import AF_UNIX, check_socket
from lorelog.light.daemon_wire import (
    MAX_REQUEST_BYTES,
    PROTOCOL,
    SILENCE_S,
    forwarded_environment,
    local_zone,
)
from lorelog.light.quick_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lorelog.light.daemon_address import DaemonAddress

_CONNECT_S = 2.0
PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Folder of this program's modules."""
_UMASK_LOCK = allocate_lock()


def connect(address: DaemonAddress) -> bare_socket:
    """Return a connection to the daemon. Raise DaemonNotRunning if none listens, DaemonUnresponsive if it accepts none."""
    try:
        connection = _connect(address, _CONNECT_S)
    except (TimeoutError, BlockingIOError) as error:
        raise DaemonUnresponsive("the daemon accepts no connection", hint="lorelog daemon restart") from error
    except OSError as error:
        raise DaemonError(f"cannot connect to the daemon: {error.strerror or error}") from error
    connection.settimeout(SILENCE_S)
    return connection


def connect_nonblocking(address: DaemonAddress) -> bare_socket:
    """Return a non-blocking connection. Raise DaemonNotRunning if none listens, OSError if its queue is full."""
    return _connect(address, 0.0)


def is_listening(address: DaemonAddress) -> bool:
    """Return whether a daemon accepts connections at an address."""
    try:
        connect(address).close()
    except DaemonNotRunning:
        return False
    return True


def caller_fields(
    address: DaemonAddress, directory: str | None, environment: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the `caller` field of a request. `directory` and `environment` default to those of this process."""
    try:
        directory = os.getcwd() if directory is None else directory
    except OSError:
        raise DaemonError("the current directory was deleted", hint="change to a directory that exists") from None
    forwarded = forwarded_environment(os.environ if environment is None else environment, address.home)
    fields = {"directory": directory, "environment": forwarded, "umask": _umask(), "zone": local_zone()}
    return {**fields, "code": PACKAGE_FOLDER}


def request_line(
    op: str,
    arguments: Mapping[str, Any] | None,
    caller: dict[str, Any] | None,
    *,
    progress: bool = False,
    protocol: int = PROTOCOL,
) -> bytes:
    """Return a request as it is sent. `protocol` is that of an older daemon only to stop it. Raise DaemonError if it cannot be encoded or is too large."""
    request = {
        "protocol": protocol,
        "version": VERSION,
        "op": op,
        "arguments": arguments or {},
        "caller": caller,
        "progress": progress,
    }
    try:
        line = dumps(request).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise DaemonError(f"cannot encode the arguments of {op}: {error}") from None
    if len(line) > MAX_REQUEST_BYTES:
        raise DaemonError(f"the request has {len(line):,} bytes; the daemon accepts at most {MAX_REQUEST_BYTES:,}")
    return line


def _connect(address: DaemonAddress, timeout_s: float) -> bare_socket:
    if not check_socket(address):
        raise DaemonNotRunning("the daemon is not running", hint="lorelog daemon start")
    if address.loopback:
        return _connect_loopback(address, timeout_s)
    connection = bare_socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address.socket)
    except (FileNotFoundError, ConnectionRefusedError):
        # The socket file of a killed daemon remains until the next daemon starts.
        connection.close()
        raise DaemonNotRunning("the daemon is not running", hint="lorelog daemon start") from None
    except OSError:
        connection.close()
        raise
    return connection


def _connect_loopback(address: DaemonAddress, timeout_s: float) -> bare_socket:
    from lorelog.light import daemon_loopback as loopback

    try:
        return loopback.connect(address.socket, timeout_s)
    except (FileNotFoundError, ConnectionRefusedError):
        raise DaemonNotRunning("the daemon is not running", hint="lorelog daemon start") from None


def _umask() -> int:
    """Return this process's umask. Where the system does not tell it, it can only be read by setting it briefly."""
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"Umask:"):
                    return int(line[6:], 8)
    except (OSError, ValueError):
        pass
    with _UMASK_LOCK:  # another thread would read, and then leave, the strictest one
        mask = os.umask(0o077)
        os.umask(mask)
    return mask
