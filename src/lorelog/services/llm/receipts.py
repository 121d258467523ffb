"""The receipts of model calls: an append-only, readable file that enforces the daily limits and feeds the cost report.

Before a call to a language model a line reserves its maximum cost; afterwards another line records its actual cost. A
day's total is the actual cost of finished calls plus the reservations of all others, so a limit holds for any number of
processes, and a call whose process was killed counts with its reservation. The file lock makes checking and reserving
one step.

Session notes have a limit of their own, so that they and the commands of a user cannot use up each other's. The same
lines show when a model fails repeatedly: it is then paused for a while. No line contains text or keys.

The report counts tokens as the models reported them, or as reserved. It contains no prices: vendors change them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.core.atomic_file import OpenDescriptor, Writing, append_lines, open_regular, open_to_append
from lorelog.core.errors import DailyLimitReached, ModelUnavailable, StoreBusy, StoreUnwritable, plural
from lorelog.core.options import SpendOptions
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import ReplyItems, Serializable

MAX_FAILURES = 3
"""Consecutive failures before a model is paused."""
FAILURE_PAUSE = timedelta(minutes=15)
OUTCOME_STARTED, OUTCOME_DONE = "started", "ok"
PURPOSE_NOTE, PURPOSE_EMBEDDING = "note", "embedding"
"""Purposes whose tokens are counted apart from all others. A line without a purpose is a note."""
_BLOCK_BYTES = 1 << 16
_WAIT_S = 5.0
_MAX_CLOCK_SKEW = timedelta(days=2)
"""Maximum difference between the local dates of two time zones, with a margin."""
_MAX_PLAUSIBLE = 1 << 50
"""A line with a larger count of tokens or seconds is damaged."""


class ModelCall(Struct, frozen=True):
    """Provider, model and purpose of a call, and on whose behalf it is made."""

    purpose: str
    provider: str = ""
    model: str = ""
    host: str = ""
    """The agent whose session it is about, if any."""
    project: str = ""


class Reservation(Struct, frozen=True):
    """Permission for one call."""

    id: str
    day: str
    call: ModelCall
    reserved: int


class CallOutcome(Struct, frozen=True):
    """Result of a call: `ok`, or one word for the failure."""

    status: str
    tokens_in: int
    tokens_out: int
    seconds: float


class CallUsage(CallOutcome, frozen=True, kw_only=True):
    """One call as its lines record it. A call without an end counts with its reservation."""

    day: str
    at: str
    """When it ended, or began if it has not ended."""
    call: ModelCall


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


class Receipts:
    """The calls of one tenant. Days follow this machine's clock."""

    def __init__(self, path: Path, now: Callable[[], datetime] = _now) -> None:
        self._path = path
        self._now = now

    @classmethod
    def of_tenant(cls, tenant_folder: Path) -> Receipts:
        return cls(tenant_folder / "receipts.jsonl")

    def reserve(self, tokens: int, call: ModelCall, daily_tokens: int) -> Reservation:
        """Reserve a call that may cost up to `tokens`.

        Raise DailyLimitReached if too few of the day's tokens are left, ModelUnavailable while a failing model is paused, and
        StoreError if the reservation cannot be written: unrecorded tokens are not spent.
        """
        with self._locked() as descriptor:
            now = self._now()
            day = now.date().isoformat()
            lines = [line for line in _read_lines_since(descriptor, day)[0] if line["day"] == day]
            spent = _sum_tokens(lines, call.purpose)
            if spent + tokens > daily_tokens:
                raise DailyLimitReached(
                    f"the call may cost {tokens:,} tokens, but only {max(0, daily_tokens - spent):,} of today's "
                    f"{daily_tokens:,} are left",
                    hint=f"wait until tomorrow, or raise {limit_key(call.purpose)}",
                )
            until = _find_pause_end(lines, call, now)
            if until is not None:
                raise ModelUnavailable(
                    f"{call.model or call.provider} failed {MAX_FAILURES} times in a row and is paused until "
                    f"{until.astimezone(now.tzinfo):%H:%M}",
                    hint="`lorelog status cost` shows the failures; choose another model meanwhile",
                )
            reservation = Reservation(uuid.uuid4().hex, day, call, tokens)
            append_lines(descriptor, _encode_line(reservation, now, None))
            return reservation

    def settle(self, reservation: Reservation, outcome: CallOutcome) -> None:
        """Record the actual cost of a call; it replaces the reservation."""
        with self._locked() as descriptor:
            append_lines(descriptor, _encode_line(reservation, self._now(), outcome))

    def record(self, call: ModelCall, outcome: CallOutcome) -> None:
        """Record a call that was not reserved, in one line.

        No limit depends on it, so nobody waits for the disk: 32 queries of a first index waited for 32 writes.
        """
        with self._locked() as descriptor:
            now = self._now()
            reservation = Reservation(uuid.uuid4().hex, now.date().isoformat(), call, 0)
            append_lines(descriptor, _encode_line(reservation, now, outcome), durable=False)

    def spent_today(self, purpose: str = PURPOSE_NOTE) -> int:
        """Return today's tokens under one limit; unfinished calls count with their reservation."""
        day = self._now().date().isoformat()
        return _sum_tokens([line for line in self._read_since(day)[0] if line["day"] == day], purpose)

    def usage_since(self, day: str) -> tuple[tuple[CallUsage, ...], int]:
        """Return the calls since a day, oldest first, and the number of malformed lines. Raise StoreError if the file cannot be read."""
        lines, unreadable = self._read_since(day)
        calls = {str(line["id"]): _parse_usage(line) for line in lines}
        return tuple(calls.values()), unreadable

    def _read_since(self, day: str) -> tuple[list[dict[str, Any]], int]:
        try:
            with OpenDescriptor(open_regular(self._path)) as descriptor:
                return _read_lines_since(descriptor, day)
        except (FileNotFoundError, NotADirectoryError):
            return [], 0
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be read: {error.strerror}", hint="make it a file that you can read"
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        with Writing(self._path, hint="make it writable"):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with OpenDescriptor(open_to_append(self._path)) as descriptor:
                if not acquire_file_lock(descriptor, _WAIT_S):
                    raise StoreBusy(f"{self._path} is locked by another program", hint="try again")
                yield descriptor


