"""Calls to the daemon: connect, send one line, wait for the response.

DaemonError means that the operation was not done, or that repeating it is harmless: the caller may do the work itself.
If the reply to an operation that must not be repeated is lost, the error is ReplyLost, which is not a DaemonError.

Imports only light parts of the standard library: a warm command should take no longer than Python takes to start.
"""

from __future__ import annotations

import json
from _socket import AF_UNIX, SOCK_STREAM

from lorelog.core.errors import DaemonError, DaemonNotRunning, LorelogError, ReplyLost, error_from_code
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon_client.address import DaemonAddress, find_address
from lorelog.surfaces.daemon_client.connection import caller_fields, connect, request_line
from lorelog.surfaces.daemon_client.wire import NON_IDEMPOTENT, version_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as bare_socket
    from collections.abc import Callable, Iterator, Mapping
    from socket import socket
    from typing import Any, TypeVar

    from lorelog.core.ports import Progress

    ResponseT = TypeVar("ResponseT")
    StartDaemon = Callable[[DaemonAddress], None]

_MAX_STARTS = 2
_STATUS_TIMEOUT_S = 10.0
"""The daemon answers its own operations at once, unless it hangs."""


def call_daemon(  # noqa: PLR0913  (the caller's context, as keywords)
    op: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    own: bool = True,
    start: StartDaemon | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Call an operation in the daemon and return its JSON.

    `start` starts a daemon if none is running. `own` is False for remote clients, which may not name local files to read.
    Raise the error that the operation raised, ReplyLost, or DaemonError if no daemon could be used.
    """
    address = find_address(home, environment)
    caller = caller_fields(address, directory, environment)
    if not own:
        caller["own"] = False
    line = request_line(op, arguments, caller, progress=progress is not None)
    return _call_or_start(address, lambda: _exchange(address, line, op, progress), start)


def open_stream(
    op: str,
    *,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    start: StartDaemon | None = None,
) -> socket:
    """Have the daemon turn a connection into a stream for another protocol, and return it. Raise like `call_daemon`."""
    address = find_address(home, environment)
    line = request_line(op, None, caller_fields(address, directory, environment))
    return _call_or_start(address, lambda: _open_stream(address, line, op), start)


def _call_or_start(address: DaemonAddress, call: Callable[[], ResponseT], start: StartDaemon | None) -> ResponseT:
    """Call the daemon; start it and retry if it is not running, or if it exits while it still accepts connections."""
    for _ in range(0 if start is None else _MAX_STARTS):
        try:
            return call()
        except DaemonNotRunning:
            if start is not None:
                start(address)
    return call()


def _exchange(address: DaemonAddress, line: bytes, op: str, progress: Progress | None) -> dict[str, Any]:
    connection = connect(address)
    begun = False
    try:
        _send(connection, line)
        if op.startswith("daemon."):
            connection.settimeout(_STATUS_TIMEOUT_S)
        for response in _read_responses(connection):
            if "ok" in response:
                return _result(response, address)
            begun = True
            update = response.get("progress")
            if progress is not None and update:
                progress(update["stage"], update["done"], update["total"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _connection_lost_error(op, error, begun=begun) from error
    finally:
        connection.close()
    raise _connection_lost_error(op, EOFError("connection closed"), begun=begun)


def _send(connection: bare_socket, line: bytes) -> None:
    try:  # noqa: SIM105  (importing contextlib takes longer than the whole function)
        connection.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the daemon may have sent the reason before it closed the connection: read that next


def _read_responses(connection: bare_socket) -> Iterator[dict[str, Any]]:
    buffer = bytearray()
    while received := connection.recv(262_144):
        buffer += received
        if b"\n" in received:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                response = json.loads(line)
                if not isinstance(response, dict):
                    raise TypeError("the response is not a JSON object")
                yield response


def _result(response: dict[str, Any], address: DaemonAddress) -> dict[str, Any]:
    """Return the result of a response or raise its error. Ask a daemon older than this client to stop."""
    daemon = response.get("daemon") or {}
    if response["ok"]:
        if version_key(str(daemon.get("version", ""))) < version_key(VERSION):
            _ask_to_stop(address)
        result: dict[str, Any] = response.get("result") or {}
        return result
    error = response["error"]
    code, message, hint = str(error["code"]), str(error["message"]), str(error.get("hint", ""))
    if code == DaemonError.code:
        raise (DaemonNotRunning if response.get("leaving") else DaemonError)(message, hint=hint)
    raise error_from_code(code, message, hint)


def _ask_to_stop(address: DaemonAddress) -> None:
    """Ask a daemon to stop after its current work."""
    try:
        line = request_line("daemon.stop", {"after_work": True}, caller_fields(address, "/", None))
        connection = connect(address)
        try:
            _send(connection, line)
            next(_read_responses(connection), None)
        finally:
            connection.close()
    except (LorelogError, OSError, ValueError):
        pass  # the next client will ask again


def _connection_lost_error(op: str, cause: Exception, *, begun: bool) -> LorelogError:
    if begun and op in NON_IDEMPOTENT:
        return ReplyLost(
            f"the daemon stopped responding before it confirmed {op}: {cause}",
            hint=f"check with 'lorelog {'task list' if op.startswith(('task.', 'artifact.')) else 'list'}' first",
        )
    # A daemon that times out still holds its lock, so no other can be started.
    kind = DaemonError if isinstance(cause, TimeoutError) else DaemonNotRunning
    return kind(f"the daemon stopped responding: {cause}", hint="lorelog doctor --daemon")


def _open_stream(address: DaemonAddress, line: bytes, op: str) -> socket:
    import socket

    connection = connect(address)
    try:
        _send(connection, line)
        buffer = bytearray()
        while not buffer.endswith(b"\n"):
            received = connection.recv(1)  # bytes after the line belong to the stream
            if not received:
                raise DaemonNotRunning("the daemon closed the connection")
            buffer += received
        _result(json.loads(buffer), address)
        connection.settimeout(None)
        return socket.socket(AF_UNIX, SOCK_STREAM, 0, connection.detach())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DaemonError(f"the daemon did not open {op}: {error}") from error
    finally:
        connection.close()
