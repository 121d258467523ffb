"""Turns a time that a query names into a soft preference for chunks of that time.

`last week` or `in March` say when something was noted, and that is rarely in the note's words, but in its date. A
hint never filters, since people misremember and notes are written late: a chunk inside the time gets 1, one outside
falls off smoothly, and one without a date is in between. Precision goes before recall, as a wrong hint pushes the
right answer down; text that is not clearly a time is ignored.

English and German only. Events (`before the release`) were tried and cut: 19 of 1,536 dialogue questions, 13 of 470
and 3 of 355 name one, and their days moved nDCG@10 by at most .0003 (lexical lane).
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lorelog.retrieval.time_expressions import vocabulary as words
from lorelog.retrieval.time_expressions.date_parser import (
    RANK_EXACT,
    RANK_VAGUE,
    DateParser,
    DatePoint,
    DayInterval,
)
from lorelog.retrieval.time_expressions.vocabulary import QueryToken, word_set

NEUTRAL_PREFERENCE = 0.5
"""Preference of a chunk without a date: between the dated ones inside and outside."""

RECENT_DAYS = 30
"""Days that `recently` covers."""

_LATE_DAYS = 3.0
"""Days within which a day is usually written about. Measured on dated dialogues: the dates of answers stand out from
those of other turns as much as with a shorter period, and a third fewer answers are far outside."""
_WORDS_BEFORE_ADJECTIVE = word_set("the a an my our your his her their its most mostly least more all of")
_ADVICE_WORDS = word_set(
    "recommend recommendation recommendations suggest suggestion suggestions tips advice idea ideas should plan planning"
)
"""A query for advice on tonight or next week does not ask for notes of that time."""
_PERSONAL_WORDS = word_set(
    "my our me us happened changed broke done ich wir mich mir uns mein meine unser unsere habe haben"
)
_PAST_MARKERS = word_set("did have has had been i've we've you've he's she's was were i we")


class TimeHint(Struct, frozen=True):
    """A time that a query names.

    `words` are as written, from `span[0]` to `span[1]` of the query; several times are joined by ` … ` and the span
    covers all of them. `first` and `last` are inclusive; one of them may be None for an open end. `asked_on` is the
    day of the query.
    """

    words: str
    span: tuple[int, int]
    first: dt.date | None
    last: dt.date | None
    asked_on: dt.date

    def half_life(self, *, late: bool) -> float:
        """Return the days before the time, or after it (`late`), that halve the preference.

        Half the time's width before and all of it after: `in 2023` may be months off, `yesterday` is not, and events
        are noted later but never earlier. With an open end, half the distance from the named day to the query: old
        dates are remembered less exactly.
        """
        if self.first and self.last:
            width = (self.last - self.first).days + 1
            return max(_LATE_DAYS, width) if late else max(1.0, width / 2)
        bound = self.first or self.last or self.asked_on
        return max(1.0, abs((self.asked_on - bound).days) / 2)


def find_time_hint(query: str, today: dt.date) -> TimeHint | None:
    """Return the time that a query clearly names; of several, the most specific.

    Several equally specific ones (`in January and March`) become one that spans them, so that none is pushed down.
    """
    if not words.may_name_time(query):
        return None
    hits: list[_TimeMatch] = []
    tokens = words.read_tokens(query)
    lows = {token.lower for token in tokens}
    if lows.isdisjoint(words.DATE_AS_DATA):
        hits = _outside_quotes(query, _find_matches(tokens, today))
    if "did" not in lows and not lows.isdisjoint(_ADVICE_WORDS):
        hits = [hit for hit in hits if hit.days[1] < today or hit.rank == RANK_EXACT]
    return _choose_hint(query, sorted(hits), today) if hits else None


def date_preference(hint: TimeHint, date: str) -> float:
    """Return how well a chunk's date, an ISO day with or without a time, fits a hint: 1 inside, falling to 0 outside.

    A chunk without a valid date gets `NEUTRAL_PREFERENCE`.
    """
    try:
        day = dt.date.fromisoformat(date[:10])
    except ValueError:
        return NEUTRAL_PREFERENCE
    if hint.first and day < hint.first:
        return math.exp2(-(hint.first - day).days / hint.half_life(late=False))
    if hint.last and day > hint.last:
        return math.exp2(-(day - hint.last).days / hint.half_life(late=True))
    return 1.0


def format_time_hint(hint: TimeHint) -> str:
    """Return the hint in words, for the explanation of a ranking."""
    quoted = f'"{hint.words}"'
    if hint.first and hint.last:
        if hint.first == hint.last:
            return f"{quoted} is {hint.first}"
        return f"{quoted} is {hint.first} to {hint.last}"
    if hint.first:
        return f"{quoted} is {hint.first} or later"
    return f"{quoted} is {hint.last} or earlier"


class _TimeMatch(NamedTuple):
    """A time in the query: position, days, relation, and specificity."""

    start: int
    end: int
    days: DayInterval
    relation: str
    rank: int


def _find_matches(tokens: list[QueryToken], today: dt.date) -> list[_TimeMatch]:
    reader = DateParser(tokens, today)
    past_from = next((at for at, token in enumerate(tokens) if token.lower in _PAST_MARKERS), len(tokens))
    is_today = _names_today(tokens) or past_from < len(tokens)
    hits = []
    at = 0
    while at < len(tokens):
        if tokens[at].lower in words.RECENTLY:
            match = _read_recently(tokens, at, today, past=past_from < at)
        elif tokens[at].lower in {"today", "heute"} and not is_today:
            match = None
        else:
            match = _read_relation(tokens, reader, at, today) or _read_during(tokens, reader, at, today)
        if match and not _is_data(tokens, at, match[1]):
            hits.append(match[0])
            at = match[1]
        else:
            at += 1
    return hits


def _read_relation(
    tokens: list[QueryToken], reader: DateParser, at: int, today: dt.date
) -> tuple[_TimeMatch, int] | None:
    """Parse `since March`, `before the 5th of May`, `prior to 2024`, `between A and B`, `from A to B`."""
    low = tokens[at].lower
    relation = words.RELATIONS.get(low, "")
    start = at + 1
    if low == "prior" and start < len(tokens) and tokens[start].lower == "to":
        relation, start = "before", start + 1
    ranged = low in words.RANGE_OPENERS
    if (not relation and not ranged) or start >= len(tokens) or not tokens[start - 1].continues_phrase:
        return None
    if low in {"vor", "seit"} and reader.read(at, today):
        return None  # vor drei Tagen
    if tokens[start].lower in words.ARTICLES and start + 1 < len(tokens):
        start += 1
    point = reader.read(start, today, led=ranged or low != "by")
    if not point:
        return None
    if ranged:
        joined = _join_range(tokens, reader, start, point, today)
        return (_make_match(tokens, at, joined, "during"), joined.end) if joined else None
    return _make_match(tokens, at, point, relation), point.end


def _read_during(
    tokens: list[QueryToken], reader: DateParser, at: int, today: dt.date
) -> tuple[_TimeMatch, int] | None:
    point = reader.read(at, today)
    if not point:
        return None
    while joined := _join_range(tokens, reader, at, point, today):
        point = joined
    return _make_match(tokens, at, point, "during"), point.end


def _join_range(
    tokens: list[QueryToken], reader: DateParser, at: int, point: DatePoint, today: dt.date
) -> DatePoint | None:
    """Return the range from a point to the next one after a connector: `March to May`, `January and March`."""
    dashed = tokens[point.end - 1].after.strip() in {"-", "–", "—"}
    start = point.end if dashed else point.end + 1
    if start >= len(tokens) or (
        not dashed and (tokens[point.end].lower not in words.CONNECTORS or not _is_connector(tokens, point.end))
    ):
        return None
    other = reader.read(start, today, led=True)
    if not other:
        return None
    if point.open:
        point = reader.read(at, other.days[1], led=True) or point
    if point.days[0] > other.days[0]:
        return None
    return DatePoint((point.days[0], max(point.days[1], other.days[1])), other.end, max(point.rank, other.rank))


def _is_connector(tokens: list[QueryToken], at: int) -> bool:
    return tokens[at - 1].continues_phrase and tokens[at].continues_phrase


def _read_recently(tokens: list[QueryToken], at: int, today: dt.date, *, past: bool) -> tuple[_TimeMatch, int] | None:
    """Parse `What did we decide recently?` and `what has Joe recently read`, but not `least recently used`."""
    before = tokens[at - 1].lower if at else ""
    if before in _WORDS_BEFORE_ADJECTIVE or (not past and not tokens[at].ends_clause):
        return None
    days = today - dt.timedelta(min(RECENT_DAYS, today.toordinal() - 1)), today
    return _TimeMatch(tokens[at].start, tokens[at].end, days, "during", RANK_VAGUE), at + 1


def _make_match(tokens: list[QueryToken], at: int, point: DatePoint, relation: str) -> _TimeMatch:
    return _TimeMatch(tokens[at].start, tokens[point.end - 1].end, point.days, relation, point.rank)


def _is_data(tokens: list[QueryToken], at: int, end: int) -> bool:
    """Return True for values to compute (`yesterday's date`, `date of last Monday`) and habits (`Saturday mornings`)."""
    follows = (
        end < len(tokens)
        and tokens[end - 1].continues_phrase
        and tokens[end].lower in words.DATE_NOUNS | words.HABIT_WORDS
    )
    before = at - 2 if at > 1 and tokens[at - 1].lower == "of" else at - 1
    leads = before >= 0 and tokens[before].lower in words.DATE_NOUNS and tokens[at].lower not in words.RELATIONS
    return follows or leads


def _names_today(tokens: list[QueryToken]) -> bool:
    """Return True if `today` is a day (`our tasks today`, `notes of today`), not the present (`what is it called today?`)."""
    return any(token.lower in _PERSONAL_WORDS for token in tokens) or len(tokens) <= 4


def _outside_quotes(query: str, hits: list[_TimeMatch]) -> list[_TimeMatch]:
    quoted = words.quoted_spans(query) if hits else []
    starts = [start for start, _ in quoted]
    return [hit for hit in hits if not (at := bisect_right(starts, hit.start)) or quoted[at - 1][1] <= hit.start]


def _choose_hint(query: str, hits: list[_TimeMatch], today: dt.date) -> TimeHint:
    rank = max(hit.rank for hit in hits)
    best = [hit for hit in hits if hit.rank == rank]
    related = next((hit for hit in best if hit.relation != "during"), None)
    if related:
        return _make_hint(query, related, today)
    first, last = best[0], best[-1]
    days = min(hit.days[0] for hit in best), max(hit.days[1] for hit in best)
    hint = _make_hint(query, first._replace(days=days), today)
    if len(best) == 1:
        return hint
    phrases = dict.fromkeys(query[hit.start : hit.end] for hit in best)
    return replace(hint, words=" … ".join(phrases), span=(first.start, last.end))


def _make_hint(query: str, hit: _TimeMatch, today: dt.date) -> TimeHint:
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
    return TimeHint(query[hit.start : hit.end], (hit.start, hit.end), first, last, today)