def limit_key(purpose: str) -> str:
    return "summarize.daily_tokens" if purpose == PURPOSE_NOTE else "llm.daily_tokens"


def _encode_line(reservation: Reservation, now: datetime, outcome: CallOutcome | None) -> bytes:
    at = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry: dict[str, Any] = {"at": at, "day": reservation.day, "id": reservation.id}
    entry |= {name: getattr(reservation.call, name) for name in ("purpose", "project", "provider", "host", "model")}
    if outcome is None:
        entry |= {"outcome": OUTCOME_STARTED, "reserved": reservation.reserved}
    else:
        entry |= {"outcome": outcome.status, "tokens_in": outcome.tokens_in, "tokens_out": outcome.tokens_out}
        entry["seconds"] = round(outcome.seconds, 3)
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _read_lines_since(descriptor: int, day: str) -> tuple[list[dict[str, Any]], int]:
    """Return the lines since a day and the number of unreadable ones, read backward from the end of the file.

    A single older line does not end the search: a call that ends after midnight keeps its first day, and another process may use
    another time zone or a clock that was set back. A block whose lines are all days older does.
    """
    long_before = (date.fromisoformat(day) - _MAX_CLOCK_SKEW).isoformat() if day > "0001-02" else ""
    position = os.fstat(descriptor).st_size
    rest = b""
    blocks: list[list[dict[str, Any]]] = []
    unreadable = 0
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        pieces = (os.pread(descriptor, position - start, start) + rest).split(b"\n")
        position = start
        if start:
            rest = pieces.pop(0)
        read = [(_parse_line(piece), piece) for piece in pieces]
        unreadable += sum(not line and bool(piece.strip()) for line, piece in read)
        lines = [line for line, _ in read if line]
        blocks.append([line for line in lines if line["day"] >= day])
        if lines and all(line["day"] < long_before for line in lines):
            break
    return [line for block in reversed(blocks) for line in block], unreadable


def _parse_line(line: bytes) -> dict[str, Any]:
    """Return a line's object; an empty one for a malformed line, such as one torn by a power cut."""
    try:
        entry = json.loads(line)
        date.fromisoformat(entry["day"])
    except (ValueError, RecursionError, TypeError, LookupError):
        return {}
    return entry if {"id", "outcome"} <= set(entry) else {}


def _parse_usage(line: dict[str, Any]) -> CallUsage:
    origin = {name: str(line.get(name) or "") for name in ("provider", "model", "host", "project")}
    is_open = line["outcome"] == OUTCOME_STARTED
    spent = _positive_int(line.get("reserved" if is_open else "tokens_in")), _positive_int(line.get("tokens_out"))
    seconds = line.get("seconds")
    took = float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < _MAX_PLAUSIBLE else 0.0
    call = ModelCall(str(line.get("purpose") or PURPOSE_NOTE), **origin)
    return CallUsage(str(line["outcome"]), *spent, took, day=str(line["day"]), at=str(line.get("at") or ""), call=call)


