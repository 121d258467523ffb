"""Child processes of a trial: forked from a process that has loaded everything and started no thread."""

from __future__ import annotations

import importlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_MAX_WAIT_S = 120.0
"""A child that takes longer hangs: the trial fails."""
_BLOCK = 65_536
_WRITE_EVENTS = frozenset({"os.rename", "os.remove", "os.truncate", "sqlite3.connect"})


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What a child reported, and how it ended."""

    reported: tuple[Any, ...]
    killed: bool
    status: int
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.killed and self.status == 0


def run_child(
    act: Callable[[Callable[[Any], None]], None],
    *,
    kill_after_s: float | None = None,
    kill_at: int = 0,
    files: str = "",
) -> ChildResult:
    """Run a function in a forked child; it is killed with SIGKILL after a time, or before a write, if one is given.

    `kill_at` is the number of the write: a file with `files` in its path that is opened to write, replaced or removed, or a
    database. The function gets a function that reports a JSON value to this process. A value that was reported counts even if the
    child is killed right after it.
    """
    started = time.monotonic()
    hear, tell = os.pipe()
    child = os.fork()
    if not child:
        if kill_at:
            _kill_before_write(kill_at, files)
        _be_child(act, hear, tell)
    os.close(tell)
    deadline = started + (_MAX_WAIT_S if kill_after_s is None else min(kill_after_s, _MAX_WAIT_S))
    heard, ended = _read_until(hear, deadline)
    if not ended:
        os.kill(child, signal.SIGKILL)
        heard += _read_until(hear, time.monotonic() + _MAX_WAIT_S)[0]
    os.close(hear)
    status = os.waitpid(child, 0)[1]
    lines = heard.split(b"\n")[:-1]
    return ChildResult(
        reported=tuple(json.loads(line) for line in lines),
        killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        status=os.waitstatus_to_exitcode(status),
        seconds=time.monotonic() - started,
    )


def _kill_before_write(number: int, files: str) -> None:
    """Kill this process before its n-th write to some files; an audit hook cannot be removed."""
    seen = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        opened = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if (opened or event in _WRITE_EVENTS) and files in str(args[0]):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def random_moment(chance: random.Random, duration_s: float) -> float:
    """Return a moment during an act that takes about this long; up to half beyond its end, for a busy machine."""
    return chance.random() * duration_s * 1.5


def load_modules(names: Sequence[str]) -> None:
    """Load modules that children use, so that they need not; loading starts no thread."""
    for name in names:
        if name not in sys.modules and name != "__main__":
            with suppress(Exception):
                importlib.import_module(name)


def _be_child(act: Callable[[Callable[[Any], None]], None], hear: int, tell: int) -> None:
    status = 1
    try:
        os.close(hear)
        act(lambda value: _write_line(tell, value))
        status = 0
    except BaseException as error:  # noqa: BLE001  (a forked child must never return into its parent's code)
        _write_line(tell, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def _write_line(descriptor: int, value: object) -> None:
    os.write(descriptor, json.dumps(value).encode() + b"\n")


def _read_until(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Return what could be read before a moment, and whether the other end was closed."""
    heard = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        piece = os.read(descriptor, _BLOCK)
        if not piece:
            return heard, True
        heard += piece
    return heard, False
