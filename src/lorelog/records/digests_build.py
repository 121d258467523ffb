"""Libraries and briefs, from the tables: which records are looked at, and what is said of them.

As much is read as is shown, and a little more: a ledger of many years is briefed as fast as a young one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lorelog.core.record import Record
from lorelog.records.digests import (
    TITLES,
    Digest,
    Item,
    Line,
    Role,
    TrustOf,
    judged,
    make_digest,
    one_line,
    ranked,
    told,
    words_of,
)
from lorelog.records.digests_items import IMPLICIT, MAKERS, Meant, with_trust
from lorelog.records.tables import RecordTables
from lorelog.records.tables_asked import Asked, Task
from lorelog.records.tables_queries import Neighbour, Saying, neighbours, replaced, saying, tasks_of

MOST_TASKS = 5
MOST_ITEMS = 10
MOST_RELATED = 5
ENDED_WELL = ("completed", "success")
_SEARCHED = 150
"""Records with words of a question, of which the best are found."""
_WORDS = 20
_LESSONS = 1000
_CHAIN = 50
_NAMES = 5
_RELATED = "Related projects"


_SOURCES: Mapping[Role, tuple[Saying, ...]] = {
    Role.FAILURES: (Saying(("what_failed", "blockers")),),
    # Apart, so that many reviews do not crowd out the decisions.
    Role.DECISIONS: (Saying(kinds=("decision", "revision")), Saying(kinds=sorted(IMPLICIT))),
    Role.EVIDENCE: (Saying(("validation",), ("evidence", "revision")),),
    Role.HIGHLIGHTS: (Saying(("what_failed", "what_worked"), ("decision", "revision")),),
}
"""The records that each library is made of."""


@dataclass(frozen=True, slots=True)
class View:
    """Which records are seen."""

    projects: tuple[str, ...] | None
    """This one first; None for all of the tenant."""
    name: str
    """What a person calls the project."""

    @property
    def scope(self) -> str:
        """What a digest of it is filed under."""
        return "tenant" if self.projects is None else f"project:{self.projects[0]}"


@dataclass(frozen=True, slots=True)
class Library:
    """What records say on one matter."""

    digest: Digest
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task, in a sentence."""

    task: Task
    line: Line


@dataclass(frozen=True, slots=True)
class Brief:
    """What somebody should know who comes to a project."""

    digest: Digest
    overview: str
    active: tuple[TaskLine, ...]
    completed: tuple[TaskLine, ...]
    failures: tuple[Item, ...]
    decisions: tuple[Item, ...]
    evidence: tuple[Item, ...]
    related: tuple[Neighbour, ...]


def meant_kinds(tables: RecordTables, records: Iterable[Record]) -> Meant:
    """Return what kind each revision stands for: that of the record at the beginning of what it revises."""
    at = {one.id: one for one in records if one.kind == "revision"}
    for _ in range(_CHAIN):
        wanted = {one.supersedes or one.reply_to for one in at.values() if one.kind == "revision"} - {""}
        found = {one.id: one for one in tables.of_ids(wanted)} if wanted else {}
        moved = {start: found.get(one.supersedes or one.reply_to, one) for start, one in at.items()}
        moved = {start: moved[start] if one.kind == "revision" else one for start, one in at.items()}
        if moved == at:
            break
        at = moved
    return {start: one.kind for start, one in at.items()}


def library(
    tables: RecordTables, trust_of: TrustOf, view: View, role: Role, *, query: str = "", most: int = MOST_ITEMS
) -> Library:
    """Return what failed, what was decided, what speaks for it, or what is worth remembering."""
    records = _candidates(tables, view, role, query, most)
    if role is Role.DECISIONS:
        records = still_said(tables, records)
    found = MAKERS[role](records, meant_kinds(tables, records))
    if role is Role.HIGHLIGHTS:
        found = with_trust(judged(found, trust_of))
        items = ranked(found, query, most)
    else:
        items = judged(ranked(found, query, most), trust_of)
    lines = [item_line(role, one) for one in items]
    return Library(make_digest(role, view.scope, f"{TITLES[role]}: {one_line(view.name, 200)}", lines), tuple(items))


