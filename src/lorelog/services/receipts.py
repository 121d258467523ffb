"""What models have cost: one append-only file that a person can read, and that keeps the daily limits.

Before a language model is asked, a line says what the call may cost at most; afterwards another says what it did cost. A
day's sum is what its settled calls cost and what the others may, so a limit holds however many processes ask at once, and a
process that is killed in the middle has spent what it reserved. The file's own lock makes looking and reserving one step.

Notes of sessions have a limit of their own, so that neither they nor what a person starts can use up the other's. The same
lines tell when a model fails again and again: then nobody asks it for a while. No line holds any text or key.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from lorelog.core.errors import Capped, ModelUnavailable, StoreBusy, StoreUnwritable
from lorelog.core.locking import locks_within

FAILURES = 3
"""So many in a row are no accident."""
PAUSE = timedelta(minutes=15)
STARTED, DONE = "started", "ok"
NOTE, EMBEDDING = "note", "embedding"
"""Purposes that are accounted for by themselves; lines written before there were others have none, and are of notes."""
_BLOCK = 1 << 16
_WAIT_S = 5.0
_APART = timedelta(days=2)
"""So far may be apart what two time zones call today."""
_ENDLESS = 1 << 50
"""No call costs or takes so much: a line that says so is damaged."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Who is asked, for what and on whose behalf."""

    purpose: str
    provider: str = ""
    model: str = ""
    host: str = ""
    """The agent whose session it is about, if any."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to one call."""

    id: str
    day: str
    errand: Errand
    reserved: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: `ok`, or one word for why nothing came of it."""

    word: str
    tokens_in: int
    tokens_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Spending:
    """One call, as its lines tell it. One that never ended counts with what it reserved."""

    day: str
    errand: Errand
    outcome: str
    tokens_in: int
    tokens_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Told:
    """What a log tells of some days."""

    calls: tuple[Spending, ...]
    """Oldest first."""
    unreadable: int = 0
    """Lines among theirs that are none of ours, or that were torn: whatever they told is not counted."""


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


class Receipts:
    """The calls of one tenant. Days are those of this machine's clock."""

    def __init__(self, path: Path, now: Callable[[], datetime] = _now) -> None:
        self._path = path
        self._now = now

    @classmethod
    def of(cls, tenant_folder: Path) -> Receipts:
        """Return the receipts of a tenant."""
        return cls(tenant_folder / "receipts.jsonl")

    def reserve(self, tokens: int, errand: Errand, daily_tokens: int) -> Ticket:
        """Return the right to a call that may cost so many tokens.

        Raise Capped when too few of the day's are left, ModelUnavailable while a failing model is left alone, and
        StoreError when it cannot be written down: what is not accounted for is not spent.
        """
        with self._locked() as descriptor:
            now = self._now()
            day = now.date().isoformat()
            lines = [line for line in _lines_since(descriptor, day)[0] if line["day"] == day]
            spent = _spent(lines, errand.purpose)
            if spent + tokens > daily_tokens:
                raise Capped(
                    f"this may cost {tokens:,} tokens, and {max(0, daily_tokens - spent):,} of the day's "
                    f"{daily_tokens:,} are left",
                    hint=f"wait until tomorrow, or raise {limit_key(errand.purpose)}",
                )
            until = _pauses_until(lines, errand, now)
            if until is not None:
                raise ModelUnavailable(
                    f"{errand.model or errand.provider} failed {FAILURES} times in a row and is not asked again until "
                    f"{until.astimezone(now.tzinfo):%H:%M}",
                    hint="`lorelog cost` shows the failures; another model can be chosen meanwhile",
                )
            ticket = Ticket(uuid.uuid4().hex, day, errand, tokens)
            _append(descriptor, _line(ticket, now, {"outcome": STARTED, "reserved": tokens}))
            return ticket

    def settle(self, ticket: Ticket, outcome: Outcome) -> None:
        """Write down what a call did cost, in the place of what it might have."""
        with self._locked() as descriptor:
            _append(descriptor, _line(ticket, self._now(), _ended(outcome)))

    def note(self, errand: Errand, outcome: Outcome) -> None:
        """Write down what was spent without having been reserved, in one line."""
        with self._locked() as descriptor:
            now = self._now()
            ticket = Ticket(uuid.uuid4().hex, now.date().isoformat(), errand, 0)
            _append(descriptor, _line(ticket, now, _ended(outcome)))

    def spent_today(self, purpose: str = NOTE) -> int:
        """Return the tokens of today's calls under one limit; one that goes on counts with what it may cost."""
        day = self.today()
        return _spent([line for line in self._read_since(day)[0] if line["day"] == day], purpose)

    def today(self) -> str:
        """Return which day it is."""
        return self._now().date().isoformat()

    def since(self, day: str) -> Told:
        """Return what is told of a day and all later ones. Raise StoreError when it cannot be read."""
        calls: dict[str, Spending] = {}
        lines, unreadable = self._read_since(day)
        for line in lines:
            calls[str(line["id"])] = _spending(line)
        return Told(tuple(calls.values()), unreadable)

    def _read_since(self, day: str) -> tuple[list[dict[str, Any]], int]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return _lines_since(descriptor, day)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return [], 0
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be read: {error.strerror}", hint="make it a file that you can read"
            ) from error

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


