"""Start and stop a home's daemon.

A daemon holds `daemon.lock` for as long as it lives, so the lock is released even by kill -9. A process that wants to start
one takes `start.lock` first: of twenty that try at once, one starts the daemon and all use it. The daemon reports through
its standard error: `ready`, or why it could not start.
"""

from __future__ import annotations

import os
import select
import sys
import time

from lorelog.core.errors import DaemonError, DaemonNotRunning
from lorelog.core.processes import FileLock, acquire_file_lock, spawn_detached
from lorelog.light.daemon_client import call_daemon
from lorelog.light.daemon_connection import DaemonAddress, create_folders, is_listening, read_lock_holder, wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import Any
else:
    import _signal as signal  # a hook that finds no daemon starts one, and `signal` imports `enum`

DAEMON_MODULE = "lorelog.surfaces.daemon.process"
READY = b"ready\n"
_START_S = 10.0
_STOP_S = 6.0
"""A daemon exits within five seconds of being told to stop."""
_FINISH_S = 1.0
"""How long to wait for a daemon that finishes its work before it stops."""
_POLL_S = 0.01
LOCK_DESCRIPTOR = 9
"""Descriptor by which a detached process inherits the lock of its starter. A daemon closes it when it listens."""
_RETRY_AFTER_S = 60.0
_KEPT_PYTHON_VARIABLES = (
    "PYTHONHOME",
    "PYTHONPLATLIBDIR",
    "PYTHONNOUSERSITE",
    "PYTHONUSERBASE",
    "PYTHONUTF8",
    "PYTHONTZPATH",
)
"""Variables that Python may need to find its packages and decode file names."""


def start(address: DaemonAddress, *, force: bool = False) -> None:
    """Start a daemon unless one runs, and return when it listens. Raise DaemonError if it does not start.

    A start that failed less than a minute ago is not repeated, unless `force`.
    """
    failure = "" if force else last_failure(address)
    if failure:
        raise DaemonError(failure, hint="'lorelog daemon start' tries again at once")
    try:
        _start(address)
    except DaemonError as error:
        try:  # so that the commands of the next minute do not all wait for another start
            with open(f"{address.run}/start.failed", "w", encoding="utf-8") as file:
                file.write(f"{time.monotonic():.3f} {error.message[:500]}")
        except OSError:
            pass
        raise
    except OSError as error:
        raise DaemonError(f"cannot start the daemon: {error}") from error
    try:
        os.unlink(f"{address.run}/start.failed")
    except OSError:
        pass


