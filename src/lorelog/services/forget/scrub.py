"""Erase forgotten text from logs, databases and other files beside the index.

Logs are rewritten without the lines that name or quote what is forgotten; databases lose such rows and are rewritten,
because SQLite leaves deleted rows in its pages and in the write-ahead log.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from lorelog.core.errors import StoreBusy
from lorelog.core.sqlite_file import connect, connect_unchanging, rewrite_database
from lorelog.services.forget.forget_plan import ForgetPlan
from lorelog.services.memories.edit import edit_file

_BUSY_S = 10.0
_LOGS = ("feedback.jsonl", "lifecycle.jsonl", "authored.jsonl", "review.jsonl", "traces.spool*", "deliveries/*.jsonl")
_ARCHIVES = frozenset({".gz", ".zst", ".zip", ".tar", ".tgz"})


def scrub_tenant_logs(folder: Path, plan: ForgetPlan) -> None:
    """Erase the text, and lines about it, from a tenant's logs."""
    for log in (path for pattern in _LOGS for path in sorted(folder.glob(pattern))):
        drop_lines(log, lambda line: is_about(line, plan))
    drop_lines(folder / "guards.jsonl", lambda line: str(line.get("id")) in plan.guards)
    for draft in (folder / "compact").glob("*.json"):
        values = next(_read_lines(draft), {})
        if is_about(values, plan) or plan.contents.intersection(iter_texts(values)):
            draft.unlink(missing_ok=True)


def find_guards(folder: Path, plan: ForgetPlan, match: str) -> dict[str, str]:
    """Return the guards that name or quote what is forgotten, or contain the text that is searched for: ids and messages."""
    found: dict[str, str] = {}
    wanted = match.casefold()
    for line in _read_lines(folder / "guards.jsonl"):
        if is_about(line, plan) or (wanted and any(wanted in text.casefold() for text in iter_texts(line))):
            found.setdefault(str(line.get("id")), str(line.get("message", "")))
    return found


def count_references(folder: Path, plan: ForgetPlan) -> dict[str, int]:
    """Return how many lines and rows of a tenant's logs and traces name or quote what is forgotten. Changes nothing."""
    counts: Counter[str] = Counter()
    for pattern in (*_LOGS, "guards.jsonl"):
        lines = (line for log in folder.glob(pattern) for line in _read_lines(log))
        counts[pattern.partition("/")[0].partition(".")[0]] = sum(is_about(line, plan) for line in lines)
    if (folder / "traces.db").exists():
        with closing(connect_unchanging(folder / "traces.db", _BUSY_S)) as db:
            counts["traces"] += sum(len(_find_rows(db, table, plan)[1]) for table in _tables(db))
    return dict(+counts)


def scrub_folder(folder: Path, plan: ForgetPlan, pattern: str, *, disposable: bool) -> None:
    """Erase quotations from the files of a folder: logs of hooks, waiting events, an agent's context file."""
    for path in sorted(folder.glob(pattern)):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                if _drop_quoting_lines(data, plan) != data:
                    scrub_file(path, plan, disposable=disposable)


def scrub_file(path: Path, plan: ForgetPlan, *, disposable: bool) -> bool:
    """Erase quotations from any file; return False if its format is unknown.

    A `disposable` file whose lines cannot be dropped one by one is deleted: a waiting event, a request, a temporary file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if head.startswith(b"SQLite format 3\0"):
            scrub_database(path, plan)
            return True
    except OSError:
        return False
    except sqlite3.DatabaseError:  # damaged: its rows cannot be deleted one by one
        if not disposable:
            return False
    if disposable:
        path.unlink(missing_ok=True)
        return True
    if b"\0" in head or path.suffix in _ARCHIVES:
        return False
    return edit_file(path, lambda data: _drop_quoting_lines(data, plan))


def scrub_database(path: Path, plan: ForgetPlan, *, every_row_of: tuple[str, ...] = ()) -> int:
    """Delete the rows of an SQLite file that name or quote what is forgotten, and rewrite it; return their number.

    `every_row_of` are tables of derived rows that are emptied. Raise StoreBusy if another process keeps reading.
    """
    if not path.exists():
        return 0
    try:
        with closing(connect(path, "mode=rw", _BUSY_S)) as db:
            db.execute("PRAGMA secure_delete = ON")
            before = db.total_changes
            for table in _tables(db):
                keys, rows = ([], [()]) if table in every_row_of else _find_rows(db, table, plan)
                condition = " AND ".join(f"{_name(key)} = ?" for key in keys) or "TRUE"
                db.executemany(f"DELETE FROM {_name(table)} WHERE {condition}", rows)  # noqa: S608
            deleted = db.total_changes - before
            rewrite_database(db)
            return deleted
    except sqlite3.OperationalError as error:
        if "lock" in str(error) or "busy" in str(error):
            raise StoreBusy(f"{path} is being used by another process", hint="try again") from error
        raise


def drop_lines(path: Path, drop: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Rewrite a file of JSON lines without those that `drop` accepts; other lines keep their bytes."""
    return path.exists() and edit_file(
        path, lambda data: b"\n".join(line for line in data.split(b"\n") if not (line and drop(_parse(line))))
    )


def _drop_quoting_lines(data: bytes, plan: ForgetPlan) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join(line for line in lines if not quotes_in([line.decode("utf-8", "replace")], plan))


def is_about(line: Mapping[str, Any], plan: ForgetPlan) -> bool:
    """Return True if a line names what is forgotten, or quotes it."""
    texts = list(iter_texts(line))
    return bool(plan.names.intersection(texts)) or quotes_in(texts, plan)


def quotes_in(texts: Sequence[str], plan: ForgetPlan) -> bool:
    """Return True if one of some texts quotes what is forgotten."""
    return any(map(plan.quotes.occur_in, texts)) or bool(
        plan.canaries.scan("\0".join(texts).encode("utf-8", "replace"))
    )


def _find_rows(db: sqlite3.Connection, table: str, plan: ForgetPlan) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the key columns of a table, and the keys of rows that name or quote what is forgotten."""
    info = db.execute(f"PRAGMA table_info({_name(table)})").fetchall()
    keys = [str(row[1]) for row in info if row[5]] or ["rowid"]
    selected = ", ".join(map(_name, (*keys, *(str(row[1]) for row in info))))
    memories, gone = plan.memories, []
    for row in db.execute(f"SELECT {selected} FROM {_name(table)}"):  # noqa: S608
        texts = [value for value in row[len(keys) :] if isinstance(value, str)]
        if memories.intersection(texts) or quotes_in(texts, plan):
            gone.append(row[: len(keys)])
    return keys, gone


def _tables(db: sqlite3.Connection) -> list[str]:
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [str(name) for (name,) in found.fetchall()]


def _name(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with suppress(OSError):
        yield from (_parse(line) for line in path.read_bytes().split(b"\n") if line)


def _parse(line: bytes) -> Mapping[str, Any]:
    """Return the object of a line; of a torn or malformed one, its text."""
    with suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(line), dict):
            return value
    return {"": line.decode("utf-8", "replace")}


def iter_texts(value: object) -> Iterator[str]:
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