def _sum_tokens(lines: list[dict[str, Any]], purpose: str) -> int:
    spent: dict[str, int] = {}
    for line in lines:
        usage = _parse_usage(line)
        other = usage.call.purpose
        if other == purpose or not {other, purpose} & {PURPOSE_NOTE, PURPOSE_EMBEDDING}:
            spent[str(line["id"])] = usage.tokens_in + usage.tokens_out
    return sum(spent.values())


def _find_pause_end(lines: list[dict[str, Any]], call: ModelCall, now: datetime) -> datetime | None:
    """Return when a model whose last calls all failed may be called again, if that is in the future.

    After the pause one call may try. Models are compared by name: another model is not paused.
    """
    model = (call.provider, call.model)
    ours = [line for line in lines if (line.get("provider", call.provider), line.get("model")) == model]
    last = [line for line in ours if line["outcome"] != OUTCOME_STARTED][-MAX_FAILURES:]
    if len(last) < MAX_FAILURES or any(line["outcome"] == OUTCOME_DONE for line in last):
        return None
    try:
        at = datetime.fromisoformat(str(last[-1].get("at", "")))
    except ValueError:
        return None
    since = now - (at if at.tzinfo else at.replace(tzinfo=UTC))
    return now + FAILURE_PAUSE - since if timedelta() <= since < FAILURE_PAUSE else None


def _positive_int(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_PLAUSIBLE else 0


COST_KEYS = ("day", "purpose", "project", "model")
"""Keys that a cost report can be grouped by."""
DEFAULT_COST_KEYS = COST_KEYS[:3]
OTHER_PURPOSES = ""
"""Stands for all purposes that share one limit: all but notes and embeddings."""


class CostLine(Serializable, Struct, frozen=True):
    """Calls of one group; keys that were not grouped by are empty."""

    day: str = ""
    purpose: str = ""
    project: str = ""
    model: str = ""
    """As provider/model."""
    calls: int = 0
    failures: int = 0
    unfinished: int = 0
    """Calls that never ended or are still running; they count with their reservation."""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


class DayLimit(Serializable, Struct, frozen=True):
    """One of today's limits."""

    setting: str
    tokens: int
    spent: int
    left: int


class CostReply(ReplyItems[CostLine], Struct, frozen=True):
    """Costs since a day."""

    since: str
    by: tuple[str, ...]
    lines: tuple[CostLine, ...]
    total: CostLine
    today: tuple[DayLimit, ...]
    notes: tuple[str, ...] = ()


def report_cost(
    receipts: Receipts, limits: SpendOptions, since: str, by: Iterable[str] = DEFAULT_COST_KEYS
) -> CostReply:
    """Return the costs since a day, by day and then by descending cost."""
    keys = tuple(group_key for group_key in COST_KEYS if group_key in set(by))
    calls, unreadable = receipts.usage_since(since)
    grouped: dict[tuple[str, ...], list[CallUsage]] = {}
    for usage in calls:
        call = usage.call
        model = "/".join(filter(None, (call.provider, call.model)))
        values = {"day": usage.day, "purpose": call.purpose, "project": call.project, "model": model}
        grouped.setdefault(tuple(values[group_key] for group_key in keys), []).append(usage)
    lines = [_make_cost_line(dict(zip(keys, group_key, strict=True)), group) for group_key, group in grouped.items()]
    lines.sort(key=lambda line: (line.day, -line.tokens_in - line.tokens_out, line.purpose, line.project, line.model))
    today = []
    for purpose, tokens in ((PURPOSE_NOTE, limits.notes), (OTHER_PURPOSES, limits.others)):
        spent = receipts.spent_today(purpose)
        today.append(DayLimit(limit_key(purpose), tokens, spent, max(0, tokens - spent)))
    damage = f"{plural(unreadable, 'line')} of receipts.jsonl cannot be read and are not counted"
    notes = (damage,) if unreadable else ()
    return CostReply(since, keys, tuple(lines), _make_cost_line({}, calls), tuple(today), notes)


def _make_cost_line(common: dict[str, str], calls: Sequence[CallUsage]) -> CostLine:
    return CostLine(
        **common,
        calls=len(calls),
        failures=sum(call.status not in {OUTCOME_DONE, OUTCOME_STARTED} for call in calls),
        unfinished=sum(call.status == OUTCOME_STARTED for call in calls),
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
        seconds=round(sum(call.seconds for call in calls), 3),
    )
