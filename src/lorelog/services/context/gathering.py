"""What goes into the file that is read before work: of each sort the best, and the sorts taken in turn.

Memories that answer the questions come first in each turn, then what is in force, what failed, what is open and what is hot:
an agent that may read little is told one of each before a second of any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from lorelog.core.errors import ModelUnavailable
from lorelog.core.query import Hit
from lorelog.core.record import FOREIGN, Record, Trust
from lorelog.records.digests import Item as Listed
from lorelog.records.digests import Role
from lorelog.records.digests_build import View, in_force, latest, library
from lorelog.records.tables import Task
from lorelog.records.tables_queries import tasks_of
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.context.fitting import Fitted, Head, Item, fit
from lorelog.services.context.relevant import distinct, hot_context, newest_hits
from lorelog.services.context.sight import Sight
from lorelog.services.records.book import Book

MOST_EACH = 5
"""Of decisions, failures, tasks and hot memories each."""
_LOOKED_AT = 25
"""Decisions that other records imply are listed beside those that were recorded as such, and are none here."""
_TOLD_BY = ("task_progress", "task_finish", "revision")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What is asked for."""

    queries: tuple[str, ...] = ()
    k: int = 2
    """Memories for each question; without questions, the newest ones."""
    token_budget: int = 700
    form: str = "markdown"


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The file, and how it came about."""

    request: ContextRequest
    project: str
    tenant: str
    fitted: Fitted
    found: tuple[tuple[str, int], ...]
    """Each question, and how many hits it had."""
    estimated: bool
    """Whether tokens were estimated, because there is no tokenizer."""
    notes: tuple[str, ...] = ()


def agent_context(sight: Sight, request: ContextRequest) -> AgentContext:
    """Return what an agent should read before it works, in a file of at most so many tokens."""
    queries = tuple(dict.fromkeys(one.strip() for one in request.queries if one.strip()))
    place = sight.archive.place
    notes: list[str] = []
    by_rank, found = _memories(sight, queries, request.k, notes)
    behind = _behind(sight, (hit for hits in by_rank for hit in hits))
    memories = [[_item_of_hit(hit, "memories", behind) for hit in hits] for hits in by_rank]
    shown = {hit.id for hits in by_rank for hit in hits}
    hot = [_item_of_hit(hit, "hot", {}) for hit in hot_context(sight, MOST_EACH) if hit.id not in shown]
    others = _said_in_records(sight, " ".join(queries), set(behind)) if sight.archive.book.exists() else ([], [], [])
    items = _in_turn(memories, (*others, hot))
    head = Head(place.project.name, place.tenant, queries)
    count, estimated = sight.count_tokens, False
    try:
        fitted = fit(head, items, request.token_budget, count, request.form)
    except ModelUnavailable as error:
        notes.append(f"tokens were estimated: {error.message}")
        fitted, estimated = fit(head, items, request.token_budget, estimate_tokens, request.form), True
    asked = replace(request, queries=queries)
    return AgentContext(asked, place.project.id, place.tenant, fitted, tuple(found), estimated, tuple(notes))


def _memories(
    sight: Sight, queries: Sequence[str], k: int, notes: list[str]
) -> tuple[list[list[Hit]], list[tuple[str, int]]]:
    """Return hits by rank, each once over all questions; without questions, the newest memories one by one."""
    if not queries:
        return [[hit] for hit in newest_hits(sight, k)], []
    options = replace(sight.archive.options, k=k, filters=sight.filters, token_budget=0)
    replies = [sight.archive.search(query, options) for query in queries]
    notes += dict.fromkeys(note for reply in replies for note in reply.notes)
    ranks = zip_longest(*(reply.hits for reply in replies))
    by_rank = [[hit for hit in rank if hit is not None] for rank in ranks]
    kept = distinct(hit for rank in by_rank for hit in rank)
    left = [[hit for hit in rank if any(hit is one for one in kept)] for rank in by_rank]
    return left, [(query, len(reply.hits)) for query, reply in zip(queries, replies, strict=True)]


def _in_turn(ranks: Sequence[Sequence[Item]], others: Sequence[Sequence[Item]]) -> list[Item]:
    """Return items in the order of their use: a rank of memories, then one of each of the others, and again."""
    ordered: list[Item] = []
    for turn in range(max(map(len, (ranks, *others)))):
        ordered += ranks[turn] if turn < len(ranks) else ()
        ordered += [one[turn] for one in others if turn < len(one)]
    return ordered


def _behind(sight: Sight, hits: Iterable[Hit]) -> dict[str, Record]:
    """Return the records behind hits, by id: a record has one citation and one name, wherever it is shown."""
    records = [hit.grounding[0].record for hit in hits if hit.grounding]
    return {one.id: one for one in sight.archive.book.tables().of_ids(records)} if records else {}


def _item_of_hit(hit: Hit, section: str, behind: Mapping[str, Record]) -> Item:
    origin = hit.anchor.origin if hit.anchor is not None else ""
    ground = hit.grounding[0] if hit.grounding else None
    record = behind.get(ground.record) if ground else None
    text = hit.content if hit.anchor is None and ground is None else _without_comments(hit.content)
    return Item(
        section,
        ground.record if ground else hit.id,
        record.hash if record else hit.content_hash,
        (_kind(record) if record else ground.kind if ground else hit.type) or "memory",
        str(hit.trust.tier),
        hit.date[:10],
        _told_alike(text, record) if record else text,
        origin,
        hit.trust.tainted or origin in FOREIGN,
        hit.verdict.word,
    )


def _told_alike(text: str, record: Record) -> str:
    """Return what a page says of a record; a decision as it is told elsewhere."""
    decided = _decided(record) if record.kind == "decision" else ""
    return decided if 0 < len(decided) <= len(text) else text


def _without_comments(content: str) -> str:
    """Return what an entry says: its heading is a time, and its comments are not for readers."""
    said = _COMMENT.sub(" ", content)
    lines = said.split("\n")
    return "\n".join(lines[1:] if lines[0].startswith("#") and any(map(str.strip, lines[1:])) else lines)


def _said_in_records(sight: Sight, asked: str, cited: set[str]) -> tuple[list[Item], list[Item], list[Item]]:
    """Return decisions in force, failures and open tasks, those first that share words with what is asked."""
    book = sight.archive.book
    tables = book.tables()
    view = View(sight.projects, sight.archive.place.project.name)
    listed = {
        role: library(tables, book.trust, view, role, query=asked, most=_LOOKED_AT).items
        for role in (Role.DECISIONS, Role.FAILURES)
    }
    decisions = [_item_of_record(one, "decisions") for one in listed[Role.DECISIONS] if one.explicit]
    failures = [_item_of_record(one, "failures") for one in listed[Role.FAILURES]]
    tasks = tasks_of(tables, sight.projects, open_=True, most=MOST_EACH)[0]
    return (
        [one for one in decisions if one.id not in cited][:MOST_EACH],
        [one for one in failures if one.id not in cited][:MOST_EACH],
        _open_tasks(book, tasks),
    )


def _item_of_record(listed: Listed, section: str) -> Item:
    record, worth = listed.record, listed.trust
    # A list quotes what is tainted; here the quotation marks are set around the whole item.
    text = (_decided(record) if section == "decisions" else _failed(record)) or listed.text
    kind = _kind(record) + (", countersigned" if worth.verified_by else "")
    return Item(
        section, record.id, record.hash, kind, str(worth.tier), record.at[:10], text, record.origin, worth.tainted
    )


def _kind(record: Record) -> str:
    return f"{record.kind} by {record.agent}" if record.agent.strip() else record.kind


def _decided(record: Record) -> str:
    summary, because = record.text("summary").strip(), record.text("motivation").strip()
    return f"{summary} Because: {because}" if summary and because else summary or because


def _failed(record: Record) -> str:
    return "; ".join((*record.texts("what_failed"), *record.texts("blockers")))


def _open_tasks(book: Book, tasks: Sequence[Task]) -> list[Item]:
    """Return tasks, each cited by its own id, since that is what goes on with it, and the hash of what it says now."""
    tables = book.tables()
    starts = in_force(tables, [task.started_by or task.last for task in tasks])
    lasts = {task.id: latest(tables, task.id, "summary", _TOLD_BY) for task in tasks}
    trust = book.trust([one.id for one in (*starts.values(), *lasts.values()) if one is not None])
    items = []
    for task in tasks:
        said = [one for one in (starts.get(task.started_by or task.last), lasts[task.id]) if one is not None]
        worth = [trust[one.id] for one in said if one.id in trust]
        if worth:
            items.append(_item_of_task(task, said, worth))
    return items


def _item_of_task(task: Task, said: Sequence[Record], worth: Sequence[Trust]) -> Item:
    last = said[-1]
    goal = next((one.text("goal") for one in said if one.text("goal")), "")
    parts = ((goal, ""), (last.text("summary"), " Last: "), (last.text("next_step"), " Next: "))
    text = "".join(f"{before}{what}" for what, before in parts if what).strip()
    kind = f"task by {task.agent}" if task.agent.strip() else "task"
    origin = next((one.origin for one in said if one.origin in FOREIGN), last.origin)
    tainted = any(one.tainted for one in worth)
    return Item("tasks", task.id, last.hash, kind, str(worth[-1].tier), task.updated_at[:10], text, origin, tainted)
