"""What the operations on digests may be told."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lorelog.operations.requests import Request

_Query = Annotated[
    Annotated[str, Meta(max_length=10_000)],
    Meta(description="What it is wanted for: what shares most words with it comes first; else what is newest."),
]


class ResumeRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task to be taken up again."""

    task_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)],
        Meta(description="The task. Its first characters do, where they are its own."),
    ]
    query: _Query = ""
    k: Annotated[Annotated[int, Meta(ge=1, le=100)], Meta(description="How many entries each list has at most.")] = 10


class LibraryRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What records say on one matter."""

    query: _Query = ""
    k: Annotated[Annotated[int, Meta(ge=1, le=100)], Meta(description="How many items.")] = 10
    all_projects: Annotated[bool, Meta(description="Look beyond this project and the global records.")] = False


class BriefRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project to be told of."""

    query: _Query = ""
    k: Annotated[
        Annotated[int, Meta(ge=1, le=10)], Meta(description="How many failures, decisions and evidence, of each.")
    ] = 10
    include_related_projects: Annotated[
        bool, Meta(description="Name other projects whose records name the same entities, datasets or challenges.")
    ] = True
