"""Where the daemon of a home is found, and whether what is found there may be trusted.

Everything stands in `<home>/run`, which only its owner may enter. A socket's path has room for about a hundred bytes, so a
home with a longer one has its socket in a directory of this user under the runtime or temporary directory, named by a
hash of the home. That place is shared with others, so owner and mode are looked at before anything there is used.

Only `os` is imported: this is on the way of every warm command.
"""

from __future__ import annotations

import os

from lorelog.core.errors import DaemonError
from lorelog.core.paths import home_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 100
"""Bytes of a socket's path; macOS takes 103, Linux 107."""
_PRIVATE = 0o700
_OTHERS = 0o077
_KIND = 0o170000
_DIRECTORY = 0o040000
_SOCKET = 0o140000


class Address:
    """The paths of one home's daemon."""

    __slots__ = ("folder", "home", "lock", "log", "pid", "socket")

    def __init__(self, home: str) -> None:
        self.home = home
        run = f"{home}/run"
        self.lock = f"{run}/daemon.lock"
        self.pid = f"{run}/daemon.pid"
        self.log = f"{home}/logs/daemon.log"
        self.socket = f"{run}/daemon.sock"
        if len(os.fsencode(self.socket)) >= LONGEST:
            self.socket = f"{_short_folder(home)}/daemon.sock"
        self.folder = self.socket.rpartition("/")[0]
        """Where the socket stands."""

    @property
    def tried(self) -> str:
        """What a start that nobody waits for leaves behind until the daemon listens, with what it said."""
        return f"{self.home}/run/start.tried"

    @property
    def run(self) -> str:
        """Where lock and pid file stand."""
        return f"{self.home}/run"


def find_address(home: str | None = None, environment: Mapping[str, str] | None = None) -> Address:
    """Return the address of `home`, of LORELOG_HOME or of ~/.lorelog, in this order."""
    return Address(home_folder(home or (os.environ if environment is None else environment).get("LORELOG_HOME", "")))


def found_folders(address: Address) -> None:
    """Make the directories of a daemon, for their owner only. Raise DaemonError when they are somebody else's."""
    # One that goes by while its home is being deleted must not bring it back half: makedirs is for the first start only.
    for folder in (address.home, address.run, address.folder):
        try:
            os.makedirs(folder, _PRIVATE, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise DaemonError(
                f"{folder} cannot be made: {error.strerror}", hint="make its parent writable, or use --warm off"
            ) from error
    for folder in {address.run, address.folder}:
        _make_private(folder)


def check_socket(address: Address) -> bool:
    """Return whether there is a socket that may be trusted; raise DaemonError when it is somebody else's."""
    try:
        folder = os.lstat(address.folder)
        found = os.lstat(address.socket)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DaemonError(f"{address.socket} cannot be looked at: {error.strerror}") from error
    _check_folder(address.folder, folder)
    if found.st_mode & _KIND != _SOCKET:
        raise DaemonError(f"{address.socket} is not a socket", hint="delete it")
    if found.st_uid != os.geteuid():
        raise _foreign(address.socket, found)
    return True


def _make_private(folder: str) -> None:
    try:
        found = os.lstat(folder)
        if found.st_uid == os.geteuid() and found.st_mode & _KIND == _DIRECTORY and found.st_mode & _OTHERS:
            os.chmod(folder, _PRIVATE)  # noqa: PTH101
            found = os.lstat(folder)
    except OSError as error:
        raise DaemonError(f"{folder} cannot be made private: {error.strerror}") from error
    _check_folder(folder, found)


def _check_folder(folder: str, found: os.stat_result) -> None:
    if found.st_mode & _KIND != _DIRECTORY:
        raise DaemonError(f"{folder} is not a directory", hint="delete it, or use --warm off")
    if found.st_uid != os.geteuid():
        raise _foreign(folder, found)
    if found.st_mode & _OTHERS:
        raise DaemonError(f"{folder} can be entered by others", hint=f"chmod 700 {folder}")


def _foreign(path: str, found: os.stat_result) -> DaemonError:
    return DaemonError(
        f"{path} belongs to user {found.st_uid}, not to you", hint="delete it if you may, or use --warm off"
    )


def _short_folder(home: str) -> str:
    from hashlib import sha256

    name = f"lorelog-{os.geteuid()}-{sha256(os.fsencode(home)).hexdigest()[:16]}"
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP"):
        place = os.environ.get(variable, "")
        if place.startswith("/") and len(os.fsencode(f"{place}/{name}/daemon.sock")) < LONGEST and os.path.isdir(place):  # noqa: PTH112
            return f"{place}/{name}"
    return f"/tmp/{name}"  # noqa: S108  (its owner and mode are checked)
