"""Turns a time that a query names into a soft preference for chunks of that time.

`last week`, `in March` or `before the release` say when something was noted, and that rarely stands in the note's words:
its date does. A hint never filters, since people misremember and notes are written late: a chunk inside the time gets 1,
one outside falls off smoothly, and one without a date is in between. Precision goes before recall, as a hint that is wrong
pushes the right answer down; what is not clearly a time is left alone.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import NamedTuple

from lorelog.retrieval import when_words as words
from lorelog.retrieval.when_calendar import Days
from lorelog.retrieval.when_events import Event, find_event, phrase_before
from lorelog.retrieval.when_points import EXACT, RELATIVE, VAGUE, Point, PointReader
from lorelog.retrieval.when_words import Token, listed

NEUTRAL = 0.5
"""The preference of a chunk without a date: neither helped nor hurt against the dated ones on both sides."""

RECENT_DAYS = 30
"""How far back `recently` reaches."""

_EVENT_DAYS = 3
"""How far around its day an event lasts for `during`."""
_LATE_DAYS = 3.0
"""Within how many days a day is usually written about. Measured on dated dialogues: the dates of answers, against those
of other turns, stand out as much as with a shorter time, and a third fewer answers end far outside."""
_HAN = re.compile("[\u4e00-\u9fff]")
_TRIGGER = re.compile(r"[0-9]")
_VOCABULARY = (
    frozenset(words.MONTHS)
    | frozenset(words.WEEKDAYS)
    | frozenset(words.SEASONS)
    | frozenset(words.UNITS)
    | frozenset(words.DAY_WORDS)
    | frozenset(words.RELATIONS)
    | words.DAY_PARTS
    | words.WEEKENDS
    | words.RECENTLY
    | frozenset({"prior"})
)
_ADJECTIVE_OF = listed("the a an my our your his her their its most mostly least more all of")
_SEEKING = listed(
    "recommend recommendation recommendations suggest suggestion suggestions tips advice idea ideas should plan planning"
)
"""Who asks for advice on tonight or next week does not look for notes of that time."""
_PERSONAL = listed("my our me us happened changed broke done ich wir mich mir uns mein meine unser unsere habe haben")
_TOLD = listed("did have has had been i've we've you've he's she's was were i we")


@dataclass(frozen=True, slots=True)
class TimeHint:
    """A time that a query names.

    `words` are as written, from `span[0]` to `span[1]` of the query; where several times were named they are joined by
    ` … ` and the span reaches over all. `first` and `last` are included, and None is an open end. While `event` is given
    and both are None, the time is only known relative to that event. `asked` is the day on which the query was asked.
    """

    words: str
    span: tuple[int, int]
    first: dt.date | None
    last: dt.date | None
    event: str
    relation: str
    asked: dt.date

    def resolved(self, day: dt.date) -> TimeHint:
        """Return the hint with its event on a day; that day itself belongs to before and after, as both are likely."""
        if not self.event:
            return self
        first = day if self.relation in {"after", "since"} else None
        last = day if self.relation in {"before", "until"} else None
        if self.relation == "during":
            ordinal = day.toordinal()
            first = dt.date.fromordinal(max(ordinal - _EVENT_DAYS, 1))
            last = dt.date.fromordinal(min(ordinal + _EVENT_DAYS, dt.date.max.toordinal()))
        return replace(self, first=first, last=last)

    def half_life(self, *, late: bool) -> float:
        """Return how many days before the time, or after it (`late`), halve the preference.

        Half the time's width before and all of it after: who says `in 2023` may be months off, who says `yesterday` is
        not, and what happened is noted later but never earlier. With an open end, half the way from the named day to
        the asking: what is long ago is remembered less exactly.
        """
        if self.first and self.last:
            width = (self.last - self.first).days + 1
            return max(_LATE_DAYS, width) if late else max(1.0, width / 2)
        known = self.first or self.last or self.asked
        return max(1.0, abs((self.asked - known).days) / 2)


def find_time(query: str, today: dt.date) -> TimeHint | None:
    """Return the time that a query names, if it clearly names one; of several, what says most.

    Several of equal standing (`in January and March`) become one that spans them, so that none is pushed down.
    """
    hits: list[_Hit] = []
    event = None
    tokens = words.read_tokens(query)
    lows = {token.low for token in tokens}
    if not lows.isdisjoint(_VOCABULARY) or _TRIGGER.search(query):
        if lows.isdisjoint(words.DATE_AS_DATA):
            hits = _outside_quotes(query, _find_hits(tokens, today))
        if "did" not in lows and not lows.isdisjoint(_SEEKING):
            hits = [hit for hit in hits if hit.days[1] < today or hit.rank == EXACT]
        event = find_event(query, tokens) if not hits else None
    if _HAN.search(query):
        from lorelog.retrieval.when_chinese import find_chinese  # its patterns take milliseconds to compile

        hits += [_Hit(one.start, one.end, one.days, one.relation, one.rank) for one in find_chinese(query, today)]
    if hits:
        return _chosen(query, sorted(hits), today)
    return _event_hint(query, tokens, event, today) if event else None


def preference(hint: TimeHint, date: str) -> float:
    """Return how well a chunk's date, an ISO day with or without a time, fits a hint: 1 inside, falling to 0 outside.

    A chunk without a readable date, and any chunk while the hint's event has no day yet, gets `NEUTRAL`.
    """
    if hint.first is None and hint.last is None:
        return NEUTRAL
    try:
        day = dt.date.fromisoformat(date[:10])
    except ValueError:
        return NEUTRAL
    if hint.first and day < hint.first:
        return math.exp2(-(hint.first - day).days / hint.half_life(late=False))
    if hint.last and day > hint.last:
        return math.exp2(-(day - hint.last).days / hint.half_life(late=True))
    return 1.0


def describe(hint: TimeHint) -> str:
    """Return the hint in words, for the explanation of a ranking."""
    said = f'"{hint.words}"'
    if hint.first and hint.last:
        if hint.first == hint.last:
            return f"{said} is {hint.first}"
        return f"{said} is {hint.first} to {hint.last}"
    if hint.first:
        return f"{said} is {hint.first} or later"
    if hint.last:
        return f"{said} is {hint.last} or earlier"
    return f'{said} waits for the day of "{hint.event}"'


class _Hit(NamedTuple):
    """A time in the query: where, which days, in which relation, and how much it says."""

    start: int
    end: int
    days: Days
    relation: str
    rank: int


def _find_hits(tokens: list[Token], today: dt.date) -> list[_Hit]:
    reader = PointReader(tokens, today)
    told_from = next((at for at, token in enumerate(tokens) if token.low in _TOLD), len(tokens))
    is_today = _names_today(tokens) or told_from < len(tokens)
    hits = []
    at = 0
    while at < len(tokens):
        if tokens[at].low in words.RECENTLY:
            found = _read_recently(tokens, at, today, told=told_from < at)
        elif tokens[at].low in {"today", "heute"} and not is_today:
            found = None
        else:
            found = _read_relation(tokens, reader, at, today) or _read_during(tokens, reader, at, today)
        if found and not _is_data(tokens, at, found[1]):
            hits.append(found[0])
            at = found[1]
        else:
            at += 1
    return hits


def _read_relation(tokens: list[Token], reader: PointReader, at: int, today: dt.date) -> tuple[_Hit, int] | None:
    """`since March`, `before the 5th of May`, `prior to 2024`, `between A and B`, `from A to B`."""
    low = tokens[at].low
    relation = words.RELATIONS.get(low, "")
    start = at + 1
    if low == "prior" and start < len(tokens) and tokens[start].low == "to":
        relation, start = "before", start + 1
    ranged = low in words.RANGE_OPENERS
    if (not relation and not ranged) or start >= len(tokens) or not tokens[start - 1].joins:
        return None
    if low in {"vor", "seit"} and reader.read(at, today):
        return None  # vor drei Tagen
    if tokens[start].low in words.ARTICLES and start + 1 < len(tokens):
        start += 1
    point = reader.read(start, today, led=ranged or low != "by")
    if not point:
        return None
    if ranged:
        joined = _joined(tokens, reader, start, point, today)
        return (_hit(tokens, at, joined, "during"), joined.end) if joined else None
    return _hit(tokens, at, point, relation), point.end


def _read_during(tokens: list[Token], reader: PointReader, at: int, today: dt.date) -> tuple[_Hit, int] | None:
    point = reader.read(at, today)
    if not point:
        return None
    while joined := _joined(tokens, reader, at, point, today):
        point = joined
    if point.rank >= RELATIVE and (clause := phrase_before(tokens, at)):
        return _hit(tokens, at, point, clause[0])._replace(start=tokens[clause[1]].start), point.end
    return _hit(tokens, at, point, "during"), point.end


def _joined(tokens: list[Token], reader: PointReader, at: int, point: Point, today: dt.date) -> Point | None:
    """Return one point from this to the one that a connecting word adds: `March to May`, `January and March`."""
    dashed = tokens[point.end - 1].after.strip() in {"-", "–", "—"}
    start = point.end if dashed else point.end + 1
    if start >= len(tokens) or (
        not dashed and (tokens[point.end].low not in words.CONNECTORS or not _bridges(tokens, point.end))
    ):
        return None
    other = reader.read(start, today, led=True)
    if not other:
        return None
    if point.open:
        point = reader.read(at, other.days[1], led=True) or point
    if point.days[0] > other.days[0]:
        return None
    return Point((point.days[0], max(point.days[1], other.days[1])), other.end, max(point.rank, other.rank))


def _bridges(tokens: list[Token], at: int) -> bool:
    return tokens[at - 1].joins and tokens[at].joins


def _read_recently(tokens: list[Token], at: int, today: dt.date, *, told: bool) -> tuple[_Hit, int] | None:
    """`What did we decide recently?` and `what has Joe recently read`, but not `least recently used`."""
    before = tokens[at - 1].low if at else ""
    if before in _ADJECTIVE_OF or (not told and not tokens[at].ends_clause):
        return None
    days = today - dt.timedelta(min(RECENT_DAYS, today.toordinal() - 1)), today
    return _Hit(tokens[at].start, tokens[at].end, days, "during", VAGUE), at + 1


def _hit(tokens: list[Token], at: int, point: Point, relation: str) -> _Hit:
    return _Hit(tokens[at].start, tokens[point.end - 1].end, point.days, relation, point.rank)


def _is_data(tokens: list[Token], at: int, end: int) -> bool:
    """`yesterday's date` and `date of last Monday` are values to compute, `Saturday mornings` are a habit."""
    follows = end < len(tokens) and tokens[end - 1].joins and tokens[end].low in words.DATE_NOUNS | words.HABITS
    before = at - 2 if at > 1 and tokens[at - 1].low == "of" else at - 1
    leads = before >= 0 and tokens[before].low in words.DATE_NOUNS and tokens[at].low not in words.RELATIONS
    return follows or leads


def _names_today(tokens: list[Token]) -> bool:
    """`what is it called today?` asks how things are; `our tasks today` and `notes of today` name a day."""
    return any(token.low in _PERSONAL for token in tokens) or len(tokens) <= 4


def _outside_quotes(query: str, hits: list[_Hit]) -> list[_Hit]:
    quoted = words.quoted_places(query) if hits else []
    starts = [start for start, _ in quoted]
    return [hit for hit in hits if not (at := bisect_right(starts, hit.start)) or quoted[at - 1][1] <= hit.start]


def _chosen(query: str, hits: list[_Hit], today: dt.date) -> TimeHint:
    rank = max(hit.rank for hit in hits)
    best = [hit for hit in hits if hit.rank == rank]
    related = next((hit for hit in best if hit.relation != "during"), None)
    if related:
        return _hint(query, related, today)
    first, last = best[0], best[-1]
    days = min(hit.days[0] for hit in best), max(hit.days[1] for hit in best)
    hint = _hint(query, first._replace(days=days), today)
    if len(best) == 1:
        return hint
    said = dict.fromkeys(query[hit.start : hit.end] for hit in best)
    return replace(hint, words=" … ".join(said), span=(first.start, last.end))


def _hint(query: str, hit: _Hit, today: dt.date) -> TimeHint:
    first: dt.date | None = hit.days[0]
    last: dt.date | None = hit.days[1]
    if hit.relation == "before":
        first, last = None, hit.days[0] - dt.timedelta(hit.days[0] > dt.date.min)
    elif hit.relation == "after":
        first, last = hit.days[1] + dt.timedelta(hit.days[1] < dt.date.max), None
    elif hit.relation == "since":
        last = None
    elif hit.relation == "until":
        first = None
    return TimeHint(query[hit.start : hit.end], (hit.start, hit.end), first, last, "", hit.relation, today)


def _event_hint(query: str, tokens: list[Token], event: Event, today: dt.date) -> TimeHint:
    start, end = tokens[event.start].start, tokens[event.end - 1].end
    return TimeHint(query[start:end], (start, end), None, None, event.text, event.relation, today)
