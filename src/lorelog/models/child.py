"""Running a program that was not written to be waited for: a time limit that holds, and nothing of it left behind.

The child leads a process group of its own, so that when time is up, and also when it has ended, everything that it
started ends too, but what has left the group to outlive it. It stands in an empty directory. What it says is read up to a limit; what it complains about is not.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, cast

from lorelog.core.errors import ModelFault, ModelUnavailable

MOST_BYTES = 1 << 20
_AT_A_SHELL = "try the command at a shell"
_LOOK_S = 0.1
"""How often it is seen whether the child has ended though something it started keeps its output open."""


def run_child(
    command: Sequence[str], given: bytes, environment: Mapping[str, str], timeout_s: float
) -> tuple[int, bytes]:
    """Run a command on some input; return its exit status and output. Raise ModelError when that takes too long."""
    deadline = time.monotonic() + timeout_s
    with tempfile.TemporaryDirectory(prefix="lorelog-", ignore_cleanup_errors=True) as empty:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=empty,
                env=dict(environment),
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            why = getattr(error, "strerror", None) or error
            raise ModelUnavailable(f"{command[0]} cannot be started: {why}", hint=_AT_A_SHELL) from error
        try:
            said = _converse(child, given, deadline)
            _await_end(child, deadline)
        except TimeoutError:
            raise ModelUnavailable(
                f"{os.path.basename(command[0])} did not end within {timeout_s:g} s",  # noqa: PTH119
                hint="llm.timeout_s and summarize.timeout_s say how long an answer may take",
            ) from None
        finally:
            _end(child)
        return child.returncode, said


def _converse(child: subprocess.Popen[bytes], given: bytes, deadline: float) -> bytes:
    """Hand the input over and read the output, both as they go, until the output or the child ends."""
    source, sink = cast("IO[bytes]", child.stdout), cast("IO[bytes]", child.stdin)
    os.set_blocking(source.fileno(), False)
    os.set_blocking(sink.fileno(), False)
    said = bytearray()
    with selectors.DefaultSelector() as watched:
        watched.register(source, selectors.EVENT_READ)
        watched.register(sink, selectors.EVENT_WRITE)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = {key.fileobj for key, _ in watched.select(min(left, _LOOK_S))}
            if sink in ready:
                given = _hand_over(sink, given)
                if not given:
                    watched.unregister(sink)
                    sink.close()
            ended = _has_ended(child)  # looked at before the last reading: what it said is there by then
            piece = _take(source) if ended or source in ready else None
            said += piece or b""
            if piece == b"" or (ended and piece is None):
                break
            if len(said) > MOST_BYTES:
                raise ModelFault(f"the program said more than {MOST_BYTES >> 10} KiB", hint=_AT_A_SHELL)
    return bytes(said)


def _hand_over(sink: IO[bytes], given: bytes) -> bytes:
    """Write some; return what is left. A child that does not want to read it all is left alone."""
    try:
        return given[os.write(sink.fileno(), given[: 1 << 16]) :]
    except BlockingIOError:
        return given
    except OSError:
        return b""


def _take(source: IO[bytes]) -> bytes | None:
    try:
        return os.read(source.fileno(), 1 << 16)
    except BlockingIOError:
        return None


def _await_end(child: subprocess.Popen[bytes], deadline: float) -> None:
    while not _has_ended(child):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Say so without reaping it, where that is possible: until it is, its group's number cannot be another's."""
    if child.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    child.wait()
