"""What has become of memories: superseded by others, expired, due to be looked at again.

Journals are never rewritten, so none of this is written into the memory that it is about. That one memory stands in the place
of another is said by the newer one's anchor; the files alone tell it, and deleting the newer one takes it back. Days are said by the
anchor (`expires:`), and later by lines of `lifecycle.jsonl` beside the index, of which the last about a memory holds, field by
field. What is hidden is hidden when a search is answered, by that day's date.

Only a memory of the same project, or a global one, can supersede a memory: what a cloned repository holds must not hide what stands
elsewhere. And none can supersede a record, whose fate the ledger tells. Where memories supersede each other in a circle, the one that said so last is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lorelog.core.document import GLOBAL, StoredChunk
from lorelog.core.memory import ExpandReply
from lorelog.core.options import ListOptions, SearchOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Covering, Store, Supersession
from lorelog.core.query import NO_FATE, Fate
from lorelog.services.appended import Appended
from lorelog.services.coverings import Coverings
from lorelog.services.feedback import Feedback
from lorelog.services.place import PAGES

FILE = "lifecycle.jsonl"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class Days(NamedTuple):
    """What someone has said about the days of a memory. None leaves what was said before, empty takes it back."""

    memory: str
    expires: str | None = None
    review_after: str | None = None
    at: str = ""

    def over(self, before: Days) -> Days:
        """Return what holds when this is said after that."""
        return Days(
            self.memory,
            before.expires if self.expires is None else self.expires,
            before.review_after if self.review_after is None else self.review_after,
            self.at,
        )


class Calendar:
    """The days of one tenant's memories, by memory id."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path, _read_days)
        self._lines: tuple[Days, ...] = ()
        self._days: dict[str, Days] = {}

    @property
    def token(self) -> str:
        """Changes with everything that is said."""
        return "{}.{}.{}".format(*self._file.stamp())

    def days(self) -> Mapping[str, Days]:
        """Return what holds now."""
        lines = self._file.lines()
        if lines is not self._lines:
            days: dict[str, Days] = {}
            for one in lines:
                days[one.memory] = one.over(days.get(one.memory, Days(one.memory)))
            self._days, self._lines = days, lines
        return self._days

    def say(self, days: Days) -> None:
        """Write it down; it holds when this returns."""
        said = {"expires": days.expires, "review_after": days.review_after}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._file.append([{"memory": days.memory, "at": at} | {k: v for k, v in said.items() if v is not None}])

    def due(self, today: str) -> list[str]:
        """Return the ids of the memories that should be looked at again by now, the longest due first."""
        found = [one for one in self.days().values() if one.review_after and one.review_after <= today]
        return [one.memory for one in sorted(found, key=lambda one: (one.review_after, one.memory))]


class _Records:
    """What is kept beside the index, and what was last made of it: read once in a process that goes on."""

    def __init__(self, folder: Path) -> None:
        self.calendar = Calendar(folder / FILE)
        self.feedback = Feedback(folder / "feedback.jsonl")
        self._told: Sequence[Supersession] = ()
        self._successors: Successors | None = None
        self._covering: Sequence[Covering] = ()
        self._coverings = Coverings()

    def successors(self, store: Store) -> Successors:
        told = store.supersessions()
        if self._successors is None or told is not self._told:
            self._successors = Successors(told)
            self._told = told
        return self._successors

    def coverings(self, store: Store) -> Coverings:
        told = store.coverings()
        if told is not self._covering:
            self._coverings = Coverings(told)
            self._covering = told
        return self._coverings


@lru_cache(maxsize=64)
def records_of(folder: Path) -> _Records:
    """Return what a tenant keeps beside its index."""
    return _Records(folder)


class Successors:
    """Which memory stands in whose place."""

    def __init__(self, told: Iterable[Supersession]) -> None:
        self._by_old: dict[str, list[tuple[int, Supersession]]] = {}
        for number, one in enumerate(told):
            if one.old != one.new:
                self._by_old.setdefault(one.old, []).append((number, one))

    def __bool__(self) -> bool:
        return bool(self._by_old)

    def of(self, memory: str, project: str, *, elsewhere: bool = False) -> str:
        """Return the id of the memory that stands in the place of this one; empty when it stands for itself.

        What other machines say counts for a memory of theirs (`elsewhere`) alone: nobody hides what is here from afar.
        """
        said = self._last(memory, project, elsewhere=elsewhere)
        if said is None:
            return ""
        successor = said[1].new
        circle = [(said[0], successor)]
        seen = {memory, successor}
        following = self._last(successor, project, elsewhere=elsewhere)
        while following is not None:
            circle.append((following[0], following[1].new))
            if following[1].new == memory:  # the last word of a circle holds
                return "" if max(circle)[1] == memory else successor
            if following[1].new in seen:  # a circle further on, which this one is no part of
                break
            seen.add(following[1].new)
            following = self._last(following[1].new, project, elsewhere=elsewhere)
        return successor

    def _last(self, memory: str, project: str, *, elsewhere: bool) -> tuple[int, Supersession] | None:
        for one in reversed(self._by_old.get(memory, ())):
            if one[1].project in (project, GLOBAL) and (elsewhere or not one[1].elsewhere):
                return one
        return None


