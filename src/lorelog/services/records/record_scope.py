"""Dependencies of the record operations for one workspace, records paired with their trust, and digests of them.

A digest is built on request and never stored, so it is never older than the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from lorelog.core.options import SearchOptions
from lorelog.core.query import SearchReply, SupportingRecord
from lorelog.core.record import CANDIDATE_TRUST, Record, Trust
from lorelog.records.digests import (
    MAX_CITED_RECORDS,
    Digest,
    DigestRole,
    DigestScope,
    ProjectBrief,
    RecordLibrary,
    TaskResume,
    build_brief,
    build_library,
    build_resume,
)
from lorelog.services.places.workspace import Workspace
from lorelog.services.records.filters import resolve_task_id
from lorelog.services.records.store import RecordStore

if TYPE_CHECKING:
    from lorelog.services.records.keyring import Keyring


class RatedRecord(Struct, frozen=True):
    """A record with its trust, and whether its writer's signature is valid."""

    record: Record
    trust: Trust
    signed: bool = False

    @property
    def grounding(self) -> SupportingRecord:
        """The record as a citation."""
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
    search_raw: RecordSearch | None = None
    """Search without trust and token cost on the hits, for callers that rate records themselves."""
    search_words: RecordSearch | None = None
    """Lexical search_raw: calls no model, which would take longer than everything else."""


DigestT = TypeVar("DigestT")
ALL_PROJECTS_NAME = "all projects"


class CompiledDigest(Struct, Generic[DigestT], frozen=True):
    """A digest and the first of the records that it cites."""

    content: DigestT
    digest: Digest
    grounding: tuple[SupportingRecord, ...]


def digest_scope_for(scope: RecordScope, *, all_projects: bool = False) -> DigestScope:
    """Return the visible projects with their display name."""
    name = scope.workspace.project.name
    return DigestScope(None, ALL_PROJECTS_NAME) if all_projects else DigestScope(scope.projects, name)


def compile_resume(scope: RecordScope, task_id: str, *, query: str = "", k: int = 10) -> CompiledDigest[TaskResume]:
    """Return the state of a task. Raise NotFound for an unknown task."""
    tables = scope.records.tables()
    task = tables.task(resolve_task_id(tables, task_id))
    assert task is not None
    resume = build_resume(tables, scope.records.trust, task, query=query, limit=k)
    return _with_grounding(scope.records, resume, resume.digest)


def compile_library(
    scope: RecordScope, role: DigestRole, *, query: str = "", k: int = 10, all_projects: bool = False
) -> CompiledDigest[RecordLibrary]:
    """Return the records of one role (decisions, failures, …)."""
    view = digest_scope_for(scope, all_projects=all_projects)
    library = build_library(scope.records.tables(), scope.records.trust, view, role, query=query, limit=k)
    return _with_grounding(scope.records, library, library.digest)


def compile_brief(
    scope: RecordScope, *, query: str = "", k: int = 10, related: bool = True, all_projects: bool = False
) -> CompiledDigest[ProjectBrief]:
    """Return a summary of a project's tasks and decisions for a newcomer."""
    view = digest_scope_for(scope, all_projects=all_projects)
    brief = build_brief(scope.records.tables(), scope.records.trust, view, query=query, limit=k, related=related)
    return _with_grounding(scope.records, brief, brief.digest)


def _with_grounding(store: RecordStore, content: DigestT, digest: Digest) -> CompiledDigest[DigestT]:
    ids = digest.records[:MAX_CITED_RECORDS]
    grounding = {rated.record.id: rated.grounding for rated in rate_records(store, store.tables().by_ids(ids))}
    return CompiledDigest(content, digest, tuple(grounding[id_] for id_ in ids if id_ in grounding))
