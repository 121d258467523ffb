"""The history of deliveries over all sessions: lists, tokens per day, and how often each memory was used.

Logs of sessions that ended more than a year ago are deleted by the daemon's background work: every count is of the last year.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field

from lorelog.core.document import FileStamp
from lorelog.core.serializable import Serializable, local_time
from lorelog.light.delivery_log import LOG_SUFFIX, USED_SUFFIX, read_deliveries, read_lines

MAX_LOG_AGE_DAYS = 365
"""Logs of sessions without a delivery for longer are deleted."""
MAX_LOG_BYTES = 50_000_000
"""Total size of the logs; above it the oldest are deleted earlier."""
_MIN_LOG_AGE_S = 2 * 86_400.0
"""A log in use is never deleted: hooks read it to show no memory twice."""
_LOG_NAME = r"[A-Za-z0-9-]+\.[0-9a-f]{16}\.jsonl"
_TEXT_FIELDS = ("at", "host", "session", "project", "moment", "kind", "cue", "call", "target", "guard", "action")
NOT_USED, CONTRADICTED = "none", "contradicted"
"""The turns after a delivery were read, and no use was seen; or the user rejected what the agent did because of it."""
SIGNS = frozenset({"id", "obeyed", "changed", CONTRADICTED})
"""What can be seen of a memory in the turns after it was shown."""


class DeliveryMoment(Serializable, Struct, frozen=True, kw_only=True):
    """When, where and why memories were shown to a session, and their tokens."""

    at: str
    host: str = ""
    session: str = ""
    project: str = ""
    moment: str = ""
    kind: str = ""
    cue: str = ""
    guard: str = ""
    action: str = ""
    """What was done to the call: a guard's warn or block, or hold."""
    call: str = ""
    tokens: int = 0


class Delivery(DeliveryMoment, frozen=True, kw_only=True):
    """Memories that were shown to a session at one moment."""

    target: str = ""
    """Digest of the tool call."""
    memories: tuple[str, ...] = ()
    used: Mapping[str, str] = field(default_factory=dict)
    """How each memory was used, or `none`; a memory whose turns were not read yet is absent."""


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries to list. Empty fields exclude nothing."""

    projects: tuple[str, ...] | None = None
    session: str = ""
    """Id of a session, or its beginning."""
    memory: str = ""
    """Id of a memory, or its beginning."""
    kind: str = ""
    since: str = ""
    """First local ISO day."""

    def accepts(self, delivery: Delivery) -> bool:
        return (
            (self.projects is None or delivery.project in self.projects)
            and delivery.session.startswith(self.session)
            and (not self.kind or delivery.kind == self.kind)
            and (not self.memory or any(memory.startswith(self.memory) for memory in delivery.memories))
            and (not self.since or local_day(delivery.at) >= self.since)
        )


class DaySum(Struct):
    deliveries: int = 0
    tokens: int = 0

    def add(self, deliveries: int, tokens: int) -> None:
        self.deliveries += deliveries
        self.tokens += tokens


class MemoryUsage(Struct):
    """How often a memory was delivered and used."""

    delivered: int = 0
    listed: int = 0
    """Of these, at the start of a session, among others: what that cost is not in `tokens`."""
    tokens: int = 0
    used: int = 0
    """Sessions in which a use was seen."""
    signs: dict[str, int] = field(default_factory=dict)
    """Sessions by sign."""
    unused: int = 0
    """Deliveries because of a match (a cue, a prompt, a guard) whose turns were read without a sign of use.

    The list at the start of a session is not counted: a rule that is obeyed leaves no trace there.
    """
    first: str = ""
    last: str = ""
    project: str = ""
    kinds: set[str] = field(default_factory=set)

    def add(self, other: MemoryUsage) -> None:
        """Add the counts of another session."""
        for name in ("delivered", "listed", "tokens", "used", "unused"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for sign, count in other.signs.items():
            self.signs[sign] = self.signs.get(sign, 0) + count
        self.first = min(filter(None, (self.first, other.first)), default="")
        if other.last >= self.last:
            self.last, self.project = other.last, other.project or self.project
        self.kinds |= other.kinds


_SessionTotals = tuple[dict[str, DaySum], dict[str, MemoryUsage]]
"""Sums of a session, by day and by memory."""


def list_deliveries(folder: Path, filters: DeliveryFilter) -> list[Delivery]:
    """Return the deliveries that pass the filters, newest first."""
    logs = (path for path in _session_logs(folder) if not filters.since or _modified_day(path) >= filters.since)
    found = (delivery for path in logs for delivery in read_session(path) if filters.accepts(delivery))
    return sorted(found, key=lambda delivery: delivery.at, reverse=True)


def read_session(path: Path) -> list[Delivery]:
    """Return the deliveries of a session's log, oldest first, with what is known about their use."""
    used = read_used(path)
    found = []
    for line in read_deliveries(str(path)):
        fields = {name: value for name in _TEXT_FIELDS if isinstance(value := line.get(name), str)}
        tokens = line["tokens"] if isinstance(line.get("tokens"), int) else 0
        how = {memory: used[memory] for memory in line["memories"] if memory in used}
        delivery = Delivery(tokens=max(0, tokens), memories=tuple(line["memories"]), used=how, **{"at": "", **fields})
        found.append(delivery)
    return found


