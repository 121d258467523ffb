"""Base classes and field types of requests, and parsing of days, paths and filters in them.

Fields, limits and descriptions are declared once, here and in each family; JSON Schema, help texts and the reference are
generated from them. Unknown fields are an error: ignoring a misspelt filter would show hits that it
should have excluded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from lorelog.core.errors import UsageError
from lorelog.core.paths import join_path
from lorelog.core.query import Filters, Lane


def about(description: str, **limits: Any) -> Meta:
    """Return the description of a field, which is its help on every surface, and limits of its value."""
    return Meta(description=description, **limits)


Text = Annotated[str, Meta(max_length=1_000_000)]
Name = Annotated[str, Meta(max_length=200)]
NonEmptyId = Annotated[str, Meta(min_length=1, max_length=200)]
# What Python callers may pass (`surfaces/python/methods.py` converts it); handlers get text and lists.
if TYPE_CHECKING:

    class Identified(Protocol):
        """A hit, chunk or reply that has an id."""

        @property
        def id(self) -> str:
            """Return the id."""

    Identity = str | Identified | Mapping[str, Any]

    class Id:
        """An id; also a hit, a chunk or a reply that has one, or its JSON."""

        def __get__(self, instance: object, owner: object) -> str:
            return ""

        def __set__(self, instance: object, value: Identity) -> None:
            """Tell type checkers what a constructor accepts."""

    Day = str | date
    LaneName = Lane | Literal["hybrid", "lexical", "dense"]
    PathText = str | os.PathLike[str]
    WordList = str | Iterable[str]
else:
    LaneName = Literal["hybrid", "lexical", "dense"]
    Id = Day = PathText = str
    WordList = Sequence[Annotated[str, Meta(min_length=1, max_length=200)]]

FilePath = Annotated[PathText, Meta(min_length=1, max_length=4096, extra={"path": True})]
Words = Annotated[WordList, Meta(max_length=100)]
FilePaths = Annotated[Sequence[FilePath], Meta(max_length=1000)]
Projects = Annotated[
    Annotated[Sequence[str], Meta(max_length=1000)] | None,
    about("Only these projects, by directory; the empty text is the global project."),
]
Since = Annotated[
    Day | None,
    about(
        "On or after this day: 2026-03-05, today, yesterday, or an age such as 7d, 2w, 3m, 1y.",
        extra={"metavar": "DAY"},
    ),
]
Until = Annotated[Day | None, about("On or before this day.", extra={"metavar": "DAY"})]


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: the project and tenant to work in."""

    project: Annotated[
        FilePath | None, about("A directory of the project; the caller's working directory if not given.")
    ] = None
    tenant: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        about("The tenant; scope.tenant if not given. Other tenants' data is never read."),
    ] = None


class EmptyRequest(OperationRequest, frozen=True, kw_only=True):
    """A request without fields of its own."""


class ScopedRequest(OperationRequest, frozen=True, kw_only=True):
    """Which projects count."""

    all_projects: Annotated[bool, about("Include every project, not only this one and the global one.")] = False


class FilteredRequest(ScopedRequest, frozen=True, kw_only=True):
    """Filters that every result must pass."""

    projects: Projects = None
    source: Annotated[FilePath | None, about("Only files at or below this path.")] = None
    since: Since = None
    until: Until = None
    types: Annotated[Words, about("Only memories of one of these types.")] = []
    tags: Annotated[Words, about("Only memories with all of these tags.")] = []


_PERIOD = r"(\d{1,5})\s*([dwmy])"
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


def parse_past_day(text: str | date | None, today: date | None = None) -> str:
    """Return the ISO day for an ISO day, `today`, `yesterday`, or an age such as `7d`, `2w`, `3m`, `1y`; "" if not given."""
    return _parse_day(text, today, {"today": 0, "yesterday": -1}, sign=-1) if text else ""


def _parse_day(text: str | date, today: date | None, names: dict[str, int], *, sign: int) -> str:
    today = today or date.today()
    word = str(text).strip().lower()
    has_unit = word not in names and word[-1:] in _UNIT_DAYS
    period = re.fullmatch(_PERIOD, word) if has_unit else None
    try:
        if period:
            return (today + sign * timedelta(days=int(period[1]) * _UNIT_DAYS[period[2]])).isoformat()
        if word in names:
            return (today + timedelta(days=names[word])).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        examples = f"2026-03-05, {', '.join(name for name in names if names[name] * sign >= 0)}, or a number of days, weeks, months or years"
        raise UsageError(f"{text!r} is not a day", hint=f"write {examples} such as 7d, 2w, 3m, 1y") from None


def resolve_path(path: str | os.PathLike[str], directory: str) -> str:
    """Return a path relative to the caller's directory as an absolute one; a leading `!` is kept."""
    path = os.fspath(path)
    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    if not bare:
        raise UsageError("a path is empty", hint="is it an unset variable? '.' is the current directory")
    return mark + join_path(directory, bare)


def read_filters(request: FilteredRequest, directory: str) -> Filters:
    return Filters(
        projects=None if request.projects is None else tuple(request.projects),
        source_prefix=resolve_path(request.source, directory) if request.source else "",
        since=parse_past_day(request.since),
        until=parse_past_day(request.until),
        types=tuple(request.types),
        tags=tuple(request.tags),
    )
