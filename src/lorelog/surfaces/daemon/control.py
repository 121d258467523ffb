"""Starting and stopping a daemon from outside.

The lock that a daemon holds for its life is the truth: it ends with its process, kill -9 included. Whoever wants to start one
wins another lock first, so that of twenty who try one starts it and all use it. The one that starts it hears from it through
its standard error: `ready`, or why not.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress

from lorelog.core.errors import DaemonError
from lorelog.core.spawning import spawn_apart
from lorelog.surfaces.daemon.address import Address, found_folders
from lorelog.surfaces.daemon.client import answers_at, ask
from lorelog.surfaces.daemon.waking import wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

READY = b"ready\n"
_START_S = 10.0
_LEAVE_S = 6.0
"""A daemon that was told to stop is gone after five."""
_FINISH_S = 1.0
"""One that finishes its work first is not waited for."""
_PAUSE_S = 0.01
_LOCK_AT = 9
"""The descriptor by which a process that nobody waits for keeps the lock of those who start it."""
DAEMON = "lorelog.surfaces.resident"
_REMEMBERED_S = 60.0
_PLACES = ("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONUTF8", "PYTHONTZPATH")
"""What this Python may need to find its packages and to read their names."""


def start(address: Address, *, insists: bool = False) -> None:
    """Return when a daemon answers. Raise DaemonError when none does, at once where that was so a moment ago.

    `insists`: try again even then.
    """
    if not insists:
        _recall(address)
    try:
        _start(address)
    except DaemonError as error:
        _remember(address, error.message)
        raise
    except OSError as error:
        raise DaemonError(f"the daemon cannot be started: {error}") from error
    _forget(address)


def start_unseen(address: Address) -> bool:
    """Begin to start a daemon, wait for nothing, and return whether one was begun. Never raises for what can be foreseen.

    For hooks: whoever runs them may end them and all their children a moment later, so it begins in a session of its own. Of
    fifty that try at once one starts it: the lock of those who start goes over to the process that becomes the daemon. One
    that did not come to listen is not tried again for a minute.
    """
    try:
        if last_failure(address) or _tried(address):
            return False
        found_folders(address)
        descriptor = os.open(f"{address.run}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _won(descriptor) or wake(address):
                return False
            held = holder(address)
            if held is not None and not held.get("leaving"):
                return False  # it lives and does not listen: another one could not take its place
            said = os.open(address.tried, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(said, f"{time.monotonic():.3f} ".encode())
                _spawn_alone([sys.executable, "-P", "-m", DAEMON, "--home", address.home], said, descriptor)
            finally:
                os.close(said)
        finally:
            os.close(descriptor)
    except (DaemonError, OSError):
        return False
    return True


def flush_unseen(address: Address) -> bool:
    """Begin to see to what waits in the spool without a daemon, wait for nothing, and return whether that was begun."""
    try:
        found_folders(address)
        descriptor = os.open(f"{address.run}/flush.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _won(descriptor):
                return False  # another one is at it, and looks again before it ends
            null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            try:
                _spawn_alone([sys.executable, "-P", "-m", "lorelog", "hosts", "flush"], null, descriptor)
            finally:
                os.close(null)
        finally:
            os.close(descriptor)
    except (DaemonError, OSError):
        return False
    return True


def _spawn_alone(words: list[str], errors: int, lock: int) -> None:
    """Start a process that nobody waits for, in a session of its own, with a lock that ends when it lets go of it."""
    if not sys.executable:
        raise DaemonError("this Python does not know its own program")
    null = os.devnull
    environment = {**environment_of_daemon(os.environ), "LORELOG_HOOKS": "off"}
    actions = [
        (os.POSIX_SPAWN_DUP2, errors, 2),
        (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, lock, _LOCK_AT),
    ]
    spawn_apart(words, environment, actions)


def _tried(address: Address) -> bool:
    """Say whether a start that nobody waited for began less than a minute ago and has not come to listen."""
    return bool(_noted(address.tried)[0])


def stop(address: Address) -> dict[str, Any] | None:
    """End the daemon of a home, whatever state it is in, and return who it was; None when there was none."""
    held = holder(address)
    if held is None:
        return None
    try:
        ask("daemon.stop", {}, directory="/", home=address.home)
    except DaemonError:
        _signal(held, signal.SIGTERM)
    if _gone(address, held, _LEAVE_S):
        return held
    _signal(held, signal.SIGKILL)
    if _gone(address, held, _LEAVE_S):
        return held
    raise DaemonError(f"process {held.get('pid')} does not end", hint=f"kill -9 {held.get('pid')}")


def holder(address: Address) -> dict[str, Any] | None:
    """Return what the daemon that lives says of itself in its lock: pid, version, leaving. None when none lives."""
    try:
        descriptor = os.open(address.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signed(descriptor)
    except OSError:
        return None
    else:
        return None
    finally:
        os.close(descriptor)


def _signed(descriptor: int) -> dict[str, Any]:
    try:
        signed = json.loads(os.pread(descriptor, 1000, 0))
    except (OSError, ValueError):
        return {}
    return signed if isinstance(signed, dict) else {}


def _start(address: Address) -> None:
    found_folders(address)
    deadline = time.monotonic() + _START_S
    descriptor = os.open(f"{address.run}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not answers_at(address):
            if _won(descriptor):
                if not answers_at(address):
                    _make_way(address)
                    _spawn(address, deadline)
                return
            if time.monotonic() > deadline:
                raise DaemonError("another start of the daemon does not come to an end", hint=f"see {address.log}")
            time.sleep(_PAUSE_S)
    finally:
        os.close(descriptor)


def _won(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_way(address: Address) -> None:
    """Wait for one that is leaving; not for long where it has work to finish."""
    held = holder(address)
    if not held or not held.get("leaving"):
        return
    if not _gone(address, held, _LEAVE_S if held["leaving"] == "now" else _FINISH_S):
        raise DaemonError(f"the daemon before (process {held.get('pid')}) is still finishing its work")


def _gone(address: Address, held: dict[str, Any], wait_s: float) -> bool:
    """Wait until the lock is not held by this one any more."""
    deadline = time.monotonic() + wait_s
    while True:
        now = holder(address)
        if now is None or now.get("pid") != held.get("pid"):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)


def _spawn(address: Address, deadline: float) -> None:
    if not sys.executable:
        raise DaemonError("this Python does not know its own program")
    hears, tells = os.pipe()
    try:
        null = os.devnull
        # -P: the directory of whoever asks first must not lend the daemon its modules.
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-P", "-m", DAEMON, "--home", address.home],
            environment_of_daemon(os.environ),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, tells, 2),
                (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
            ],
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError as error:
        os.close(hears)
        raise DaemonError(f"{sys.executable} cannot be started: {error.strerror}") from error
    finally:
        os.close(tells)
    try:
        said = _listen(hears, deadline)
    finally:
        os.close(hears)
        _reap(child, deadline)
    if READY not in said and not answers_at(address):
        why = said.decode("utf-8", "replace").strip().rpartition("\n")[2] or "it said nothing in time"
        raise DaemonError(f"the daemon did not start: {why[:500]}", hint=f"see {address.log}")


def environment_of_daemon(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a daemon that is started from here should have of an environment: nothing that was meant for one command.

    Of PYTHONPATH stays only where lorelog itself comes from: anything else there could give it modules of a project.
    """
    ours = os.path.realpath(__file__).removesuffix("/lorelog/surfaces/daemon/control.py")
    kept = {name: value for name, value in environment.items() if not name.startswith("PYTHON") or name in _PLACES}
    kept.pop("LORELOG_IDENTITY_PASSPHRASE", None)  # each caller brings their own
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if any(os.path.isabs(path) and os.path.realpath(path) == ours for path in paths):  # noqa: PTH117
        kept["PYTHONPATH"] = ours
    return {"OPENBLAS_NUM_THREADS": "1", **kept}