def read_used(log: Path) -> dict[str, str]:
    """Return how each memory of a session was used, or `none`, from the file beside the session's log."""
    used: dict[str, str] = {}
    for line in read_lines(str(used_file(log))):
        how, memories = line.get("how"), line.get("memories")
        if isinstance(how, str) and isinstance(memories, list):
            for memory in memories:
                if isinstance(memory, str) and used.get(memory, NOT_USED) == NOT_USED:
                    used[memory] = how
    return used


def used_file(log: Path) -> Path:
    """Return the file beside a session's log that says which of its memories were used."""
    return log.with_name(log.name.removesuffix(LOG_SUFFIX) + USED_SUFFIX)


def sum_days(folder: Path, since: str = "") -> dict[str, DaySum]:
    """Return deliveries and tokens by local day, from a day on."""
    days: dict[str, DaySum] = {}
    for day, total in (pair for by_day, _ in _all_totals(folder) for pair in by_day.items()):
        days.setdefault(day, DaySum()).add(total.deliveries, total.tokens)
    return {day: days[day] for day in sorted(days) if day >= since}


def memory_usage(folder: Path) -> dict[str, MemoryUsage]:
    """Return how often each memory was delivered and used."""
    memories: dict[str, MemoryUsage] = {}
    for memory, usage in (pair for _, by_memory in _all_totals(folder) for pair in by_memory.items()):
        memories.setdefault(memory, MemoryUsage()).add(usage)
    return memories


def unused_counts(folder: Path) -> dict[str, int]:
    """Return the number of deliveries without use of each memory that was never used."""
    return {
        memory: usage.unused for memory, usage in memory_usage(folder).items() if usage.unused > 0 and not usage.used
    }


def delete_old_logs(folder: Path, now: float | None = None, max_bytes: int = MAX_LOG_BYTES) -> int:
    """Delete the logs that are too old, and the oldest while all together are too large; return their number."""
    stamps = ((FileStamp.of(path), path) for path in _session_logs(folder))
    logs = sorted((stamp.mtime_ns / 1e9, stamp.size, path) for stamp, path in stamps if stamp is not None)
    total, deleted = sum(size for _, size, _ in logs), 0
    for modified, size, path in logs:
        age = (time.time() if now is None else now) - modified
        if age > MAX_LOG_AGE_DAYS * 86_400 or (total > max_bytes and age > _MIN_LOG_AGE_S):
            total, deleted = total - size, deleted + 1
            for file in (used_file(path), path):
                with suppress(OSError):
                    file.unlink()
    return deleted


def local_day(at: str) -> str:
    """Return the local ISO day of a time; empty for an invalid one."""
    moment = local_time(at)
    return moment.date().isoformat() if moment else ""


# -- sums ----------------------------------------------------------------------------------------------------------------


def _all_totals(folder: Path) -> Iterator[_SessionTotals]:
    for path in _session_logs(folder):
        yield _session_totals(path, FileStamp.of(path), FileStamp.of(used_file(path)))


@lru_cache(maxsize=4096)
def _session_totals(path: Path, _log: FileStamp | None, _used: FileStamp | None) -> _SessionTotals:
    """Return the sums of a session. Cached, because only a few of many logs change between two calls."""
    totals: _SessionTotals = ({}, {})
    for delivery in read_session(path):
        totals[0].setdefault(local_day(delivery.at), DaySum()).add(1, delivery.tokens)
        for memory in delivery.memories:
            how = delivery.used.get(memory, "")
            is_listed = delivery.moment == "session-start"
            is_match = delivery.kind != "standing" or not is_listed  # a prompt brings standing rules that it names
            usage = MemoryUsage(
                delivered=1,
                listed=int(is_listed),
                tokens=0 if is_listed else delivery.tokens // len(delivery.memories),
                unused=int(is_match and how in {NOT_USED, CONTRADICTED}),
                first=delivery.at,
                last=delivery.at,
                project=delivery.project,
                kinds={delivery.kind},
            )
            known = totals[1].setdefault(memory, MemoryUsage())
            known.add(usage)
            known.used = int(how not in {"", NOT_USED, CONTRADICTED})
            known.signs = {how: 1} if how in SIGNS else {}
    return totals


def _session_logs(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:
        return
    yield from (folder / name for name in names if re.fullmatch(_LOG_NAME, name))


def _modified_day(path: Path) -> str:
    stamp = FileStamp.of(path)
    return datetime.fromtimestamp(stamp.mtime_ns / 1e9 if stamp else 0).astimezone().date().isoformat()


def days_ago(count: int, today: date | None = None) -> str:
    """Return the first local ISO day of a period of `count` days that ends today."""
    return ((today or datetime.now().astimezone().date()) - timedelta(days=count - 1)).isoformat()
