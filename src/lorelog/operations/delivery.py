"""Operations on what is delivered to agents, and on what waits for a person's word: `delivery.*`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.memory import GetReply, NewMemory
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.guard import GuardEnableRequest, enable_guard, guard_items, refuse_guard
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import OperationRequest, ScopedRequest, Since, about, parse_past_day
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.standing.inbox import Inbox, InboxItem, make_item
from lorelog.services.standing.ownership import Ownership
from lorelog.services.usage.history import NOT_USED, Delivery, DeliveryFilter, list_deliveries, memory_usage

OPERATIONS = OperationFamily()
_ABSENT_DECIDES = "only a person decides what was proposed: in the page, the shell or Python"
_Identity = Annotated[str, Meta(max_length=512)]


class DeliveryListRequest(ScopedRequest, frozen=True, kw_only=True):
    """Filters of deliveries."""

    session: Annotated[_Identity, about("Only deliveries to this session; its first characters suffice.")] = ""
    memory: Annotated[_Identity, about("Only deliveries of this memory; its first characters suffice.")] = ""
    kind: Annotated[
        Literal["", "standing", "recall", "cue", "guard", "why"],
        about("Only this kind: at session start, for a prompt, by a cue, by a guard, after a failure."),
    ] = ""
    since: Since = None
    limit: Annotated[int, about("Maximum number of deliveries, newest first.", ge=1, le=1000)] = 50


class UnusedRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which unused memories to list."""

    min_deliveries: Annotated[
        int, about("Only memories that were delivered at least this often without use.", ge=1, le=1000)
    ] = 5
    limit: Annotated[int, about("Maximum number of memories, most often delivered first.", ge=1, le=1000)] = 50


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

    memories: tuple[UnusedMemoryInfo, ...]
    total_count: int
    actions: tuple[ReviewAction, ...]


_InboxKind = Literal["rule", "correction", "decision", "summary", "import", "guard"]


class InboxRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which proposals to list."""

    kind: Annotated[
        Literal["", "rule", "correction", "decision", "summary", "import", "guard"],
        about("Only this kind."),
    ] = ""
    limit: Annotated[int, about("Maximum number of items, newest first.", ge=1, le=1000)] = 200


class RefuseRequest(OperationRequest, frozen=True, kw_only=True):
    """An item of the inbox."""

    id: Annotated[str, about("Id of the item.", min_length=1, max_length=200)]
    kind: Annotated[_InboxKind, about("Its kind, as delivery.inbox lists it.")]


class ApproveRequest(RefuseRequest, frozen=True, kw_only=True):
    """An item of the inbox, and how it is approved."""

    text: Annotated[str, about("The rule in your words; as it was proposed if not given.", max_length=100_000)] = ""
    action: Annotated[
        Literal["", "warn", "block"], about("What a guard shall do; as it was proposed if not given.")
    ] = ""


class InboxReply(ReplyItems[InboxItem], OperationReply, frozen=True, kw_only=True):
    """Items of the inbox, newest first."""

    items: tuple[InboxItem, ...]
    total_count: int


class InboxDecision(OperationReply, frozen=True, kw_only=True):
    """What became of an item: `result` is the id of the new memory, of the deleted one, or of the guard."""

    id: str
    kind: str
    result: str
    notes: tuple[str, ...]


_MAX_TEXT_CHARS = 200
ACTIONS = (
    ReviewAction(command='lorelog supersede ID "…"', purpose="the rule has changed: replace it"),
    ReviewAction(command="lorelog expire ID DAY", purpose="it is needed until a day"),
    ReviewAction(command="lorelog delete ID", purpose="it is wrong or of no use: hide it"),
)


@OPERATIONS.declare("delivery.list", ShellCommand("deliveries"))
def list_shown(engine: Engine, request: DeliveryListRequest, call: RequestContext) -> DeliveryListReply:
    """List the memories that agents were shown, newest first: when, why, their tokens, and whether they were used.

    A use is noted where it can be seen in the turn: the memory's id or distinctive words in the assistant's text or
    tool calls, a guard that was obeyed, a call that was changed.
    """
    filters = DeliveryFilter(
        projects=engine.log_projects(all_projects=request.all_projects),
        session=request.session,
        memory=request.memory,
        kind=request.kind,
        since=parse_past_day(request.since),
    )
    found = list_deliveries(deliveries_folder(engine), filters)
    memories = _MemoryLookup(engine)

    def shown(delivery: Delivery) -> Iterator[DeliveredMemoryInfo]:
        for identity in delivery.memories:
            how = delivery.used.get(identity)
            word = "" if how in {None, NOT_USED} else str(how)
            yield DeliveredMemoryInfo(
                **memories.about(identity), used=None if how is None else how != NOT_USED, how=word
            )

    return DeliveryListReply(
        deliveries=tuple(
            reply_from(delivery, DeliveryInfo, memories=tuple(shown(delivery))) for delivery in found[: request.limit]
        ),
        total_count=len(found),
        total_tokens=sum(delivery.tokens for delivery in found),
    )


@OPERATIONS.declare("delivery.unused")
def list_unused(engine: Engine, request: UnusedRequest, call: RequestContext) -> UnusedReply:
    """List memories that were delivered repeatedly and never used, for review.

    Only deliveries because of a match count (a cue, a prompt, a guard, a failure), and only where the turns after them
    were captured. Deleted, superseded and expired memories are left out.
    """
    projects = engine.log_projects(all_projects=request.all_projects)
    memories = _MemoryLookup(engine)
    found = []
    usages = memory_usage(deliveries_folder(engine))
    for identity, usage in sorted(usages.items(), key=lambda item: (-item[1].unused, item[0])):
        if usage.used or usage.unused < request.min_deliveries:
            continue
        if projects is not None and usage.project not in projects:
            continue
        reply = memories[identity]
        if reply.memory is None or reply.lifecycle.superseded_by or reply.lifecycle.expired:
            continue
        chunk = reply.memory.chunk
        found.append(
            reply_from(
                usage,
                UnusedMemoryInfo,
                **memories.about(identity),
                date=chunk.date,
                source=chunk.source,
                start_line=chunk.start_line,
                kinds=tuple(sorted(usage.kinds)),
            )
        )
    return UnusedReply(memories=tuple(found[: request.limit]), total_count=len(found), actions=ACTIONS)


def deliveries_folder(engine: Engine) -> Path:
    """Return the folder of a tenant's log of deliveries."""
    return engine.place.tenant_folder / "deliveries"