def brief(
    tables: RecordTables,
    trust_of: TrustOf,
    view: View,
    *,
    query: str = "",
    most: int = MOST_ITEMS,
    related: bool = True,
) -> Brief:
    """Return what there is to know of a project, in one page."""
    active, going_on = tasks_of(tables, view.projects, open_=True, most=MOST_TASKS)
    completed, _ = tasks_of(tables, view.projects, open_=False, statuses=ENDED_WELL, most=MOST_TASKS)
    told_active = _task_lines(tables, trust_of, active, "Tasks under way")
    told_completed = _task_lines(tables, trust_of, completed, "Completed lately")
    libraries = {
        role: library(tables, trust_of, view, role, query=query, most=min(most, MOST_ITEMS))
        for role in (Role.FAILURES, Role.DECISIONS, Role.EVIDENCE)
    }
    near = neighbours(tables, view.projects, MOST_RELATED) if related and view.projects else []
    lines = [
        *(one.line for one in (*told_active, *told_completed)),
        *(line for one in libraries.values() for line in one.digest.lines),
        *_related_lines(near, trust_of),
    ]
    counts = (going_on, len(told_completed), *(len(one.items) for one in libraries.values()))
    overview = _overview(view.name, counts)
    cited = tuple(dict.fromkeys(identity for line in lines for identity in line.cites))
    first = Line(overview, cited, "Overview", any(line.tainted for line in lines))
    failures, decisions, evidence = (libraries[role].items for role in libraries)
    title = f"{TITLES[Role.BRIEF]}: {one_line(view.name, 200)}"
    digest = make_digest(Role.BRIEF, view.scope, title, [first, *lines])
    return Brief(digest, overview, told_active, told_completed, failures, decisions, evidence, tuple(near))


def item_line(role: Role, item: Item) -> Line:
    """Return an item as a sentence."""
    return Line(_said(role, item), item.cites, TITLES[role], item.trust.tainted)


def by_whom(record: Record) -> str:
    """Return who wrote a record, and on which day."""
    return f"{one_line(record.agent, 60) or 'somebody'}, {record.at[:10]}"


def _said(role: Role, item: Item) -> str:
    text, who = item.text, by_whom(item.record)
    if role is Role.FAILURES:
        return f"Failed or blocked ({who}): {text}"
    if role is Role.DECISIONS:
        settled = "Settled" if item.record.kind == "task_finish" else "Checked"
        return f"{'Decided' if item.explicit else settled} ({who}): {text}"
    if role is Role.EVIDENCE:
        side = {True: "Evidence for", False: "Evidence against", None: "Evidence"}[item.record.supports_claim]
        return f"{side} ({who}): {text}"
    times = len(item.support) + 1
    said = f"{times} records say so, " if times > 1 else ""
    return f"{item.category.capitalize()} ({said}confidence {item.confidence:.2f}; {who}): {text}"


def _candidates(tables: RecordTables, view: View, role: Role, query: str, most: int) -> list[Record]:
    """Return the newest records that a library may be made of, and those that share a word with the question."""
    newest = _LESSONS if role is Role.HIGHLIGHTS else 4 * most + 20
    words = sorted(words_of(query), key=lambda one: (-len(one), one))[:_WORDS]
    found = list[Record]()
    for wanted in _SOURCES[role]:
        asked = Asked(projects=view.projects, most=newest, in_force=True)
        found += saying(tables, wanted, asked)
        if words:
            found += saying(tables, replace(wanted, words=words), replace(asked, most=_SEARCHED))
    return found


