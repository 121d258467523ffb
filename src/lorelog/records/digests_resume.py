"""Where a task is, for whoever takes it up again: the last word on it, what worked, what failed, what is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lorelog.core.record import Record, Trust
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
from lorelog.records.digests_build import by_whom, in_force, item_line, latest, meant_kinds, still_said
from lorelog.records.digests_items import IMPLICIT, decisions
from lorelog.records.tables import RecordTables
from lorelog.records.tables_asked import Asked, Run, Task
from lorelog.records.tables_queries import Saying, replaced, saying

MOST_RUNS = 5
_LISTS = ("blockers", "what_worked", "what_failed", "validation", "followups")
_SECTIONS = {
    "blockers": "What stands in the way",
    "what_worked": "What worked",
    "what_failed": "What failed",
    "validation": "How it was checked",
    "followups": "Left to do",
}
_LOOKED_AT = 300
_LOOKED_AT_RUNS = 50
_LATEST = ("task_progress", "task_finish", "revision")


@dataclass(frozen=True, slots=True)
class Entry:
    """One of several things that the records of a task say under one name."""

    name: str
    text: str
    record: Record


@dataclass(frozen=True, slots=True)
class Told:
    """The same, as it may be shown."""

    text: str
    line: Line


@dataclass(frozen=True, slots=True)
class ToldRun:
    """A run of a task."""

    run: Run
    text: str
    line: Line


@dataclass(frozen=True, slots=True)
class Resume:
    """Where a task is."""

    digest: Digest
    task: Task
    goal: Told | None
    latest: Told | None
    """The last word on how far it is."""
    next_step: Told | None
    """What is to be done next; nothing of a task that has ended."""
    lists: dict[str, tuple[Told, ...]]
    """What stands in the way, what worked, …: each once, the newest first."""
    open_runs: tuple[ToldRun, ...]
    recent_runs: tuple[ToldRun, ...]
    decisions: tuple[Item, ...]


def resume(tables: RecordTables, trust_of: TrustOf, task: Task, *, query: str = "", most: int = 10) -> Resume:
    """Return where a task is."""
    facts = _facts(tables, task, query, most)
    worth = trust_of(sorted(facts.ids()))
    start, last, step = facts.start, facts.last, facts.step
    goal = _word(start, "goal", worth, "Goal", f"Task ({one_line(task.status, 40)})")
    latest_word = _word(last, "summary", worth, "Last word", f"Last ({by_whom(last)})" if last else "")
    next_step = _word(step, "next_step", worth, "Next step", f"Next ({by_whom(step)})" if step else "")
    lists = {
        name: tuple(
            _told(one.text, one.record, worth, _SECTIONS[name], f"({by_whom(one.record)}) ")
            for one in facts.entries
            if one.name == name
        )
        for name in _LISTS
    }
    runs = [_told_run(run, record, worth) for run, record in facts.runs]
    items = tuple(judged(facts.decisions, lambda _: worth))
    lines = [
        *(one.line for one in (goal, latest_word, next_step) if one is not None),
        *(one.line for entries in lists.values() for one in entries),
        *(one.line for one in runs[:MOST_RUNS]),
        *(item_line(Role.DECISIONS, one) for one in items),
    ]
    title = f"{TITLES[Role.RESUME]}: {goal.text if goal else one_line(task.id, 80)}"
    return Resume(
        make_digest(Role.RESUME, f"task:{task.id}", title, lines),
        task,
        goal,
        latest_word,
        next_step,
        lists,
        tuple(one for one in runs if not one.run.finish)[:MOST_RUNS],
        tuple(runs[:MOST_RUNS]),
        items,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """The records that speak of a task, before it is known what they are worth."""

    start: Record | None
    last: Record | None
    step: Record | None
    entries: Sequence[Entry]
    runs: Sequence[tuple[Run, Record]]
    decisions: Sequence[Item]

    def ids(self) -> set[str]:
        listed = [*(one.record for one in self.entries), *(one.record for one in self.decisions)]
        said = (self.start, self.last, self.step, *listed)
        return {one.id for one in said if one is not None} | set(_ids([run for run, _ in self.runs]))


def _facts(tables: RecordTables, task: Task, query: str, most: int) -> _Facts:
    asked = Asked(kinds=("decision", "revision", *sorted(IMPLICIT)), task=task.id, in_force=True)
    made = still_said(tables, tables.find(asked))
    return _Facts(
        in_force(tables, [task.started_by]).get(task.started_by),
        latest(tables, task.id, "summary", _LATEST) or latest(tables, task.id, "summary"),
        None if task.finished_at else latest(tables, task.id, "next_step"),
        _entries(tables, task.id, query, most),
        _runs(tables, task.id),
        ranked(decisions(made, meant_kinds(tables, made)), query, most),
    )


def _word(record: Record | None, name: str, worth: Mapping[str, Trust], section: str, mark: str) -> Told | None:
    text = record.text(name).strip() if record is not None else ""
    return _told(text, record, worth, section, f"{mark}: ") if text and record is not None else None


def _told(text: str, record: Record, worth: Mapping[str, Trust], section: str, mark: str) -> Told:
    trust = worth[record.id]
    shown = told(text, record, trust)
    return Told(shown, Line(mark + shown, (record.id,), section, trust.tainted))


def _entries(tables: RecordTables, task: str, query: str, most: int) -> list[Entry]:
    """Return what the records of a task list, each once, the newest first; or what shares most words with a question."""
    records = saying(tables, Saying(_LISTS), Asked(task=task, in_force=True, most=_LOOKED_AT))
    asked = words_of(query)
    found = list[Entry]()
    for name in _LISTS:
        seen: dict[str, Entry] = {}
        for record in records:
            for text in filter(None, map(str.strip, record.texts(name))):
                seen.setdefault(" ".join(text.casefold().split()), Entry(name, text, record))
        entries = list(seen.values())
        if asked:
            entries.sort(key=lambda one: -len(asked & words_of(one.text)))
        found += entries[:most]
    return found


def _runs(tables: RecordTables, task: str) -> list[tuple[Run, Record]]:
    """Return the last runs of a task that nothing has superseded, each with the record that tells of it last."""
    runs = tables.runs(task, _LOOKED_AT_RUNS)
    gone = replaced(tables, _ids(runs))
    runs = [one for one in runs if one.id not in gone and one.finish not in gone]
    records = {one.id: one for one in tables.of_ids(_ids(runs))}
    return [(one, records[one.finish or one.id]) for one in runs if (one.finish or one.id) in records]


def _ids(runs: Sequence[Run]) -> Iterable[str]:
    return (identity for one in runs for identity in (one.id, one.finish) if identity)


def _told_run(run: Run, record: Record, worth: Mapping[str, Trust]) -> ToldRun:
    cites = tuple(dict.fromkeys(_ids([run])))
    tainted = next((worth[one] for one in cites if worth[one].tainted), worth[record.id])
    command = told(run.command or run.tool, record, tainted) or "a tool"
    text = told(run.summary, record, tainted)
    state = one_line(run.status, 40) if run.finish else "still open"
    said = f"Run ({by_whom(record)}; {state}): {command}" + (f": {text}" if text else "")
    return ToldRun(run, text, Line(said, cites, "Runs", tainted.tainted))
