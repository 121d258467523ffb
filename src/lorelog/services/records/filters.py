"""Filters of records and tasks, and the lookup of abbreviated ids.

Filters are exact: a score never overrides them. A mistyped id must not create a task or attach a reply to nothing, so
an unknown or ambiguous id is an error that suggests candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import NotFound
from lorelog.core.ids import parse_cited_id
from lorelog.core.query import TrustFilter
from lorelog.core.record import Record, Trust
from lorelog.records.digests import one_line
from lorelog.records.tables import RecordQuery, RecordTables, Task
from lorelog.services.records.pages import meets_trust

MIN_ID_CHARS = 6
"""Shortest accepted prefix of an id. The first eight characters are a time to the minute, so more may be needed."""
_MAX_SUGGESTIONS = 5
_MAX_CANDIDATES = 500
_GOAL_CHARS = 60
_LIST_HINTS = {
    "task": "'lorelog task list --status all' lists them",
    "record": "'lorelog task show' lists those of a task, 'lorelog search' finds any",
}


def resolve_task_id(tables: RecordTables, text: str) -> str:
    """Return the id of a task from its id or a prefix of it. Raise NotFound."""
    named = text.strip()
    if named and tables.task(named) is not None:
        return named
    named = parse_cited_id(named)
    matches = tables.tasks_with_id_prefix(named, _MAX_SUGGESTIONS + 1) if len(named) >= MIN_ID_CHARS else []
    if len(matches) == 1:
        return matches[0].id
    if matches:
        raise _ambiguous_error("task", named, map(_format_task, matches))
    record = _record_by_prefix(tables, named)
    if record is not None and record.task:
        raise NotFound(f"{named!r} is a record of a task, not a task", hint=f"the task is {record.task}")
    known = {task.id: _format_task(task) for task in tables.tasks(limit=_MAX_CANDIDATES)}
    raise _unknown_error("task", named, known)


def resolve_record(tables: RecordTables, text: str) -> Record:
    """Return a record from its id or a prefix of it. Raise NotFound."""
    named = text.strip()
    exact = tables.get(named) or tables.get(parse_cited_id(named)) if named else None
    if exact is not None:
        return exact
    named = parse_cited_id(named)
    matches = tables.with_id_prefix(named, _MAX_SUGGESTIONS + 1) if len(named) >= MIN_ID_CHARS else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise _ambiguous_error("record", named, map(_format_record, matches))
    task = tables.task(named) if named else None
    if task is not None and task.started_by:
        raise NotFound(f"{named!r} is a task, not a record", hint=f"the record that began it is {task.started_by}")
    known = {record.id: _format_record(record) for record in tables.find(RecordQuery(limit=_MAX_CANDIDATES))}
    raise _unknown_error("record", named, known)


def _record_by_prefix(tables: RecordTables, named: str) -> Record | None:
    matches = tables.with_id_prefix(named, 2) if len(named) >= MIN_ID_CHARS else []
    return matches[0] if len(matches) == 1 else None


def _ambiguous_error(what: str, named: str, matches: Iterable[str]) -> NotFound:
    shown = list(matches)
    more = " and more" if len(shown) > _MAX_SUGGESTIONS else ""
    return NotFound(
        f"several {what}s begin with {named!r}",
        hint="give more characters: " + "; ".join(shown[:_MAX_SUGGESTIONS]) + more,
    )


def _unknown_error(what: str, named: str, known: dict[str, str]) -> NotFound:
    if not named:
        return NotFound(f"the id of the {what} is empty", hint=f"give the id of a {what}")
    if len(named) < MIN_ID_CHARS and any(id_.startswith(named) for id_ in known):
        return NotFound(
            f"{named!r} is too short for the id of a {what}", hint=f"give at least {MIN_ID_CHARS} characters"
        )
    near = get_close_matches(named, known, n=2, cutoff=0.75)
    message = f"there is no {what} {named[:100]!r}"
    if near:
        return NotFound(message, hint="did you mean " + " or ".join(known[id_] for id_ in near) + "?")
    return NotFound(message, hint=_LIST_HINTS[what])


def _format_task(task: Task) -> str:
    return f"{task.id} ({one_line(task.goal, _GOAL_CHARS)})" if task.goal else task.id


def _format_record(record: Record) -> str:
    text = record.text("summary") or record.text("goal")
    return f"{record.id} ({record.kind}: {one_line(text, _GOAL_CHARS)})" if text else f"{record.id} ({record.kind})"


_TEXT_FILTERS = (
    *("challenge_id", "artifact_role", "evidence_kind", "tool_name"),
    *("verification_status", "approval_state"),
)
_TASK_FILTERS = frozenset({"agent", "session", "challenge_id", "dataset", "entity", "contributor", "status"})
"""Filters that a task meets as a whole: one of its records is enough, and the status is the task's."""


