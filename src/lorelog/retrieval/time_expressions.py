"""Turns a time that a query names (`last week`, `in March`, `vor drei Tagen`) into a soft preference for chunks of that time.

`last week` or `in March` say when something was noted, and that is rarely in the note's words, but in its date. A
hint never filters, since people misremember and notes are written late: a chunk inside the time gets 1, one outside
falls off smoothly, and one without a date is in between. Precision goes before recall, as a wrong hint pushes the
right answer down: a name of a month or day counts only with context that a time has (a preposition, a year, a capital
letter). A time to come (`next week`) has no notes yet and is not read. Filters (`--since`, `--until`) are parsed elsewhere.

English and German only. Events, offsets from another date, seasons and quarters were tried and cut (docs/decisions/retrieval.md).
Weeks begin on Monday. A step out of the calendar raises OverflowError or ValueError, which means that no time is named.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from lorelog.core.query import ScorePart
from lorelog.retrieval.fusion import QUOTED_PATTERN

TIME_WEIGHT = 0.12
"""Score gain of a chunk from the named time over one far from it."""
NEUTRAL_PREFERENCE = 0.5
"""Preference of a chunk without a date: between the dated ones inside and outside."""
RECENT_DAYS = 30
"""Days that `recently` covers."""
_LATE_DAYS = 3.0
"""Days within which a day is usually written about. Measured on dated dialogues: the dates of answers stand out from
those of other turns as much as with a shorter period, and a third fewer answers are far outside."""
_MAX_YEARS_BACK, _MAX_YEARS_AHEAD = 20, 5
"""Years that notes can be from, relative to today; `in 1492` and `in 2048` are about something else."""
_EXACT, _RELATIVE, _VAGUE = 3, 2, 1
"""Specificity of an expression. A date with its year beats `last Friday`, and that beats `recently`."""

DayInterval = tuple[dt.date, dt.date]
"""First and last day, both inclusive."""


def _numbered(*names: str) -> dict[str, int]:
    return {name: number for number, line in enumerate(names) for name in line.split()}


def _any_of(names: Iterable[str]) -> str:
    return "|".join(sorted(names, key=len, reverse=True))


_MONTHS = _numbered(
    *("", "january jan januar", "february feb februar", "march mar märz", "april apr", "may mai", "june jun juni"),
    *("july jul juli", "august aug", "september sep sept", "october oct oktober okt", "november nov"),
    "december dec dezember dez",
)
_SHORT_MONTHS = frozenset("jan feb mar apr jun jul aug sep sept oct okt nov dec dez".split())
"""Count only with a capital letter: `dec` and `mar` are also instructions, columns and verbs."""
_VERB_MONTHS = frozenset({"may", "march", "mar"})
_NAMED_MONTHS = frozenset({"april", "may", "june", "august", "jan", "mai", "jun", "juli"})
"""Months that are also given names: a capital letter alone, or `by` and `from`, is not enough."""
_WEEKDAYS = _numbered(
    *("monday montag", "tuesday dienstag", "wednesday mittwoch", "thursday donnerstag", "friday freitag"),
    *("saturday samstag sonnabend", "sunday sonntag"),
)
_UNITS = {
    name: unit
    for unit, names in {
        "day": "day days tag tage tagen",
        "week": "week weeks woche wochen",
        "month": "month months monat monate monaten",
        "year": "year years jahr jahre jahren",
        "weekend": "weekend wochenende",
    }.items()
    for name in names.split()
}
_COUNTS = {
    name: (number, number)
    for name, number in _numbered(
        *("", "one a an ein eine einer einem", "two zwei", "three drei", "four vier", "five fünf", "six sechs"),
        *("seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf"),
    ).items()
} | {"couple of": (2, 3), "few": (2, 5), "several": (3, 8), "paar": (2, 5), "einigen": (2, 5)}
_DAY_WORDS = {"today": 0, "yesterday": -1, "heute": 0, "gestern": -1, "vorgestern": -2}
_RELATIONS = {"before": "before", "prior to": "before", "after": "after", "since": "since", "until": "until"}
_RELATIONS |= {"till": "until", "by": "until", "vor": "before", "nach": "after", "seit": "since", "bis": "until"}
_STRONG_LEADS = frozenset(
    "in on during since until till before after between throughout within around im am seit bis vor nach zwischen".split()
) | {"prior to", "month of", "monat"}
_WEAK_LEADS = frozenset({"by", "from", "of", "vom", "von", "for", "with"})
"""Precede a time, but as often a person or a place."""
_PARTS = {"early": 0, "beginning of": 0, "start of": 0, "anfang": 0, "mid": 1, "middle of": 1, "mitte": 1}
_PARTS |= {"late": 2, "end of": 2, "ende": 2}
_DATE_AS_DATA = frozenset(
    "datetime timedelta strftime strptime timestamp timestamps dateutil timezone cron crontab".split()
)
"""A query with one of these asks how dates are computed, not about a time."""
_DATE_NOUNS = frozenset({"date", "dates", "number", "datum", "format", "calendar"})
_DAY_PARTS = ("morning", "afternoon", "evening", "night")
_HABITS = frozenset(f"{part}s" for part in _DAY_PARTS)
_BEFORE_ADJECTIVE = frozenset(
    {"his", "her", "their", "its", "your", "most", "mostly", "least", "more", "all", "an", "of"}
)
_RANGE_OPENERS = frozenset({"between", "from", "zwischen", "von", "vom"})
_PAST_MARKERS = frozenset("did have has had been ve was were i we".split())
_ARTICLES = r"(?:the|our|my|der|die|das|den|dem|every|each|any|a)"

_WORD = re.compile(r"\w+")
_YEAR_AFTER = r"(?:,? ?(?:of )?(?P<year>\d{4})\b(?!\.\d))?"
_UNIT = rf"(?P<unit>{_any_of(_UNITS)})\b"
_COUNT = rf"(?:a |the |ein )?(?P<count>\d{{1,4}}|{_any_of(_COUNTS)})"
_NOT_A_LEAD = rf"(?:{_ARTICLES}|{_any_of(_PARTS)})"
_PREFIX = (
    rf"(?i)(?:(?<![\w-])(?P<noun>{_any_of(_DATE_NOUNS)})(?: of)? )?(?:(?<![\w-])(?!{_NOT_A_LEAD}[ -])(?P<lead>\w+(?: (?:of|to))?) )?"
    rf"(?:(?P<article>{_ARTICLES}) )?(?:(?P<part>{_any_of(_PARTS)})[ -](?:the )?)?\Z"
)
"""The words before a time: a preposition, an article, and a part (`in the early `)."""
_SUFFIX = re.compile(r"[ '\"’”]+(\w+)")
_JOINT = re.compile(r" ?[-–—] ?| (?:to|through|and|or|bis|und) ", re.IGNORECASE)
_VOCABULARY = frozenset(
    (*_MONTHS, *_WEEKDAYS, *_UNITS, *_DAY_WORDS, "recently", "lately", "kürzlich", "neulich", *_DAY_PARTS)
)


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

    @property
    def description(self) -> str:
        """The hint in words, for the explanation of a ranking."""
        quoted = f'"{self.words}"'
        if self.first and self.last:
            return f"{quoted} is {self.first}" + (f" to {self.last}" if self.last > self.first else "")
        return f"{quoted} is {self.first} or later" if self.first else f"{quoted} is {self.last} or earlier"

    def includes(self, day: str) -> bool:
        """Return True if an ISO day is inside the time."""
        first, last = self.first, self.last
        return bool(day) and (first is None or first.isoformat() <= day) and (last is None or day <= last.isoformat())

    def preference(self, date: str) -> float:
        """Return how well a chunk's date, an ISO day with or without a time, fits: 1 inside, falling to 0 outside.

        A chunk without a valid date gets `NEUTRAL_PREFERENCE`.
        """
        try:
            day = dt.date.fromisoformat(date[:10])
        except ValueError:
            return NEUTRAL_PREFERENCE
        if self.first and day < self.first:
            return math.exp2(-(self.first - day).days / self.half_life(late=False))
        if self.last and day > self.last:
            return math.exp2(-(day - self.last).days / self.half_life(late=True))
        return 1.0

    def value(self, date: str) -> float:
        """Return the score that a chunk's date adds."""
        return TIME_WEIGHT * self.preference(date)

    def part(self, date: str) -> ScorePart:
        return ScorePart("time", self.value(date), f"{self.description}; this is of {date[:10] or 'no date'}")


