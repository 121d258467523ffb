"""The daemon's files and socket: paths that belong to this user, the wire protocol, calls of hooks, and whether the daemon answers.

All files are in `<home>/run`, which only its owner can enter. A socket path is limited to about 100 bytes, so a home with
a longer path has its socket in a directory under the runtime or temporary directory, named by a hash of the home. That
directory is shared with other users, so owner and mode are checked before use.

JSON objects, one per line:

    request    {"protocol", "version", "op", "arguments", "caller": {…}, "progress"}
    caller     {"directory", "environment", "own", "names_files", "agent", "umask", "zone", "wants_value", "code"}
    responses  {"progress": {"stage", "done", "total"}} or {"working": seconds}, any number of times, then one of
               {"ok": true, "result": {…}, "daemon": {"pid", "version", "protocol"}}
               {"ok": false, "error": {"code", "message", "hint"}, "daemon": {…}}

`working` is sent every two seconds, so that a client can tell a slow daemon from a dead one. It is also sent just before
a write begins: a client that loses the connection after that does not know whether the write happened and must not repeat it.

A hook's calls never block: a full queue is reported at once. `wake` sends one line and reads nothing; `ask_within` has one
deadline for the whole call. Neither starts a daemon.

A daemon that is stopped or hangs still accepts connections, so every command would wait for it. The first command that
gets no answer to a ping writes a marker. The following ones work without the daemon until it answers again, was replaced
or has ended. A daemon that works again deletes the marker itself, within a second.

Uses `_socket` rather than `socket`: importing the latter took 6 ms, a tenth of a warm command.
"""

from __future__ import annotations

import os
import sys
import time
from _socket import AF_UNIX, SOCK_STREAM
from _socket import socket as bare_socket
from _thread import allocate_lock

from lorelog.core import VERSION
from lorelog.core.errors import DaemonError, DaemonNotRunning, DaemonUnresponsive, LorelogError
from lorelog.core.paths import home_folder
from lorelog.light.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