class RecordFilter(Struct, frozen=True, kw_only=True):
    """Conditions on records and tasks. An empty field is no condition."""

    query: str = ""
    k: int = 10
    kinds: Sequence[str] = ()
    task: str = ""
    parent_task: str = ""
    thread: str = ""
    reply_to: str = ""
    agent: str = ""
    session: str = ""
    challenge_id: str = ""
    artifact_role: str = ""
    relation: str = ""
    evidence_kind: str = ""
    tool_name: str = ""
    verification_status: str = ""
    approval_state: str = ""
    contributor: str = ""
    dataset: str = ""
    entity: str = ""
    origin: str = ""
    status: str = ""
    supports_claim: bool | None = None
    since: str = ""
    until: str = ""
    """First and last day, ISO, inclusive."""
    trust: TrustFilter = TrustFilter.ANY
    include_superseded: bool = False
    projects: tuple[str, ...] | None = None
    """Visible projects; None for all."""

    def admits(self, record: Record, *, of_task: bool = False) -> bool:
        """Return True if a record meets the conditions; with `of_task`, except those on the whole task."""
        conditions = {
            "kinds": not self.kinds or record.kind in self.kinds,
            "project": self.projects is None or record.project in self.projects,
            "task": self.task in ("", record.task),
            "thread": self.thread in ("", record.thread),
            "reply_to": self.reply_to in ("", record.reply_to),
            "agent": _matches(self.agent, record.agent),
            "session": self.session in ("", record.session),
            "relation": _matches(self.relation, record.relation),
            "origin": self.origin in ("", record.origin),
            "status": _matches(self.status, record.status),
            "supports": self.supports_claim in (None, record.supports_claim),
            "days": self._in_period(record.at),
            "contributor": _matches_any(self.contributor, record.texts("contributors")),
            "dataset": _matches_any(self.dataset, ref_names(record, "dataset_refs")),
            "entity": _matches_any(self.entity, ref_names(record, "entity_refs")),
        }
        conditions |= {name: _matches(getattr(self, name), record.text(name)) for name in _TEXT_FILTERS}
        return all(met for name, met in conditions.items() if not (of_task and name in _TASK_FILTERS))

    def admits_trust(self, trust: Trust) -> bool:
        """Return True if the trust meets the filter."""
        return meets_trust(trust, self.trust)

    def admits_task(self, records: Iterable[Record], status: str) -> bool:
        """Return True if a task meets the conditions, given its records and its current status."""
        if not _matches(self.status, status):
            return False
        tests = {
            "agent": lambda record: _matches(self.agent, record.agent),
            "session": lambda record: self.session == record.session,
            "challenge_id": lambda record: _matches(self.challenge_id, record.text("challenge_id")),
            "contributor": lambda record: _matches_any(self.contributor, record.texts("contributors")),
            "dataset": lambda record: _matches_any(self.dataset, ref_names(record, "dataset_refs")),
            "entity": lambda record: _matches_any(self.entity, ref_names(record, "entity_refs")),
        }
        records = list(records)
        return all(any(map(test, records)) for name, test in tests.items() if getattr(self, name))

    def table_query(self) -> RecordQuery:
        """Return the conditions that the tables can apply."""
        return RecordQuery(
            kinds=self.kinds,
            projects=self.projects,
            task=self.task,
            thread=self.thread,
            in_force=not self.include_superseded,
        )

    def _in_period(self, at: str) -> bool:
        if not (self.since or self.until):
            return True
        day = record_day(at)
        return (not self.since or day >= self.since) and (not self.until or day <= self.until)


def resolve_filter_ids(tables: RecordTables, filter_: RecordFilter) -> RecordFilter:
    """Return a filter with full ids in place of prefixes. Raise NotFound for an unknown id."""
    return replace(
        filter_,
        task=resolve_task_id(tables, filter_.task) if filter_.task else "",
        parent_task=resolve_task_id(tables, filter_.parent_task) if filter_.parent_task else "",
        reply_to=resolve_record(tables, filter_.reply_to).id if filter_.reply_to else "",
    )


def record_day(at: str) -> str:
    """Return the local day of a record: a record from yesterday evening belongs to yesterday."""
    try:
        return datetime.fromisoformat(at).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return at[:10]


def ref_names(record: Record, field: str) -> tuple[str, ...]:
    """Return the `name` of each object in a field."""
    value = record.fields.get(field)
    parts = value if isinstance(value, list) else []
    return tuple(str(part["name"]) for part in parts if isinstance(part, dict) and isinstance(part.get("name"), str))


def _matches(expected: str, value: str) -> bool:
    return not expected or expected.strip().casefold() == value.strip().casefold()


def _matches_any(expected: str, values: Iterable[str]) -> bool:
    return not expected or any(_matches(expected, value) for value in values)