def _listen(hears: int, deadline: float) -> bytes:
    said = b""
    poll = select.poll()
    poll.register(hears, select.POLLIN)
    while READY not in said and len(said) < 100_000:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        more = os.read(hears, 4096)
        if not more:
            break
        said += more
    return said


def _reap(child: int, deadline: float) -> None:
    """Take note of the end of the process that the daemon was forked from: it ends at once, unless it hangs."""
    with suppress(ChildProcessError):  # a program that ignores the ends of its children has none to take note of
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return
            time.sleep(0.001)


def _signal(held: dict[str, Any], number: signal.Signals) -> None:
    pid = held.get("pid")
    if not isinstance(pid, int) or pid <= 1:
        raise DaemonError("the daemon does not answer, and its lock does not say which process it is")
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except OSError as error:
        raise DaemonError(f"process {pid} cannot be ended: {error.strerror}") from error


def _remember(address: Address, why: str) -> None:
    """Note that a start failed, so that the commands of the next minute do not all wait for another."""
    with suppress(OSError), open(f"{address.run}/start.failed", "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f"{time.monotonic():.3f} {why[:500]}")


def _recall(address: Address) -> None:
    why = last_failure(address)
    if why:
        raise DaemonError(why, hint="lorelog warm start tries again at once")


def last_failure(address: Address) -> str:
    """Return why the last start failed, if that was less than a minute ago."""
    recent, why, ago = _noted(f"{address.run}/start.failed")
    return f"{why} ({ago:.0f} s ago)" if recent else ""


def _noted(file: str) -> tuple[bool, str, float]:
    """Return whether something was noted less than a minute ago, what, and how long ago."""
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:  # noqa: PTH123
            when, _, what = opened.read(1000).partition(" ")
        # The clock that never jumps; after a reboot it begins anew, and what was noted lies in its future.
        ago = time.monotonic() - float(when)
    except (OSError, ValueError):
        return False, "", 0.0
    return 0 <= ago < _REMEMBERED_S, what, ago


def _forget(address: Address) -> None:
    with suppress(OSError):
        os.unlink(f"{address.run}/start.failed")  # noqa: PTH108
