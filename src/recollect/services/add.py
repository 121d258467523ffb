"""Remembering: into today's journal, and into the index at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from recollect.core.document import GLOBAL, SourceFile, Stamp
from recollect.core.errors import StoreError
from recollect.core.memory import AddReply, NewMemory
from recollect.core.ports import Embedder, Store
from recollect.services.index import IndexJob, IndexRun
from recollect.services.journal import JournalEntry, append_entries
from recollect.services.roots import Root


def add(
    memories: Sequence[NewMemory], root: Root, job: IndexJob, store: Store, embedder: Embedder | None
) -> list[AddReply]:
    """Append memories to today's journal below `root`, all or none, and index that journal once.

    Once they are in the file they are safe, and an index that cannot be written then is a note, not a failure.
    """
    now = datetime.now().astimezone()
    entries = append_entries(Path(root.path), memories, now, private=root.project == GLOBAL)
    try:
        notes = _index(entries[0].path, replace(job, roots=(root,)), store, embedder)
    except StoreError as error:
        notes = (f"saved, but not searchable yet: {error.message}",)
        return [_reply(entry, "", notes) for entry in entries]
    return [_placed(entry, store, notes) for entry in entries]


def _placed(entry: JournalEntry, store: Store, notes: tuple[str, ...]) -> AddReply:
    try:
        found = [one for one in store.find(entry.memory) if one.chunk.source == str(entry.path)]
    except StoreError as error:
        return _reply(entry, "", (*notes, f"saved, but not searchable yet: {error.message}"))
    if not found and not notes:
        notes = ("saved, but its place in the journal hides it: look for an open code fence or comment above it",)
    return _reply(entry, found[0].id if found else "", notes)


def _reply(entry: JournalEntry, identity: str, notes: tuple[str, ...]) -> AddReply:
    return AddReply(
        memory=entry.memory,
        id=identity,
        source=str(entry.path),
        start_line=entry.start_line,
        end_line=entry.end_line,
        searchable=bool(identity),
        notes=notes,
    )


def _index(path: Path, job: IndexJob, store: Store, embedder: Embedder | None) -> tuple[str, ...]:
    file = SourceFile(str(path), job.roots[0].path, Stamp.of(path.lstat()))
    report = IndexRun(store, embedder, job).over_file(file)
    return (*report.notes, *(problem.message for problem in report.problems))
