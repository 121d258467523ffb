"""What the daemon says, as lines; and to whom it says nothing else."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon.wire import PROTOCOL

if TYPE_CHECKING:
    from lorelog.core.errors import LorelogError


def me() -> dict[str, Any]:
    """Return who answers."""
    return {"pid": os.getpid(), "version": VERSION, "protocol": PROTOCOL}


def success(result: dict[str, Any]) -> bytes:
    """Return the line that ends an operation well."""
    return _line({"ok": True, "result": result, "daemon": me()})


def refusal(error: LorelogError, *, leaving: bool = False) -> bytes:
    """Return the line that ends an operation badly; `leaving`: another daemon could do it."""
    said: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    answer: dict[str, Any] = {"ok": False, "error": said, "daemon": me()}
    return _line({**answer, "leaving": True} if leaving else answer)


def too_many() -> DaemonError:
    """Return what is said when too many ask at once."""
    return DaemonError("the daemon is busy: too many connections", hint="try again, or use --warm off")


def send_off(connection: socket.socket, answer: bytes) -> None:
    """Say one thing and hang up, waiting for nothing."""
    with suppress(OSError):
        connection.setblocking(False)
        connection.send(answer)
    connection.close()


def is_own(connection: socket.socket) -> bool:
    """Say whether the process at the other end is this user's; where that cannot be told, the folder's mode guards it."""
    if not sys.platform.startswith("linux"):
        return True
    with suppress(OSError):
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return bool(user == os.geteuid())
    return False


def _line(answer: dict[str, Any]) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(answer) + b"\n"
    except (UnicodeEncodeError, TypeError):  # half a surrogate: a path that is not UTF-8
        return json.dumps(answer, default=str).encode() + b"\n"
