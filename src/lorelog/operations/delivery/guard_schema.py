"""Requests and replies of `guard.*`. docs/json.md explains the reply fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest

_Pattern = Annotated[str, Meta(max_length=300)]
_Patterns = Annotated[Sequence[Annotated[str, Meta(min_length=1, max_length=300)]], Meta(max_length=20)]
_Id = Annotated[str, Meta(min_length=1, max_length=64)]


class GuardListRequest(OperationRequest, frozen=True, kw_only=True):
    """Which guards to list."""

    all_projects: Annotated[bool, Meta(description="Include the guards of all projects of the tenant.")] = False


class GuardIdRequest(OperationRequest, frozen=True):
    """A guard."""

    id: Annotated[_Id, Meta(description="Id of a guard, or its first characters.")]


class GuardProposeRequest(OperationRequest, frozen=True, kw_only=True):
    """How many proposals to return."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of proposals, newest correction first.")] = 50


class GuardConditionsRequest(OperationRequest, frozen=True, kw_only=True):
    """Conditions of a guard. All that are given must hold."""

    tool: Annotated[
        _Pattern, Meta(description="Name of the host's tool, with wildcards, or one of the kinds edit, run, read.")
    ] = ""
    paths: Annotated[_Patterns, Meta(description="Patterns of files that a call writes: `migrations/**`, `*.ts`.")] = []
    command: Annotated[
        _Pattern, Meta(description="Pattern of a command: `npm *` matches `cd app && CI=1 npm install`.")
    ] = ""
    content: Annotated[_Pattern, Meta(description="Pattern of a part of a line that a call writes.")] = ""


class GuardTestRequest(GuardConditionsRequest, frozen=True, kw_only=True):
    """A guard, a proposal, or conditions to replay."""

    id: Annotated[
        str,
        Meta(max_length=64, description="Id of a guard or of a proposal; without one, the conditions are replayed."),
    ] = ""
    all_projects: Annotated[bool, Meta(description="Replay over the calls of all projects.")] = False
    limit: Annotated[int, Meta(ge=0, le=1000, description="Maximum number of calls to return, newest first.")] = 20


class GuardAddRequest(GuardConditionsRequest, frozen=True, kw_only=True):
    """A guard to add."""

    message: Annotated[
        str, Meta(max_length=400, description="Text that the agent is shown; that of the memory if not given.")
    ] = ""
    action: Annotated[
        Literal["warn", "block"], Meta(description="What it does when it is on. A guard of an agent can only warn.")
    ] = "warn"
    memory: Annotated[
        str, Meta(max_length=64, description="Id of the correction it comes from; it must be written on this machine.")
    ] = ""
    to_global: Annotated[bool, Meta(description="Apply to all projects.")] = False


class GuardEnableRequest(OperationRequest, frozen=True):
    """A guard to switch on."""

    id: Annotated[_Id, Meta(description="Id of a guard or of a proposal, or its first characters.")]
    action: Annotated[
        Literal["", "warn", "block"], Meta(description="What it shall do; as it was added if not given.")
    ] = ""


class GuardInfo(OperationReply, frozen=True, kw_only=True):
    """A guard in its current state."""

    id: str
    state: str
    action: str
    tool: str
    paths: tuple[str, ...]
    command: str
    content: str
    message: str
    memory: str
    project: str
    created_by: str
    approved: bool
    dismissals: int
    created: str
    changed: str


class GuardListReply(ReplyItems[GuardInfo], OperationReply, frozen=True, kw_only=True):
    """Guards, oldest first."""

    items_field = "guards"

    guards: tuple[GuardInfo, ...]
    notices: tuple[str, ...]


class GuardEventInfo(OperationReply, frozen=True, kw_only=True):
    """An event in the life of a guard."""

    at: str
    event: str
    by: str


class GuardDetails(GuardInfo, frozen=True, kw_only=True):
    """A guard with its correction and its history."""

    correction: str
    history: tuple[GuardEventInfo, ...]


class GuardProposalInfo(OperationReply, frozen=True, kw_only=True):
    """A guard that a correction suggests."""

    id: str
    tool: str
    paths: tuple[str, ...]
    command: str
    content: str
    example: str
    correction: str
    memory: str
    date: str
    project: str
    created_by: str


class GuardProposalsReply(ReplyItems[GuardProposalInfo], OperationReply, frozen=True, kw_only=True):
    """Proposals, newest correction first."""

    items_field = "proposals"

    proposals: tuple[GuardProposalInfo, ...]
    corrections: int


class GuardHit(OperationReply, frozen=True, kw_only=True):
    """A past call that a guard matches."""

    at: str
    host: str
    session_id: str
    tool: str
    call: str
    corrected: bool
    why: str
    statement: str


class GuardReplay(OperationReply, frozen=True, kw_only=True):
    """What a guard would have hit."""

    id: str
    verdict: str
    total: int
    hit_count: int
    corrected: int
    from_transcripts: int
    from_traces: int
    hits: tuple[GuardHit, ...]
    refused: str
    notes: tuple[str, ...]


class GuardChangeReply(OperationReply, frozen=True, kw_only=True):
    """A guard after a change."""

    guard: GuardInfo
    changed: bool
    notes: tuple[str, ...]


class GuardEnableReply(GuardChangeReply, frozen=True, kw_only=True):
    """A guard that was switched on, and what it would have hit."""

    replay: GuardReplay