PROTOCOL = 3
"""Incremented for incompatible changes. Client and daemon refuse to work with another number."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
MAX_WAIT_S = 0.15
"""Seconds that a hook waits for the daemon's answer. An agent waits with it; under load, half of the answers take 50 ms."""
HEARTBEAT_S = 2.0
SILENCE_S = 15.0
"""Seconds without any message after which a client considers the daemon dead."""
_ONCE = (
    # generated: once (scripts/generate_reference.py)
    "artifact.create artifact.decision artifact.review artifact.revision artifact.verification "
    "backup.restore guard.change memory.add memory.add_batch memory.compact memory.edit memory.forget "
    "memory.supersede review.decide review.run session.handoff task.add_evidence task.finish "
    "task.progress task.run_finish task.run_start task.start "
    # end: once
).split()
NON_IDEMPOTENT = frozenset((*_ONCE, *(name.removeprefix("memory.") for name in _ONCE)))
"""Operations that must not be repeated when the reply is lost, under all their names. Repeating any other is harmless."""
FORWARDED_VARIABLES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "OPENCLAW_STATE_DIR"),
    *("GEMINI_CLI_HOME", "QWEN_HOME", "COPILOT_HOME", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL", "COPILOT_OFFLINE"),
    *("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "GOOGLE_GENAI_USE_VERTEXAI"),
)
"""Variables defined by other programs that lorelog reads."""
_PLACE_VARIABLES = ("HOME", "PATH", "XDG_CONFIG_HOME", "OPENCLAW_CONFIG_PATH")
"""Variables that say where programs of this user are; they are sent with the operation that looks for these."""
_CONNECT_S = 2.0
PING_AFTER_S = 0.5
"""Seconds without an answer after which the daemon is pinged."""
PING_S = 1.0
"""Seconds that a daemon has to answer a ping. The thread that answers does nothing else that takes long."""
START_S = 8.0
"""A daemon younger than this may still load modules before it answers."""
_PROBE_INTERVAL_S = 30.0
"""How often a marked daemon is pinged again, by one of the commands."""
_PROBE_S = 0.05
_MAX_MARKER_BYTES = 200
PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Folder of this program's modules."""
_UMASK_LOCK = allocate_lock()
MAX_SOCKET_PATH_BYTES = 100
"""The limit is 103 on macOS and 107 on Linux."""
_PRIVATE_MODE = 0o700
_OTHERS_MASK = 0o077
_TYPE_MASK = 0o170000
_TYPE_DIRECTORY = 0o040000
_TYPE_SOCKET = 0o140000


class DaemonAddress:
    """The paths of one home's daemon."""

    __slots__ = ("folder", "home", "lock", "log", "pid", "run", "socket", "start_marker", "unresponsive_marker")

    def __init__(self, home: str) -> None:
        self.home = home
        self.run = run = f"{home}/run"
        self.lock = f"{run}/daemon.lock"
        self.pid = f"{run}/daemon.pid"
        self.log = f"{home}/logs/daemon.log"
        self.start_marker = f"{run}/start.tried"
        """File written by a detached start, with the daemon's error output. The daemon deletes it once it listens."""
        self.unresponsive_marker = f"{run}/daemon.unresponsive"
        """File that names a daemon which does not answer, so that commands do not wait for it."""
        self.socket = f"{run}/daemon.sock"
        if len(os.fsencode(self.socket)) >= MAX_SOCKET_PATH_BYTES:
            self.socket = f"{_short_socket_folder(home)}/daemon.sock"
        self.folder = self.socket.rpartition("/")[0]


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
        try:
            status = os.lstat(folder)
            is_own = status.st_uid == os.geteuid() and status.st_mode & _TYPE_MASK == _TYPE_DIRECTORY
            if is_own and status.st_mode & _OTHERS_MASK:
                os.chmod(folder, _PRIVATE_MODE)
                status = os.lstat(folder)
        except OSError as error:
            raise DaemonError(f"cannot change the mode of {folder}: {error.strerror}") from error
        _check_folder(folder, status)


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
    if status.st_mode & _TYPE_MASK != _TYPE_SOCKET:
        raise DaemonError(f"{address.socket} is not a socket", hint="delete it")
    _check_owner(address.socket, status)
    return True


def _check_folder(folder: str, status: os.stat_result) -> None:
    if status.st_mode & _TYPE_MASK != _TYPE_DIRECTORY:
        raise DaemonError(f"{folder} is not a directory", hint="delete it, or use --daemon off")
    _check_owner(folder, status)
    if status.st_mode & _OTHERS_MASK:
        raise DaemonError(f"{folder} is accessible to other users", hint=f"chmod 700 {folder}")


def _check_owner(path: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise DaemonError(f"{path} belongs to user {status.st_uid}, not to you", hint="delete it, or use --daemon off")


def _short_socket_folder(home: str) -> str:
    from hashlib import sha256

    name = f"lorelog-{os.geteuid()}-{sha256(os.fsencode(home)).hexdigest()[:16]}"
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP"):
        parent = os.environ.get(variable, "")
        if (
            parent.startswith("/")
            and len(os.fsencode(f"{parent}/{name}/daemon.sock")) < MAX_SOCKET_PATH_BYTES
            and os.path.isdir(parent)
        ):
            return f"{parent}/{name}"
    return f"/tmp/{name}"  # noqa: S108  (owner and mode are checked before use)


def connect(address: DaemonAddress) -> bare_socket:
    """Return a connection to the daemon. Raise DaemonNotRunning if none listens, DaemonUnresponsive if it accepts none."""
    try:
        connection = open_connection(address, _CONNECT_S)
    except (TimeoutError, BlockingIOError) as error:
        raise DaemonUnresponsive("the daemon accepts no connection", hint="lorelog daemon restart") from error
    except OSError as error:
        raise DaemonError(f"cannot connect to the daemon: {error.strerror or error}") from error
    connection.settimeout(SILENCE_S)
    return connection


def is_listening(address: DaemonAddress) -> bool:
    try:
        connect(address).close()
    except DaemonNotRunning:
        return False
    return True


def caller_fields(
    address: DaemonAddress, directory: str | None, environment: Mapping[str, str] | None, op: str = ""
) -> dict[str, Any]:
    """Return the `caller` field of a request. `directory` and `environment` default to those of this process."""
    own = os.environ if environment is None else environment
    try:
        directory = os.getcwd() if directory is None else directory
    except OSError:
        raise DaemonError("the current directory was deleted", hint="change to a directory that exists") from None
    forwarded = forwarded_environment(own, address.home)
    if op == "session.hosts":  # hosts are found, and what is installed in them compared, as this process would
        forwarded |= {name: own[name] for name in _PLACE_VARIABLES if name in own} | {"_": os.path.abspath(sys.argv[0])}
        if not own.get("LORELOG_HOME"):
            del forwarded["LORELOG_HOME"]
    zone = local_zone()
    return {"directory": directory, "environment": forwarded, "umask": _umask(), "zone": zone, "code": PACKAGE_FOLDER}


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


def open_connection(address: DaemonAddress, timeout_s: float) -> bare_socket:
    """Return a connection, with 0 a non-blocking one. Raise DaemonNotRunning if none listens, OSError if its queue is full."""
    if not check_socket(address):
        raise DaemonNotRunning("the daemon is not running", hint="lorelog daemon start")
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


def forwarded_environment(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the variables of `environment` that lorelog reads, with LORELOG_HOME set to `home`."""
    from lorelog.core.caller import AGENT_MARKERS  # a hook that only wakes the daemon sends no variables

    forwarded = {
        name: value
        for name, value in environment.items()
        if name.startswith("LORELOG_")
        or name.endswith("_API_KEY")
        or name in FORWARDED_VARIABLES
        or (name in AGENT_MARKERS and value)
    }
    forwarded["LORELOG_HOME"] = home
    return forwarded


def local_zone() -> list[int]:
    """Return this process's time zone as three offsets: standard time, daylight saving time and now."""
    return [time.timezone, time.altzone, time.localtime().tm_gmtoff]


def version_key(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, for comparison."""
    numbers: list[int] = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits[:9]))
    return tuple(numbers)


def is_marked_unresponsive(address: DaemonAddress, *, probe: bool = True) -> bool:
    """Return whether the running daemon is marked as unresponsive. Delete the marker of any other daemon.

    With `probe`, ping it briefly if no command has done so for half a minute.
    """
    marker = address.unresponsive_marker
    try:
        with open(marker, encoding="ascii", errors="replace") as file:
            text = file.read(_MAX_MARKER_BYTES)
        age_s = time.time() - os.stat(marker).st_mtime
    except OSError:
        return False
    if text != _identity(address) or read_lock_holder(address) is None:
        clear_marker(address)
        return False
    if not probe or 0 <= age_s < _PROBE_INTERVAL_S:
        return True
    try:
        os.utime(marker)
    except OSError:
        return False  # the daemon has just deleted it
    if answers_ping(address, _PROBE_S):
        clear_marker(address)
        return False
    return True


def mark_unresponsive(address: DaemonAddress) -> DaemonUnresponsive:
    """Write the marker of the running daemon, and return the error. Its `first` is False if the marker was there."""
    identity = _identity(address)
    first = not is_marked_unresponsive(address, probe=False)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        descriptor = os.open(address.unresponsive_marker, flags, 0o600)
        try:
            os.write(descriptor, identity.encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError:
        pass  # on a full disk the next command waits too
    return unresponsive_error(address, first=first)


def unresponsive_error(address: DaemonAddress, *, first: bool = False) -> DaemonUnresponsive:
    """Return the error about a daemon that does not answer; `first`: not reported before."""
    holder = read_lock_holder(address) or {}
    error = DaemonUnresponsive(
        f"the daemon does not answer (process {holder.get('pid') or 'unknown'})",
        hint="'lorelog daemon restart' replaces it; until then commands work without it",
    )
    error.first = first
    return error


def clear_marker(address: DaemonAddress) -> None:
    """Delete the marker, if there is one."""
    try:
        os.unlink(address.unresponsive_marker)
    except OSError:
        pass


def answers_ping(address: DaemonAddress, timeout_s: float) -> bool:
    """Return False if a daemon accepts no connection, or says nothing for `timeout_s`. A daemon that has ended did not hang."""
    try:
        connection = open_connection(address, 0.0)
    except DaemonError:
        return True
    except OSError:
        return False  # its queue is full
    try:
        connection.settimeout(timeout_s)
        connection.sendall(request_line("daemon.status", None, caller_fields(address, "/", {})))
        connection.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        connection.close()
    return True


def seems_alive(address: DaemonAddress) -> bool:
    """Return whether a daemon answers a ping, or is busy: its process used the CPU meanwhile, or waits for it."""
    from lorelog.core.processes import process_activity

    pid = int((read_lock_holder(address) or {}).get("pid") or 0)
    before = process_activity(pid)
    if answers_ping(address, ping_timeout(address)):
        return True
    state, used = process_activity(pid)
    return state in ("R", "D") or (state not in ("", "T", "t", "Z") and used != before[1])


def ping_timeout(address: DaemonAddress) -> float:
    """Return how many seconds the daemon has to answer a ping: more while it starts."""
    try:
        age_s = time.time() - os.stat(address.pid).st_mtime
    except OSError:
        return PING_S
    return max(PING_S, START_S - age_s) if age_s >= 0 else PING_S


def _identity(address: DaemonAddress) -> str:
    """Return a text that names the running daemon: its socket was made when it started."""
    try:
        status = os.lstat(address.socket)
    except OSError:
        return "none\n"
    return f"{status.st_ino} {status.st_ctime_ns}\n"


def read_lock_holder(address: DaemonAddress) -> dict[str, Any] | None:
    """Return the entry of the running daemon in its lock file (pid, version, leaving), or None if none is running.

    The lock ends with the process.
    """
    from lorelog.core.processes import try_file_lock

    try:
        descriptor = os.open(address.lock, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        if try_file_lock(descriptor, shared=True):
            return None
        os.lseek(descriptor, 0, os.SEEK_SET)
        holder = loads(os.read(descriptor, 1000))
    except OSError:
        return None
    except ValueError:
        return {}
    finally:
        os.close(descriptor)
    return holder if isinstance(holder, dict) else {}


def wake(address: DaemonAddress) -> bool:
    """Tell the daemon that the spool has a new event. Return whether a daemon runs, even if it is too busy to read this.

    Raise DaemonError if the socket belongs to another user.
    """
    try:
        connection = open_connection(address, 0.0)
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
    deadline = time.monotonic() + timeout_s
    if is_marked_unresponsive(address, probe=False):
        raise unresponsive_error(address)
    line = request_line(op, arguments, caller_fields(address, directory, None))
    try:
        connection = open_connection(address, 0.0)
    except OSError as error:
        raise DaemonError(f"cannot connect to the daemon: {error}") from error

    def receive() -> bytes:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        return connection.recv(262_144)

    try:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        connection.sendall(line)
        for response in read_responses(receive):
            if response.get("ok"):
                return response.get("result") or {}
            if "ok" in response:
                raise LorelogError(str(response["error"]["message"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DaemonError(f"the daemon did not respond in time: {error}") from error
    finally:
        connection.close()
    raise DaemonError("the daemon closed the connection")


def read_responses(receive: Callable[[], bytes]) -> Iterator[dict[str, Any]]:
    """Yield the responses in what `receive` returns, until that is empty. Raise ValueError or TypeError for others."""
    buffer = bytearray()
    while received := receive():
        buffer += received
        if b"\n" in received:
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                response = loads(line)
                if not isinstance(response, dict):
                    raise TypeError("the response is not a JSON object")
                yield response
