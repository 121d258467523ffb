"""Remembering: into today's journal, and into the index at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from lorelog.core.document import GLOBAL, SourceFile, Stamp
from lorelog.core.errors import StoreError, UsageError
from lorelog.core.memory import AddReply, Admission, Decision, NewMemory
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Store
from lorelog.services.admission import admit
from lorelog.services.index import IndexJob, IndexRun
from lorelog.services.journal import JournalEntry, append_entries, check_memory
from lorelog.services.roots import Root
from lorelog.services.session.anchor import one_word
from lorelog.services.session.git_head import read_head


def add(
    memories: Sequence[NewMemory],
    root: Root,
    job: IndexJob,
    store: Store,
    embedder: Embedder | None,
    directory: str = "",
) -> list[AddReply]:
    """Append memories to today's journal in `root`, or in a directory of it, all or none, and index that journal once.

    Once they are in the file they are safe, and an index that cannot be written then is a note, not a failure.
    """
    now = datetime.now().astimezone()
    admissions = [_admitted(memory, now.date()) for memory in memories]
    kept = [replace(one, expires=admission.expires) for one, admission in zip(memories, admissions, strict=True)]
    entries = append_entries(Path(directory or root.path), kept, now, private=root.project == GLOBAL)
    try:
        notes = _index(entries[0].path, replace(job, roots=(root,)), store, embedder)
    except StoreError as error:
        notes = (f"saved, but not searchable yet: {error.message}",)
        replies = [_reply(entry, "", notes) for entry in entries]
    else:
        replies = [_placed(entry, store, notes) for entry in entries]
    return [replace(one, admission=admission) for one, admission in zip(replies, admissions, strict=True)]


def at_head(memories: Sequence[NewMemory], working_tree: str) -> list[NewMemory]:
    """Return memories that say which branch and commit they were made on, unless they do already, or there is none."""
    branch, commit = read_head(working_tree)
    words = tuple((key, one_word(value)) for key, value in (("branch", branch), ("commit", commit)) if value)
    return [
        replace(one, source=(*one.source, *(word for word in words if word[0] not in dict(one.source))))
        for one in memories
    ]


def add_in(
    directory: str,
    memory: NewMemory,
    known: Sequence[Root],
    job: Callable[[tuple[Root, ...]], IndexJob],
    store: Store,
    embedder: Embedder | None,
) -> AddReply:
    """Append a memory to the day's file in a directory that a person has named, and index that where it is to be."""
    real = os.path.realpath(directory)
    root = max((one for one in known if one.holds(real)), key=lambda one: len(one.path), default=None)
    if root is not None and not any(is_below(real, left_out) for left_out in root.exclude):
        return add([memory], root, job((root,)), store, embedder, real)[0]
    entry = append_entries(Path(real), [memory], datetime.now().astimezone())[0]
    return _reply(entry, "", (f"written, but {real} is not indexed: 'lorelog index {real}' makes it searchable",))


def _admitted(memory: NewMemory, today: date) -> Admission:
    check_memory(memory)
    admission = admit(memory, today)
    if admission.decision is Decision.REFUSED:
        raise UsageError(
            f"not remembered: {admission.reason}",
            hint="write what a later session should know; 'lorelog add' of your own words is always kept",
        )
    return admission


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
