"""Which tasks are open, in a small file beside the tables: what a session is shown when it starts, where no database is opened.

Derived, and kept by whoever writes a record: a session that starts a moment later is to see it. The write path must not wait for it,
so each record only adds a line, with its number in the ledger; whoever reads puts lines together in that order, and now and
then somebody writes the file anew with what is left.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import LorelogError
from lorelog.core.record import FOREIGN, Record
from lorelog.records.tables import Asked, RecordTables
from lorelog.records.tables_queries import tasks_of
from lorelog.services.session.open_tasks import MOST_BYTES, OPEN_TASKS, put_together

_MOST = 100
_MOST_LETTERS = 300
_TELLING = frozenset({"task_start", "task_progress", "task_finish"})


def note_written(folder: Path, records: Iterable[Record]) -> None:
    """Note what records change, in the folder of the index. What cannot be written is left: the records are safe."""
    lines = [_line(one) for one in records if one.kind in _TELLING and one.task]
    if not lines:
        return
    with suppress(OSError), _turn(folder):
        file = folder / OPEN_TASKS
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as opened:
            opened.write(_lines(lines))
            size = opened.tell()
        if size > MOST_BYTES // 2:
            _write(file, put_together(file.read_bytes()))


def note_all(folder: Path, tables: RecordTables) -> None:
    """Note anew which tasks are open, those that were worked on last."""
    with suppress(OSError, LorelogError), _turn(folder):
        found = [_told(tables, task.id) for task in tasks_of(tables, None, open_=True, most=_MOST)[0]]
        _write(folder / OPEN_TASKS, found)


def _write(file: Path, tasks: Iterable[dict[str, Any]]) -> None:
    newest = sorted(tasks, key=lambda one: int(one["seq"]), reverse=True)[:_MOST]
    beside = file.with_name(f".{file.name}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(_lines(newest))
    beside.replace(file)


def _lines(tasks: Iterable[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in tasks).encode("utf-8", "replace")


def _line(record: Record) -> dict[str, Any]:
    """Return what a record says of its task: no more than it says, so that another's word stands where it says nothing."""
    told = {
        "project": record.project if record.kind == "task_start" else "",
        "goal": record.text("goal")[:_MOST_LETTERS] if record.kind == "task_start" else "",
        "status": record.status[:_MOST_LETTERS],
        "next": record.text("next_step")[:_MOST_LETTERS],
        "at": record.at,
        "origin": record.origin if record.origin in FOREIGN else "",
        "done": record.kind == "task_finish",
    }
    return {"id": record.task, "seq": record.seq, **{name: value for name, value in told.items() if value}}


def _told(tables: RecordTables, identity: str) -> dict[str, Any]:
    task = tables.task(identity)
    last = next(iter(tables.find(Asked(kinds=("task_progress",), task=identity, most=1))), None)
    start = tables.get(task.started_by) if task and task.started_by else None
    known = {name: value for one in (start, last) if one for name, value in _line(one).items()}
    if task is not None:
        known |= {"project": task.project, "goal": task.goal[:_MOST_LETTERS], "status": task.status[:_MOST_LETTERS]}
    return {"seq": 0, **known, "id": identity}


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / "open-tasks.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # held for one small write
        yield
    finally:
        os.close(descriptor)
