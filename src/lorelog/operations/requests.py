"""Base classes and field types of requests.

Fields, limits and descriptions are declared once, here and in each family's `schema.py`; JSON Schema, help texts and
the reference are generated from them. Unknown fields are an error: ignoring a misspelt filter would show hits that it
should have excluded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=1_000_000)]
if TYPE_CHECKING:  # what Python callers may pass (`surfaces/python/values.py` converts it); handlers get text and lists

    class Identified(Protocol):
        """A hit, chunk or reply that has an id."""

        @property
        def id(self) -> str:
            """Return the id."""

    Identity = str | Identified | Mapping[str, Any]

    class Id:
        """An id; also a hit, a chunk or a reply that has one, or its JSON."""

        def __get__(self, instance: object, owner: object) -> str:
            """Return the id."""
            return ""

        def __set__(self, instance: object, value: Identity) -> None:
            """Tell type checkers what a constructor accepts."""

    Day = str | date
    PathText = str | os.PathLike[str]
    WordList = str | Iterable[str]
else:
    Id = Day = PathText = str
    WordList = Sequence[Annotated[str, Meta(min_length=1, max_length=200)]]

FilePath = Annotated[PathText, Meta(min_length=1, max_length=4096, extra={"path": True})]
Words = Annotated[WordList, Meta(max_length=100)]
FilePaths = Annotated[Sequence[FilePath], Meta(max_length=1000)]
Projects = Annotated[
    Annotated[Sequence[str], Meta(max_length=1000)] | None,
    Meta(description="Only these projects, by directory; the empty text is the global project."),
]
Since = Annotated[
    Day | None,
    Meta(
        description="On or after this day: 2026-03-05, today, yesterday, or an age such as 7d, 2w, 3m, 1y.",
        extra={"metavar": "DAY"},
    ),
]
Until = Annotated[Day | None, Meta(description="On or before this day.", extra={"metavar": "DAY"})]


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: the project and tenant to work in."""

    project: Annotated[
        FilePath | None, Meta(description="A directory of the project; the caller's working directory if not given.")
    ] = None
    tenant: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(description="The tenant; scope.tenant if not given. Other tenants' data is never read."),
    ] = None


class EmptyRequest(OperationRequest, frozen=True, kw_only=True):
    """A request without fields of its own."""


class FilteredRequest(OperationRequest, frozen=True, kw_only=True):
    """Filters that every result must pass."""

    all_projects: Annotated[bool, Meta(description="Search every project, not only this one and the global one.")] = (
        False
    )
    projects: Projects = None
    source: Annotated[FilePath | None, Meta(description="Only files at or below this path.")] = None
    since: Since = None
    until: Until = None
    types: Annotated[Words, Meta(description="Only memories of one of these types.")] = []
    tags: Annotated[Words, Meta(description="Only memories with all of these tags.")] = []
