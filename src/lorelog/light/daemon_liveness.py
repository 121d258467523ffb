"""Whether the daemon answers: pings, and the marker of a daemon that does not.

A daemon that is stopped or hangs still accepts connections, so every command would wait for it. The first command that
gets no answer to a ping writes a marker. The following ones work without the daemon until it answers again, was replaced
or has ended. A daemon that works again deletes the marker itself, within a second.

Imports only light modules, because every warm command and every prompt hook loads this one.
"""

from __future__ import annotations

import os
import time

from lorelog.core.errors import DaemonError, DaemonUnresponsive
from lorelog.light.daemon_connection import caller_fields, connect_nonblocking, request_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.light.daemon_address import DaemonAddress

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
    if text != _identity(address) or not _is_alive(address):
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
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(address.unresponsive_marker, flags, 0o600)
        try:
            os.write(descriptor, identity.encode("ascii"))
        finally:
            os.close(descriptor)
    except OSError:
        pass  # on a full disk the next command waits too
    return unresponsive_error(address, first=first)


def unresponsive_error(address: DaemonAddress, *, first: bool = False) -> DaemonUnresponsive:
    """Return the error about a daemon that does not answer; `first` if nobody was told yet."""
    pid = _read_pid(address)
    error = DaemonUnresponsive(
        f"the daemon does not answer (process {pid or 'unknown'})",
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
        connection = connect_nonblocking(address)
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


def ping_timeout(address: DaemonAddress) -> float:
    """Return how many seconds the daemon has to answer a ping: more while it starts."""
    try:
        age_s = time.time() - os.stat(address.pid).st_mtime
    except OSError:
        return PING_S
    return max(PING_S, START_S - age_s) if age_s >= 0 else PING_S


def _identity(address: DaemonAddress) -> str:
    """Return process and start time of the daemon; its socket was made when it started."""
    try:
        started_at = os.lstat(address.socket).st_ctime_ns
    except OSError:
        started_at = 0
    return f"{_read_pid(address)} {started_at}\n"


def _is_alive(address: DaemonAddress) -> bool:
    """Return whether a daemon holds its lock, which ends with the process."""
    from lorelog.core.processes import try_file_lock

    try:
        descriptor = os.open(address.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_file_lock(descriptor, shared=True)
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _read_pid(address: DaemonAddress) -> int:
    try:
        with open(address.pid, encoding="ascii", errors="replace") as file:
            return int(file.read(20))
    except (OSError, ValueError):
        return 0