def limit_key(purpose: str) -> str:
    """Return the setting that limits what is spent on a purpose."""
    return "summarize.daily_tokens" if purpose == NOTE else "llm.daily_tokens"


def _line(ticket: Ticket, now: datetime, more: dict[str, Any]) -> bytes:
    at = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = ticket.errand
    shown = {"at": at, "day": ticket.day, "id": ticket.id, "purpose": told.purpose, "project": told.project}
    shown |= {"provider": told.provider, "host": told.host, "model": told.model, **more}
    return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _ended(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome.word,
        "tokens_in": outcome.tokens_in,
        "tokens_out": outcome.tokens_out,
        "seconds": round(outcome.seconds, 3),
    }


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":  # a torn line must not swallow this one
        line = b"\n" + line
    written = 0
    while written < len(line):
        written += os.write(descriptor, line[written:])
    os.fsync(descriptor)


def _lines_since(descriptor: int, day: str) -> tuple[list[dict[str, Any]], int]:
    """Return the lines of a day and later ones, and how many could not be read: from the end to a block that is days older.

    Some earlier lines end nothing: a call ends after midnight under the day on which it began, and of two processes one may
    count days by another time zone, or by a clock that was set back meanwhile.
    """
    long_before = (date.fromisoformat(day) - _APART).isoformat() if day > "0001-02" else ""
    position = os.fstat(descriptor).st_size
    rest = b""
    blocks: list[list[dict[str, Any]]] = []
    unreadable = 0
    while position > 0:
        start = max(0, position - _BLOCK)
        pieces = (os.pread(descriptor, position - start, start) + rest).split(b"\n")
        position = start
        if start:
            rest = pieces.pop(0)
        read = [(_read(piece), piece) for piece in pieces]
        unreadable += sum(not line and bool(piece.strip()) for line, piece in read)
        lines = [line for line, _ in read if line]
        blocks.append([line for line in lines if line["day"] >= day])
        if lines and all(line["day"] < long_before for line in lines):
            break
    return [line for block in reversed(blocks) for line in block], unreadable


def _read(line: bytes) -> dict[str, Any]:
    """Return a line's object; an empty one for what is none of ours, such as a line that a power cut tore."""
    try:
        entry = json.loads(line)
        date.fromisoformat(entry["day"])
    except (ValueError, RecursionError, TypeError, LookupError):
        return {}
    return entry if {"id", "outcome"} <= set(entry) else {}


def _spending(line: dict[str, Any]) -> Spending:
    """Return what a line tells of a call, whoever wrote it."""
    told = {name: str(line.get(name) or "") for name in ("provider", "model", "host", "project")}
    is_open = line["outcome"] == STARTED
    spent = _whole(line.get("reserved" if is_open else "tokens_in")), _whole(line.get("tokens_out"))
    seconds = line.get("seconds")
    took = float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < _ENDLESS else 0.0
    return Spending(str(line["day"]), Errand(_purpose(line), **told), str(line["outcome"]), *spent, took)


def _purpose(line: dict[str, Any]) -> str:
    return str(line.get("purpose") or NOTE)


def _spent(lines: list[dict[str, Any]], purpose: str) -> int:
    """Return what was spent under the limit that this purpose is under."""
    spent: dict[str, int] = {}
    for line in lines:
        other = _purpose(line)
        if other == purpose or not {other, purpose} & {NOTE, EMBEDDING}:
            call = _spending(line)
            spent[str(line["id"])] = call.tokens_in + call.tokens_out
    return sum(spent.values())


def _pauses_until(lines: list[dict[str, Any]], errand: Errand, now: datetime) -> datetime | None:
    """Return when a model may be asked again whose last calls all failed, if that is still ahead.

    After the pause a single one may try. A model is known by its name: who chooses another is not made to wait.
    """
    asked = (errand.provider, errand.model)
    ours = [line for line in lines if (line.get("provider", errand.provider), line.get("model")) == asked]
    last = [line for line in ours if line["outcome"] != STARTED][-FAILURES:]
    if len(last) < FAILURES or any(line["outcome"] == DONE for line in last):
        return None
    try:
        at = datetime.fromisoformat(str(last[-1].get("at", "")))
    except ValueError:
        return None
    since = now - (at if at.tzinfo else at.replace(tzinfo=UTC))
    return now + PAUSE - since if timedelta() <= since < PAUSE else None


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _ENDLESS else 0
