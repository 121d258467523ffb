"""Writes the files that hooks read, if `source` says that they are out of date.

A lock keeps an older state from overwriting a newer one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import TURN_TYPE, Anchor, StoredChunk
from lorelog.core.paths import is_below
from lorelog.core.processes import acquire_file_lock
from lorelog.core.query import Filters, Freshness
from lorelog.services.standing.memories import read_memories
from lorelog.services.standing.own_entries import untracked_files
from lorelog.services.standing.ownership import memory_body
from lorelog.services.standing.source import MAX_MEMORIES, DeliverySource, MemoryMarks, Verdicts
from lorelog.services.standing.tables import write_projects
from lorelog.services.usage.history import unused_counts

if TYPE_CHECKING:
    from lorelog.services.freshness.checker import FreshnessChecker

_LOCK_WAIT_S = 5.0
CheckMemories = Callable[[Sequence[StoredChunk]], Verdicts]
"""Returns the freshness of memories."""


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""


def write_memories(source: DeliverySource, marks: MemoryMarks, check: CheckMemories | None = None) -> bool:
    """Write the files of all projects of a tenant; return True if any changed.

    `check` returns the freshness of the current project's memories; without it the last known one is kept.
    """
    folder = source.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(folder / "lock") as locked:
        if not locked:
            return False
        if not source.authored.exists():
            _adopt_own_memories(source)
        stamp = source.stamp_of(marks)
        verdicts = _update_verdicts(source, check)
        unused = unused_counts(source.workspace.tenant_folder / "deliveries")
        memories = [
            memory.with_usage(verdicts.get(memory.id, memory.verdict), unused.get(memory.id, 0))
            for memory in read_memories(source, marks)
        ]
        changed = write_projects(folder, [memory for memory in memories if memory.verdict != Freshness.GONE])
        write_atomic(source.stamp_file, stamp.encode(), durable=False)
    return changed


def _adopt_own_memories(source: DeliverySource) -> None:
    """Register memories from before the registry existed, unless they may have come with a repository."""
    pages = source.record_pages
    by_project: dict[str, list[StoredChunk]] = {}
    # Not all recent sections: a first index run would read every chunk that it has just written.
    memories = source.store.authored_chunks(Filters(), MAX_MEMORIES, outside=pages)
    for stored in (*memories, *source.store.recent(Filters(types=(TURN_TYPE,)), MAX_MEMORIES)):
        if stored.chunk.anchor and stored.chunk.anchor.memory and not is_below(stored.chunk.source, pages):
            by_project.setdefault(stored.project, []).append(stored)
    by_project.pop("", None)
    texts: dict[Anchor, str] = {}
    for project, chunks in by_project.items():
        untracked = untracked_files(project, sorted({stored.chunk.source for stored in chunks}))
        texts |= {
            stored.chunk.anchor: memory_body(stored)
            for stored in chunks
            if stored.chunk.anchor and stored.chunk.source in untracked
        }
    source.authored.adopt(texts)
    for project, chunks in by_project.items():
        folders = {str(Path(stored.chunk.source).parent) for stored in chunks}
        source.write_own_entries(project, sorted(folders))


def _update_verdicts(source: DeliverySource, check: CheckMemories | None) -> Verdicts:
    """Return the last known freshness of memories; with `check`, checked again for the current project."""
    file = source.folder / "verdicts.json"
    try:
        known = {str(key): str(value) for key, value in json.loads(_read_text(file) or "{}").items()}
    except (ValueError, AttributeError):
        known = {}
    if check is None:
        return known
    chunks = source.store.authored_chunks(Filters(), MAX_MEMORIES, outside=source.record_pages)
    ids = {stored.chunk.anchor.memory for stored in chunks if stored.chunk.anchor}
    project = source.workspace.project.id
    current = [stored for stored in chunks if stored.project == project and stored.chunk.anchor]
    verdicts = {memory: value for memory, value in known.items() if memory in ids} | dict(check(current))
    if verdicts != known:
        write_atomic(file, json.dumps(verdicts, sort_keys=True).encode(), durable=False)
    return verdicts


def code_check(checker: FreshnessChecker) -> CheckMemories:
    """Return a function that checks memories against the code they mention."""
    from lorelog.services.freshness.checker import claim_of

    def check(chunks: Sequence[StoredChunk]) -> Verdicts:
        claims = {
            stored.chunk.anchor.memory: claim_of(stored.chunk, stored.project)
            for stored in chunks
            if stored.chunk.anchor
        }
        return {memory: verdict.freshness.value for memory, verdict in checker.verdicts(claims).items()}

    return check


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield acquire_file_lock(descriptor, _LOCK_WAIT_S)
    finally:
        os.close(descriptor)
