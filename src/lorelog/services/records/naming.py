"""Which task, which record? People and agents copy ids, and copy them short or wrong.

A misspelt id must never found a task or hang a reply on nothing, so whatever cannot be told is an error that names what may
have been meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from lorelog.core.errors import NotFound
from lorelog.core.identity import cited_id
from lorelog.core.record import Record
from lorelog.records.digests import one_line
from lorelog.records.tables import Asked, RecordTables, Task

LEAST = 6
"""Characters that an id may be cut to. The first eight are a time to the minute: of a busy minute it takes more."""
_SHOWN = 5
_LOOKED_AT = 500
_GOAL = 60
_WHERE = {
    "task": "'lorelog task list --status all' lists them",
    "record": "'lorelog task show' lists those of a task, 'lorelog search' finds any",
}


def find_task(tables: RecordTables, given: str) -> str:
    """Return the id of the task that is named by its id or the first characters of it. Raise NotFound."""
    named = given.strip()
    if named and tables.task(named) is not None:
        return named
    named = cited_id(named)
    found = tables.tasks_beginning(named, _SHOWN + 1) if len(named) >= LEAST else []
    if len(found) == 1:
        return found[0].id
    if found:
        raise _ambiguous("task", named, map(_shown_task, found))
    record = _record_of(tables, named)
    if record is not None and record.task:
        raise NotFound(f"{named!r} is no task but a record of one", hint=f"the task is {record.task}")
    known = {one.id: one for one in tables.tasks(most=_LOOKED_AT)}
    raise _unknown("task", named, {one: _shown_task(task) for one, task in known.items()})


def find_record(tables: RecordTables, given: str) -> Record:
    """Return the record that is named by its id or the first characters of it. Raise NotFound."""
    named = given.strip()
    exact = tables.get(named) or tables.get(cited_id(named)) if named else None
    if exact is not None:
        return exact
    named = cited_id(named)
    found = tables.beginning(named, _SHOWN + 1) if len(named) >= LEAST else []
    if len(found) == 1:
        return found[0]
    if found:
        raise _ambiguous("record", named, map(_shown_record, found))
    task = tables.task(named) if named else None
    if task is not None and task.started_by:
        raise NotFound(f"{named!r} is no record but a task", hint=f"the record that began it is {task.started_by}")
    known = {one.id: one for one in tables.find(Asked(most=_LOOKED_AT))}
    raise _unknown("record", named, {one: _shown_record(record) for one, record in known.items()})


def _record_of(tables: RecordTables, named: str) -> Record | None:
    """Return the record that somebody may have named in the place of its task."""
    found = tables.beginning(named, 2) if len(named) >= LEAST else []
    return found[0] if len(found) == 1 else None


def _ambiguous(what: str, named: str, found: Iterable[str]) -> NotFound:
    shown = list(found)
    more = " and more" if len(shown) > _SHOWN else ""
    return NotFound(
        f"several {what}s begin with {named!r}", hint="give more of it: " + "; ".join(shown[:_SHOWN]) + more
    )


def _unknown(what: str, named: str, known: dict[str, str]) -> NotFound:
    if not named:
        return NotFound(f"no {what} is named", hint=f"give the id of the {what}")
    if len(named) < LEAST and any(one.startswith(named) for one in known):
        return NotFound(f"{named!r} is too short for the id of a {what}", hint=f"give at least {LEAST} characters")
    near = get_close_matches(named, known, n=2, cutoff=0.75)
    message = f"there is no {what} {named[:100]!r}"
    if near:
        return NotFound(message, hint="did you mean " + " or ".join(known[one] for one in near) + "?")
    return NotFound(message, hint=_WHERE[what])


def _shown_task(task: Task) -> str:
    return f"{task.id} ({one_line(task.goal, _GOAL)})" if task.goal else task.id


def _shown_record(record: Record) -> str:
    said = record.text("summary") or record.text("goal")
    return f"{record.id} ({record.kind}: {one_line(said, _GOAL)})" if said else f"{record.id} ({record.kind})"
