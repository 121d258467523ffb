"""Parsing of days, paths and filters in requests."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

from lorelog.core.errors import UsageError
from lorelog.core.paths import join_path
from lorelog.core.query import Filters

if TYPE_CHECKING:
    from lorelog.operations.operation import RequestContext
    from lorelog.operations.requests import FilteredRequest

_PERIOD = re.compile(r"(\d{1,5})\s*([dwmy])")
_UNIT_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def parse_future_day(text: str | date, today: date | None = None) -> str:
    """Return the ISO day for an ISO day, `today`, `tomorrow`, or a period from now such as `14d`, `2w`, `3m`, `1y`."""
    return _parse_day(text, today, {"yesterday": -1, "today": 0, "tomorrow": 1}, sign=1)


def parse_last_day(text: str | date, today: date | None = None) -> str:
    """Return the ISO day as `parse_future_day`. Raise UsageError for a day that is over."""
    today = today or date.today()
    day = parse_future_day(text, today)
    if day < today.isoformat():
        raise UsageError(
            f"{text!r} is over already: nothing would be remembered", hint="name the last day: today, tomorrow, 14d, 3m"
        )
    return day


def parse_past_day(text: str | date, today: date | None = None) -> str:
    """Return the ISO day for an ISO day, `today`, `yesterday`, or an age such as `7d`, `2w`, `3m`, `1y`."""
    return _parse_day(text, today, {"today": 0, "yesterday": -1}, sign=-1)


def _parse_day(text: str | date, today: date | None, names: dict[str, int], *, sign: int) -> str:
    today = today or date.today()
    word = str(text).strip().lower()
    period = _PERIOD.fullmatch(word)
    try:
        if period:
            return (today + sign * timedelta(days=int(period[1]) * _UNIT_DAYS[period[2]])).isoformat()
        if word in names:
            return (today + timedelta(days=names[word])).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        examples = f"2026-03-05, {', '.join(name for name in names if names[name] * sign >= 0)}, or a number of days, weeks, months or years"
        raise UsageError(f"{text!r} is not a day", hint=f"write {examples} such as 7d, 2w, 3m, 1y") from None


def resolve_path(path: str | os.PathLike[str], call: RequestContext) -> str:
    """Return a path relative to the caller's directory as an absolute one; a leading `!` is kept."""
    path = os.fspath(path)
    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    if not bare:
        raise UsageError("a path is empty", hint="is it an unset variable? '.' is the current directory")
    return mark + join_path(call.directory, bare)


def read_filters(request: FilteredRequest, call: RequestContext) -> Filters:
    """Return the filters of a request."""
    return Filters(
        projects=None if request.projects is None else tuple(request.projects),
        source_prefix=resolve_path(request.source, call) if request.source else "",
        since=parse_past_day(request.since) if request.since else "",
        until=parse_past_day(request.until) if request.until else "",
        types=tuple(request.types),
        tags=tuple(request.tags),
    )
