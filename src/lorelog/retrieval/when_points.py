"""Reads the times that a query names: a day, a month, `last week`, `three days ago`, `early 2024`.

A reader stands at a word and looks a few words ahead, never back over what it has read and never into itself more than
once, so that the work is in proportion to the query. Each rule asks for company that only a time keeps (a preposition, a
year, a day, a capital letter), because a wrong date does more harm than a missed one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from lorelog.retrieval import when_words as words
from lorelog.retrieval.when_calendar import (
    Days,
    called_month,
    called_season,
    month_days,
    season_days,
    share,
    step,
    unit_days,
    weekday_before,
    weekend_before,
    widen,
)
from lorelog.retrieval.when_phrase import Phrase

EXACT, RELATIVE, VAGUE = 3, 2, 1
"""How much an expression says. A date with its year beats `last Friday` beside it, and that beats `recently`."""

_ISO = re.compile(r"([0-9]{4})[-/]([0-9]{2})(?:[-/]([0-9]{2})(?:[Tt][0-9:.]+[Zz]?)?)?")
_SLASHED = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_DOTTED = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
_DAY = re.compile(r"([0-9]{1,2})(st|nd|rd|th)?")
_QUARTER = re.compile(r"q([1-4])(?:[-/]([0-9]{4}))?")
_NOT_COUNTED = words.listed("was is has does this as us bis als aus es")


class Point(NamedTuple):
    """An interval, the index of the word after it, how much it says, and whether it leaves its year or week open."""

    days: Days
    end: int
    rank: int
    open: bool = False


class PointReader(Phrase):
    """Reads points of one query, for one day on which it is asked."""

    def __init__(self, tokens: list[words.Token], today: date) -> None:
        super().__init__(tokens, today)
        self._rules: tuple[Callable[[int, bool, date], Point | None], ...] = (
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

    def read(self, at: int, near: date, *, led: bool = False) -> Point | None:
        """Read the point that begins at a word; one without a year is the last that has begun by `near`.

        `led` says that the words before announce a time, which `in March` needs and `March 2024` does not.
        """
        try:
            return self._prefixed(at, near) or self._plain(at, near, led)
        except (OverflowError, ValueError):
            return None

    def _plain(self, at: int, near: date, led: bool) -> Point | None:  # noqa: FBT001
        led = led or self._lead(at) == 2
        return next((found for rule in self._rules if (found := rule(at, led, near))), None)

    # what stands before a point

    def _prefixed(self, at: int, near: date) -> Point | None:
        low = self._low(at)
        if low in words.AROUND and (point := self._inner(at + 1, near)):
            width = (point.days[1] - point.days[0]).days + 1
            return point._replace(days=widen(point.days, max(2, width // 4)))
        if low in words.ALONE_PARTS and (point := self._inner(at + 1, near)):
            return _part(point, _third(low), 3)
        if self._low(at + 1) == "of" and low in words.EARLY | words.MIDDLE | words.LATE:
            return _part(self._inner(at + 2, near) or self._the_unit(at + 2), _third(low), 3)
        if low in words.ORDINALS and self._low(at + 2) == "of":
            return self._ordinal(at, near)
        return self._offset(at, near)

    def _inner(self, at: int, near: date) -> Point | None:
        if at > 0 and not self._tokens[at - 1].joins:
            return None
        return self._plain(at, near, led=True)

    def _ordinal(self, at: int, near: date) -> Point | None:
        number, part = words.ORDINALS[self._low(at)], self._low(at + 1)
        if part not in {"week", "half", "quarter"}:
            return None
        point = self._inner(at + 3, near) or self._the_unit(at + 3)
        if part != "week":
            parts = 2 if part == "half" else 4
            return _part(point, parts - 1 if number < 0 else min(number, parts) - 1, parts)
        if not point or not _is_wide(point):
            return None
        first = point.days[1] - timedelta(6) if number < 0 else point.days[0] + timedelta(7 * number - 7)
        return point._replace(days=(first, first + timedelta(6)))

    def _offset(self, at: int, near: date) -> Point | None:
        """`two weeks before August 11`, `the Sunday before …`, `the day after …`."""
        low, high, place = self._count(at) or (1, 1, at)
        thing = self._low(place)
        sign = {"before": -1, "prior": -1, "after": 1}.get(self._low(place + 1), 0)
        if not sign or (thing not in words.UNITS and thing not in words.WEEKDAYS and thing not in words.WEEKENDS):
            return None
        if self._low(place) == "day" and self._low(place + 2) in {"yesterday", "tomorrow"}:
            day = self._today + timedelta(2 * sign)
            return Point((day, day), place + 3, RELATIVE)
        point = self._inner(place + (3 if self._low(place + 1) == "prior" else 2), near)
        if not point:
            return None
        edge = point.days[0] - timedelta(1) if sign < 0 else point.days[1] + timedelta(1)
        if thing not in words.UNITS:
            reach = edge if sign < 0 else edge + timedelta(6)
            weekday = words.WEEKDAYS.get(thing)
            days = weekend_before(reach) if weekday is None else (weekday_before(reach, weekday),) * 2
        elif place == at:  # the week before: all of it
            other = step(edge, words.UNITS[thing], sign) - timedelta(sign)
            days = min(edge, other), max(edge, other)
        else:
            ends = sorted(step(point.days[0], words.UNITS[thing], sign * count) for count in (low, high))
            days = widen((ends[0], ends[1]), _fuzz(words.UNITS[thing], high))
        return point._replace(days=days)

    def _the_unit(self, at: int) -> Point | None:
        """`the start of the year` means this year."""
        if self._low(at) in words.ARTICLES and words.UNITS.get(self._low(at + 1)) in words.CALENDAR_UNITS:
            return Point(unit_days(self._today, words.UNITS[self._low(at + 1)]), at + 2, RELATIVE)
        return None

    # dates

    def _stamp(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        text = self._low(at)
        if not text[:1].isdigit():
            return None
        if found := _ISO.fullmatch(text):
            year, month, day = int(found[1]), int(found[2]), int(found[3] or 0)
        elif found := _SLASHED.fullmatch(text):
            month, day, year = int(found[1]), int(found[2]), int(found[3])
            if month <= 12 and day <= 12 and month != day:
                return None  # either of two days
            month, day = (day, month) if month > 12 else (month, day)
        elif found := _DOTTED.fullmatch(text):
            # 1.2.2024 is as likely a version
            if (len(found[1]), len(found[2])) != (2, 2) and self._low(at - 1) not in {
                "am",
                "vom",
                "seit",
                "bis",
                "zum",
            }:
                return None
            day, month, year = int(found[1]), int(found[2]), int(found[3])
        else:
            return None
        if not self._is_year(year):
            return None
        return Point((date(year, month, day),) * 2 if day else month_days(year, month), at + 1, EXACT)

    def _month(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        month = words.MONTHS.get(self._low(at))
        if not month or not self._may_be_month(at) or self._odd_year(at):
            return None
        if self._continues(at, ", ") and (year := self._year_at(at + 1)):
            return Point(month_days(year, month), at + 2, EXACT)
        if self._low(at + 1) == "of" and (year := self._year_at(at + 2)):
            return Point(month_days(year, month), at + 3, EXACT)
        day = _DAY.fullmatch(self._low(at + 1)) if self._continues(at) else None
        if day and 0 < int(day[1]) < 32 and (led or day[2] or self._is_capital(at) or self._year_at(at + 2)):
            return None if self._odd_year(at + 1) else self._dated(int(day[1]), month, at + 2, near)
        known = self._lead(at) and self._low(at) not in words.NAMED_MONTHS
        if led or known or self._stands_out(at) or self._opens_range(at):
            return _latest(month_days(near.year, month), at + 1, near)
        return None

    def _day_of_month(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        found = _DAY.fullmatch(self._low(at))
        if not found or not 0 < int(found[1]) < 32 or not self._continues(at, ". "):
            return None
        place = at + 2 if self._low(at + 1) == "of" else at + 1
        month = words.MONTHS.get(self._low(place))
        if not month or not self._may_be_month(place) or self._odd_year(place):
            return None
        if not (found[2] or place > at + 1 or self._is_capital(place) or self._year_at(place + 1)):
            return None
        return self._dated(int(found[1]), month, place + 1, near)

    def _dated(self, day: int, month: int, end: int, near: date) -> Point | None:
        if self._continues(end - 1, ", ") and (year := self._year_at(end)):
            return Point((date(year, month, day),) * 2, end + 1, EXACT)
        year = near.year if (month, day) <= (near.month, near.day) else near.year - 1
        return Point((date(year, month, day),) * 2, end, RELATIVE, open=True)

    def _quarter(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        found = _QUARTER.fullmatch(self._low(at))
        if found:
            month, end = int(found[1]) * 3 - 2, at + 1
            if found[2] and self._is_year(int(found[2])):
                return Point(month_days(int(found[2]), month, 3), end, EXACT)
            end += self._low(end) == "of"
            if self._continues(at) and (year := self._year_at(end)):
                return Point(month_days(year, month, 3), end + 1, EXACT)
            known = led or self._lead(at) or (self._low(at - 1) in {"the", "our", "my", "for"} and at > 0)
            if self._is_capital(at) and (known or (at == 0 and self._tokens[at].joins)):
                return _latest(month_days(near.year, month, 3), at + 1, near)
        elif (year := self._year_at(at)) and self._continues(at) and (found := _QUARTER.fullmatch(self._low(at + 1))):
            return Point(month_days(year, int(found[1]) * 3 - 2, 3), at + 2, EXACT)
        return None

    def _season(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        month = words.SEASONS.get(self._low(at))
        if not month:
            return None
        end = at + 1 + (self._low(at + 1) == "of")
        if self._continues(at) and (year := self._year_at(end)):
            return Point(month_days(year, month, 3), end + 1, EXACT)
        # "in the summer", "im Sommer"; Spring without an article is a framework
        in_the = self._low(at - 1) == "the" and self._low(at - 2) in {"in", "during", "since"}
        if (in_the and not self._is_name(at)) or self._low(at - 1) == "im":
            return Point(season_days(near, month), at + 1, RELATIVE, open=True)
        return None

    def _weekday(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        weekday = words.WEEKDAYS.get(self._low(at))
        if weekday is None or (not self._is_capital(at) and not led):
            return None
        if (ago := self._counted(at + 1, led, near)) and self._tokens[at].joins:
            middle = ago.days[0] + (ago.days[1] - ago.days[0]) // 2
            day = weekday_before(middle + timedelta(3), weekday)
            return Point((day, day), ago.end, RELATIVE)
        before = self._tokens[at - 1] if at else None
        owned = self._tokens[at].text.lower() != self._low(at)
        standing = self._tokens[at].ends_clause or owned
        if (
            before
            and before.low in {*words.ARTICLES, "every", "each", "a", "any"}
            and not (standing and self._lead(at))
        ):
            return None  # the Monday standup is every week
        alone = standing and (not before or before.text.islower()) and (owned or bool(before))
        if led or self._lead(at) or alone:
            day = weekday_before(near, weekday)
            return Point((day, day), at + 1 + (self._low(at + 1) in words.DAY_PARTS), RELATIVE, open=True)
        return None

    def _year(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        place = at + 1 if self._low(at) in {"year", "jahr", "jahre"} else at
        year = self._year_at(place)
        if not year or not (led or place > at or self._lead(at)) or self._low(at - 1) in {"on", "am"}:
            return None
        following = self._low(place + 1)
        if self._tokens[place].joins and following.endswith("s") and following not in _NOT_COUNTED:
            return None  # in 2000 files
        return Point(month_days(year, 1, 12), place + 1, EXACT)

    # relative to today

    def _day_word(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        low, following = self._low(at), self._low(at + 1)
        in_day = following in words.DAY_PARTS
        if low in words.DAY_WORDS:
            day = self._today + timedelta(words.DAY_WORDS[low])
            return Point((day, day), at + 1 + in_day, RELATIVE)
        if (
            low == "morgen"
            and self._tokens[at].text == low
            and self._low(at - 1) not in {"am", "jeden", "guten", "heute", "gestern"}
        ):
            return Point((self._today + timedelta(1),) * 2, at + 1, RELATIVE)
        if in_day and low in {"this", "last"}:
            day = self._today - timedelta(low == "last")
            return Point((day, day), at + 2, RELATIVE)
        if low == "other" and following == "day" and self._low(at - 1) == "the":
            return Point((self._today - timedelta(7), self._today), at + 2, VAGUE)
        if low in words.WEEKENDS and self._low(at - 1) in {"the", "am"} and self._low(at - 2) not in {"of", "for"}:
            return Point(weekend_before(near), at + 1, RELATIVE)
        return None

    def _counted(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        """`three days ago`, `a week from now`, `vor drei Tagen`, `seit drei Tagen`."""
        german = self._low(at) if self._low(at) in {"vor", "seit"} else ""
        if not (counted := self._count(at + bool(german))):
            return None
        low, high, place = counted
        unit = words.UNITS.get(self._low(place))
        if not unit or not self._tokens[place - 1].joins:
            return None
        if german == "seit":
            return Point((step(self._today, unit, -high), self._today), place + 1, RELATIVE)
        end = place + 1
        if german or self._low(end) in {"ago", "back"}:
            sign, end = -1, end + (not german)
        elif self._low(end) == "from" and self._low(end + 1) == "now":
            sign, end = 1, end + 2
        else:
            return None
        ends = sorted(step(self._today, unit, sign * count) for count in (low, high))
        return Point(widen((ends[0], ends[1]), _fuzz(unit, high)), end, RELATIVE)

    def _shifted(self, at: int, led: bool, near: date) -> Point | None:  # noqa: FBT001
        """`last week`, `past 3 days`, `this quarter`, `next Monday`, `last summer`."""
        low = self._low(at)
        sign = -1 if low in words.BACK else 1 if low in words.AHEAD else 0
        if (not sign and low not in words.HERE) or not self._continues(at):
            return None
        if sign and low != "previous" and (counted := self._count(at + 1)):
            unit = words.UNITS.get(self._low(counted[2]))
            if not unit or self._low(at + 1) in {"a", "an"} or self._low(counted[2] + 1) in {"of", "des", "der"}:
                return None  # the last three minutes of the game
            other = step(self._today, unit, sign * counted[1])
            return Point((min(other, self._today), max(other, self._today)), counted[2] + 1, RELATIVE)
        return self._shifted_name(at, sign)

    def _shifted_name(self, at: int, sign: int) -> Point | None:
        name, today = self._low(at + 1), self._today
        unit = words.UNITS.get(name, "")
        days: Days | None = None
        if unit in words.CALENDAR_UNITS:
            if self._low(at + 2) == "of":
                return None  # the last week of the project
            if sign < 0 and (self._low(at) in words.ROLLING or self._low(at - 1) == "the"):
                days = step(today, unit, -1), today
            else:
                days = unit_days(step(today, unit, sign), unit)
        elif name in words.WEEKENDS:
            monday = unit_days(today, "week")[0] + timedelta(7 * sign)
            days = monday + timedelta(5), monday + timedelta(6)
        elif name in words.WEEKDAYS:
            week = {-1: today - timedelta(1), 0: unit_days(today, "week")[1], 1: today + timedelta(7)}[sign]
            days = (weekday_before(week, words.WEEKDAYS[name]),) * 2
        elif name in words.SEASONS:
            days = called_season(today, words.SEASONS[name], sign)
        elif name in words.MONTHS and self._may_be_month(at + 1):
            days = called_month(today, words.MONTHS[name], sign)
        return Point(days, at + 2, RELATIVE) if days else None


def _is_wide(point: Point) -> bool:
    return (point.days[1] - point.days[0]).days >= 6


def _part(point: Point | None, part: int, parts: int) -> Point | None:
    return point._replace(days=share(point.days, part, parts)) if point and _is_wide(point) else None


def _fuzz(unit: str, count: int) -> int:
    """People count days exactly for about a week, and otherwise to half the unit they name."""
    return {"day": count // 7, "week": 3, "month": 15, "quarter": 45, "year": 182}.get(unit, 0)


def _third(low: str) -> int:
    return 0 if low in words.EARLY else 1 if low in words.MIDDLE else 2


def _latest(days: Days, end: int, near: date) -> Point:
    if days[0] > near:
        days = month_days(days[0].year - 1, days[0].month, (days[1].month - days[0].month) % 12 + 1)
    return Point(days, end, RELATIVE, open=True)
