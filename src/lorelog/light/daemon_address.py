"""Paths of a home's daemon, and the checks that they belong to this user.

All files are in `<home>/run`, which only its owner can enter. A socket path is limited to about 100 bytes, so a home with
a longer path has its socket in a directory under the runtime or temporary directory, named by a hash of the home. That
directory is shared with other users, so owner and mode are checked before use.

Without Unix sockets (Windows), the socket's path is a file with a port and a token (`daemon_connection.py`). Owner and mode are checked where
the system has them.

Imports only `os` and `_socket`, because every warm command loads this module.
"""

from __future__ import annotations

import _socket
import os
import sys

from lorelog.core.errors import DaemonError
from lorelog.core.paths import home_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SOCKET_PATH_BYTES = 100
"""The limit is 103 on macOS and 107 on Linux."""
_PRIVATE_MODE = 0o700
_OTHERS_MASK = 0o077
_TYPE_MASK = 0o170000
_TYPE_DIRECTORY = 0o040000
_TYPE_SOCKET = 0o140000
_TYPE_FILE = 0o100000
AF_UNIX: int = getattr(_socket, "AF_UNIX", -1)
"""The family of Unix sockets; -1 on a system that has none."""


class DaemonAddress:
    """The paths of one home's daemon."""

    __slots__ = ("folder", "home", "lock", "log", "loopback", "pid", "socket")

    def __init__(self, home: str, *, loopback: bool = AF_UNIX < 0) -> None:
        self.home = home
        self.loopback = loopback
        """Whether the daemon listens on a port, because the system has no Unix sockets."""
        run = f"{home}/run"
        self.lock = f"{run}/daemon.lock"
        self.pid = f"{run}/daemon.pid"
        self.log = f"{home}/logs/daemon.log"
        self.socket = f"{run}/daemon.sock"
        if not loopback and len(os.fsencode(self.socket)) >= MAX_SOCKET_PATH_BYTES:
            self.socket = f"{_short_socket_folder(home)}/daemon.sock"
        self.folder = self.socket.rpartition("/")[0]
        """Directory of the socket."""

    @property
    def start_marker(self) -> str:
        """File written by a detached start, with the daemon's error output. The daemon deletes it once it listens."""
        return f"{self.home}/run/start.tried"

    @property
    def unresponsive_marker(self) -> str:
        """File that names a daemon which does not answer, so that commands do not wait for it."""
        return f"{self.home}/run/daemon.unresponsive"

    @property
    def run(self) -> str:
        """Directory of the lock and pid files."""
        return f"{self.home}/run"


def find_address(home: str | None = None, environment: Mapping[str, str] | None = None) -> DaemonAddress:
    """Return the address for `home`, or else for LORELOG_HOME, or else for ~/.lorelog."""
    return DaemonAddress(
        home_folder(home or (os.environ if environment is None else environment).get("LORELOG_HOME", ""))
    )


def create_folders(address: DaemonAddress) -> None:
    """Create the daemon's directories with mode 700. Raise DaemonError if one belongs to another user."""
    for folder in (address.home, address.run, address.folder):
        try:
            os.makedirs(folder, _PRIVATE_MODE, exist_ok=True)
        except OSError as error:
            raise DaemonError(
                f"cannot create {folder}: {error.strerror}",
                hint="make its parent writable, or set LORELOG_HOME to another folder",
            ) from error
    for folder in {address.run, address.folder}:
        _make_private(folder)


def check_socket(address: DaemonAddress) -> bool:
    """Return whether a socket owned by this user exists. Raise DaemonError if it belongs to another user."""
    try:
        folder_status = os.lstat(address.folder)
        status = os.lstat(address.socket)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DaemonError(f"cannot read {address.socket}: {error.strerror}") from error
    _check_folder(address.folder, folder_status)
    if status.st_mode & _TYPE_MASK != (_TYPE_FILE if address.loopback else _TYPE_SOCKET):
        raise DaemonError(f"{address.socket} is not a socket", hint="delete it")
    if not _is_own(status):
        raise _foreign_owner_error(address.socket, status)
    return True


def _make_private(folder: str) -> None:
    try:
        status = os.lstat(folder)
        if _is_own(status) and status.st_mode & _TYPE_MASK == _TYPE_DIRECTORY and status.st_mode & _OTHERS_MASK:
            os.chmod(folder, _PRIVATE_MODE)
            status = os.lstat(folder)
    except OSError as error:
        raise DaemonError(f"cannot change the mode of {folder}: {error.strerror}") from error
    _check_folder(folder, status)


def _check_folder(folder: str, status: os.stat_result) -> None:
    if status.st_mode & _TYPE_MASK != _TYPE_DIRECTORY:
        raise DaemonError(f"{folder} is not a directory", hint="delete it, or use --daemon off")
    if not _is_own(status):
        raise _foreign_owner_error(folder, status)
    if status.st_mode & _OTHERS_MASK and sys.platform != "win32":
        raise DaemonError(f"{folder} is accessible to other users", hint=f"chmod 700 {folder}")


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == _user_id()


def _user_id() -> int:
    """Return the user's id. Windows has neither ids nor modes: a profile directory is private by its access list."""
    if sys.platform == "win32":
        return 0  # of every file there
    else:  # noqa: RET505  (type checkers pass over a branch of another system)
        return os.geteuid()


def _foreign_owner_error(path: str, status: os.stat_result) -> DaemonError:
    return DaemonError(f"{path} belongs to user {status.st_uid}, not to you", hint="delete it, or use --daemon off")


def _short_socket_folder(home: str) -> str:
    from hashlib import sha256

    name = f"lorelog-{_user_id()}-{sha256(os.fsencode(home)).hexdigest()[:16]}"
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP"):
        parent = os.environ.get(variable, "")
        if (
            parent.startswith("/")
            and len(os.fsencode(f"{parent}/{name}/daemon.sock")) < MAX_SOCKET_PATH_BYTES
            and os.path.isdir(parent)
        ):
            return f"{parent}/{name}"
    return f"/tmp/{name}"  # noqa: S108  (owner and mode are checked before use)
