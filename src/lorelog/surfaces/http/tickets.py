"""Tickets by which a browser logs in, and the record of the server that runs for a home.

A ticket is in the URL that `lorelog ui` opens. It works once, for one port, for a few minutes: the server deletes its file
when it is used. The file is in `run/` of the home, which only its owner can enter, so nothing secret is sent to a port before
the server there has proven to be ours by deleting the file.

The token that programs must send is made once per home, in a file beside them that only its owner can read. Clients of the same user
read the file; nobody has to copy a token into a command. Neither is part of a backup.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from lorelog.core.atomic_file import OpenDescriptor, write_atomic
from lorelog.core.errors import ConfigError
from lorelog.core.options import HttpOptions
from lorelog.core.processes import acquire_file_lock, try_file_lock
from lorelog.light.daemon_connection import DaemonAddress, create_folders

TICKET_S = 300.0
"""Seconds in which a ticket must be used: a person may have to copy the address by hand."""
_MAX_AGENT_BYTES = 200
_FOLDER = "tickets"
_RECORD = "http.server"


def issue_ticket(home: str, port: int, agent: str = "") -> str:
    """Return a new ticket for the server of this home at a port. Unused tickets of earlier times are deleted.

    `agent` is the name of the agent whose shell asked for it; empty for a person.
    """
    create_folders(DaemonAddress(home))
    folder = Path(DaemonAddress(home).run, _FOLDER)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > TICKET_S:
                path.unlink()
    ticket = secrets.token_urlsafe(24)
    with OpenDescriptor(
        os.open(_ticket_path(home, ticket, port), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    ) as descriptor:
        os.write(descriptor, agent.encode("utf-8", "replace"))
    return ticket


def redeem_ticket(home: str, ticket: str, port: int) -> str | None:
    """Use a ticket and return the agent that it was issued to, '' for a person.

    Return None if it is unknown, too old, for another port, or was used before.
    """
    path = _ticket_path(home, ticket, port)
    try:
        with OpenDescriptor(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as descriptor:
            age = time.time() - os.fstat(descriptor).st_mtime
            agent = os.read(descriptor, _MAX_AGENT_BYTES).decode("utf-8", "replace")
        Path(path).unlink()  # (of two attempts at the same time, one succeeds)
    except OSError:
        return None
    return agent if age <= TICKET_S else None


@contextmanager
def announce_server(home: str, url: str, port: int) -> Iterator[None]:
    """Record the running server, so that `lorelog ui` finds it. A second server of a home is not recorded."""
    create_folders(DaemonAddress(home))
    with OpenDescriptor(
        os.open(f"{DaemonAddress(home).run}/{_RECORD}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    ) as descriptor:
        if try_file_lock(descriptor):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"url": url, "port": port}).encode(), 0)
        yield


def find_server(home: str) -> tuple[str, int] | None:
    """Return the address and the port of the recorded server; None if none runs. The lock tells whether it does."""
    try:
        descriptor = os.open(f"{DaemonAddress(home).run}/{_RECORD}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with OpenDescriptor(descriptor), suppress(ValueError, KeyError, TypeError):
        if not try_file_lock(descriptor, shared=True):
            record: dict[str, Any] = json.loads(os.read(descriptor, 4096))
            return str(record["url"]), int(record["port"])
    return None


def _ticket_path(home: str, ticket: str, port: int) -> str:
    digest = hashlib.sha256(f"{port}\0{ticket}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{DaemonAddress(home).run}/{_FOLDER}/{digest}"


_TOKEN_BYTES = 32
_MAX_FILE_BYTES = 1000
_LOCK_S = 5.0


def token_path(home: str) -> str:
    return f"{DaemonAddress(home).run}/http.token"


def with_token(options: HttpOptions, home: str) -> HttpOptions:
    """Return the options with a token: the configured one, or else the home's own. None if the options require none."""
    if options.token or not options.require_token:
        return options
    return replace(options, token=home_token(home))


def home_token(home: str) -> str:
    """Return the home's token, and create it if there is none. A token that others could read is replaced."""
    create_folders(DaemonAddress(home))
    path = token_path(home)
    try:
        return _read(path) or _create(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="make it writable, or set http.token to env:NAME"
        ) from error


def _read(path: str) -> str:
    """Return the token in a private file of this user; '' if there is none, or if it may be known to others."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with OpenDescriptor(descriptor):
        status = os.fstat(descriptor)
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        text = os.read(descriptor, _MAX_FILE_BYTES).decode("ascii", "replace").strip() if private else ""
    return text if all("!" <= letter <= "~" for letter in text) else ""


def _create(path: str) -> str:
    """Write a new token, unless another process did so meanwhile; return the one that is there."""
    with OpenDescriptor(os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        acquire_file_lock(folder, _LOCK_S)
        token = _read(path)
        if not token:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            write_atomic(path, f"{token}\n".encode("ascii"))
    return token
