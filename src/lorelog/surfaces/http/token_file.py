"""The token that HTTP clients must send: made once per home, in a file that only its owner can read.

Clients of the same user read the file; nobody has to copy a token into a command. The file is in `run/`, beside the
daemon's socket: neither is part of a backup.
"""

from __future__ import annotations

import os
import secrets
import stat

from lorelog.core.atomic_file import write_atomic
from lorelog.core.dataclasses import replace
from lorelog.core.errors import ConfigError
from lorelog.core.options import HttpOptions
from lorelog.core.processes import acquire_file_lock
from lorelog.surfaces.daemon_client.address import DaemonAddress, create_folders

_TOKEN_BYTES = 32
_MAX_FILE_BYTES = 1000
_LOCK_S = 5.0


def token_path(home: str) -> str:
    """Return the path of a home's token file."""
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
    try:
        status = os.fstat(descriptor)
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        text = os.read(descriptor, _MAX_FILE_BYTES).decode("ascii", "replace").strip() if private else ""
    finally:
        os.close(descriptor)
    return text if all("!" <= letter <= "~" for letter in text) else ""


def _create(path: str) -> str:
    """Write a new token, unless another process did so meanwhile; return the one that is there."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    try:
        acquire_file_lock(folder, _LOCK_S)
        token = _read(path)
        if not token:
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            write_atomic(path, f"{token}\n".encode("ascii"))
    finally:
        os.close(folder)
    return token
