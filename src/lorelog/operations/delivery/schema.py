"""Requests and replies of `delivery.*`. docs/json.md explains the reply fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.serializable import ReplyItems
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest, Since

_Identity = Annotated[str, Meta(max_length=512)]
_AllProjects = Annotated[bool, Meta(description="Include all projects of the tenant.")]


class DeliveryListRequest(OperationRequest, frozen=True, kw_only=True):
    """Filters of deliveries."""

    session: Annotated[
        _Identity, Meta(description="Only deliveries to this session; its first characters suffice.")
    ] = ""
    memory: Annotated[_Identity, Meta(description="Only deliveries of this memory; its first characters suffice.")] = ""
    kind: Annotated[
        Literal["", "standing", "recall", "cue", "guard", "why"],
        Meta(description="Only this kind: at session start, for a prompt, by a cue, by a guard, after a failure."),
    ] = ""
    since: Since = None
    all_projects: _AllProjects = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of deliveries, newest first.")] = 50


class UnusedRequest(OperationRequest, frozen=True, kw_only=True):
    """Which unused memories to list."""

    min_deliveries: Annotated[
        int, Meta(ge=1, le=1000, description="Only memories that were delivered at least this often without use.")
    ] = 5
    all_projects: _AllProjects = False
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="Maximum number of memories, most often delivered first.")
    ] = 50


class DeliveredMemoryInfo(OperationReply, frozen=True, kw_only=True):
    """A memory that was shown. `used` is null as long as the turns after it were not read."""

    id: str
    text: str
    type: str
    used: bool | None
    how: str


class DeliveryInfo(OperationReply, frozen=True, kw_only=True):
    """Memories that were shown to a session at one moment."""

    at: str
    host: str
    session: str
    project: str
    moment: str
    kind: str
    cue: str
    guard: str
    action: str
    call: str
    tokens: int
    memories: tuple[DeliveredMemoryInfo, ...]


class DeliveryListReply(ReplyItems[DeliveryInfo], OperationReply, frozen=True, kw_only=True):
    """Deliveries, newest first. Counts and tokens are of all that pass the filters."""

    items_field = "deliveries"

    deliveries: tuple[DeliveryInfo, ...]
    total_count: int
    total_tokens: int


class UnusedMemoryInfo(OperationReply, frozen=True, kw_only=True):
    """A memory that was delivered and never used."""

    id: str
    text: str
    type: str
    date: str
    source: str
    start_line: int
    project: str
    delivered: int
    unused: int
    first: str
    last: str
    kinds: tuple[str, ...]


class ReviewAction(OperationReply, frozen=True, kw_only=True):
    """A command for a memory that is not useful as it is."""

    command: str
    purpose: str


class UnusedReply(ReplyItems[UnusedMemoryInfo], OperationReply, frozen=True, kw_only=True):
    """Memories for review, most often delivered first, and the commands to correct or remove them."""

    items_field = "memories"

    memories: tuple[UnusedMemoryInfo, ...]
    total_count: int
    actions: tuple[ReviewAction, ...]


_InboxKind = Literal["rule", "correction", "summary", "import", "guard"]


class InboxRequest(OperationRequest, frozen=True, kw_only=True):
    """Which proposals to list."""

    kind: Annotated[
        Literal["", "rule", "correction", "summary", "import", "guard"],
        Meta(description="Only this kind."),
    ] = ""
    all_projects: _AllProjects = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of items, newest first.")] = 200


class RefuseRequest(OperationRequest, frozen=True, kw_only=True):
    """An item of the inbox."""

    id: Annotated[str, Meta(min_length=1, max_length=200, description="Id of the item.")]
    kind: Annotated[_InboxKind, Meta(description="Its kind, as delivery.inbox lists it.")]


class ApproveRequest(RefuseRequest, frozen=True, kw_only=True):
    """An item of the inbox, and how it is approved."""

    text: Annotated[
        str, Meta(max_length=100_000, description="The rule in your words; as it was proposed if not given.")
    ] = ""
    action: Annotated[
        Literal["", "warn", "block"], Meta(description="What a guard shall do; as it was proposed if not given.")
    ] = ""


class InboxItemInfo(OperationReply, frozen=True, kw_only=True):
    """Something that waits for a person's word: a memory, or a guard with its conditions."""

    id: str
    kind: str
    type: str
    text: str
    about: str
    origin: str
    date: str
    project: str
    session: str
    source: str
    becomes_rule: bool
    deletes: bool
    conditions: str
    example: str
    action: str


class InboxReply(ReplyItems[InboxItemInfo], OperationReply, frozen=True, kw_only=True):
    """Items of the inbox, newest first."""

    items_field = "items"

    items: tuple[InboxItemInfo, ...]
    total_count: int


class InboxDecision(OperationReply, frozen=True, kw_only=True):
    """What became of an item: `result` is the id of the new memory, of the deleted one, or of the guard."""

    id: str
    kind: str
    result: str
    notes: tuple[str, ...]