class _MemoryLookup(dict[str, GetReply]):
    """Memories by id, each looked up once."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def __missing__(self, identity: str) -> GetReply:
        with suppress(UsageError):  # a logged text that is not an id
            return self.setdefault(identity, self._engine.memories().get(identity))
        return GetReply()

    def about(self, identity: str) -> dict[str, str]:
        """Return id, type and the first words of a memory; empty if it is deleted or unknown."""
        memory = self[identity].memory
        if memory is None:
            return {"id": identity, "type": "", "text": ""}
        lines = [line for line in memory.chunk.text.splitlines() if line.strip() and not line.startswith("#")]
        text = " ".join(" ".join(lines).split())[:_MAX_TEXT_CHARS]
        return {"id": identity, "type": memory.chunk.type, "text": text}


_PERSON_HINT = "a person does this in the page, or in a terminal of their own"


@OPERATIONS.declare("delivery.inbox")
def list_inbox(engine: Engine, request: InboxRequest, call: RequestContext) -> InboxReply:
    """List what waits for a person's word, newest first.

    Rules that agents propose, corrections and answers in conversations that may be meant to last, summaries, text from imports and
    repositories, guards of agents, and guards that your corrections suggest.
    """
    ownership = Ownership(engine.place, AuthoredMemories.of_tenant(engine.place.tenant_folder))
    today = datetime.now().astimezone().date()
    lifecycle = LifecycleIndex(engine.store, engine.place.tenant_folder, today)
    inbox = Inbox(store=engine.store, ownership=ownership, lifecycle=lifecycle)
    items = inbox.items(engine.log_projects(all_projects=request.all_projects), today)
    infos = [*guard_items(engine, all_projects=request.all_projects), *items]
    infos.sort(key=lambda item: item.date, reverse=True)
    wanted = [item for item in infos if not request.kind or item.kind == request.kind]
    return InboxReply(items=tuple(wanted[: request.limit]), total_count=len(wanted))


@OPERATIONS.declare(
    "delivery.approve",
    errors=(NotFound,),
    writes=True,
    once=True,
    absent={"http": _ABSENT_DECIDES, "mcp": _ABSENT_DECIDES},
)
def approve_item(engine: Engine, request: ApproveRequest, call: RequestContext) -> InboxDecision:
    """Approve what was proposed; `text` may word it differently.

    A rule is written as your own memory, which supersedes the proposal. A guard is switched on. A summary, and imported text
    that is not a rule, leaves the inbox and stays as it is.
    """
    _check_person(call)
    if request.kind == "guard":
        enabled = enable_guard(engine, GuardEnableRequest(id=request.id, action=request.action), call)
        return InboxDecision(id=request.id, kind="guard", result=enabled.guard.id, notes=enabled.notes)
    item, lifecycle = _find_item(engine, request), engine.lifecycle()
    if not item.becomes_rule:
        lifecycle.mark_reviewed(item.id)
        return InboxDecision(id=item.id, kind=item.kind, result="", notes=())
    memory = NewMemory(request.text.strip() or item.text, item.type, origin="user")
    added = lifecycle.supersede(item.id, memory)
    return InboxDecision(id=item.id, kind=item.kind, result=added.memory, notes=added.notes)


@OPERATIONS.declare(
    "delivery.refuse",
    errors=(NotFound,),
    writes=True,
    once=True,
    absent={"http": _ABSENT_DECIDES, "mcp": _ABSENT_DECIDES},
)
def refuse_item(engine: Engine, request: RefuseRequest, call: RequestContext) -> InboxDecision:
    """Refuse what was proposed.

    A memory of an agent, a summary or an import is deleted, which can be undone. A correction or an answer stays as it is. A guard is removed,
    and a suggested guard is not suggested again.
    """
    _check_person(call)
    if request.kind == "guard":
        identity = refuse_guard(engine, request.id)
        return InboxDecision(id=request.id, kind="guard", result=identity, notes=())
    item = _find_item(engine, request)
    if item.deletes:
        engine.memories().delete(item.id)
        return InboxDecision(id=item.id, kind=item.kind, result=item.id, notes=())
    engine.lifecycle().mark_reviewed(item.id)
    return InboxDecision(id=item.id, kind=item.kind, result="", notes=())


def _check_person(call: RequestContext) -> None:
    if call.agent:
        raise UsageError(f"{call.agent} cannot decide what was proposed", hint=_PERSON_HINT)


def _find_item(engine: Engine, request: RefuseRequest) -> InboxItem:
    stored = engine.memories().get(request.id).memory
    item = None if stored is None else make_item(stored)
    if item is None or item.kind != request.kind:
        raise NotFound(
            f"there is no {request.kind} {request.id[:100]!r} in the inbox",
            hint="'lorelog call delivery.inbox' lists it",
        )
    return item
