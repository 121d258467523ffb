"""What the operations on memories that are there already may be told."""

# ruff: noqa: RUF012  (msgspec copies them)

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from lorelog.operations.requests import IdentityRequest, Request, Text, Words


class SupersedeRequest(IdentityRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to stand in the place of a memory."""

    text: Annotated[Text, Meta(min_length=1, description="What holds now, Markdown.")]
    type: Annotated[
        Annotated[str, Meta(max_length=64)], Meta(description="Kind of memory; the old one's if not given.")
    ] = ""
    tags: Annotated[Words, Meta(description="Tags, one word each; the old one's if not given.")] = []
    origin: Annotated[Literal["user", "agent", "tool", "import"], Meta(description="Who says so.")] = "user"


class ExpiryRequest(IdentityRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The days of a memory. What is left out stays as it is, and null takes it back."""

    expires: Annotated[
        Annotated[str, Meta(max_length=40)] | UnsetType | None,
        Meta(
            description="The last day it is shown on: 2026-03-05, today, or 14d, 2w, 3m, 1y from now; null or never for good."
        ),
    ] = UNSET
    review_after: Annotated[
        Annotated[str, Meta(max_length=40)] | UnsetType | None,
        Meta(description="The day from which on it should be looked at again, likewise; null or never takes it back."),
    ] = UNSET


class FeedbackRequest(IdentityRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judgement of one answer."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="What was searched for.")]
    relevance: Annotated[Literal["relevant", "irrelevant"], Meta(description="Whether the memory answers it.")]


class NearRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Among which memories to look for such as say nearly the same."""

    threshold: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="How near, 0 to 1: a cosine of meaning (0.94 if not given), or the share of common words (0.8)."
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="At most so many groups.")] = 20
    types: Annotated[Words, Meta(description="Only memories of one of these types.")] = []
    all_projects: Annotated[bool, Meta(description="Look beyond this project and the global memories.")] = False


class EpisodeRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An episode to be summed up."""

    episode_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=150,
            description="Its id: memories with the tag episode:ID belong to it, and those noted in the session of that id.",
        ),
    ]
    max_chunks: Annotated[int, Meta(ge=1, le=1000, description="The newest so many of them.")] = 50
    retain_source_chunks: Annotated[
        bool, Meta(description="Whether they are still shown; otherwise the summary supersedes them.")
    ] = True
