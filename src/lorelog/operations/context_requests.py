"""What the operations on context may be told."""

# ruff: noqa: RUF012  (msgspec copies them)

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.operations.requests import Path, Request, Text

Key = Annotated[str, Meta(min_length=1, max_length=200)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class InProjects(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to look."""

    all_projects: Annotated[bool, Meta(description="Look beyond this project and what belongs to none.")] = False


class HotContextRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is marked as hot."""

    k: Annotated[Limit, Meta(description="At most so many.")] = 20


class SubsystemsRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which subsystems to list."""

    prefix: Annotated[str, Meta(max_length=200, description="Only keys that begin so.")] = ""
    limit: Annotated[Limit, Meta(description="At most so many.")] = 50


class SubsystemRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One subsystem."""

    subsystem_key: Annotated[Key, Meta(description="Its key, as context.list_subsystems tells it.")]


class RelevantRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that somebody is about to begin."""

    task: Annotated[Text, Meta(min_length=1, description="What is to be done.")]
    k: Annotated[Limit, Meta(description="At most so many hits.")] = 20
    subsystem_keys: Annotated[
        Annotated[list[Key], Meta(max_length=20)], Meta(description="Only what belongs to one of these subsystems.")
    ] = []
    include_hot: Annotated[bool, Meta(description="Up to five memories that are marked as hot, first.")] = True


class SuggestRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that somebody is to do."""

    task: Annotated[Text, Meta(min_length=1, description="What is to be done.")]
    changed_files: Annotated[
        Annotated[list[Path], Meta(max_length=1000)],
        Meta(description="Files that it is about, as paths from the project's directory."),
    ] = []
    k: Annotated[Annotated[int, Meta(ge=1, le=100)], Meta(description="At most so many agents.")] = 3


class AgentContextRequest(InProjects, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is about to work on, and how much it may read."""

    queries: Annotated[
        Annotated[list[Annotated[str, Meta(min_length=1, max_length=10_000)]], Meta(max_length=50)],
        Meta(description="Questions about the work; without any, the newest memories are told."),
    ] = []
    k: Annotated[
        Annotated[int, Meta(ge=1, le=100)],
        Meta(description="Memories for each question, or newest ones where there is none."),
    ] = 2
    token_budget: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="Tokens that the whole text may have, its heading and all else included."),
    ] = 700
    format: Annotated[Literal["markdown", "json"], Meta(description="How the text is laid out.")] = "markdown"
