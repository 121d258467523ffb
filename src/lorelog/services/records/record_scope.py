"""What record operations share: their dependencies, ids and filters, records with their trust, and digests.

Filters are exact: a score never overrides them. A mistyped id must not create a task or attach a reply to nothing, so
an unknown or ambiguous id is an error that suggests candidates. A digest is built on request and never stored, so it is
never older than the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import NotFound
from lorelog.core.ids import parse_cited_id
from lorelog.core.options import SearchOptions
from lorelog.core.query import SearchReply, SupportingRecord, TrustFilter
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.core.serializable import local_time
from lorelog.records import digests
from lorelog.records.tables import RecordQuery, RecordTables
from lorelog.services.places.workspace import Workspace
from lorelog.services.records.store import RecordStore

if TYPE_CHECKING:
    from lorelog.services.records.keyring import Keyring


MIN_ID_CHARS = 6
"""Shortest accepted prefix of an id. The first eight characters are a time to the minute, so more may be needed."""
_MAX_SUGGESTIONS = 5
_MAX_CANDIDATES = 500
_MAX_TEXT_CHARS = 72
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
    is_prefix = len(named) >= MIN_ID_CHARS
    matches = tables.tasks_with_id_prefix(named, _MAX_SUGGESTIONS + 1) if is_prefix else []
    if len(matches) == 1:
        return matches[0].id
    records = tables.with_id_prefix(named, 2) if is_prefix and not matches else []
    if len(records) == 1 and records[0].task:
        raise NotFound(f"{named!r} is a record of a task, not a task", hint=f"the task is {records[0].task}")
    known = {task.id: task.goal for task in matches or tables.tasks(limit=_MAX_CANDIDATES)}
    raise _not_found("task", named, known, ambiguous=bool(matches))


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
    task = tables.task(named) if named and not matches else None
    if task is not None and task.started_by:
        raise NotFound(f"{named!r} is a task, not a record", hint=f"the record that began it is {task.started_by}")
    records = matches or tables.find(RecordQuery(limit=_MAX_CANDIDATES))
    texts = {record.id: record.text("summary") or record.text("goal") for record in records}
    known = {record.id: f"{record.kind}: {texts[record.id]}".removesuffix(": ") for record in records}
    raise _not_found("record", named, known, ambiguous=bool(matches))


def _not_found(what: str, named: str, texts: Mapping[str, str], *, ambiguous: bool) -> NotFound:
    """Return the error for an id, given the texts of the candidates, or of all that begin with it."""
    known = {id_: f"{id_} ({digests.one_line(text, _MAX_TEXT_CHARS)})" if text else id_ for id_, text in texts.items()}
    if ambiguous:
        more = " and more" if len(known) > _MAX_SUGGESTIONS else ""
        shown = "; ".join(list(known.values())[:_MAX_SUGGESTIONS])
        return NotFound(f"several {what}s begin with {named!r}", hint=f"give more characters: {shown}{more}")
    if not named:
        return NotFound(f"the id of the {what} is empty", hint=f"give the id of a {what}")
    if len(named) < MIN_ID_CHARS and any(id_.startswith(named) for id_ in known):
        return NotFound(
            f"{named!r} is too short for the id of a {what}", hint=f"give at least {MIN_ID_CHARS} characters"
        )
    near = [known[id_] for id_ in get_close_matches(named, known, n=2, cutoff=0.75)]
    hint = f"did you mean {' or '.join(near)}?" if near else _LIST_HINTS[what]
    return NotFound(f"there is no {what} {named[:100]!r}", hint=hint)


_TEXT_FILTERS = (
    *("challenge_id", "artifact_role", "evidence_kind", "tool_name"),
    *("verification_status", "approval_state"),
)
_EXACT_FILTERS = ("task", "thread", "reply_to", "session", "origin")
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
        return all(met for name, met in self._check(record).items() if not (of_task and name in _TASK_FILTERS))

    def admits_task(self, records: Iterable[Record], status: str) -> bool:
        """Return True if a task meets the conditions, given its records and its current status."""
        checks = [self._check(record) for record in records]
        names = [name for name in _TASK_FILTERS if name != "status" and getattr(self, name)]
        return _matches(self.status, status) and all(any(met[name] for met in checks) for name in names)

    def _check(self, record: Record) -> dict[str, bool]:
        """Return which conditions a record meets, by their names."""
        day = _record_day(record.at) if self.since or self.until else ""
        conditions = {
            "kinds": not self.kinds or record.kind in self.kinds,
            "project": self.projects is None or record.project in self.projects,
            "supports": self.supports_claim in (None, record.supports_claim),
            "days": self.since <= day and (not self.until or day <= self.until),
            "agent": _matches(self.agent, record.agent),
            "relation": _matches(self.relation, record.relation),
            "status": _matches(self.status, record.status),
            "contributor": _matches(self.contributor, *record.texts("contributors")),
            "dataset": _matches(self.dataset, *ref_names(record, "dataset_refs")),
            "entity": _matches(self.entity, *ref_names(record, "entity_refs")),
        }
        conditions |= {name: getattr(self, name) in ("", getattr(record, name)) for name in _EXACT_FILTERS}
        return conditions | {name: _matches(getattr(self, name), record.text(name)) for name in _TEXT_FILTERS}

    def table_query(self) -> RecordQuery:
        """Return the conditions that the tables can apply."""
        return RecordQuery(
            kinds=self.kinds,
            projects=self.projects,
            task=self.task,
            thread=self.thread,
            in_force=not self.include_superseded,
        )


def resolve_filter_ids(tables: RecordTables, filter_: RecordFilter) -> RecordFilter:
    """Return a filter with full ids in place of prefixes. Raise NotFound for an unknown id."""
    return replace(
        filter_,
        task=resolve_task_id(tables, filter_.task) if filter_.task else "",
        parent_task=resolve_task_id(tables, filter_.parent_task) if filter_.parent_task else "",
        reply_to=resolve_record(tables, filter_.reply_to).id if filter_.reply_to else "",
    )


def _record_day(at: str) -> str:
    moment = local_time(at)
    return moment.date().isoformat() if moment else at[:10]


def ref_names(record: Record, field: str) -> tuple[str, ...]:
    value = record.fields.get(field)
    parts = value if isinstance(value, list) else []
    return tuple(str(part["name"]) for part in parts if isinstance(part, dict) and isinstance(part.get("name"), str))


def _matches(expected: str, *values: str) -> bool:
    wanted = expected.strip().casefold()
    return not expected or any(value.strip().casefold() == wanted for value in values)


class RatedRecord(Struct, frozen=True):
    """A record with its trust, and whether its writer's signature is valid."""

    record: Record
    trust: Trust
    signed: bool = False

    @property
    def grounding(self) -> SupportingRecord:
        record = self.record
        return SupportingRecord(record.id, record.task, record.thread, record.kind, self.trust.tier)


