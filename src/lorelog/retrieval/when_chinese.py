"""Time expressions of Chinese: they need no spaces and little grammar, so patterns are enough.

Every pattern is a plain alternation without nested repetition: no text makes one look back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from lorelog.retrieval.when_calendar import Days, month_days, step, unit_days, widen
from lorelog.retrieval.when_points import EXACT, RELATIVE, VAGUE

_DIGITS = {sign: number for number, sign in enumerate("一二三四五六七八九十", 1)} | {"两": 2, "十一": 11, "十二": 12}
_UNITS = {
    "天": "day",
    "日": "day",
    "周": "week",
    "星期": "week",
    "礼拜": "week",
    "月": "month",
    "季度": "quarter",
    "年": "year",
}
_COUNT = "([0-9]{1,3}|十[一二]|[一二两三四五六七八九十])"
_DAY_WORDS = {"今天": 0, "今早": 0, "今晚": 0, "昨天": -1, "昨晚": -1, "前天": -2, "明天": 1, "后天": 2}
_YEAR_WORDS = {"今年": 0, "去年": -1, "前年": -2, "明年": 1}
_SHIFTS = {"上": -1, "这": 0, "本": 0, "下": 1}
_WEEKDAYS = "一二三四五六日"
_DATE = re.compile(r"(?<![0-9])(?:((?:19|20)[0-9]{2})年)?(?:(1[0-2]|0?[1-9])月份?(?:([0-3]?[0-9])[日号])?)?")
_WORD = re.compile("|".join([*_DAY_WORDS, *_YEAR_WORDS]))
_AGO = re.compile(rf"(?<![0-9]){_COUNT}个?(天|周|星期|礼拜|月|年)(之?前|以前)")
_PAST = re.compile(rf"(?:最近|过去)的?{_COUNT}个?(天|周|星期|礼拜|月|年)")
_SHIFTED = re.compile(r"([上这本下])个?(周末|周|星期|礼拜|月|季度)([一二三四五六日天]?)")
_RECENT = re.compile(r"最近(?![邻点公使])")
_RELATION = re.compile("(之前|以前|前)|(之后|以后|后)|(以来|至今)|(为止)")
_STARTS = re.compile("[0-9十一二两三四五六七八九今昨前明后去上这本下最过]")


class Found(NamedTuple):
    """What stands where, the days it means, its relation to them and how much it says."""

    start: int
    end: int
    days: Days
    relation: str
    rank: int


def find_chinese(query: str, today: date) -> list[Found]:
    """Return the time expressions of a query, in order."""
    found: list[Found] = []
    at = 0
    while starts := _STARTS.search(query, at):
        at = starts.start()
        one = next((hit for rule in _RULES if (hit := _tried(rule, query, at, today))), None)
        if one:
            found.append(one)
        at = one.end if one else at + 1
    return found


_Rule = Callable[[str, int, date], tuple[int, Days, int] | None]


def _tried(rule: _Rule, query: str, at: int, today: date) -> Found | None:
    try:
        hit = rule(query, at, today)
    except (OverflowError, ValueError):
        return None
    if not hit:
        return None
    end, days, rank = hit
    relation = _RELATION.match(query, end) if rank > VAGUE and rule is not _ago else None
    if not relation:
        return Found(at, end, days, "during", rank)
    names = ("before", "after", "since", "until")
    return Found(at, relation.end(), days, names[(relation.lastindex or 1) - 1], rank)


def _ago(query: str, at: int, today: date) -> tuple[int, Days, int] | None:
    if not (match := _AGO.match(query, at)):
        return None
    unit, count = _UNITS[match[2]], _number(match[1])
    fuzz = {"day": count // 7, "week": 3, "month": 15, "year": 182}[unit]
    day = step(today, unit, -count)
    return match.end(), widen((day, day), fuzz), RELATIVE


def _past(query: str, at: int, today: date) -> tuple[int, Days, int] | None:
    if match := _PAST.match(query, at):
        return match.end(), (step(today, _UNITS[match[2]], -_number(match[1])), today), RELATIVE
    if match := _RECENT.match(query, at):
        return match.end(), (today - timedelta(30), today), VAGUE
    return None


def _date(query: str, at: int, today: date) -> tuple[int, Days, int] | None:
    match = _DATE.match(query, at)
    if not match or (not match[1] and not match[2]):
        return None
    year, month, day = int(match[1] or today.year), int(match[2] or 0), int(match[3] or 0)
    if abs(year - today.year) > 20:
        return None
    days = (
        month_days(year, 1, 12) if not month else month_days(year, month) if not day else (date(year, month, day),) * 2
    )
    if not match[1] and days[0] > today:
        days = (days[0].replace(year=year - 1), days[1].replace(year=year - 1))
    return match.end(), days, EXACT if match[1] else RELATIVE


def _word(query: str, at: int, today: date) -> tuple[int, Days, int] | None:
    if not (match := _WORD.match(query, at)):
        return None
    word = match.group()
    if word in _DAY_WORDS:
        day = today + timedelta(_DAY_WORDS[word])
        return match.end(), (day, day), RELATIVE
    return match.end(), month_days(today.year + _YEAR_WORDS[word], 1, 12), RELATIVE


def _shifted(query: str, at: int, today: date) -> tuple[int, Days, int] | None:
    if not (match := _SHIFTED.match(query, at)):
        return None
    sign, weekend = _SHIFTS[match[1]], match[2] == "周末"
    unit = "week" if weekend else _UNITS[match[2]]
    days = unit_days(step(today, unit, sign), unit)
    end = match.end() if not match[3] else match.start(3)
    if weekend:
        days = days[0] + timedelta(5), days[1]
    elif match[3] and unit == "week":
        day = days[0] + timedelta(_WEEKDAYS.index(match[3].replace("天", "日")))
        days, end = (day, day), match.end()
    return end, days, RELATIVE


def _number(text: str) -> int:
    return _DIGITS.get(text) or int(text)


_RULES: tuple[_Rule, ...] = (_ago, _past, _date, _word, _shifted)
