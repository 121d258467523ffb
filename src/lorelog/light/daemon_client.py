"""Calls to the daemon: connect, send one line, wait for the response.

DaemonError means that the operation was not done, or that repeating it is harmless: the caller may do the work itself.
If the reply to an operation that must not be repeated is lost, the error is ReplyLost, which is not a DaemonError.

A daemon that says nothing is pinged over a second connection. If it does not answer, it is marked (`mark_unresponsive`), and this
call and the following ones end at once.

Imports only light parts of the standard library: a warm command should take no longer than Python takes to start.
"""

from __future__ import annotations

from _socket import SHUT_RD

from lorelog.core import VERSION
from lorelog.core.errors import (
    DaemonError,
    DaemonNotRunning,
    DaemonUnresponsive,
    LorelogError,
    ReplyLost,
    error_from_code,
)
from lorelog.light.daemon_connection import (
    HEARTBEAT_S,
    NON_IDEMPOTENT,
    PING_AFTER_S,
    PROTOCOL,
    SILENCE_S,
    DaemonAddress,
    caller_fields,
    connect,
    find_address,
    is_marked_unresponsive,
    mark_unresponsive,
    ping_timeout,
    read_responses,
    request_line,
    seems_alive,
    unresponsive_error,
    version_key,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as bare_socket
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from lorelog.core.ports import Progress

    ResponseT = TypeVar("ResponseT")
    StartDaemon = Callable[[DaemonAddress], None]

_MAX_STARTS = 2
_STATUS_TIMEOUT_S = 2.0
"""The daemon answers its own operations at once, unless it hangs or has just started."""
_MISSED_HEARTBEATS = 2
_SLOWEST_BYTES_PER_S = 2_000_000
"""A daemon that reads a request more slowly hangs."""

_CONTROL_OPS = ("daemon.status", "daemon.stop")


def call_daemon(  # noqa: PLR0913  (the caller's context, as keywords)
    op: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    caller: Mapping[str, Any] | None = None,
    start: StartDaemon | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Call an operation in the daemon and return its JSON.

    `start` starts a daemon if none is running. `caller` has further fields about the client: `own` is False for remote
    clients, which may not name local files to read; `wants_value` is True for the Python library; `agent` names an agent.
    Raise the error that the operation raised, ReplyLost, or DaemonError if no daemon could be used.
    """
    address = find_address(home, environment)
    fields = {**caller_fields(address, directory, environment, op), **(caller or {})}
    line = request_line(op, arguments, fields, progress=progress is not None)
    return _call_or_start(address, lambda: _exchange(address, line, op, progress), start)


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
    connection = _connect(address, op)
    begun, cause = False, Exception("connection closed")
    lost: LorelogError | None = None
    try:
        connection.settimeout(_STATUS_TIMEOUT_S + len(line) / _SLOWEST_BYTES_PER_S)
        _send(connection, line)
        for response in read_responses(_receiver(connection, address, op, progress)):
            if "ok" in response:
                return _result(response, address, op)
            begun = True
            update = response.get("progress")
            if progress is not None and update:
                progress(update["stage"], update["done"], update["total"])
    except TimeoutError as error:
        begun, cause = _withdraw(connection) or begun, error
        lost = mark_unresponsive(address)
    except (OSError, ValueError, KeyError, TypeError) as error:
        cause = error
    finally:
        connection.close()
    if begun and op in NON_IDEMPOTENT:
        listing = "task list" if op.startswith(("task.", "artifact.")) else "list"
        raise ReplyLost(
            f"the daemon stopped responding before it confirmed {op}: {cause}",
            hint=f"check with 'lorelog {listing}' first",
        ) from cause
    if lost is None:
        lost = DaemonNotRunning(f"the daemon stopped responding: {cause}", hint="lorelog doctor --daemon-only")
    raise lost from cause


def _connect(address: DaemonAddress, op: str) -> bare_socket:
    """Return a connection for an operation. Raise DaemonUnresponsive at once if the daemon is known not to answer."""
    if op not in _CONTROL_OPS and is_marked_unresponsive(address):  # those are the way out, so always tried
        raise unresponsive_error(address)
    try:
        return connect(address)
    except DaemonUnresponsive as error:
        raise mark_unresponsive(address) from error


def _receiver(
    connection: bare_socket, address: DaemonAddress, op: str, progress: Progress | None
) -> Callable[[], bytes]:
    """Return a function that returns what the daemon sends next, or raises TimeoutError if it hangs.

    The daemon reports every two seconds that it works. A write that it has begun is waited for longer: its outcome would
    be unknown. So is a daemon that does not answer and is at work: it is busy.
    """
    begun = False

    def receive() -> bytes:
        nonlocal begun
        is_control, waited_s = op.startswith("daemon."), 0.0  # answered at once, like a ping
        wait_s = max(_STATUS_TIMEOUT_S, ping_timeout(address)) if is_control else PING_AFTER_S
        while True:
            wait_s = _MISSED_HEARTBEATS * HEARTBEAT_S if begun or waited_s else wait_s
            connection.settimeout(wait_s)
            try:
                received = connection.recv(262_144)
            except TimeoutError:
                waited_s += wait_s
                is_hung = op == "daemon.stop" or not seems_alive(address)
                if waited_s >= SILENCE_S or (is_hung and not (begun and op in NON_IDEMPOTENT)):
                    raise
                if progress is not None:
                    progress("waiting for the daemon, which is busy", int(waited_s), 0)
            else:
                begun = True
                return received

    return receive


def _withdraw(connection: bare_socket) -> bool:
    """Refuse further messages, and return whether the daemon had taken the request after all.

    From here on it cannot send the message that precedes a write, so it does not begin one.
    """
    try:
        connection.shutdown(SHUT_RD)
        connection.settimeout(0.0)
        return bool(connection.recv(1))
    except OSError:
        return False


def _send(connection: bare_socket, line: bytes) -> None:
    try:
        connection.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the daemon may have sent the reason before it closed the connection: read that next


def _result(response: dict[str, Any], address: DaemonAddress, op: str) -> dict[str, Any]:
    """Return the result of a response or raise its error. Ask a daemon older than this client to stop."""
    daemon = response.get("daemon") or {}
    if response["ok"]:
        if version_key(str(daemon.get("version", ""))) < version_key(VERSION):
            _ask_to_stop(address)
        result: dict[str, Any] = response.get("result") or {}
        return result
    if daemon.get("protocol", PROTOCOL) < PROTOCOL and op not in _CONTROL_OPS:  # left from before an upgrade
        _ask_to_stop(address, daemon["protocol"])
        raise DaemonNotRunning("the daemon is of an older version and is stopping")
    error = response["error"]
    code, message, hint = str(error["code"]), str(error["message"]), str(error.get("hint", ""))
    if code == DaemonError.code:
        raise (DaemonNotRunning if response.get("leaving") else DaemonError)(message, hint=hint)
    raise error_from_code(code, message, hint)


def _ask_to_stop(address: DaemonAddress, protocol: int = PROTOCOL) -> None:
    """Ask a daemon to stop after its current work."""
    try:
        line = request_line("daemon.stop", {"after_work": True}, caller_fields(address, "/", None), protocol=protocol)
        connection = connect(address)
        try:
            _send(connection, line)
            next(read_responses(lambda: connection.recv(262_144)), None)
        finally:
            connection.close()
    except (LorelogError, OSError, ValueError):
        pass  # the next client will ask again