class Fates:
    """What has become of the memories of one store, as of one day. Cheap to make, for each search anew."""

    def __init__(self, store: Store, folder: Path, today: date, *, heeds_feedback: bool = True) -> None:
        known = records_of(folder)
        self._successors = known.successors(store)
        self.coverings = known.coverings(store)
        self._calendar = known.calendar
        self._feedback = known.feedback if heeds_feedback else None
        self._today = today.isoformat()
        self._pages = os.path.realpath(folder / PAGES)

    @property
    def token(self) -> str:
        """Changes with all that is kept beside the index."""
        return f"{self._calendar.token} {self._feedback.token if self._feedback else '-'}"

    @cached_property
    def _days(self) -> Mapping[str, Days]:
        return self._calendar.days()

    def of(self, stored: StoredChunk) -> Fate:
        """Return what has become of a memory. Of records the ledger tells it: no memory can hide one."""
        anchor = stored.chunk.anchor
        if anchor is None or self.is_record(stored):
            return NO_FATE
        said = self._days.get(anchor.memory) if anchor.memory else None
        expires = day_or_none(anchor.expires) if said is None or said.expires is None else said.expires
        review = (said.review_after or "") if said else ""
        successor = ""
        if anchor.memory and self._successors:
            successor = self._successors.of(anchor.memory, stored.project, elsewhere=bool(stored.machine))
        if not (expires or review or successor):
            return NO_FATE
        return Fate(
            superseded_by=successor,
            expires=expires,
            review_after=review,
            expired="" < expires < self._today,
            due="" < review <= self._today,
        )

    def is_record(self, stored: StoredChunk) -> bool:
        """Say whether it is no memory, but the page of a record."""
        return self.is_page(stored.chunk.source)

    def is_page(self, source: str) -> bool:
        """Say whether a file is one of the pages that records are searched by."""
        return is_below(source, self._pages)

    def hides(self, stored: StoredChunk, options: SearchOptions | ListOptions) -> bool:
        """Say whether a memory is not to be shown to who asks so."""
        if stored.chunk.anchor is None:
            return False
        fate = self.of(stored)
        return (fate.expired and not options.include_expired) or (
            fate.superseded_by != "" and not options.include_superseded
        )

    def covered_by(self, stored: StoredChunk) -> str:
        """Return the id of a summary that covers a chunk and is shown itself; empty when there is none."""
        for summary in self.coverings.of(stored):
            said = self._days.get(summary)
            expires = (said.expires or "") if said else ""
            if not self._successors.of(summary, stored.project) and not "" < expires < self._today:
                return summary
        return ""

    def is_unwanted(self, query: str, stored: StoredChunk) -> bool:
        """Say whether someone has said that this memory does not answer this question."""
        return self._feedback is not None and self._feedback.is_irrelevant(query, stored)

    def due(self) -> list[str]:
        """Return the ids of the memories that should be looked at again by now, the longest due first."""
        return self._calendar.due(self._today)

    def note(self, reply: ExpandReply) -> ExpandReply:
        """Return a section with a note of what has become of it: who reads it should not take it for what holds."""
        fate = self.of(reply.chunk)
        superseded = f"superseded by {fate.superseded_by}" if fate.superseded_by else ""
        expired = f"expired: it was to be shown until {fate.expires}" if fate.expired else ""
        return replace(reply, fate=fate, notes=(*reply.notes, *filter(None, (superseded, expired))))


def day_or_none(text: str) -> str:
    """Return the ISO day that a text begins with, or nothing: what is no day hides nothing."""
    found = _DAY.match(text)
    if found is None:
        return ""
    try:
        return date.fromisoformat(found[0]).isoformat()
    except ValueError:
        return ""


def _read_days(entry: Any) -> Days:
    return Days(
        str(entry["memory"]),
        _checked(entry.get("expires")),
        _checked(entry.get("review_after")),
        str(entry.get("at", "")),
    )


def _checked(value: Any) -> str | None:
    if value is None or value == "":
        return value  # type: ignore[no-any-return]
    return date.fromisoformat(value).isoformat()
