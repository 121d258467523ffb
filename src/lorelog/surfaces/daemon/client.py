"""Asking the daemon: connect, send one line, wait for the answer.

A warm command should take the time Python takes to start. So only the standard library is imported, and little of it: `_socket`,
which `socket` is made of, because the rest of that module took 6 ms to import, a tenth of the whole command.

DaemonError means that nothing was done, or nothing that may not be done again: whoever asked may do the work itself. A lost
answer to something that must not be done twice is `AnswerLost`, which is no DaemonError.
"""

from __future__ import annotations

import json
import os
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as bare_socket

from lorelog.core.errors import AnswerLost, DaemonAbsent, DaemonError, LorelogError, error_of
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon.address import Address, check_socket, find_address
from lorelog.surfaces.daemon.wire import MOST_BYTES, ONCE, PROTOCOL, SILENCE_S, forwarded, local_zone, version_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from socket import socket
    from typing import Any, TypeVar

    from lorelog.core.ports import Progress

    Said = TypeVar("Said")

_CONNECT_S = 5.0
_TRIES = 2
_AT_ONCE_S = 10.0
"""What a daemon tells of itself it tells at once, or it hangs."""


def ask(  # noqa: PLR0913  (the caller's standpoint, spelled out)
    op: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    own: bool = True,
    starts: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Have the daemon carry out an operation, and return its JSON. `starts`: start one where there is none. `own`: it is
    asked for the person at this machine, who may name files to be read.

    Raise what the operation raised, AnswerLost, or DaemonError when no daemon could be used.
    """
    address = find_address(home, environment)
    caller = caller_at(address, directory, environment)
    if not own:
        caller["own"] = False
    line = request_line(op, arguments, caller, progress=progress is not None)
    return _met(address, lambda: _converse(address, line, op, progress), starts=starts)


def open_stream(
    op: str,
    *,
    directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    home: str | None = None,
    starts: bool = False,
) -> socket:
    """Have the daemon turn a connection into a stream of its own, and return it. Raise like `ask`."""
    address = find_address(home, environment)
    line = request_line(op, None, caller_at(address, directory, environment))
    return _met(address, lambda: _stream(address, line, op), starts=starts)


def answers_at(address: Address) -> bool:
    """Say whether somebody listens at an address."""
    try:
        _connect(address).close()
    except DaemonAbsent:
        return False
    return True


def _met(address: Address, talk: Callable[[], Said], *, starts: bool) -> Said:
    """Talk with a daemon, and start one where none is met: one that is just dying can still be connected with."""
    for _ in range(_TRIES if starts else 0):
        try:
            return talk()
        except DaemonAbsent:
            from lorelog.surfaces.daemon.control import start

            start(address)
    return talk()


def caller_at(address: Address, directory: str | None, environment: Mapping[str, str] | None) -> dict[str, Any]:
    """Return who asks, as the wire has it."""
    try:
        directory = os.getcwd() if directory is None else directory  # noqa: PTH109
    except OSError:
        raise DaemonError("the current directory is gone", hint="go to one that exists") from None
    told = forwarded(os.environ if environment is None else environment, address.home)
    return {"directory": directory, "environment": told, "umask": _umask(), "zone": local_zone()}


def _umask() -> int:
    """Return the mask of this process, which can only be read by setting it: to the strictest, for others' threads."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def request_line(
    op: str, arguments: Mapping[str, Any] | None, caller: dict[str, Any], *, progress: bool = False
) -> bytes:
    """Return a request as it goes over the wire."""
    request = {
        "protocol": PROTOCOL,
        "version": VERSION,
        "op": op,
        "arguments": arguments or {},
        "caller": caller,
        "progress": progress,
    }
    try:
        line = json.dumps(request).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise DaemonError(f"the arguments of {op} cannot be sent: {error}") from None
    if len(line) > MOST_BYTES:
        raise DaemonError(f"a request of {len(line):,} bytes is more than the daemon takes ({MOST_BYTES:,})")
    return line


