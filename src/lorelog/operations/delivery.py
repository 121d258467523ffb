"""Operations on what was delivered to agents: `delivery.*`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.errors import UsageError
from lorelog.core.memory import GetReply
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.light.delivery_files import MIN_SINK_DELIVERIES, shorten_line
from lorelog.light.delivery_log import estimate_tokens
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import ScopedRequest, Since, about, parse_past_day
from lorelog.services.standing.memories import read_words, text_line
from lorelog.services.usage import history

OPERATIONS = OperationFamily()
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


class BalanceRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which memories to list."""

    unused: Annotated[bool, about("Only memories that were delivered repeatedly and never used.")] = False
    min_deliveries: Annotated[int, about("Deliveries without use that make a memory an unused one.", ge=1, le=1000)] = (
        MIN_SINK_DELIVERIES
    )
    limit: Annotated[int, about("Maximum number of memories, the most expensive first.", ge=1, le=1000)] = 50


class DeliveredMemoryInfo(OperationReply, frozen=True, kw_only=True):
    """A memory that was shown. `used` is null as long as the turns after it were not read."""

    id: str
    text: str
    type: str
    used: bool | None
    how: str


class DeliveryInfo(history.DeliveryMoment, frozen=True, kw_only=True):
    """Memories that were shown to a session at one moment."""

    memories: tuple[DeliveredMemoryInfo, ...]


class DeliveryListReply(ReplyItems[DeliveryInfo], OperationReply, frozen=True, kw_only=True):
    """Deliveries, newest first. Counts and tokens are of all that pass the filters."""

    deliveries: tuple[DeliveryInfo, ...]
    total_count: int
    total_tokens: int


class MemoryBalance(OperationReply, frozen=True, kw_only=True):
    """What showing a memory cost, and what was seen of it. `sinks` is true if it was delivered repeatedly and never used."""

    id: str
    text: str
    type: str
    date: str
    source: str
    start_line: int
    project: str
    delivered: int
    tokens: int
    used: int
    signs: dict[str, int]
    contradicted: int
    unused: int
    sinks: bool
    first: str
    last: str
    kinds: tuple[str, ...]


class BalanceReply(ReplyItems[MemoryBalance], OperationReply, frozen=True, kw_only=True):
    """Memories, the most expensive first, and how many of all sink."""

    memories: tuple[MemoryBalance, ...]
    total_count: int
    total_tokens: int
    sinking: int
    sinking_delivered: int


_MAX_TEXT_CHARS = 200


@OPERATIONS.declare("delivery.list", ShellCommand("deliveries"))
def list_shown(engine: Engine, request: DeliveryListRequest, call: RequestContext) -> DeliveryListReply:
    """List the memories that agents were shown, newest first: when, why, their tokens, and whether they were used.

    A use is noted where it can be seen in the turn: the memory's id in the assistant's text or tool calls, a guard that was
    obeyed, a call that was changed.
    """
    filters = history.DeliveryFilter(
        projects=engine.log_projects(all_projects=request.all_projects),
        session=request.session,
        memory=request.memory,
        kind=request.kind,
        since=parse_past_day(request.since),
    )
    found = history.list_deliveries(engine.place.tenant_folder / "deliveries", filters)
    memories = _MemoryLookup(engine)

    def shown(delivery: history.Delivery) -> Iterator[DeliveredMemoryInfo]:
        for identity in delivery.memories:
            how = delivery.used.get(identity)
            word = "" if how in {None, history.NOT_USED} else str(how)
            used = None if how is None else how not in {history.NOT_USED, history.CONTRADICTED}
            yield DeliveredMemoryInfo(**memories.about(identity), used=used, how=word)

    return DeliveryListReply(
        deliveries=tuple(
            reply_from(delivery, DeliveryInfo, memories=tuple(shown(delivery))) for delivery in found[: request.limit]
        ),
        total_count=len(found),
        total_tokens=sum(delivery.tokens for delivery in found),
    )


@OPERATIONS.declare("delivery.balance")
def balance(engine: Engine, request: BalanceRequest, call: RequestContext) -> BalanceReply:
    """Say what each delivered memory cost and what was seen of it: its id named, a call changed, a rule obeyed, or contradicted.

    Its tokens are its share of each delivery; in the list at the start of a session, those of its text. It was contradicted where the
    user rejected a call that was changed because of it, or dismissed its guard. Only deliveries because of a match (a cue, a
    prompt, a guard, a failure) whose turns were captured count as unused. Deleted, superseded and expired memories are left out.
    """
    projects = engine.log_projects(all_projects=request.all_projects)
    memories = _MemoryLookup(engine)
    dismissals: dict[str, int] = {}
    guards = engine.place.tenant_folder / "guards.jsonl"
    if guards.exists():
        from lorelog.services.guards.guard_log import GuardLog

        for guard in GuardLog(guards).all():
            dismissals[guard.memory] = dismissals.get(guard.memory, 0) + guard.dismissals
    found = []
    for identity, usage in history.memory_usage(engine.place.tenant_folder / "deliveries").items():
        reply = memories[identity] if projects is None or usage.project in projects else GetReply()
        if reply.memory is None or reply.lifecycle.superseded_by or reply.lifecycle.expired:
            continue
        chunk, shown = reply.memory.chunk, memories.about(identity)
        found.append(
            reply_from(
                usage,
                MemoryBalance,
                **shown,
                date=chunk.date,
                source=chunk.source,
                start_line=chunk.start_line,
                tokens=usage.tokens + usage.listed * estimate_tokens(shown["text"]),
                signs={sign: count for sign, count in usage.signs.items() if sign != history.CONTRADICTED},
                contradicted=usage.signs.get(history.CONTRADICTED, 0) + dismissals.get(identity, 0),
                sinks=not usage.used and usage.unused >= request.min_deliveries,
                kinds=tuple(sorted(usage.kinds)),
            )
        )
    found.sort(key=lambda memory: (-memory.tokens, memory.id))
    sinking = [memory for memory in found if memory.sinks]
    listed = sinking if request.unused else found
    return BalanceReply(
        memories=tuple(listed[: request.limit]),
        total_count=len(listed),
        total_tokens=sum(memory.tokens for memory in listed),
        sinking=len(sinking),
        sinking_delivered=sum(memory.delivered for memory in sinking),
    )


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
        """Return id, type and the first words of a memory as it is shown; empty if it is deleted or unknown."""
        memory = self[identity].memory
        text = shorten_line(text_line(read_words(memory.chunk)[0]), _MAX_TEXT_CHARS) if memory else ""
        return {"id": identity, "type": memory.chunk.type if memory else "", "text": text}
