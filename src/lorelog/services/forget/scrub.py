"""Erase forgotten text from logs, databases and other files beside the index.

Logs are rewritten without the lines that name or quote what is forgotten; databases lose such rows and are rewritten,
because SQLite leaves deleted rows in its pages and in the write-ahead log.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import StoreBusy
from lorelog.core.sqlite_file import connect, connect_unchanging
from lorelog.services.forget.forget_plan import ForgetPlan
from lorelog.services.forget.residues import holds_residue
from lorelog.services.memories.edit import edit_file

_BUSY_S = 10.0
_CHECKPOINT_TRIES, _CHECKPOINT_PAUSE_S = 20, 0.1
_SQLITE_HEADER = b"SQLite format 3\0"

DropLine = Callable[[Mapping[str, Any]], bool]


def scrub_tenant_logs(folder: Path, plan: ForgetPlan) -> None:
    """Erase the text, and lines about it, from a tenant's logs."""

    def is_about(line: Mapping[str, Any]) -> bool:
        return _is_about(line, plan)

    logs = [folder / name for name in ("feedback.jsonl", "lifecycle.jsonl", "authored.jsonl")]
    for log in (*logs, *folder.glob("traces.spool*"), *sorted((folder / "deliveries").glob("*.jsonl"))):
        drop_lines(log, is_about)
    guards = {str(line.get("id")) for line in _read_lines(folder / "guards.jsonl") if is_about(line)}
    drop_lines(folder / "guards.jsonl", lambda line: str(line.get("id")) in guards)
    for draft in (folder / "compact").glob("*.json"):
        values = next(_read_lines(draft), {})
        if is_about(values) or plan.contents & set(_strings(values)):
            draft.unlink(missing_ok=True)


def _is_about(line: Mapping[str, Any], plan: ForgetPlan) -> bool:
    """Return True if a line names what is forgotten, or quotes it."""
    texts = list(_strings(line))
    return bool(plan.names.intersection(texts)) or quotes_in(texts, plan)


def count_references(folder: Path, plan: ForgetPlan) -> dict[str, int]:
    """Return how many lines and rows of a tenant's logs and traces name or quote what is forgotten. Changes nothing."""
    logs = ["feedback.jsonl", "lifecycle.jsonl", "guards.jsonl", "traces.spool"]
    counts = {name: sum(_is_about(line, plan) for line in _read_lines(folder / name)) for name in logs}
    deliveries = (folder / "deliveries").glob("*.jsonl")
    counts["deliveries"] = sum(_is_about(line, plan) for log in deliveries for line in _read_lines(log))
    traces = folder / "traces.db"
    if traces.exists():
        with closing(connect_unchanging(traces, _BUSY_S)) as db:
            counts["traces"] = sum(len(_find_rows(db, table, plan)[1]) for table in _tables(db))
    return {name.removesuffix(".jsonl"): count for name, count in counts.items() if count}


def scrub_home(home: Path, plan: ForgetPlan) -> None:
    """Erase quotations from the logs of the daemon and the hooks, waiting events, and requests to plugins."""
    for folder in ("logs", "spool", "summaries"):
        for path in sorted((home / folder).rglob("*")):
            if path.is_file() and _quotes_in_file(path, plan):
                scrub_file(path, plan, disposable=folder != "logs")


def scrub_texts(folder: Path, plan: ForgetPlan) -> None:
    """Erase quotations from the text files of a folder, such as an agent's context file; not from those below it."""
    for path in sorted(folder.glob("*")):
        if path.is_file() and not path.is_symlink() and _quotes_in_file(path, plan):
            scrub_file(path, plan, disposable=False)


def _quotes_in_file(path: Path, plan: ForgetPlan) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return any(quotes_in([line.decode("utf-8", "replace")], plan) for line in data.split(b"\n"))


