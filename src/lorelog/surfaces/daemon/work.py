"""What the daemon has under way, from whatever surface it came: counted, ended when it must be, its last fault remembered."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import Cancelled, DaemonError, LorelogError

if TYPE_CHECKING:
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import Caller

Answer = Callable[[str, Any, "Caller", "Progress | None"], dict[str, Any]]
"""Carries out an operation: `Dispatcher.call`."""

ASKED_WRONGLY = frozenset({"usage", "config", "not_found", "cancelled", "source"})
"""Codes of errors that are the caller's business and no fault of the daemon."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that went wrong in the daemon."""

    what: str
    code: str
    message: str
    at: float
    """Seconds of the clock that never jumps."""


class Work:
    """Shared by all threads of the daemon."""

    def __init__(self, answer: Answer, log: Callable[[str], None]) -> None:
        self._answer = answer
        self._log = log
        self._lock = Lock()
        self._running: dict[object, tuple[str, float]] = {}
        self._closing = ""
        self.last_fault: Fault | None = None
        self.used = time.monotonic()
        """When anything was last asked for or answered."""
        self.calls = 0
        self.errors = 0

    def call(self, op: str, arguments: Any, caller: Caller, progress: Progress | None = None) -> dict[str, Any]:
        """Carry out an operation. Raise LorelogError, whatever goes wrong."""
        token = self._begin(op)

        def tell(stage: str, done: int, total: int) -> None:
            if self._closing == "now":
                raise Cancelled("the daemon is leaving; what was done is kept", hint="run it again to go on")
            if progress is not None:
                progress(stage, done, total)

        try:
            return self._answer(op, arguments, caller, tell)
        except LorelogError as error:
            self.errors += 1
            if error.code not in ASKED_WRONGLY:
                self.note(op, error)
            raise
        except Exception as error:
            self.errors += 1
            self.note(op, error)
            raise LorelogError(
                f"a fault of lorelog itself: {type(error).__name__}: {error}",
                hint="your files are untouched; the daemon's log shows where it happened, please report it",
            ) from error
        finally:
            with self._lock:
                del self._running[token]
                self.used = time.monotonic()

    def note(self, what: str, error: BaseException) -> None:
        """Remember a fault, and write it down."""
        known = isinstance(error, LorelogError)
        code = error.code if isinstance(error, LorelogError) else type(error).__name__
        message = error.message if isinstance(error, LorelogError) else str(error)
        self.last_fault = Fault(what, code, message[:500], time.monotonic())
        trace = "" if known else "\n" + "".join(traceback.format_exception(error))[-3000:]
        self._log(f"{what}: {code}: {message}{trace}")

    def close(self, how: str) -> None:
        """Let nothing more begin. `now` also ends what can be ended; `after work` lets it finish."""
        with self._lock:
            self._closing = how

    def running(self) -> list[tuple[str, float]]:
        """Return what is under way, and for how many seconds."""
        now = time.monotonic()
        with self._lock:
            return [(op, now - since) for op, since in self._running.values()]

    def touch(self) -> None:
        """Take note that somebody is there."""
        self.used = time.monotonic()

    def _begin(self, op: str) -> object:
        token = object()
        with self._lock:
            if self._closing:
                raise DaemonError("the daemon is leaving")
            self._running[token] = (op, time.monotonic())
            self.calls += 1
            self.used = time.monotonic()
        return token