def _connect(address: Address) -> bare_socket:
    if not check_socket(address):
        raise DaemonAbsent("no daemon is running", hint="lorelog warm start")
    connection = bare_socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(_CONNECT_S)
        connection.connect(address.socket)
    except (FileNotFoundError, ConnectionRefusedError):
        # The file of one that was killed stays behind; whoever is started next takes it away.
        connection.close()
        raise DaemonAbsent("no daemon is running", hint="lorelog warm start") from None
    except OSError as error:
        connection.close()
        raise DaemonError(f"the daemon cannot be reached: {error.strerror or error}") from error
    connection.settimeout(SILENCE_S)
    return connection


def _converse(address: Address, line: bytes, op: str, progress: Progress | None) -> dict[str, Any]:
    connection = _connect(address)
    begun = False
    try:
        _send(connection, line)
        if op.startswith("daemon."):
            connection.settimeout(_AT_ONCE_S)
        for answer in _answers(connection):
            if "ok" in answer:
                return _result(answer, address)
            begun = True
            told = answer.get("progress")
            if progress is not None and told:
                progress(told["stage"], told["done"], told["total"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _lost(op, error, begun=begun) from error
    finally:
        connection.close()
    raise _lost(op, EOFError("it went away"), begun=begun)


def _send(connection: bare_socket, line: bytes) -> None:
    try:  # noqa: SIM105  (contextlib takes longer to import than all of this to run)
        connection.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may have said why before it hung up: that is read next


def _answers(connection: bare_socket) -> Iterator[dict[str, Any]]:
    held = bytearray()
    while received := connection.recv(262_144):
        held += received
        if b"\n" in received:
            *lines, held = held.split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if not isinstance(answer, dict):
                    raise TypeError("it answered something else than an object")
                yield answer


def _result(answer: dict[str, Any], address: Address) -> dict[str, Any]:
    """Return what an answer holds, or raise what it says. A daemon older than this client is asked to make room."""
    daemon = answer.get("daemon") or {}
    if answer["ok"]:
        if version_key(str(daemon.get("version", ""))) < version_key(VERSION):
            _retire(address)
        result: dict[str, Any] = answer.get("result") or {}
        return result
    error = answer["error"]
    code, message, hint = str(error["code"]), str(error["message"]), str(error.get("hint", ""))
    if code == DaemonError.code:
        raise (DaemonAbsent if answer.get("leaving") else DaemonError)(message, hint=hint)
    raise error_of(code, message, hint)


def _retire(address: Address) -> None:
    """Ask a daemon to leave when its work is done."""
    try:
        line = request_line("daemon.stop", {"after_work": True}, caller_at(address, "/", None))
        connection = _connect(address)
        try:
            _send(connection, line)
            next(_answers(connection), None)
        finally:
            connection.close()
    except (LorelogError, OSError, ValueError):
        pass  # the next one will ask again


def _lost(op: str, why: Exception, *, begun: bool) -> LorelogError:
    if begun and op in ONCE:
        return AnswerLost(
            f"the daemon stopped answering before it said whether {op} was done: {why}",
            hint=f"look with 'lorelog {'task list' if op.startswith(('task.', 'artifact.')) else 'list'}' first",
        )
    # One that is silent is still there, and nobody can take its place.
    kind = DaemonError if isinstance(why, TimeoutError) else DaemonAbsent
    return kind(f"the daemon stopped answering: {why}", hint="lorelog doctor --daemon")


def _stream(address: Address, line: bytes, op: str) -> socket:
    import socket

    connection = _connect(address)
    try:
        _send(connection, line)
        held = bytearray()
        while not held.endswith(b"\n"):
            received = connection.recv(1)  # what follows the line is not ours to read
            if not received:
                raise DaemonAbsent("the daemon went away")
            held += received
        _result(json.loads(held), address)
        connection.settimeout(None)
        return socket.socket(AF_UNIX, SOCK_STREAM, 0, connection.detach())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DaemonError(f"the daemon did not open {op}: {error}") from error
    finally:
        connection.close()