def scrub_file(path: Path, plan: ForgetPlan, *, disposable: bool) -> bool:
    """Erase quotations from any file; return False if its format is unknown.

    A `disposable` file whose lines cannot be dropped one by one is deleted: a waiting event, a request, a temporary file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    if head.startswith(_SQLITE_HEADER):
        try:
            scrub_database(path, plan)
        except sqlite3.DatabaseError:  # damaged: its rows cannot be deleted one by one
            if disposable:
                path.unlink(missing_ok=True)
            return disposable
        return True
    if disposable:
        path.unlink(missing_ok=True)
        return True
    if b"\0" in head or path.suffix in {".gz", ".zst", ".zip", ".tar", ".tgz"}:
        return False
    return edit_file(path, lambda data: _drop_quoting_lines(data, plan))


def scrub_database(path: Path, plan: ForgetPlan, *, every_row_of: tuple[str, ...] = ()) -> int:
    """Delete the rows of an SQLite file that name or quote what is forgotten, and rewrite it; return their number.

    `every_row_of` are tables of derived rows that are emptied. Raise StoreBusy if another process keeps reading.
    """
    if not path.exists():
        return 0
    try:
        with closing(_connect(path)) as db:
            deleted = 0
            for table in _tables(db):
                deleted += (_delete_all if table in every_row_of else _delete_rows)(db, table, plan)
            rewrite(db)
            return deleted
    except sqlite3.OperationalError as error:
        if "lock" in str(error) or "busy" in str(error):
            raise StoreBusy(f"{path} is being used by another process", hint="try again") from error
        raise


def rewrite(db: sqlite3.Connection) -> None:
    """Copy all rows into new pages, and empty the write-ahead log."""
    db.execute("VACUUM")
    for _ in range(_CHECKPOINT_TRIES):
        if not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            return
        time.sleep(_CHECKPOINT_PAUSE_S)
    raise sqlite3.OperationalError("busy: a reader keeps the write-ahead log from being emptied")


def drop_lines(path: Path, drop: DropLine) -> bool:
    """Rewrite a file of JSON lines without those that `drop` accepts; other lines keep their bytes."""

    def edit(data: bytes) -> bytes:
        lines = data.split(b"\n")
        kept = [line for line in lines if not (line and drop(_parse(line)))]
        return data if len(kept) == len(lines) else b"\n".join(kept)

    return path.exists() and edit_file(path, edit)


def _drop_quoting_lines(data: bytes, plan: ForgetPlan) -> bytes:
    """Return a text without the lines that quote."""
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if not quotes_in([line.decode("utf-8", "replace")], plan))


def quotes_in(texts: Sequence[str], plan: ForgetPlan) -> bool:
    """Return True if one of some texts quotes what is forgotten."""
    if any(plan.quotes.occur_in(text) for text in texts):
        return True
    return holds_residue(plan.canaries, "\0".join(texts).encode("utf-8", "replace"))


def _delete_rows(db: sqlite3.Connection, table: str, plan: ForgetPlan) -> int:
    keys, rows = _find_rows(db, table, plan)
    condition = " AND ".join(f"{_name(key)} = ?" for key in keys)
    db.executemany(f"DELETE FROM {_name(table)} WHERE {condition}", rows)  # noqa: S608
    return len(rows)


def _find_rows(db: sqlite3.Connection, table: str, plan: ForgetPlan) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the key columns of a table, and the keys of rows that name or quote what is forgotten."""
    info = db.execute(f"PRAGMA table_info({_name(table)})").fetchall()
    columns = [str(row[1]) for row in info]
    keys = [str(row[1]) for row in info if row[5]] or ["rowid"]
    selected = ", ".join(map(_name, (*keys, *columns)))
    memories, gone = plan.memories, []
    for row in db.execute(f"SELECT {selected} FROM {_name(table)}"):  # noqa: S608
        texts = [value for value in row[len(keys) :] if isinstance(value, str)]
        if memories.intersection(texts) or quotes_in(texts, plan):
            gone.append(row[: len(keys)])
    return keys, gone


def _delete_all(db: sqlite3.Connection, table: str, _: ForgetPlan) -> int:
    return db.execute(f"DELETE FROM {_name(table)}").rowcount  # noqa: S608


def _connect(path: Path) -> sqlite3.Connection:
    db = connect(path, "mode=rw", _BUSY_S)
    db.execute("PRAGMA secure_delete = ON")
    return db


def _tables(db: sqlite3.Connection) -> list[str]:
    return [
        str(name)
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ]


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with suppress(OSError):
        for line in path.read_bytes().split(b"\n"):
            if line:
                yield _parse(line)


def _parse(line: bytes) -> Mapping[str, Any]:
    """Return the object of a line; of a torn or malformed one, its text."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"": line.decode("utf-8", "replace")}


def _strings(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
