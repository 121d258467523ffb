"""Remembering one thing: into today's journal, and into the index at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from recollect.core.document import GLOBAL, SourceFile, Stamp
from recollect.core.errors import StoreError
from recollect.core.memory import AddReply, NewMemory
from recollect.core.ports import Embedder, Store
from recollect.services.index import IndexJob, IndexRun
from recollect.services.journal import JournalEntry, append_entry
from recollect.services.roots import Root


def add(memory: NewMemory, root: Root, job: IndexJob, store: Store, embedder: Embedder | None) -> AddReply:
    """Append a memory to today's journal below `root` and index that journal.

    Once it is in the file it is safe, and an index that cannot be written then is a note, not a failure.
    """
    entry = append_entry(Path(root.path), memory, datetime.now().astimezone(), private=root.project == GLOBAL)
    try:
        notes = _index(entry, replace(job, roots=(root,)), store, embedder)
        found = [one for one in store.find(entry.memory) if one.chunk.source == str(entry.path)]
        if not found and not notes:
            notes = ("saved, but its place in the journal hides it: look for an open code fence or comment above it",)
    except StoreError as error:
        notes, found = (f"saved, but not searchable yet: {error.message}",), []
    return AddReply(
        memory=entry.memory,
        id=found[0].id if found else "",
        source=str(entry.path),
        start_line=entry.start_line,
        end_line=entry.end_line,
        searchable=bool(found),
        notes=notes,
    )


def _index(entry: JournalEntry, job: IndexJob, store: Store, embedder: Embedder | None) -> tuple[str, ...]:
    file = SourceFile(str(entry.path), job.roots[0].path, Stamp.of(entry.path.lstat()))
    report = IndexRun(store, embedder, job).over_file(file)
    return (*report.notes, *(problem.message for problem in report.problems))
