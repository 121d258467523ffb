"""Compiles digests of the visible records, with the trust of each cited record.

Nothing is stored: a digest is built on request, so it is never older than the ledger.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from lorelog.core.dataclasses import dataclass
from lorelog.core.query import SupportingRecord
from lorelog.records import digest_builders
from lorelog.records.digest_builders import DigestScope, ProjectBrief, RecordLibrary, TaskResume
from lorelog.records.digests import MAX_CITED_RECORDS, Digest, DigestRole
from lorelog.services.records.filters import resolve_task_id
from lorelog.services.records.record_scope import RecordScope, rate_records
from lorelog.services.records.store import RecordStore

DigestT = TypeVar("DigestT")
ALL_PROJECTS_NAME = "all projects"


@dataclass(frozen=True, slots=True)
class CompiledDigest(Generic[DigestT]):
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
    assert task is not None  # noqa: S101  (resolve_task_id raises otherwise)
    resume = digest_builders.build_resume(tables, scope.records.trust, task, query=query, limit=k)
    return _with_grounding(scope.records, resume, resume.digest)


def compile_library(
    scope: RecordScope, role: DigestRole, *, query: str = "", k: int = 10, all_projects: bool = False
) -> CompiledDigest[RecordLibrary]:
    """Return the records of one role (decisions, failures, …)."""
    view = digest_scope_for(scope, all_projects=all_projects)
    library = digest_builders.build_library(
        scope.records.tables(), scope.records.trust, view, role, query=query, limit=k
    )
    return _with_grounding(scope.records, library, library.digest)


def compile_brief(
    scope: RecordScope, *, query: str = "", k: int = 10, related: bool = True, all_projects: bool = False
) -> CompiledDigest[ProjectBrief]:
    """Return a summary of a project's tasks and decisions for a newcomer."""
    view = digest_scope_for(scope, all_projects=all_projects)
    brief = digest_builders.build_brief(
        scope.records.tables(), scope.records.trust, view, query=query, limit=k, related=related
    )
    return _with_grounding(scope.records, brief, brief.digest)


def _with_grounding(store: RecordStore, content: DigestT, digest: Digest) -> CompiledDigest[DigestT]:
    ids = digest.records[:MAX_CITED_RECORDS]
    grounding = {rated.record.id: rated.grounding for rated in rate_records(store, store.tables().by_ids(ids))}
    return CompiledDigest(content, digest, tuple(grounding[id_] for id_ in ids if id_ in grounding))