def rate_records(store: RecordStore, records: Iterable[Record]) -> list[RatedRecord]:
    """Return records with their trust, in the same order."""
    records = list(records)
    trust = store.trust(record.id for record in records)
    return [
        RatedRecord(record, trust.get(record.id, CANDIDATE_TRUST), bool(store.signer(record))) for record in records
    ]


RecordSearch = Callable[[str, SearchOptions], SearchReply]
"""Searches memories and records; the options' filters select the projects."""


class RecordScope(Struct, frozen=True, kw_only=True):
    """Dependencies of the operations on records."""

    workspace: Workspace
    records: RecordStore
    keyring: Keyring
    """Signs as the configured identity, if any, and knows the trusted keys."""
    agent: str
    """Writer's name when a call gives none; may be empty."""
    search: RecordSearch
    options: SearchOptions
    """Default search options."""
    projects: tuple[str, ...]
    """Visible projects, the current one first, including the global one (empty)."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of additional text to redact from records."""
    search_raw: RecordSearch
    """Search without trust and token cost on the hits, for callers that rate records themselves."""
    search_words: RecordSearch
    """Lexical search_raw: calls no model, which would take longer than everything else."""


def digest_scope_for(scope: RecordScope, *, all_projects: bool = False) -> digests.DigestScope:
    """Return the visible projects with their display name."""
    if all_projects:
        return digests.DigestScope(None, "all projects")
    return digests.DigestScope(scope.projects, scope.workspace.project.name)


def compile_resume(scope: RecordScope, task_id: str, *, query: str = "", k: int = 10) -> digests.TaskResume:
    """Return the state of a task. Raise NotFound for an unknown task."""
    tables = scope.records.tables()
    task = tables.task(resolve_task_id(tables, task_id))
    assert task is not None
    return digests.build_resume(tables, scope.records.trust, task, query=query, limit=k)


def find_grounding(store: RecordStore, digest: digests.Digest) -> tuple[SupportingRecord, ...]:
    ids = digest.records[: digests.MAX_CITED_RECORDS]
    grounding = {rated.record.id: rated.grounding for rated in rate_records(store, store.tables().by_ids(ids))}
    return tuple(grounding[id_] for id_ in ids if id_ in grounding)
