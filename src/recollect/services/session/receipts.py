"""What notes have cost: one append-only file that a person can read, and that keeps the daily limit.

Before a model is asked, a line says what the call may cost at most; afterwards another says what it did cost. A day's sum
is what its settled calls cost and what the others may, so the limit holds however many processes ask at once, and a
process that is killed in the middle has spent what it reserved. The file's own lock makes looking and reserving one step.

The same lines tell when a model fails again and again: then nobody asks it for a while. No line holds any text.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recollect.core.errors import StoreBusy, StoreUnwritable
from recollect.core.locking import locks_within

FAILURES = 3
"""So many in a row are no accident."""
PAUSE = timedelta(minutes=15)
STARTED, DONE = "started", "ok"
_BLOCK = 1 << 16
_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to one call."""

    id: str
    day: str
    host: str
    model: str
    reserved: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: `ok`, or one word for why nothing came of it."""

    word: str
    tokens_in: int
    tokens_out: int
    seconds: float


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


class Receipts:
    """The calls of one tenant. Days are those of this machine's clock."""

    def __init__(self, path: Path, daily_tokens: int, now: Callable[[], datetime] = _now) -> None:
        self._path = path
        self._daily_tokens = daily_tokens
        self._now = now

    @classmethod
    def of(cls, tenant_folder: Path, daily_tokens: int = 0) -> Receipts:
        """Return the receipts of a tenant; to look at them, no limit need be known."""
        return cls(tenant_folder / "receipts.jsonl", daily_tokens)

    def reserve(self, tokens: int, host: str, model: str) -> Ticket | None:
        """Return the right to a call that may cost so many tokens; None when too few are left, or there is a pause.

        Raise StoreError when it cannot be written down: what is not accounted for is not spent.
        """
        with self._locked() as descriptor:
            now = self._now()
            day = now.date().isoformat()
            lines = _lines_of(descriptor, day)
            if _spent(lines) + tokens > self._daily_tokens or _pauses(lines, now):
                return None
            ticket = Ticket(uuid.uuid4().hex, day, host, model, tokens)
            _append(descriptor, _line(ticket, now, {"outcome": STARTED, "reserved": tokens}))
            return ticket

    def settle(self, ticket: Ticket, outcome: Outcome) -> None:
        """Write down what a call did cost, in the place of what it might have."""
        more = {
            "outcome": outcome.word,
            "tokens_in": outcome.tokens_in,
            "tokens_out": outcome.tokens_out,
            "seconds": round(outcome.seconds, 3),
        }
        with self._locked() as descriptor:
            _append(descriptor, _line(ticket, self._now(), more))

    def spent_today(self) -> int:
        """Return the tokens of today's calls; one that goes on counts with what it may cost."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            return _spent(_lines_of(descriptor, self._now().date().isoformat()))
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if not locks_within(descriptor, _WAIT_S):
                    raise StoreBusy(f"{self._path} is locked by another program", hint="try again")
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be written: {error.strerror}", hint="make it writable"
            ) from error


def _line(ticket: Ticket, now: datetime, more: dict[str, Any]) -> bytes:
    at = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = {"at": at, "day": ticket.day, "id": ticket.id, "host": ticket.host, "model": ticket.model, **more}
    return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a torn line must not swallow this one
        line = b"\n" + line
    written = 0
    while written < len(line):
        written += os.write(descriptor, line[written:])
    os.fsync(descriptor)


def _lines_of(descriptor: int, day: str) -> list[dict[str, Any]]:
    """Return the lines of one day, read from the end until a call comes up that was started earlier."""
    position = os.fstat(descriptor).st_size
    rest = b""
    lines: list[dict[str, Any]] = []
    while position > 0:
        start = max(0, position - _BLOCK)
        pieces = (os.pread(descriptor, position - start, start) + rest).split(b"\n")
        position = start
        if start:
            rest = pieces.pop(0)
        read = [line for line in map(_read, pieces) if line]
        lines = [line for line in read if line["day"] == day] + lines
        if any(line["outcome"] == STARTED and str(line["day"]) < day for line in read):
            break  # the end of a call may stand after midnight, its start does not
    return lines


def _read(line: bytes) -> dict[str, Any]:
    """Return a line's object; an empty one for what is none of ours, such as a line that a power cut tore."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) and {"day", "id", "outcome"} <= set(entry) else {}


def _spent(lines: list[dict[str, Any]]) -> int:
    spent: dict[str, int] = {}
    for line in lines:
        if line["outcome"] == STARTED:
            spent[line["id"]] = _whole(line.get("reserved"))
        else:
            spent[line["id"]] = _whole(line.get("tokens_in")) + _whole(line.get("tokens_out"))
    return sum(spent.values())


def _pauses(lines: list[dict[str, Any]], now: datetime) -> bool:
    """Say whether the last calls all failed, and not long ago. After the pause a single one may try again."""
    last = [line for line in lines if line["outcome"] != STARTED][-FAILURES:]
    if len(last) < FAILURES or any(line["outcome"] == DONE for line in last):
        return False
    try:
        at = datetime.fromisoformat(str(last[-1].get("at", "")))
    except ValueError:
        return False
    since = now - (at if at.tzinfo else at.replace(tzinfo=UTC))
    return timedelta() <= since < PAUSE


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
