"""What a record or a task must be to be found, whatever its words. Filters are exact: nothing slips in by its score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lorelog.core.query import Trusted
from lorelog.core.record import Record, Trust
from lorelog.records.tables import Asked, RecordTables
from lorelog.services.records.grounding import is_worth
from lorelog.services.records.naming import find_record, find_task

_A_FIELD = (
    *("challenge_id", "artifact_role", "evidence_kind", "tool_name"),
    *("verification_status", "approval_state"),
)
_OF_TASKS = frozenset({"agent", "session", "challenge_id", "dataset", "entity", "contributor", "status"})
"""Of a task these are asked as a whole: whoever worked on it, whatever it is about, how it stands now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conditions. What is empty does not matter."""

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
    """First and last day, ISO, both inclusive."""
    trust: Trusted = Trusted.ANY
    include_superseded: bool = False
    projects: tuple[str, ...] | None = None
    """Admitted projects; None admits all."""

    def admits(self, record: Record, *, of_task: bool = False) -> bool:
        """Say whether a record is wanted; `of_task`: by what is asked of single records and not of its whole task."""
        conditions = {
            "kinds": not self.kinds or record.kind in self.kinds,
            "project": self.projects is None or record.project in self.projects,
            "task": self.task in ("", record.task),
            "thread": self.thread in ("", record.thread),
            "reply_to": self.reply_to in ("", record.reply_to),
            "agent": _same(self.agent, record.agent),
            "session": self.session in ("", record.session),
            "relation": _same(self.relation, record.relation),
            "origin": self.origin in ("", record.origin),
            "status": _same(self.status, record.status),
            "supports": self.supports_claim in (None, record.supports_claim),
            "days": self._is_timely(record.at),
            "contributor": _is_among(self.contributor, record.texts("contributors")),
            "dataset": _is_among(self.dataset, names_in(record, "dataset_refs")),
            "entity": _is_among(self.entity, names_in(record, "entity_refs")),
        }
        conditions |= {name: _same(getattr(self, name), record.text(name)) for name in _A_FIELD}
        return all(met for name, met in conditions.items() if not (of_task and name in _OF_TASKS))

    def admits_trust(self, trust: Trust) -> bool:
        """Say whether something is worth enough."""
        return is_worth(trust, self.trust)

    def admits_task(self, records: Iterable[Record], status: str) -> bool:
        """Say whether a task is wanted, by all that was said of it and how it stands."""
        if not _same(self.status, status):
            return False
        asked = {
            "agent": lambda one: _same(self.agent, one.agent),
            "session": lambda one: self.session == one.session,
            "challenge_id": lambda one: _same(self.challenge_id, one.text("challenge_id")),
            "contributor": lambda one: _is_among(self.contributor, one.texts("contributors")),
            "dataset": lambda one: _is_among(self.dataset, names_in(one, "dataset_refs")),
            "entity": lambda one: _is_among(self.entity, names_in(one, "entity_refs")),
        }
        given = [test for name, test in asked.items() if getattr(self, name)]
        said = list(records)
        return all(any(map(test, said)) for test in given)

    def asked(self) -> Asked:
        """Return what tables can be asked for, of all this."""
        return Asked(
            kinds=self.kinds,
            projects=self.projects,
            task=self.task,
            thread=self.thread,
            in_force=not self.include_superseded,
        )

    def _is_timely(self, at: str) -> bool:
        if not (self.since or self.until):
            return True
        day = day_of_record(at)
        return (not self.since or day >= self.since) and (not self.until or day <= self.until)


def resolved(tables: RecordTables, wanted: Wanted) -> Wanted:
    """Return conditions with whole ids in place of what they were cut to. Raise NotFound for what is not there."""
    return replace(
        wanted,
        task=find_task(tables, wanted.task) if wanted.task else "",
        parent_task=find_task(tables, wanted.parent_task) if wanted.parent_task else "",
        reply_to=find_record(tables, wanted.reply_to).id if wanted.reply_to else "",
    )


def day_of_record(at: str) -> str:
    """Return the local day of a record's time: what was said yesterday evening is of yesterday."""
    try:
        return datetime.fromisoformat(at).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return at[:10]


def names_in(record: Record, field: str) -> tuple[str, ...]:
    """Return the names of what a record refers to in a field of objects."""
    value = record.fields.get(field)
    parts = value if isinstance(value, list) else []
    return tuple(str(one["name"]) for one in parts if isinstance(one, dict) and isinstance(one.get("name"), str))


def _same(wanted: str, said: str) -> bool:
    return not wanted or wanted.strip().casefold() == said.strip().casefold()


def _is_among(wanted: str, said: Iterable[str]) -> bool:
    return not wanted or any(_same(wanted, one) for one in said)
