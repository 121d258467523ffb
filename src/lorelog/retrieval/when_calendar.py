"""The calendar arithmetic behind time expressions: whole weeks, months and seasons, and steps between them.

Weeks begin on Monday. Nothing here reads text. A step out of the calendar raises OverflowError or ValueError, which the
reader of expressions takes for "no time meant".
"""

from __future__ import annotations

from datetime import date, timedelta

Days = tuple[date, date]
"""The first and the last day, both included."""


def month_days(year: int, month: int, count: int = 1) -> Days:
    """Return the days of some months in a row; a month beyond 12 is in the next year."""
    start, end = year * 12 + month - 1, year * 12 + month - 1 + count
    return date(start // 12, start % 12 + 1, 1), date(end // 12, end % 12 + 1, 1) - timedelta(1)


def unit_days(day: date, unit: str) -> Days:
    """Return the calendar week, month, quarter or year that a day is in, or the day itself."""
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


def step(day: date, unit: str, count: int) -> date:
    """Return the day some units later, or earlier for a negative count; the 31st becomes the last of a shorter month."""
    if unit in {"minute", "hour"}:
        return day + timedelta(int(count / (24 if unit == "hour" else 1440)))
    if unit in {"day", "week"}:
        return day + timedelta(count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * {"month": 1, "quarter": 3, "year": 12}[unit]
    first, last = month_days(months // 12, months % 12 + 1)
    return min(first + timedelta(day.day - 1), last)


def weekday_before(near: date, weekday: int) -> date:
    """Return the last such weekday up to a day, that day included."""
    return near - timedelta((near.weekday() - weekday) % 7)


def weekend_before(near: date) -> Days:
    """Return the last weekend that has begun by a day."""
    saturday = weekday_before(near, 5)
    return saturday, saturday + timedelta(1)


def season_days(near: date, month: int) -> Days:
    """Return the last season beginning in a month that has begun by a day."""
    days = month_days(near.year, month, 3)
    return days if days[0] <= near else month_days(near.year - 1, month, 3)


def called_season(today: date, month: int, sign: int) -> Days:
    """Return last, this or next summer: the last one is over, the next one has not begun, this one is of this year."""
    days = season_days(today, month)
    if sign < 0:
        return days if days[1] < today else month_days(days[0].year - 1, month, 3)
    if sign > 0:
        return month_days(days[0].year + 1, month, 3)
    return days if today <= days[1] else month_days(today.year, month, 3)


def called_month(today: date, month: int, sign: int) -> Days:
    """Return last, this or next March, by the same rule."""
    days = month_days(today.year, month)
    if (sign < 0 and days[1] >= today) or (sign > 0 and days[0] <= today):
        return month_days(today.year + sign, month)
    return days


def share(days: Days, part: int, parts: int) -> Days:
    """Return one of some equal parts of an interval, counted from 0."""
    width = (days[1] - days[0]).days + 1
    first = days[0] + timedelta(width * part // parts)
    last = days[0] + timedelta(width * (part + 1) // parts - 1)
    return first, max(first, last)


def widen(days: Days, by: int) -> Days:
    """Return the interval with some days more on either side."""
    return days[0] - timedelta(by), days[1] + timedelta(by)
