"""Handlers of the inbox. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.memory import NewMemory
from lorelog.engine import Engine
from lorelog.operations.delivery import guard_handlers, guard_schema, schema
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import reply_from
from lorelog.services.places.project import visible_projects

if TYPE_CHECKING:
    from lorelog.services.standing.inbox import InboxItem

_PERSON_HINT = "a person does this in the page, or in a terminal of their own"


def list_inbox(engine: Engine, request: schema.InboxRequest, call: RequestContext) -> schema.InboxReply:
    """List what waits for a person's word, newest first.

    Rules that agents propose, corrections in conversations that may be meant to last, summaries, text from imports and
    repositories, guards of agents, and guards that your corrections suggest.
    """
    from lorelog.services.memory_state.authored import AuthoredMemories
    from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
    from lorelog.services.standing.inbox import Inbox
    from lorelog.services.standing.ownership import Ownership

    ownership = Ownership(engine.place, AuthoredMemories.of_tenant(engine.place.tenant_folder))
    today = datetime.now().astimezone().date()
    lifecycle = LifecycleIndex(engine.store, engine.place.tenant_folder, today)
    inbox = Inbox(store=engine.store, ownership=ownership, lifecycle=lifecycle)
    everywhere = request.all_projects or engine.defaults.all_projects
    projects = None if everywhere else visible_projects(engine.place.project, ())
    items = inbox.items(projects, today)
    infos = [*guard_handlers.guard_items(engine, all_projects=request.all_projects), *map(_item_info, items)]
    infos.sort(key=lambda item: item.date, reverse=True)
    wanted = [item for item in infos if not request.kind or item.kind == request.kind]
    return schema.InboxReply(items=tuple(wanted[: request.limit]), total_count=len(wanted))


def approve_item(engine: Engine, request: schema.ApproveRequest, call: RequestContext) -> schema.InboxDecision:
    """Approve what was proposed; `text` may word it differently.

    A rule is written as your own memory, which supersedes the proposal. A guard is switched on. A summary, and imported text
    that is not a rule, leaves the inbox and stays as it is.
    """
    _check_person(call)
    if request.kind == "guard":
        enabled = guard_handlers.enable_guard(
            engine, guard_schema.GuardEnableRequest(id=request.id, action=request.action), call
        )
        return schema.InboxDecision(id=request.id, kind="guard", result=enabled.guard.id, notes=enabled.notes)
    item, lifecycle = _find_item(engine, request), engine.lifecycle()
    if not item.becomes_rule:
        lifecycle.mark_reviewed(item.id)
        return schema.InboxDecision(id=item.id, kind=item.kind, result="", notes=())
    memory = NewMemory(request.text.strip() or item.text, item.type, origin="user")
    added = lifecycle.supersede(item.id, memory).added
    return schema.InboxDecision(id=item.id, kind=item.kind, result=added.memory, notes=added.notes)


def refuse_item(engine: Engine, request: schema.RefuseRequest, call: RequestContext) -> schema.InboxDecision:
    """Refuse what was proposed.

    A memory of an agent, a summary or an import is deleted, which can be undone. A correction stays as it is. A guard is removed,
    and a suggested guard is not suggested again.
    """
    _check_person(call)
    if request.kind == "guard":
        identity = guard_handlers.refuse_guard(engine, request.id)
        return schema.InboxDecision(id=request.id, kind="guard", result=identity, notes=())
    item = _find_item(engine, request)
    if item.deletes:
        engine.memories().delete(item.id)
        return schema.InboxDecision(id=item.id, kind=item.kind, result=item.id, notes=())
    engine.lifecycle().mark_reviewed(item.id)
    return schema.InboxDecision(id=item.id, kind=item.kind, result="", notes=())


def _check_person(call: RequestContext) -> None:
    if call.agent:
        raise UsageError(f"{call.agent} cannot decide what was proposed", hint=_PERSON_HINT)


def _find_item(engine: Engine, request: schema.RefuseRequest) -> InboxItem:
    from lorelog.services.standing.inbox import make_item

    stored = engine.memories().get(request.id).memory
    item = None if stored is None else make_item(stored)
    if item is None or item.kind != request.kind:
        raise NotFound(
            f"there is no {request.kind} {request.id[:100]!r} in the inbox",
            hint="'lorelog call delivery.inbox' lists it",
        )
    return item


def _item_info(item: InboxItem) -> schema.InboxItemInfo:
    return reply_from(item, schema.InboxItemInfo, conditions="", example="", action="")