def find_time_hint(query: str, today: dt.date) -> TimeHint | None:
    """Return the time that a query clearly names; of several, the most specific.

    Several equally specific ones (`in January and March`) become one that spans them, so that none is pushed down.
    """
    words = frozenset(map(str.lower, _WORD.findall(query)))
    is_named = not words.isdisjoint(_VOCABULARY) or any(map(str.isdigit, query))
    if not is_named or not words.isdisjoint(_DATE_AS_DATA):
        return None
    times = _join_ranges(query, list(_find_times(query, words, today)))
    return _choose_hint(query, times, today) if times else None


# calendar


def _months(year: int, month: int, count: int = 1) -> DayInterval:
    """Return the days of `count` consecutive months; a month beyond 12 is in the next year."""
    start, end = year * 12 + month - 1, year * 12 + month - 1 + count
    return dt.date(start // 12, start % 12 + 1, 1), dt.date(end // 12, end % 12 + 1, 1) - dt.timedelta(1)


def _unit_days(day: dt.date, unit: str) -> DayInterval:
    """Return the calendar week, weekend, month or year that contains a day, or the day itself."""
    monday = day - dt.timedelta(day.weekday())
    if unit == "week":
        return monday, monday + dt.timedelta(6)
    if unit == "weekend":
        return monday + dt.timedelta(5), monday + dt.timedelta(6)
    if unit == "day":
        return day, day
    count = {"month": 1, "year": 12}[unit]
    return _months(day.year, (day.month - 1) // count * count + 1, count)


def _add_units(day: dt.date, unit: str, count: int) -> dt.date:
    """Return the day `count` units later; the 31st becomes the last day of a shorter month."""
    if unit in {"day", "week", "weekend"}:
        return day + dt.timedelta(count * (1 if unit == "day" else 7))
    months = day.year * 12 + day.month - 1 + count * {"month": 1, "year": 12}[unit]
    first, last = _months(months // 12, months % 12 + 1)
    return min(first + dt.timedelta(day.day - 1), last)


def _weekday_by(near: dt.date, weekday: int) -> dt.date:
    """Return the last such weekday up to and including a day."""
    return near - dt.timedelta((near.weekday() - weekday) % 7)


# rules


class _Context(NamedTuple):
    """A query, and what is around an expression in it."""

    query: str
    words: frozenset[str]
    today: dt.date
    past_from: int
    """Where the first word that tells of the past is."""
    near: dt.date
    """A time without a year is the last that has begun by this day."""
    before: str = ""
    lead: str = ""
    """The preposition before it, or another word."""
    article: str = ""
    part: str = ""
    after: str = ""

    @property
    def is_led(self) -> bool:
        """Whether the words before it announce a time."""
        return self.lead in _STRONG_LEADS or bool(self.part)

    @property
    def may_be_led(self) -> bool:
        return self.is_led or self.lead in _WEAK_LEADS

    def year(self, text: str | None) -> int:
        """Return the year that a text gives, 0 without a text; raise ValueError for one that no note can be from."""
        if not text:
            return 0
        if not -_MAX_YEARS_BACK <= int(text) - self.today.year <= _MAX_YEARS_AHEAD:
            raise ValueError(text)
        return int(text)

    def latest_month(self, month: int) -> DayInterval:
        days = _months(self.near.year, month)
        return days if days[0] <= self.near else _months(self.near.year - 1, month)


Reading = tuple[DayInterval, int, bool] | None
"""Days, specificity, and whether the year is open."""
Rule = Callable[[re.Match[str], _Context], Reading]


def _read_iso(match: re.Match[str], context: _Context) -> Reading:
    year, month, day = context.year(match[1]), int(match[2]), int(match[3] or 0)
    return ((dt.date(year, month, day),) * 2 if day else _months(year, month)), _EXACT, False


def _read_date(match: re.Match[str], context: _Context) -> Reading:
    name, year = match["month"].lower(), context.year(match["year"])
    month, day = _MONTHS[name], int(match["day"] or match["day2"] or 0)
    is_capital = match["month"][0].isupper()
    if not is_capital and (name in _SHORT_MONTHS or (name in _VERB_MONTHS and not (context.is_led or year))):
        return None
    if not day:
        if year:
            return _months(year, month), _EXACT, False
        is_led = context.is_led or (context.lead in _WEAK_LEADS and name not in _NAMED_MONTHS)
        rank = _RELATIVE if is_led or _stands_out(match, context, name) else 0
        return (context.latest_month(month), rank, True) if rank or is_capital else None
    if not (match["suffix"] or match["suffix2"] or match["of"] or is_capital or context.is_led or year):
        return None
    near = context.near
    last = near.year if (month, day) <= (near.month, near.day) else near.year - 1
    return (dt.date(year or last, month, day),) * 2, _EXACT if year else _RELATIVE, not year


def _stands_out(match: re.Match[str], context: _Context, name: str) -> bool:
    """Return True for a capital in the middle of a sentence that is not a name: `the March release`, not `Women's March`."""
    if name in _NAMED_MONTHS | _SHORT_MONTHS or not match["month"][0].isupper() or match["month"].isupper():
        return False
    word = context.before.split()[-1] if context.before.strip() and context.before.endswith(" ") else ""
    return word.isalpha() and word.islower() and context.after != "of"


def _read_year(match: re.Match[str], context: _Context) -> Reading:
    is_led = (context.may_be_led and context.lead not in {"on", "am"}) or match[1]
    is_count = context.after.endswith("s") and context.after not in {"was", "is", "has", "does", "as"}  # 2000 files
    return None if is_count else (_months(context.year(match[2]), 1, 12), _EXACT if is_led else 0, False)


def _read_weekday(match: re.Match[str], context: _Context) -> Reading:
    is_last = bool(match[2]) or not context.after
    word = context.before.rpartition(" ")[2] if not context.before.endswith(" ") else context.before.split()[-1]
    if context.article and not (is_last and (context.may_be_led)):
        return None  # the Monday standup is every week
    is_alone = is_last and (word.islower() or (not word and bool(match[2])))
    if not (context.may_be_led or (is_alone and match[1][0].isupper())):
        return None
    return (_weekday_by(context.near, _WEEKDAYS[match[1].lower()]),) * 2, _RELATIVE, True


def _read_day_word(match: re.Match[str], context: _Context) -> Reading:
    word = (match[3] or "").lower()
    shift = _DAY_WORDS[word] * (2 if match["day"] else 1) if word else -(match[1].lower() == "last")
    is_long = len(context.query.split()) > 4
    is_present = word in {"today", "heute"} and is_long and context.words.isdisjoint(_PAST_MARKERS)
    return None if is_present else ((context.today + dt.timedelta(shift),) * 2, _RELATIVE, False)


def _read_recently(match: re.Match[str], context: _Context) -> Reading:
    """Parse `What did we decide recently?` and `what has Joe recently read`, but not `least recently used`."""
    if context.article or context.lead in _BEFORE_ADJECTIVE or (context.after and context.past_from > match.start()):
        return None
    return (context.today - dt.timedelta(min(RECENT_DAYS, context.today.toordinal() - 1)), context.today), _VAGUE, False


def _read_count(match: re.Match[str]) -> tuple[int, int]:
    text = match["count"].lower()
    return _COUNTS[text] if text in _COUNTS else (int(text), int(text))


def _read_ago(match: re.Match[str], context: _Context) -> Reading:
    """Parse `three days ago`, `vor drei Tagen`, `seit drei Tagen`."""
    low, high = _read_count(match)
    unit, german, after = _UNITS[match["unit"].lower()], (match["german"] or "").lower().strip(), match["after"]
    if bool(german) == bool(after) or unit == "weekend":
        return None
    if german == "seit":
        return (_add_units(context.today, unit, -high), context.today), _RELATIVE, False
    ends = sorted(_add_units(context.today, unit, -count) for count in (low, high))
    # People count days exactly for about a week, and otherwise to half the unit they name.
    fuzz = dt.timedelta({"day": high // 7, "week": 3, "month": 15, "year": 182}[unit])
    return (ends[0] - fuzz, ends[1] + fuzz), _RELATIVE, False


def _read_shifted(match: re.Match[str], context: _Context) -> Reading:
    """Parse `last week`, `past 3 days`, `this year`, `last Monday`, `last March`."""
    how, today, unit = match[1].lower(), context.today, _UNITS.get((match["unit"] or "").lower())
    is_now = how.startswith(("this", "current", "diese"))
    if unit is None:
        return _read_shifted_name(match, today, is_now=is_now)
    if context.after in {"of", "des", "der"}:
        return None  # the last week of the project
    if match["count"]:
        if is_now or match["count"].lower() in {"a", "an"} or how == "previous":
            return None
        return (_add_units(today, unit, -_read_count(match)[1]), today), _RELATIVE, False
    is_span = how.startswith(("past", "vergangen")) or (context.article == "the" and not context.part)
    if not is_now and unit != "weekend" and is_span:
        return (_add_units(today, unit, -1), today), _RELATIVE, False
    return (_unit_days(_add_units(today, unit, is_now - 1), unit), _RELATIVE, False) if unit != "day" else None


def _read_shifted_name(match: re.Match[str], today: dt.date, *, is_now: bool) -> Reading:
    if match["weekday"]:
        near = _unit_days(today, "week")[1] if is_now else today - dt.timedelta(1)
        return (_weekday_by(near, _WEEKDAYS[match["weekday"].lower()]),) * 2, _RELATIVE, False
    days = _months(today.year, _MONTHS[match["named"].lower()])
    if not is_now and days[1] >= today:
        days = _months(days[0].year - 1, days[0].month)
    return (days, _RELATIVE, False) if match["named"][0].isupper() else None


_SHIFTS = r"last|past|previous|this|current|letzte[nsrm]?|vergangene[ns]?|diese[nsrm]?"
_DAY_PART = "|".join(_DAY_PARTS)
_WEEKDAY = _any_of(_WEEKDAYS)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return the patterns of times, compiled when a query first names one, and the functions that read them."""
    date = (
        rf"(?<![\w/.,])(?:(?P<day>\d{{1,2}})(?P<suffix>st|nd|rd|th|\.)? (?P<of>of )?)?(?P<month>{_any_of(_MONTHS)})\b"
        rf"(?: (?P<day2>\d{{1,2}})(?P<suffix2>st|nd|rd|th)?(?![\w:]|\.\d))?{_YEAR_AFTER}(?:['’]s)?(?![\w/]|\.\w)"
    )
    others = (
        (r"(\d{4})[-/](\d\d)(?:[-/](\d\d)(?:T[\d:.]+Z?)?)?", _read_iso),
        (r"(year |jahre? )?(\d{4})", _read_year),
        (rf"({_WEEKDAY})(?:(['’]s)|(?: (?:{_DAY_PART}))?)", _read_weekday),
        (rf"(?:(last|this) (?:{_DAY_PART})|(?P<day>day before )?({_any_of(_DAY_WORDS)}))", _read_day_word),
        (r"(?:recently|lately|kürzlich|neulich)", _read_recently),
        (rf"(?P<german>vor |seit )?{_COUNT} {_UNIT}(?P<after> ago| back)?", _read_ago),
        (
            rf"({_SHIFTS}) (?:(?:{_COUNT} )?{_UNIT}|(?P<weekday>{_WEEKDAY})|(?P<named>{_any_of(_MONTHS)}))",
            _read_shifted,
        ),
    )
    patterns = [(rf"(?<![\w/.,-]){pattern}(?:['’]s)?(?![\w/]|[-.]\w)", rule) for pattern, rule in others]
    return tuple((re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in [(date, _read_date), *patterns])


# search


class _Time(NamedTuple):
    """A time in the query. A specificity of 0 means that it counts only as an end of a range."""

    start: int
    end: int
    days: DayInterval
    rank: int
    relation: str
    opener: int
    """Where `between` or `from` in front of it begins, or -1."""
    days_by: Callable[[dt.date], DayInterval] | None = None
    """Returns the days by another day, if the year is open."""


def _find_times(query: str, words: frozenset[str], today: dt.date) -> Iterator[_Time]:
    """Yield the times of a query in order; of two that overlap, the first, and of those the longest."""
    quoted = [match.span() for match in re.finditer(QUOTED_PATTERN, query)]
    starts = [start for start, _ in quoted]
    past = (match.start() for match in _WORD.finditer(query) if match[0].lower() in _PAST_MARKERS)
    context = _Context(query, words, today, next(past, len(query)), today)
    found = [(match, rule) for pattern, rule in _rules() for match in pattern.finditer(query)]
    end = 0
    for match, rule in sorted(found, key=lambda pair: (pair[0].start(), -pair[0].end())):
        at = bisect_right(starts, match.start())
        if match.start() < end or (at and quoted[at - 1][1] > match.start()):
            continue
        try:
            time = _read_time(match, rule, context)
        except (OverflowError, ValueError):
            continue
        if time:
            end = time.end
            yield time


def _read_time(match: re.Match[str], rule: Rule, context: _Context) -> _Time | None:
    query, start = match.string, match.start()
    before = query[max(0, start - 40) : start]
    prefix, suffix = re.search(_PREFIX, before), _SUFFIX.match(query, match.end(), match.end() + 30)
    after = suffix[1].lower() if suffix else ""
    if prefix is None or prefix["noun"] or after in _DATE_NOUNS or after in _HABITS:
        return None  # values to compute: `date of last Monday`, `yesterday's date`; and `Saturday mornings`
    lead, article, part = ((prefix[name] or "").lower() for name in ("lead", "article", "part"))
    if lead not in _STRONG_LEADS:
        lead = lead.rpartition(" ")[2]
    context = context._replace(before=before, lead=lead, article=article, part=part, after=after)
    reading = rule(match, context)
    if reading is None:
        return None
    days, rank, is_open = reading

    def days_by(day: dt.date) -> DayInterval:
        other = rule(match, context._replace(near=day))
        return _cut_part(other[0], part) if other else days

    shift, relation = start - len(before), _RELATIONS.get(lead, "")
    opener = shift + prefix.start("lead") if lead in _RANGE_OPENERS else -1
    if relation or part:
        start = shift + prefix.start("lead" if relation else "part")
    return _Time(start, match.end(), _cut_part(days, part), rank, relation, opener, days_by if is_open else None)


def _cut_part(days: DayInterval, part: str) -> DayInterval:
    """Return the first, second or last third of an interval of a week or more."""
    width = (days[1] - days[0]).days + 1
    if not part or width < 7:
        return days
    third = _PARTS[part]
    first, last = (days[0] + dt.timedelta(width * (third + step) // 3 - step) for step in (0, 1))
    return first, max(first, last)


def _join_ranges(query: str, times: list[_Time]) -> list[_Time]:
    """Join `March to May` and `January and March`; drop names that only a range would make a time."""
    joined: list[_Time] = []
    for time in times:
        last = joined[-1] if joined else None
        if last and not time.relation and _JOINT.fullmatch(query, last.end, time.start):
            first = last.days_by(time.days[1]) if last.days_by else last.days
            if first[0] <= time.days[0]:
                rank = max(last.rank, time.rank) or _RELATIVE
                start = last.opener if last.opener >= 0 else last.start
                days = first[0], max(first[1], time.days[1])
                joined[-1] = _Time(start, time.end, days, rank, last.relation, -1)
                continue
        joined.append(time)
    return [time for time in joined if time.rank]


def _choose_hint(query: str, times: list[_Time], today: dt.date) -> TimeHint:
    rank = max(time.rank for time in times)
    best = [time for time in times if time.rank == rank]
    related = next((time for time in best if time.relation), None)
    best = [related] if related else best
    first: dt.date | None = min(time.days[0] for time in best)
    last: dt.date | None = max(time.days[1] for time in best)
    if related and related.relation == "before":
        first, last = None, related.days[0] - dt.timedelta(related.days[0] > dt.date.min)
    elif related and related.relation == "after":
        first, last = related.days[1] + dt.timedelta(related.days[1] < dt.date.max), None
    elif related:
        first, last = (related.days[0], None) if related.relation == "since" else (None, related.days[1])
    phrases = dict.fromkeys(query[time.start : time.end] for time in best)
    return TimeHint(" … ".join(phrases), (best[0].start, best[-1].end), first, last, today)
