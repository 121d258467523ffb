"""Dependencies of the context operations, and the subsystems of a project with their files.

A memory names its subsystem and files with tags, `ctx:subsystem:billing` and `ctx:file:src/billing/tax.py`; a record
with an entity of type `subsystem`, its provenance and its outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE, StoredChunk
from lorelog.core.memory import ListReply
from lorelog.core.paths import is_below
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import Record
from lorelog.core.serializable import Serializable
from lorelog.records.tables import RecordQuery
from lorelog.services.records.projection import records_folder
from lorelog.services.records.record_scope import RecordScope

HOT_TAG = "ctx:tier:hot"
SUBSYSTEM_TAG, FILE_TAG, TRIGGER_TAG, AGENT_TAG = "ctx:subsystem:", "ctx:file:", "ctx:trigger:", "ctx:agent:"
TAG_PREFIX = "ctx:"
"""Prefix of the tags that control how a memory is used; the names are memd's."""
_EXTRA_FETCHED = 50
"""Additional memories fetched, because those from records are skipped."""


class ContextScope(Struct, frozen=True):
    """Dependencies of the context operations."""

    store: Store
    list_memories: Callable[..., ListReply]
    """Engine.list: memories, newest first, without superseded and expired ones."""
    record_scope: RecordScope
    count_tokens: Callable[[str], int]
    """Counts with the built-in tokenizer; may raise ModelUnavailable."""
    projects: tuple[str, ...] | None
    """Visible projects; None for all."""

    @property
    def filters(self) -> Filters:
        """Filter for the visible projects."""
        return Filters(projects=self.projects)

    def newest(self, limit: int, *tags: str) -> list[StoredChunk]:
        """Return memories with all of these tags, newest first, without records."""
        memories = self._list_matching(replace(self.filters, tags=tags), limit + _EXTRA_FETCHED)
        records = str(records_folder(self.record_scope.workspace.tenant_folder))
        return [
            memory
            for memory in memories
            if not is_below(memory.chunk.source, records) and memory.chunk.type != ARCHIVE_TYPE
        ][:limit]

    def newest_journal_entries(self, limit: int) -> list[StoredChunk]:
        """Return the entries of the project's and the global journals, newest first. Records would mostly be newer."""
        workspace = self.record_scope.workspace
        entries = [
            entry
            for journals in (workspace.journals, workspace.global_journals)
            for entry in self._list_matching(replace(self.filters, source_prefix=str(journals)), limit + _EXTRA_FETCHED)
            if entry.chunk.type != ARCHIVE_TYPE
        ]
        return sorted(entries, key=lambda entry: (entry.chunk.date, entry.chunk.start_line), reverse=True)[:limit]

    def _list_matching(self, filters: Filters, limit: int) -> Sequence[StoredChunk]:
        return self.list_memories(filters, limit=limit, all_projects=True).memories


def tag_values(tags: Iterable[str], prefix: str) -> list[str]:
    """Return the rest of the tags with a prefix, in order, without duplicates."""
    return list(dict.fromkeys(tag[len(prefix) :] for tag in tags if tag.startswith(prefix) and len(tag) > len(prefix)))


SUBSYSTEM_ENTITY = "subsystem"
"""Entity type of a subsystem."""
_MAX_ENTITIES = 10_000
_MAX_RECORDS = 200
"""Newest records per subsystem: listing fifty subsystems must not read the whole ledger."""


class Subsystem(Serializable, Struct, frozen=True):
    """A subsystem of a project, and the number of its chunks, records and files."""

    key: str
    chunk_count: int
    record_count: int
    file_count: int


class SubsystemFiles(Serializable, Struct, frozen=True):
    """The files of a subsystem; for an unknown one, a note with similar names."""

    subsystem_key: str
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def list_subsystems(scope: ContextScope, prefix: str = "", limit: int = 50) -> tuple[list[Subsystem], int]:
    """Return the subsystems with a prefix, largest first, and their total number."""
    memories, records = _count_by_subsystem(scope, prefix)
    keys = sorted(memories.keys() | records.keys(), key=lambda key: (-memories[key] - records[key], key))
    shown = [Subsystem(key, memories[key], records[key], len(_list_files(scope, key))) for key in keys[:limit]]
    return shown, len(keys)


def find_subsystem_files(scope: ContextScope, key: str) -> SubsystemFiles:
    """Return the files of a subsystem, those named by memories first."""
    memories, records = _count_by_subsystem(scope, "")
    if key in memories or key in records:
        return SubsystemFiles(key, tuple(_list_files(scope, key)))
    near = get_close_matches(key, memories.keys() | records.keys(), n=3, cutoff=0.5)
    hint = f"similar: {', '.join(near)}" if near else "context.list_subsystems lists all"
    return SubsystemFiles(key, (), (f"there is no subsystem {key!r}; {hint}",))


def subsystems_of(record: Record) -> list[str]:
    """Return the subsystems of a record."""
    refs = record.fields.get("entity_refs")
    entities = [ref for ref in refs if isinstance(ref, dict)] if isinstance(refs, list) else []
    return [
        str(entity["name"])
        for entity in entities
        if entity.get("entity_type") == SUBSYSTEM_ENTITY and entity.get("name")
    ]


def _count_by_subsystem(scope: ContextScope, prefix: str) -> tuple[Counter[str], Counter[str]]:
    tags = scope.store.tags(SUBSYSTEM_TAG + prefix, scope.filters)
    memories = Counter({tag[len(SUBSYSTEM_TAG) :]: count for tag, count in tags.items() if tag != SUBSYSTEM_TAG})
    records: Counter[str] = Counter()
    if scope.record_scope.records.exists():
        tables = scope.record_scope.records.tables()
        for project in [None] if scope.projects is None else scope.projects:
            for name, count in tables.entity_counts(SUBSYSTEM_ENTITY, project, _MAX_ENTITIES).items():
                if name.startswith(prefix):
                    records[name] += count
    return memories, records


def _list_files(scope: ContextScope, key: str) -> list[str]:
    tags = scope.store.tags(FILE_TAG, replace(scope.filters, tags=(SUBSYSTEM_TAG + key,)))
    files = dict.fromkeys(tag[len(FILE_TAG) :] for tag in tags if tag != FILE_TAG)
    if scope.record_scope.records.exists():
        query = RecordQuery(entity=key, projects=scope.projects, limit=_MAX_RECORDS)
        for record in scope.record_scope.records.tables().find(query):
            if key in subsystems_of(record):
                files.update(dict.fromkeys(_record_paths(record)))
    return list(files)


def _record_paths(record: Record) -> Iterator[str]:
    """Yield the paths in a record's provenance and outputs. An output may be a sentence instead of a file."""
    provenance = record.fields.get("provenance")
    path = provenance.get("path") if isinstance(provenance, dict) else None
    if isinstance(path, str) and path:
        yield path
    for text in record.texts("outputs"):
        if text and not any(map(str.isspace, text)) and ("/" in text or "." in text[1:-1]):
            yield text
