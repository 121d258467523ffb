"""The records of a tenant: its ledger, the tables derived from it, and the file of open tasks.

Reading creates no file and waits for no lock. Tables that cannot be written are built in memory, so a read-only home
still works, only slower.

The file of open tasks is shown when a session starts, where no database may be opened. Each record appends one line
with its sequence number, so a writer does not wait; readers merge the lines in that order, and the file is compacted
when it grows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from lorelog.core.atomic_file import append_line, write_atomic
from lorelog.core.errors import LorelogError, StoreError, StoreUnwritable
from lorelog.core.paths import cache_folder
from lorelog.core.processes import FileLock
from lorelog.core.record import UNTRUSTED_ORIGINS, Record, RecordDraft, Trust
from lorelog.light.session_start import MAX_OPEN_TASKS_BYTES, OPEN_TASKS_FILE, merge_task_lines
from lorelog.records.ledger import DraftSigner, Ledger
from lorelog.records.tables import RecordQuery, RecordTables
from lorelog.records.trust import SigningKeyLookup, assess_records, no_signing_key

_MAX_OPEN_TASKS = 100
_OPEN_TASKS_LOCK = "open-tasks.lock"
_MAX_TEXT_CHARS = 300
_TASK_KINDS = frozenset({"task_start", "task_progress", "task_finish"})


def append_open_tasks(folder: Path, records: Iterable[Record]) -> None:
    """Append the changes that records make to tasks. A write error is ignored: the records themselves are on disk."""
    lines = [_task_line(record) for record in records if record.kind in _TASK_KINDS and record.task]
    if not lines:
        return
    with suppress(OSError), FileLock(folder / _OPEN_TASKS_LOCK):
        file = folder / OPEN_TASKS_FILE
        append_line(file, _encode_lines(lines).rstrip(b"\n"))
        if file.stat().st_size > MAX_OPEN_TASKS_BYTES // 2:
            _write_open_tasks(file, merge_task_lines(file.read_bytes()))


def rewrite_open_tasks(folder: Path, tables: RecordTables) -> None:
    """Rewrite the file with the open tasks that were changed last."""
    with suppress(OSError, LorelogError), FileLock(folder / _OPEN_TASKS_LOCK):
        lines = []
        for task in tables.find_tasks(None, open_=True, limit=_MAX_OPEN_TASKS)[0]:
            last = tables.find(RecordQuery(kinds=("task_progress",), task=task.id, limit=1))
            line: dict[str, Any] = {"seq": 0}
            for record in (*tables.by_ids([task.started_by]), *last):
                line |= _task_line(record)
            texts = {"goal": task.goal[:_MAX_TEXT_CHARS], "status": task.status[:_MAX_TEXT_CHARS]}
            lines.append({**line, "project": task.project, **texts, "id": task.id})
        _write_open_tasks(folder / OPEN_TASKS_FILE, lines)


def _write_open_tasks(file: Path, tasks: Iterable[dict[str, Any]]) -> None:
    newest = sorted(tasks, key=lambda task: int(task["seq"]), reverse=True)[:_MAX_OPEN_TASKS]
    # Not flushed: it is derived from the ledger, and a writer of records must not wait for it.
    write_atomic(file, _encode_lines(newest), durable=False)


def _encode_lines(tasks: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in tasks).encode("utf-8", "replace")


def _task_line(record: Record) -> dict[str, Any]:
    """Return the task fields that a record sets. Empty fields are omitted, so that merging keeps earlier values."""
    fields = {
        "project": record.project if record.kind == "task_start" else "",
        "goal": record.text("goal")[:_MAX_TEXT_CHARS] if record.kind == "task_start" else "",
        "status": record.status[:_MAX_TEXT_CHARS],
        "next": record.text("next_step")[:_MAX_TEXT_CHARS],
        "at": record.at,
        "origin": record.origin if record.origin in UNTRUSTED_ORIGINS else "",
        "done": record.kind == "task_finish",
    }
    return {"id": record.task, "seq": record.seq, **{name: value for name, value in fields.items() if value}}


class RecordStore:
    """The records of one tenant. Safe to share between threads; other processes may write at the same time."""

    def __init__(self, folder: Path, signer: SigningKeyLookup = no_signing_key) -> None:
        self.ledger = Ledger(folder)
        self.signer = signer
        self._folder = folder
        self._lock = RLock()
        self._tables: RecordTables | None = None
        self._in_file = False
        """Whether the tables are in a file. Those of an empty ledger or a read-only home are in memory."""

    def exists(self) -> bool:
        """Return True if the tenant has a ledger."""
        return (self._folder / "ledger.jsonl").exists() or any(self._folder.glob("ledger-*.jsonl"))

    def tables(self) -> RecordTables:
        """Return the tables, up to date with the ledger."""
        with self._lock:
            tables = self._open()
            if self.exists():
                with suppress(StoreError):  # a read-only home still works; the next writer continues
                    self.ledger.complete_redactions()
                tables.catch_up(self.ledger)
            return tables

    def append(self, drafts: Sequence[RecordDraft]) -> list[Record]:
        """Append drafts, all or none, and return them as records once they are on disk.

        Nothing after that raises: a caller that saw an error would write them again. Derived files are updated if
        possible.
        """
        written = self.ledger.append(drafts)
        index = Path(cache_folder(self._folder))
        try:
            tables = self.tables()
            loaded = {record.id: record for record in tables.by_ids(record.id for record in written)}
        except StoreError:
            return written
        records = [loaded.get(record.id, record) for record in written]
        if any(record.origin == "import" for record in records):
            rewrite_open_tasks(index, tables)  # only the tables know which imported records belong to a task
        else:
            append_open_tasks(index, records)
        return records

    def redact(
        self, ids: Collection[str], *, actor: str, reason: str, sign: DraftSigner | None = None
    ) -> tuple[Record, ...]:
        """Remove the texts of records from the ledger, the tables and the file of open tasks.

        Record pages and digests follow at their next update. `sign` is `Keyring.sign`, where keys are in use.
        """
        records = self.ledger.redact(ids, actor=actor, reason=reason, sign=sign)
        self.purge()
        return records

    def purge(self) -> None:
        """Erase from the tables' file and the file of open tasks what the ledger no longer holds."""
        if not self.exists():
            return
        tables = self.tables()
        rewrite_open_tasks(Path(cache_folder(self._folder)), tables)
        tables.purge(self.ledger)

    def trust(self, ids: Iterable[str]) -> dict[str, Trust]:
        """Return the trust of records by id; unknown ids are omitted."""
        unique_ids = list(dict.fromkeys(ids))
        if not unique_ids or not self.exists():
            return {}
        trust = assess_records(self.tables().trust_context(unique_ids), self.signer)
        return {id_: trust[id_] for id_ in unique_ids if id_ in trust}

    def close(self) -> None:
        """Close the tables; the next call opens them again. May be called twice."""
        with self._lock:
            if self._tables is not None:
                self._tables.close()
            self._tables = None

    def _open(self) -> RecordTables:
        has_ledger = self.exists()
        if self._tables is not None and (self._in_file or not has_ledger):
            return self._tables
        if self._tables is not None and self._tables.position().seq:
            return self._tables  # in memory, because the file could not be written
        self.close()
        self._in_file = has_ledger
        try:
            self._tables = RecordTables(Path(cache_folder(self._folder)) / "records.db" if has_ledger else None)
        except StoreUnwritable:
            self._in_file = False
            self._tables = RecordTables(None)
        return self._tables
