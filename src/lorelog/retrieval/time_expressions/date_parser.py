"""Parses times in a query: a day, a month, `last week`, `three days ago`, `early 2024`.

The parser looks a few words ahead from a word, never back over words it has read, and recurses at most once, so that
the work is linear in the query. Each rule requires context that only a time has (a preposition, a year, a day, a
capital letter), because a wrong date does more harm than a missed one.

Weeks begin on Monday. A step out of the calendar raises OverflowError or ValueError, which the parser treats as no
time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from lorelog.retrieval.time_expressions import vocabulary as words

DayInterval = tuple[date, date]
"""First and last day, both inclusive."""


def month_days(year: int, month: int, count: int = 1) -> DayInterval:
    """Return the days of `count` consecutive months; a month beyond 12 is in the next year."""
    start, end = year * 12 + month - 1, year * 12 + month - 1 + count
    return date(start // 12, start % 12 + 1, 1), date(end // 12, end % 12 + 1, 1) - timedelta(1)


def unit_days(day: date, unit: str) -> DayInterval:
    """Return the calendar week, month, quarter or year that contains a day, or the day itself."""
    if unit == "week":
        monday = day - timedelta(day.weekday())
        return monday, monday + timedelta(6)
    if unit == "month":
        return month_days(day.year, day.month)
    if unit == "quarter":
        return month_days(day.year, (day.month - 1) // 3 * 3 + 1, 3)
    if unit == "year":
        return month_days(day.year, 1, 12)
    return day, day


def add_units(day: date, unit: str, count: int) -> date:
    """Return the day `count` units later; the 31st becomes the last day of a shorter month."""
    if unit in {"minute", "hour"}:
        return day + timedelta(int(count / (24 if unit == "hour" else 1440)))
    if unit in {"day", "week"}:
        return day + timedelta(count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * {"month": 1, "quarter": 3, "year": 12}[unit]
    first, last = month_days(months // 12, months % 12 + 1)
    return min(first + timedelta(day.day - 1), last)


def weekday_before(near: date, weekday: int) -> date:
    """Return the last such weekday up to and including a day."""
    return near - timedelta((near.weekday() - weekday) % 7)


def weekend_before(near: date) -> DayInterval:
    """Return the last weekend that has begun by a day."""
    saturday = weekday_before(near, 5)
    return saturday, saturday + timedelta(1)


def season_days(near: date, month: int) -> DayInterval:
    """Return the last season starting in `month` that has begun by a day."""
    days = month_days(near.year, month, 3)
    return days if days[0] <= near else month_days(near.year - 1, month, 3)


def relative_season(today: date, month: int, sign: int) -> DayInterval:
    """Return last, this or next summer: last is over, next has not begun, this is of the current year."""
    days = season_days(today, month)
    if sign < 0:
        return days if days[1] < today else month_days(days[0].year - 1, month, 3)
    if sign > 0:
        return month_days(days[0].year + 1, month, 3)
    return days if today <= days[1] else month_days(today.year, month, 3)


def relative_month(today: date, month: int, sign: int) -> DayInterval:
    """Return last, this or next March, by the same rule."""
    days = month_days(today.year, month)
    if (sign < 0 and days[1] >= today) or (sign > 0 and days[0] <= today):
        return month_days(today.year + sign, month)
    return days


def interval_part(days: DayInterval, part: int, parts: int) -> DayInterval:
    """Return one of several equal parts of an interval, counted from 0."""
    width = (days[1] - days[0]).days + 1
    first = days[0] + timedelta(width * part // parts)
    last = days[0] + timedelta(width * (part + 1) // parts - 1)
    return first, max(first, last)


def widen_interval(days: DayInterval, by: int) -> DayInterval:
    """Return the interval with `by` more days on either side."""
    return days[0] - timedelta(by), days[1] + timedelta(by)


_MAX_YEARS_BACK, _MAX_YEARS_AHEAD = 20, 5
"""Years that notes can be from, relative to today; `in 1492` and `in 2048` are about something else."""
_YEAR = re.compile(r"[0-9]{4}")
_NUMBER = re.compile(r"[0-9]{1,4}")


class QueryPhrase:
    """The words of one query on one day. Any index is allowed; beyond the ends there are no words."""

    def __init__(self, tokens: list[words.QueryToken], today: date) -> None:
        self._tokens = tokens
        self._today = today

    def _lower(self, at: int) -> str:
        return self._tokens[at].lower if 0 <= at < len(self._tokens) else ""

    def _continues(self, at: int, extra: str = "") -> bool:
        """Return True if a word and the next are one phrase; `extra` is punctuation that does not separate them."""
        token = self._tokens[at]
        return token.continues_phrase or (bool(extra) and token.after.strip() == extra.strip())

    def _is_capital(self, at: int) -> bool:
        return 0 <= at < len(self._tokens) and self._tokens[at].text[:1].isupper()

    def _lead(self, at: int) -> int:
        """Return 2 if the previous word announces a time, 1 if it may, else 0."""
        at -= 1
        if at >= 0 and self._lower(at) in words.ARTICLES and self._tokens[at].continues_phrase:
            at -= 1
        if at < 0 or not self._tokens[at].continues_phrase:
            return 0
        if self._lower(at) == "of":
            return 2 * (self._lower(at - 1) in words.UNITS or self._lower(at - 1) in words.DAY_PARTS)
        return 2 if self._lower(at) in words.STRONG_LEADS else int(self._lower(at) in words.WEAK_LEADS)

    def _may_be_month(self, at: int) -> bool:
        low = self._lower(at)
        if low in words.SHORT_MONTHS:
            return self._is_capital(at)
        return (
            low not in words.VERB_MONTHS or self._is_capital(at) or bool(self._lead(at)) or bool(self._year_at(at + 1))
        )

    def _stands_out(self, at: int) -> bool:
        """Return True for a capital in the middle of a sentence that is not a name: `the March release`, not `the
        Women's March`.
        """
        if at == 0 or not self._is_capital(at) or self._lower(at) in words.NAMED_MONTHS | words.SHORT_MONTHS:
            return False
        if self._lower(at + 1) == "of":
            return False  # the March of the Penguins
        before = self._tokens[at - 1]
        return (
            before.continues_phrase
            and before.text.islower()
            and before.text.isascii()
            and not self._tokens[at].text.isupper()
        )

    def _year_at(self, at: int) -> int:
        text = self._lower(at)
        return int(text) if _YEAR.fullmatch(text) and self._is_year(int(text)) else 0

    def _is_year(self, year: int) -> bool:
        return -_MAX_YEARS_BACK <= year - self._today.year <= _MAX_YEARS_AHEAD

    def _count(self, at: int) -> tuple[int, int, int] | None:
        """Parse `three`, `a`, `a few`, `a couple of`: the minimum, the maximum, and the index of the next word."""
        low = self._lower(at)
        if low in {"a", "the", "ein"} and self._lower(at + 1) in words.VAGUE_NUMBERS:
            at, low = at + 1, self._lower(at + 1)
        if low in words.VAGUE_NUMBERS:
            return *words.VAGUE_NUMBERS[low], at + 1 + (self._lower(at + 1) == "of")
        if low in words.NUMBERS:
            return words.NUMBERS[low], words.NUMBERS[low], at + 1
        return (int(low), int(low), at + 1) if _NUMBER.fullmatch(low) else None

    def _odd_year(self, at: int) -> bool:
        """Return True if a year follows that no note can be from: `October 1954`."""
        return self._continues(at, ",") and bool(_YEAR.fullmatch(self._lower(at + 1))) and not self._year_at(at + 1)

    def _opens_range(self, at: int) -> bool:
        """Return True for `March to May`, `Jan-Mar`: one month confirms the other."""
        dashed = self._tokens[at].after.strip() in {"-", "–", "—"}
        other = at + 1 if dashed else at + 2
        joined = dashed or self._lower(at + 1) in {"to", "through", "bis"}
        return joined and self._is_capital(other) and self._lower(other) in words.MONTHS

    def _is_name(self, at: int) -> bool:
        """Return True if a word begins a name: `the Spring Fling Market`."""
        return self._is_capital(at) and self._is_capital(at + 1) and self._tokens[at].continues_phrase


RANK_EXACT, RANK_RELATIVE, RANK_VAGUE = 3, 2, 1
"""Specificity of an expression. A date with its year beats `last Friday`, and that beats `recently`."""

_ISO = re.compile(r"([0-9]{4})[-/]([0-9]{2})(?:[-/]([0-9]{2})(?:[Tt][0-9:.]+[Zz]?)?)?")
_SLASHED = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_DAY = re.compile(r"([0-9]{1,2})(st|nd|rd|th)?")
_QUARTER = re.compile(r"q([1-4])(?:[-/]([0-9]{4}))?")
_NON_UNITS = words.word_set("was is has does this as us bis als aus es")


class DatePoint(NamedTuple):
    """An interval, the index of the next word, its specificity, and whether its year or week is open."""

    days: DayInterval
    end: int
    rank: int
    open: bool = False


class DateParser(QueryPhrase):
    """Parses points in time in one query, relative to the day of the query."""

    def __init__(self, tokens: list[words.QueryToken], today: date) -> None:
        super().__init__(tokens, today)
        self._rules: tuple[Callable[[int, bool, date], DatePoint | None], ...] = (
            self._stamp,
            self._month,
            self._day_of_month,
            self._quarter,
            self._season,
            self._weekday,
            self._year,
            self._day_word,
            self._counted,
            self._shifted,
        )

    def read(self, at: int, near: date, *, led: bool = False) -> DatePoint | None:
        """Parse the point that begins at a word; one without a year is the last that has begun by `near`.

        `led` means that the previous words announce a time, which `in March` needs and `March 2024` does not.
        """
        try:
            return self._prefixed(at, near) or self._plain(at, near, led)
        except (OverflowError, ValueError):
            return None

    def _plain(self, at: int, near: date, led: bool) -> DatePoint | None:  # noqa: FBT001
        led = led or self._lead(at) == 2
        return next((match for rule in self._rules if (match := rule(at, led, near))), None)

    # words before a point

    def _prefixed(self, at: int, near: date) -> DatePoint | None:
        low = self._lower(at)
        if low in words.AROUND and (point := self._inner(at + 1, near)):
            width = (point.days[1] - point.days[0]).days + 1
            return point._replace(days=widen_interval(point.days, max(2, width // 4)))
        if low in words.STANDALONE_PARTS and (point := self._inner(at + 1, near)):
            return _interval_part_of(point, _third_index(low), 3)
        if self._lower(at + 1) == "of" and low in words.EARLY | words.MIDDLE | words.LATE:
            return _interval_part_of(self._inner(at + 2, near) or self._the_unit(at + 2), _third_index(low), 3)
        if low in words.ORDINALS and self._lower(at + 2) == "of":
            return self._ordinal(at, near)
        return self._offset(at, near)

    def _inner(self, at: int, near: date) -> DatePoint | None:
        if at > 0 and not self._tokens[at - 1].continues_phrase:
            return None
        return self._plain(at, near, led=True)

    def _ordinal(self, at: int, near: date) -> DatePoint | None:
        number, part = words.ORDINALS[self._lower(at)], self._lower(at + 1)
        if part not in {"week", "half", "quarter"}:
            return None
        point = self._inner(at + 3, near) or self._the_unit(at + 3)
        if part != "week":
            parts = 2 if part == "half" else 4
            return _interval_part_of(point, parts - 1 if number < 0 else min(number, parts) - 1, parts)
        if not point or not _is_wide(point):
            return None
        first = point.days[1] - timedelta(6) if number < 0 else point.days[0] + timedelta(7 * number - 7)
        return point._replace(days=(first, first + timedelta(6)))

    def _offset(self, at: int, near: date) -> DatePoint | None:
        """Parse `two weeks before August 11`, `the Sunday before …`, `the day after …`."""
        low, high, place = self._count(at) or (1, 1, at)
        thing = self._lower(place)
        sign = {"before": -1, "prior": -1, "after": 1}.get(self._lower(place + 1), 0)
        if not sign or (thing not in words.UNITS and thing not in words.WEEKDAYS and thing not in words.WEEKENDS):
            return None
        if self._lower(place) == "day" and self._lower(place + 2) in {"yesterday", "tomorrow"}:
            day = self._today + timedelta(2 * sign)
            return DatePoint((day, day), place + 3, RANK_RELATIVE)
        point = self._inner(place + (3 if self._lower(place + 1) == "prior" else 2), near)
        if not point:
            return None
        edge = point.days[0] - timedelta(1) if sign < 0 else point.days[1] + timedelta(1)
        if thing not in words.UNITS:
            reach = edge if sign < 0 else edge + timedelta(6)
            weekday = words.WEEKDAYS.get(thing)
            days = weekend_before(reach) if weekday is None else (weekday_before(reach, weekday),) * 2
        elif place == at:  # the week before: all of it
            other = add_units(edge, words.UNITS[thing], sign) - timedelta(sign)
            days = min(edge, other), max(edge, other)
        else:
            ends = sorted(add_units(point.days[0], words.UNITS[thing], sign * count) for count in (low, high))
            days = widen_interval((ends[0], ends[1]), _fuzz(words.UNITS[thing], high))
        return point._replace(days=days)

    def _the_unit(self, at: int) -> DatePoint | None:
        """Parse `the start of the year`, which means the current year."""
        if self._lower(at) in words.ARTICLES and words.UNITS.get(self._lower(at + 1)) in words.CALENDAR_UNITS:
            return DatePoint(unit_days(self._today, words.UNITS[self._lower(at + 1)]), at + 2, RANK_RELATIVE)
        return None

    # dates

    def _stamp(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        text = self._lower(at)
        if not text[:1].isdigit():
            return None
        if match := _ISO.fullmatch(text):
            year, month, day = int(match[1]), int(match[2]), int(match[3] or 0)
        elif match := _SLASHED.fullmatch(text):
            month, day, year = int(match[1]), int(match[2]), int(match[3])
            if month <= 12 and day <= 12 and month != day:
                return None  # ambiguous: day and month could be swapped
            month, day = (day, month) if month > 12 else (month, day)
        elif match := _DOTTED.fullmatch(text):
            # 1.2.2024 is as likely a version
            if (len(match[1]), len(match[2])) != (2, 2) and self._lower(at - 1) not in {
                "am",
                "vom",
                "seit",
                "bis",
                "zum",
            }:
                return None
            day, month, year = int(match[1]), int(match[2]), int(match[3])
        else:
            return None
        if not self._is_year(year):
            return None
        return DatePoint((date(year, month, day),) * 2 if day else month_days(year, month), at + 1, RANK_EXACT)

    def _month(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        month = words.MONTHS.get(self._lower(at))
        if not month or not self._may_be_month(at) or self._odd_year(at):
            return None
        if self._continues(at, ", ") and (year := self._year_at(at + 1)):
            return DatePoint(month_days(year, month), at + 2, RANK_EXACT)
        if self._lower(at + 1) == "of" and (year := self._year_at(at + 2)):
            return DatePoint(month_days(year, month), at + 3, RANK_EXACT)
        day = _DAY.fullmatch(self._lower(at + 1)) if self._continues(at) else None
        if day and 0 < int(day[1]) < 32 and (led or day[2] or self._is_capital(at) or self._year_at(at + 2)):
            return None if self._odd_year(at + 1) else self._dated(int(day[1]), month, at + 2, near)
        known = self._lead(at) and self._lower(at) not in words.NAMED_MONTHS
        if led or known or self._stands_out(at) or self._opens_range(at):
            return _latest_by(month_days(near.year, month), at + 1, near)
        return None

    def _day_of_month(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        match = _DAY.fullmatch(self._lower(at))
        if not match or not 0 < int(match[1]) < 32 or not self._continues(at, ". "):
            return None
        place = at + 2 if self._lower(at + 1) == "of" else at + 1
        month = words.MONTHS.get(self._lower(place))
        if not month or not self._may_be_month(place) or self._odd_year(place):
            return None
        if not (match[2] or place > at + 1 or self._is_capital(place) or self._year_at(place + 1)):
            return None
        return self._dated(int(match[1]), month, place + 1, near)

    def _dated(self, day: int, month: int, end: int, near: date) -> DatePoint | None:
        if self._continues(end - 1, ", ") and (year := self._year_at(end)):
            return DatePoint((date(year, month, day),) * 2, end + 1, RANK_EXACT)
        year = near.year if (month, day) <= (near.month, near.day) else near.year - 1
        return DatePoint((date(year, month, day),) * 2, end, RANK_RELATIVE, open=True)

    def _quarter(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        match = _QUARTER.fullmatch(self._lower(at))
        if match:
            month, end = int(match[1]) * 3 - 2, at + 1
            if match[2] and self._is_year(int(match[2])):
                return DatePoint(month_days(int(match[2]), month, 3), end, RANK_EXACT)
            end += self._lower(end) == "of"
            if self._continues(at) and (year := self._year_at(end)):
                return DatePoint(month_days(year, month, 3), end + 1, RANK_EXACT)
            known = led or self._lead(at) or (self._lower(at - 1) in {"the", "our", "my", "for"} and at > 0)
            if self._is_capital(at) and (known or (at == 0 and self._tokens[at].continues_phrase)):
                return _latest_by(month_days(near.year, month, 3), at + 1, near)
        elif (year := self._year_at(at)) and self._continues(at) and (match := _QUARTER.fullmatch(self._lower(at + 1))):
            return DatePoint(month_days(year, int(match[1]) * 3 - 2, 3), at + 2, RANK_EXACT)
        return None

    def _season(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        month = words.SEASONS.get(self._lower(at))
        if not month:
            return None
        end = at + 1 + (self._lower(at + 1) == "of")
        if self._continues(at) and (year := self._year_at(end)):
            return DatePoint(month_days(year, month, 3), end + 1, RANK_EXACT)
        # "in the summer", "im Sommer"; Spring without an article is a framework
        in_the = self._lower(at - 1) == "the" and self._lower(at - 2) in {"in", "during", "since"}
        if (in_the and not self._is_name(at)) or self._lower(at - 1) == "im":
            return DatePoint(season_days(near, month), at + 1, RANK_RELATIVE, open=True)
        return None

    def _weekday(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        weekday = words.WEEKDAYS.get(self._lower(at))
        if weekday is None or (not self._is_capital(at) and not led):
            return None
        if (ago := self._counted(at + 1, led, near)) and self._tokens[at].continues_phrase:
            middle = ago.days[0] + (ago.days[1] - ago.days[0]) // 2
            day = weekday_before(middle + timedelta(3), weekday)
            return DatePoint((day, day), ago.end, RANK_RELATIVE)
        before = self._tokens[at - 1] if at else None
        owned = self._tokens[at].text.lower() != self._lower(at)
        standing = self._tokens[at].ends_clause or owned
        if (
            before
            and before.lower in {*words.ARTICLES, "every", "each", "a", "any"}
            and not (standing and self._lead(at))
        ):
            return None  # the Monday standup is every week
        alone = standing and (not before or before.text.islower()) and (owned or bool(before))
        if led or self._lead(at) or alone:
            day = weekday_before(near, weekday)
            return DatePoint((day, day), at + 1 + (self._lower(at + 1) in words.DAY_PARTS), RANK_RELATIVE, open=True)
        return None

    def _year(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        place = at + 1 if self._lower(at) in {"year", "jahr", "jahre"} else at
        year = self._year_at(place)
        if not year or not (led or place > at or self._lead(at)) or self._lower(at - 1) in {"on", "am"}:
            return None
        following = self._lower(place + 1)
        if self._tokens[place].continues_phrase and following.endswith("s") and following not in _NON_UNITS:
            return None  # in 2000 files
        return DatePoint(month_days(year, 1, 12), place + 1, RANK_EXACT)

    # relative to today

    def _day_word(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        low, following = self._lower(at), self._lower(at + 1)
        in_day = following in words.DAY_PARTS
        if low in words.DAY_WORDS:
            day = self._today + timedelta(words.DAY_WORDS[low])
            return DatePoint((day, day), at + 1 + in_day, RANK_RELATIVE)
        if (
            low == "morgen"
            and self._tokens[at].text == low
            and self._lower(at - 1) not in {"am", "jeden", "guten", "heute", "gestern"}
        ):
            return DatePoint((self._today + timedelta(1),) * 2, at + 1, RANK_RELATIVE)
        if in_day and low in {"this", "last"}:
            day = self._today - timedelta(low == "last")
            return DatePoint((day, day), at + 2, RANK_RELATIVE)
        if low == "other" and following == "day" and self._lower(at - 1) == "the":
            return DatePoint((self._today - timedelta(7), self._today), at + 2, RANK_VAGUE)
        if low in words.WEEKENDS and self._lower(at - 1) in {"the", "am"} and self._lower(at - 2) not in {"of", "for"}:
            return DatePoint(weekend_before(near), at + 1, RANK_RELATIVE)
        return None

    def _counted(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        """Parse `three days ago`, `a week from now`, `vor drei Tagen`, `seit drei Tagen`."""
        german = self._lower(at) if self._lower(at) in {"vor", "seit"} else ""
        if not (counted := self._count(at + bool(german))):
            return None
        low, high, place = counted
        unit = words.UNITS.get(self._lower(place))
        if not unit or not self._tokens[place - 1].continues_phrase:
            return None
        if german == "seit":
            return DatePoint((add_units(self._today, unit, -high), self._today), place + 1, RANK_RELATIVE)
        end = place + 1
        if german or self._lower(end) in {"ago", "back"}:
            sign, end = -1, end + (not german)
        elif self._lower(end) == "from" and self._lower(end + 1) == "now":
            sign, end = 1, end + 2
        else:
            return None
        ends = sorted(add_units(self._today, unit, sign * count) for count in (low, high))
        return DatePoint(widen_interval((ends[0], ends[1]), _fuzz(unit, high)), end, RANK_RELATIVE)

    def _shifted(self, at: int, led: bool, near: date) -> DatePoint | None:  # noqa: FBT001
        """Parse `last week`, `past 3 days`, `this quarter`, `next Monday`, `last summer`."""
        low = self._lower(at)
        sign = -1 if low in words.BACKWARD_WORDS else 1 if low in words.FORWARD_WORDS else 0
        if (not sign and low not in words.CURRENT_WORDS) or not self._continues(at):
            return None
        if sign and low != "previous" and (counted := self._count(at + 1)):
            unit = words.UNITS.get(self._lower(counted[2]))
            if not unit or self._lower(at + 1) in {"a", "an"} or self._lower(counted[2] + 1) in {"of", "des", "der"}:
                return None  # the last three minutes of the game
            other = add_units(self._today, unit, sign * counted[1])
            return DatePoint((min(other, self._today), max(other, self._today)), counted[2] + 1, RANK_RELATIVE)
        return self._shifted_name(at, sign)

    def _shifted_name(self, at: int, sign: int) -> DatePoint | None:
        name, today = self._lower(at + 1), self._today
        unit = words.UNITS.get(name, "")
        days: DayInterval | None = None
        if unit in words.CALENDAR_UNITS:
            if self._lower(at + 2) == "of":
                return None  # the last week of the project
            if sign < 0 and (self._lower(at) in words.ROLLING_WORDS or self._lower(at - 1) == "the"):
                days = add_units(today, unit, -1), today
            else:
                days = unit_days(add_units(today, unit, sign), unit)
        elif name in words.WEEKENDS:
            monday = unit_days(today, "week")[0] + timedelta(7 * sign)
            days = monday + timedelta(5), monday + timedelta(6)
        elif name in words.WEEKDAYS:
            week = {-1: today - timedelta(1), 0: unit_days(today, "week")[1], 1: today + timedelta(7)}[sign]
            days = (weekday_before(week, words.WEEKDAYS[name]),) * 2
        elif name in words.SEASONS:
            days = relative_season(today, words.SEASONS[name], sign)
        elif name in words.MONTHS and self._may_be_month(at + 1):
            days = relative_month(today, words.MONTHS[name], sign)
        return DatePoint(days, at + 2, RANK_RELATIVE) if days else None


def _is_wide(point: DatePoint) -> bool:
    return (point.days[1] - point.days[0]).days >= 6


def _interval_part_of(point: DatePoint | None, part: int, parts: int) -> DatePoint | None:
    return point._replace(days=interval_part(point.days, part, parts)) if point and _is_wide(point) else None


def _fuzz(unit: str, count: int) -> int:
    """Return the tolerance: people count days exactly for about a week, and otherwise to half the unit they name."""
    return {"day": count // 7, "week": 3, "month": 15, "quarter": 45, "year": 182}.get(unit, 0)


def _third_index(low: str) -> int:
    return 0 if low in words.EARLY else 1 if low in words.MIDDLE else 2


def _latest_by(days: DayInterval, end: int, near: date) -> DatePoint:
    if days[0] > near:
        days = month_days(days[0].year - 1, days[0].month, (days[1].month - days[0].month) % 12 + 1)
    return DatePoint(days, end, RANK_RELATIVE, open=True)
