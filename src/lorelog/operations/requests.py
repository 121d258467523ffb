"""Base classes and field types of requests.

Fields, limits and descriptions are declared once, here and in each family's `schema.py`; JSON Schema, help texts and
the reference are generated from them. Unknown fields are an error: ignoring a misspelt filter would show hits that it
should have excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=1_000_000)]
Path = Annotated[str, Meta(min_length=1, max_length=4096, extra={"path": True})]
Words = Annotated[Sequence[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)]
Paths = Annotated[Sequence[Path], Meta(max_length=1000)]
Projects = Annotated[
    Annotated[Sequence[str], Meta(max_length=1000)] | None,
    Meta(description="Only these projects, by directory; the empty text is the global project."),
]
Since = Annotated[
    str | None,
    Meta(
        description="On or after this day: 2026-03-05, today, yesterday, or an age such as 7d, 2w, 3m, 1y.",
        extra={"metavar": "DAY"},
    ),
]
Until = Annotated[str | None, Meta(description="On or before this day.", extra={"metavar": "DAY"})]


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of requests: the project and tenant to work in."""

    project: Annotated[
        Path | None, Meta(description="A directory of the project; the caller's working directory if not given.")
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
    source: Annotated[Path | None, Meta(description="Only files at or below this path.")] = None
    since: Since = None
    until: Until = None
    types: Annotated[Words, Meta(description="Only memories of one of these types.")] = []
    tags: Annotated[Words, Meta(description="Only memories with all of these tags.")] = []
