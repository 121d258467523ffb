"""Handlers of `delivery.list` and `delivery.unused`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.core.errors import UsageError
from lorelog.core.memory import GetReply
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_past_day
from lorelog.operations.delivery import schema
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import reply_from
from lorelog.services.places.project import visible_projects

if TYPE_CHECKING:
    from pathlib import Path

    from lorelog.services.usage.history import Delivery

_MAX_TEXT_CHARS = 200
ACTIONS = (
    schema.ReviewAction(command='lorelog supersede ID "…"', purpose="the rule has changed: replace it"),
    schema.ReviewAction(command="lorelog expire ID DAY", purpose="it is needed until a day"),
    schema.ReviewAction(command="lorelog delete ID", purpose="it is wrong or of no use: hide it"),
)


def list_shown(engine: Engine, request: schema.DeliveryListRequest, call: RequestContext) -> schema.DeliveryListReply:
    """List the memories that agents were shown, newest first: when, why, their tokens, and whether they were used.

    A use is noted where it can be seen in the turn: the memory's id or distinctive words in the assistant's text or
    tool calls, a guard that was obeyed, a call that was changed.
    """
    from lorelog.services.usage.history import DeliveryFilter, list_deliveries

    filters = DeliveryFilter(
        projects=_visible_projects(engine, all_projects=request.all_projects),
        session=request.session,
        memory=request.memory,
        kind=request.kind,
        since=parse_past_day(request.since) if request.since else "",
    )
    found = list_deliveries(deliveries_folder(engine), filters)
    memories = _MemoryLookup(engine)
    return schema.DeliveryListReply(
        deliveries=tuple(_delivery_info(delivery, memories) for delivery in found[: request.limit]),
        total_count=len(found),
        total_tokens=sum(delivery.tokens for delivery in found),
    )


def list_unused(engine: Engine, request: schema.UnusedRequest, call: RequestContext) -> schema.UnusedReply:
    """List memories that were delivered repeatedly and never used, for review.

    Only deliveries because of a match count (a cue, a prompt, a guard, a failure), and only where the turns after them
    were captured. Deleted, superseded and expired memories are left out.
    """
    from lorelog.services.usage.history import memory_usage

    projects = _visible_projects(engine, all_projects=request.all_projects)
    memories = _MemoryLookup(engine)
    found = []
    usages = memory_usage(deliveries_folder(engine))
    for identity, usage in sorted(usages.items(), key=lambda item: (-item[1].unused, item[0])):
        if usage.used or usage.unused < request.min_deliveries:
            continue
        if projects is not None and usage.project not in projects:
            continue
        reply = memories.get(identity)
        if reply.memory is None or reply.lifecycle.superseded_by or reply.lifecycle.expired:
            continue
        chunk = reply.memory.chunk
        found.append(
            reply_from(
                usage,
                schema.UnusedMemoryInfo,
                id=identity,
                text=memories.text(identity),
                type=memories.type(identity),
                date=chunk.date,
                source=chunk.source,
                start_line=chunk.start_line,
                kinds=tuple(sorted(usage.kinds)),
            )
        )
    return schema.UnusedReply(memories=tuple(found[: request.limit]), total_count=len(found), actions=ACTIONS)


def deliveries_folder(engine: Engine) -> Path:
    """Return the folder of a tenant's log of deliveries."""
    return engine.place.tenant_folder / "deliveries"


class _MemoryLookup:
    """Texts and types of memories by id, each looked up once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._replies: dict[str, GetReply] = {}

    def get(self, identity: str) -> GetReply:
        if identity not in self._replies:
            try:
                self._replies[identity] = self._engine.memories().get(identity)
            except UsageError:  # a logged text that is not an id
                self._replies[identity] = GetReply()
        return self._replies[identity]

    def text(self, identity: str) -> str:
        """Return the first words of a memory; empty if it is deleted or unknown."""
        memory = self.get(identity).memory
        if memory is None:
            return ""
        lines = [line for line in memory.chunk.text.splitlines() if line.strip() and not line.startswith("#")]
        return " ".join(" ".join(lines).split())[:_MAX_TEXT_CHARS]

    def type(self, identity: str) -> str:
        memory = self.get(identity).memory
        return "" if memory is None else memory.chunk.type


def _delivery_info(delivery: Delivery, memories: _MemoryLookup) -> schema.DeliveryInfo:
    from lorelog.services.usage.history import NOT_USED

    shown = []
    for identity in delivery.memories:
        how = delivery.used.get(identity)
        shown.append(
            schema.DeliveredMemoryInfo(
                id=identity,
                text=memories.text(identity),
                type=memories.type(identity),
                used=None if how is None else how != NOT_USED,
                how="" if how in {None, NOT_USED} else str(how),
            )
        )
    return reply_from(delivery, schema.DeliveryInfo, memories=tuple(shown))


def _visible_projects(engine: Engine, *, all_projects: bool) -> tuple[str, ...] | None:
    return None if all_projects or engine.defaults.all_projects else visible_projects(engine.place.project, ())