def mark_announced(address: DaemonAddress) -> bool:
    """Record that the user knows of this home's daemon, and return whether this is the first time."""
    try:
        os.close(os.open(f"{address.run}/announced", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def start_detached(address: DaemonAddress) -> bool:
    """Begin to start a daemon without waiting, and return whether a start was begun. For hooks; never raises.

    The host may kill a hook and all its children a moment later, so the daemon gets a session of its own. It inherits
    start.lock: of fifty hooks that try at once, one starts it. A failed start is not repeated for a minute.
    """
    try:
        if last_failure(address) or _read_note(address.start_marker)[0]:
            return False
        create_folders(address)
        with FileLock(f"{address.run}/start.lock", BlockingIOError()) as lock:
            if wake(address):
                return False
            holder = read_lock_holder(address)
            if holder is not None and not holder.get("leaving"):
                return False  # a daemon lives but does not listen: no other can take its lock
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            marker = os.open(address.start_marker, flags, 0o600)
            try:
                os.write(marker, f"{time.monotonic():.3f} ".encode())
                _spawn_with_lock(["-m", DAEMON_MODULE, "--home", address.home], marker, lock)
            finally:
                os.close(marker)
    except (DaemonError, OSError):
        return False
    return True


def flush_detached(address: DaemonAddress) -> bool:
    """Begin to process the spool without a daemon, and return whether that was begun. For hooks; never raises."""
    try:
        create_folders(address)
        with FileLock(f"{address.run}/flush.lock", BlockingIOError()) as lock, open(os.devnull, "wb") as null:
            _spawn_with_lock(["-m", "lorelog", "hosts", "flush"], null.fileno(), lock)
    except (DaemonError, OSError):
        return False
    return True


def stop(address: DaemonAddress) -> dict[str, Any] | None:
    """Stop the daemon, by force if it does not respond. Return its entry in the lock file, or None if none was running.

    A daemon that is being started is waited for and stopped, and none is started meanwhile: an idle one that hands over
    to another ends without it.
    """
    try:
        with FileLock(f"{address.run}/start.lock", TimeoutError(), _START_S):
            return _stop(address)
    except OSError:  # the folder does not exist or cannot be written, or a start hangs
        return _stop(address)


def _stop(address: DaemonAddress) -> dict[str, Any] | None:
    holder = read_lock_holder(address)
    if holder is None:
        return None
    try:
        call_daemon("daemon.stop", {}, directory="/", home=address.home)
    except DaemonError:
        _kill(holder, signal.SIGTERM)
        _kill(holder, signal.SIGCONT)  # a stopped process can then finish its writes and end by itself
    if _wait_for_exit(address, holder, _STOP_S):
        return holder
    _kill(holder, signal.SIGKILL)
    if _wait_for_exit(address, holder, _STOP_S):
        return holder
    raise DaemonError(f"process {holder.get('pid')} does not exit", hint=f"kill -9 {holder.get('pid')}")


def read_status(address: DaemonAddress) -> dict[str, Any]:
    """Return the daemon's status, or that none is running. Raise DaemonError if one runs but does not respond."""
    try:
        return {"running": True, **call_daemon("daemon.status", {}, directory="/", home=address.home)}
    except DaemonNotRunning:
        holder = read_lock_holder(address)
        if holder is None:
            return {"running": False, "home": address.home}
        if holder.get("leaving"):
            return {"running": False, "home": address.home, "leaving": holder["leaving"], "pid": holder.get("pid")}
        raise


def spawn_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a daemon started from here, without variables meant for one command.

    PYTHONPATH keeps only the directory of lorelog itself: others could give the daemon a project's modules.
    """
    package_parent = os.path.realpath(__file__).removesuffix("/lorelog/light/daemon_control.py")
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("PYTHON") or name in _KEPT_PYTHON_VARIABLES
    }
    kept.pop("LORELOG_IDENTITY_PASSPHRASE", None)  # each client sends its own
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if any(os.path.isabs(path) and os.path.realpath(path) == package_parent for path in paths):
        kept["PYTHONPATH"] = package_parent
    return {"OPENBLAS_NUM_THREADS": "1", **kept}


def last_failure(address: DaemonAddress) -> str:
    """Return why the last start failed if that was less than a minute ago, or ''."""
    recent, reason, age_s = _read_note(f"{address.run}/start.failed")
    return f"{reason} ({age_s:.0f} s ago)" if recent else ""


def _spawn_with_lock(arguments: list[str], stderr: int, lock: int) -> None:
    """Start Python in a session of its own, holding a lock until it exits or closes the descriptor."""
    environment = {**spawn_environment(os.environ), "LORELOG_HOOKS": "off"}
    spawn_detached(
        [_python(), "-P", *arguments], environment, [*_stdio(stderr), (os.POSIX_SPAWN_DUP2, lock, LOCK_DESCRIPTOR)]
    )


def _start(address: DaemonAddress) -> None:
    create_folders(address)
    deadline = time.monotonic() + _START_S
    descriptor = os.open(f"{address.run}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not is_listening(address):
            if acquire_file_lock(descriptor, 0):
                if not is_listening(address):
                    holder = read_lock_holder(address)
                    leaving = holder.get("leaving") if holder else ""
                    # Not for long if it finishes its work first.
                    wait_s = _STOP_S if leaving == "now" else _FINISH_S
                    if holder and leaving and not _wait_for_exit(address, holder, wait_s):
                        raise DaemonError(
                            f"the previous daemon (process {holder.get('pid')}) is still finishing its work"
                        )
                    _spawn(address, deadline)
                return
            if time.monotonic() > deadline:
                raise DaemonError(
                    "another process is starting the daemon and does not finish", hint=f"see {address.log}"
                )
            time.sleep(_POLL_S)
    finally:
        os.close(descriptor)


def _wait_for_exit(address: DaemonAddress, holder: dict[str, Any], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while True:
        current = read_lock_holder(address)
        if current is None or current.get("pid") != holder.get("pid"):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def _spawn(address: DaemonAddress, deadline: float) -> None:
    python = _python()
    reader, writer = os.pipe()
    try:
        # -P: the directory of the first client must not provide modules to the daemon.
        words = [python, "-P", "-m", DAEMON_MODULE, "--home", address.home]
        child = spawn_detached(words, spawn_environment(os.environ), _stdio(writer))
    except OSError as error:
        os.close(reader)
        raise DaemonError(f"cannot start {python}: {error.strerror}") from error
    finally:
        os.close(writer)
    output = b""
    try:
        output = _read_ready(reader, deadline)
    finally:
        os.close(reader)
        try:  # the daemon was forked from this process, which exits at once unless it hangs
            if READY not in output:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass  # this process ignores SIGCHLD, so there is nothing to reap
    if READY not in output and not is_listening(address):
        reason = output.decode("utf-8", "replace").strip().rpartition("\n")[2] or "no output before the timeout"
        raise DaemonError(f"the daemon did not start: {reason[:500]}", hint=f"see {address.log}")


def _python() -> str:
    if not sys.executable:
        raise DaemonError("cannot start the daemon: the path of the Python interpreter is unknown")
    return sys.executable


def _stdio(stderr: int) -> list[tuple[Any, ...]]:
    """Return the spawn actions for a process that reads and prints nothing and reports to `stderr`."""
    return [
        (os.POSIX_SPAWN_DUP2, stderr, 2),
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]


def _read_ready(reader: int, deadline: float) -> bytes:
    output = b""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while READY not in output and len(output) < 100_000:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        received = os.read(reader, 4096)
        if not received:
            break
        output += received
    return output


def _kill(holder: dict[str, Any], number: int) -> None:
    pid = holder.get("pid")
    if not isinstance(pid, int) or pid <= 1:
        raise DaemonError("the daemon does not respond, and its lock file does not name its process")
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except OSError as error:
        raise DaemonError(f"cannot stop process {pid}: {error.strerror}") from error


def _read_note(path: str) -> tuple[bool, str, float]:
    """Return whether a note is less than a minute old, its text, and its age in seconds."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            written_at, _, text = file.read(1000).partition(" ")
        # Monotonic, so that clock changes do not matter. It restarts at boot: an older note then has a negative age.
        age_s = time.monotonic() - float(written_at)
    except (OSError, ValueError):
        return False, "", 0.0
    return 0 <= age_s < _RETRY_AFTER_S, text, age_s