def _task_lines(tables: RecordTables, trust_of: TrustOf, tasks: Sequence[Task], section: str) -> tuple[TaskLine, ...]:
    starts = in_force(tables, [one.started_by or one.last for one in tasks])
    lasts = {one.id: _latest(tables, one.id) for one in tasks}
    ids = [one.id for one in (*starts.values(), *lasts.values()) if one is not None]
    worth = trust_of(ids)
    found = list[TaskLine]()
    for task in tasks:
        start, last = starts.get(task.started_by or task.last), lasts[task.id]
        cited = [one for one in (start, last) if one is not None and one.id in worth]
        if not cited:
            continue
        text = _task_said(task, start, last, lambda one, name: told(one.text(name), one, worth[one.id]))
        tainted = any(worth[one.id].tainted for one in cited)
        cites = tuple(dict.fromkeys(one.id for one in cited))
        found.append(TaskLine(task, Line(text, cites, section, tainted)))
    return tuple(found)


def _task_said(task: Task, start: Record | None, last: Record | None, tell: Callable[[Record, str], str]) -> str:
    goal = tell(start, "goal") if start is not None and start.text("goal") else ""
    when = f"since {task.started_at[:10]}" if not task.finished_at else f"ended {task.finished_at[:10]}"
    text = f"{goal or 'a task without a goal'} ({one_line(task.status, 40)}, {one_line(task.agent, 60) or 'somebody'}, {when})"
    if last is not None and last.text("summary"):
        text += f"; last: {tell(last, 'summary')}"
    if last is not None and not task.finished_at and last.text("next_step"):
        text += f"; next: {tell(last, 'next_step')}"
    return text


def still_said(tables: RecordTables, records: Sequence[Record]) -> list[Record]:
    """Return records without those that speak of one in whose place another stands by now."""
    newer = replaced(tables, [one.reply_to for one in records if one.kind in IMPLICIT and one.reply_to])
    return [one for one in records if one.kind not in IMPLICIT or one.reply_to not in newer]


def in_force(tables: RecordTables, ids: Sequence[str]) -> dict[str, Record]:
    """Return records, or what has taken their place, by the ids that were asked for."""
    now = {one: one for one in ids if one}
    for _ in range(_CHAIN):
        newer = replaced(tables, now.values())
        if not any(one in newer for one in now.values()):
            break
        now = {start: newer.get(one, one) for start, one in now.items()}
    else:
        now = {start: one for start, one in now.items() if one not in newer}
    found = {one.id: one for one in tables.of_ids(now.values())}
    return {start: found[one] for start, one in now.items() if one in found}


def _latest(tables: RecordTables, task: str) -> Record | None:
    """Return the newest record of a task that says how far it is."""
    return latest(tables, task, "summary", ("task_progress", "task_finish", "revision"))


def latest(tables: RecordTables, task: str, name: str, kinds: Sequence[str] = ()) -> Record | None:
    """Return the newest record of a task that is in force and has a field."""
    found = saying(tables, Saying((name,)), Asked(kinds=kinds, task=task, in_force=True, most=5))
    return next((one for one in found if one.text(name).strip()), None)


def _related_lines(near: Sequence[Neighbour], trust_of: TrustOf) -> Iterable[Line]:
    worth = trust_of([one.record for one in near])
    for one in near:
        names = ", ".join(json.dumps(one_line(name, 60), ensure_ascii=False) for name in one.names[:_NAMES])
        more = f" and {len(one.names) - _NAMES} more" if len(one.names) > _NAMES else ""
        tainted = one.record in worth and worth[one.record].tainted
        yield Line(f"{one_line(one.project, 200)} names the same: {names}{more}", (one.record,), _RELATED, tainted)


def _overview(name: str, counts: Sequence[int]) -> str:
    words = ("active task", "recent completed task", "recent failure", "decision", "evidence highlight")
    parts = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in zip(counts, words, strict=True)]
    return f"Project {one_line(name, 200)} has {', '.join(parts[:-1])}, and {parts[-1]}."
