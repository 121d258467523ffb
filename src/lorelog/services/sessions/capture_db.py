"""Database of captured turns, so that none is written twice.

It holds ids, times and positions, not the text of conversations. A turn is saved before it is appended to its journal,
together with the entry, and again afterwards: if a process dies in between, the next one completes the entry. Without
the database, the ids in the journals still prevent duplicates, so a damaged file is moved aside and replaced.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from lorelog.core.errors import StoreBusy
from lorelog.core.memory import HostCaptures, SessionStatus
from lorelog.core.processes import FileLock
from lorelog.core.serializable import format_time
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, placeholders, transaction
from lorelog.light.delivery_files import RULE_TYPES, STANDING_TYPES, DeliveryFiles, is_users_word, read_standing
from lorelog.light.spool import PauseNotes, count_waiting
from lorelog.services.llm.receipts import Receipts
from lorelog.services.places.workspace import Workspace

CAPTURES_VERSION = 1
OPEN_TURN_S = 24 * 3600.0
"""Age after which a turn without an end counts as abandoned."""
_FAILURE_SHOWN_S = 7 * 86_400.0
_LOCK_S = 60.0
_SIMULTANEOUS_S = 5.0
"""A host may report the start of a session and its first prompt at the same time, in either order."""
_MAX_OPEN_SESSIONS = 5
"""Number of sessions without an end that are checked at once."""
_SCHEMA = """
CREATE TABLE turns (
    memory TEXT PRIMARY KEY, host TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, time TEXT NOT NULL,
    journal TEXT NOT NULL, captured_at REAL NOT NULL, texts INTEGER NOT NULL, calls INTEGER NOT NULL, state TEXT NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX turns_in_writing ON turns (state) WHERE state = 'writing';
CREATE INDEX turns_of_session ON turns (host, session, time);
CREATE TABLE sessions (
    host TEXT NOT NULL, session TEXT NOT NULL, created REAL NOT NULL, first_seen REAL NOT NULL, last_seen REAL NOT NULL,
    PRIMARY KEY (host, session)
) WITHOUT ROWID;
CREATE TABLE hosts (
    host TEXT PRIMARY KEY, epoch REAL NOT NULL, last_event REAL NOT NULL, last_capture REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE left_open (
    host TEXT NOT NULL, session TEXT NOT NULL, project TEXT NOT NULL, at REAL NOT NULL, event TEXT NOT NULL,
    PRIMARY KEY (host, session)
) WITHOUT ROWID;
"""
_DATABASE = DatabaseSchema(
    _SCHEMA,
    CAPTURES_VERSION,
    hint="move it aside: journals also record the captured turns",
    pragmas=("synchronous = FULL",),
)
WRITING, DONE, EMPTY, FORGOTTEN = "writing", "done", "empty", "forgotten"
"""States of a turn: being written to a journal, written, without content to remember, or never to be written: erased, off the record."""


STATEMENT_TEXTS = -1


class CaptureRow(Struct, frozen=True):
    """State of a turn, or of a later part of it."""

    memory: str
    host: str
    session: str
    turn: str
    time: str
    journal: str
    texts: int
    """Number of the assistant's texts that were captured; STATEMENT_TEXTS of a statement of the user."""
    calls: int
    """Number of tool calls that were captured."""
    state: str
    entry: str = ""
    """Entry being written, as JSON; another process can complete it."""


_COLUMNS = ", ".join(CaptureRow.__struct_fields__)
_SELECT = f"SELECT {_COLUMNS} FROM turns"  # noqa: S608


class CaptureDatabase:
    """The database of one tenant. Open it for one call only."""

    def __init__(self, folder: Path) -> None:
        self._file = SqliteFile(folder / "captures.db", _DATABASE)
        self._lock = folder / "captures.lock"
        with self._file.translated():
            self._connection = self._file.open()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock out other captures of this tenant; the lock is released if its holder dies."""
        busy = StoreBusy(f"{self._lock} is held by another capture", hint="try again")
        with ExitStack() as stack:
            with self._file.translated():
                stack.enter_context(FileLock(self._lock, busy, _LOCK_S))
            yield

    def note_event(
        self, host: str, session: str, at: float, *, begins: bool = False, is_seen: bool = True, backfill: bool = False
    ) -> float:
        """Save an event, and return the time from which to capture. A backfill is not an event.

        A session is known from its start or its first prompt on (`is_seen`): an end alone can be about any file.
        """
        with self._write_transaction() as db:
            db.execute(
                "INSERT INTO hosts VALUES (?, ?, ?, 0) ON CONFLICT (host) DO UPDATE SET"
                " last_event = max(last_event, excluded.last_event), epoch = min(epoch, excluded.epoch)",
                (host, time.time() if backfill else at, 0 if backfill else at),
            )
            if not backfill and (is_seen or self.knows(host, session)):
                db.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (host, session) DO UPDATE SET"
                    " last_seen = max(last_seen, excluded.last_seen),"
                    " created = iif(created = 0 AND first_seen > excluded.created - ?, excluded.created, created)",
                    (host, session, at if begins else 0, at, at, _SIMULTANEOUS_S),
                )
        return self.capture_start(host, session)

    def knows(self, host: str, session: str) -> bool:
        """Return whether the host's hooks reported the start of a session, or a prompt in it."""
        return bool(self._fetch("SELECT 1 FROM sessions WHERE host = ? AND session = ?", host, session))

    def capture_start(self, host: str, session: str) -> float:
        """Return the start of a session, as far as it was seen, but not before the first event of the host: a backfill captures the rest."""
        epochs = self._fetch("SELECT epoch FROM hosts WHERE host = ?", host)
        created = self._fetch("SELECT created FROM sessions WHERE host = ? AND session = ?", host, session)
        return max((row[0] for row in (*epochs, *created)), default=0)

    def save_open_session(self, *, host: str, session: str, project: str, at: float, event: str) -> None:
        """Save the last event of a session as text; an empty text means that the session has ended."""
        with self._write_transaction() as db:
            if event:
                db.execute(
                    "INSERT OR REPLACE INTO left_open VALUES (?, ?, ?, ?, ?)", (host, session, project, at, event)
                )
            else:
                db.execute("DELETE FROM left_open WHERE host = ? AND session = ?", (host, session))

    def open_sessions(self, host: str, project: str, before: float) -> list[str]:
        """Return the last events of a project's sessions that have been silent since a time, newest first."""
        query = "SELECT event FROM left_open WHERE host = ? AND project = ? AND at < ? ORDER BY at DESC LIMIT ?"
        return [event for (event,) in self._fetch(query, host, project, before, _MAX_OPEN_SESSIONS)]

    def recent_sessions(self, project: str, since: float) -> list[str]:
        """Return the ids of a project's sessions without an end, newest first."""
        query = "SELECT session FROM left_open WHERE project = ? AND at > ? ORDER BY at DESC"
        return [session for (session,) in self._fetch(query, project, since)]

    def find(self, memory: str) -> CaptureRow | None:
        """Return the state of a turn by the id of its memory."""
        return next((CaptureRow(*row) for row in self._fetch(f"{_SELECT} WHERE memory = ?", memory)), None)

    def unfinished(self) -> list[CaptureRow]:
        """Return the turns whose writing was interrupted, in order."""
        return [CaptureRow(*row) for row in self._fetch(f"{_SELECT} WHERE state = 'writing' ORDER BY captured_at")]

    def save_rows(self, *rows: CaptureRow) -> None:
        now = time.time()
        with self._write_transaction() as db:
            for number, row in enumerate(rows):
                kept = row if row.state == WRITING else replace(row, entry="")
                places = placeholders(CaptureRow.__struct_fields__)
                insert = f"INSERT OR REPLACE INTO turns ({_COLUMNS}, captured_at) VALUES ({places}, ?)"  # noqa: S608
                db.execute(insert, (*astuple(kept), now + number / 1e6))
                if row.state == DONE:
                    db.execute("UPDATE hosts SET last_capture = ? WHERE host = ?", (now, row.host))

    def forget(self, memories: Iterable[str], sessions: Iterable[str] = ()) -> None:
        """Mark turns as forgotten, so that they are not captured again, and leave no bytes of their entries."""
        with self._write_transaction() as db:
            update = "UPDATE turns SET state = ?, entry = '' WHERE"
            db.executemany(f"{update} memory = ?", [(FORGOTTEN, memory) for memory in memories])
            for session in sessions:
                db.execute(f"{update} session = ?", (FORGOTTEN, session))
                db.execute("DELETE FROM left_open WHERE session = ?", (session,))
        with self._file.translated():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def status(self, since: float) -> tuple[HostCaptures, ...]:
        """Return the captures of each host: in total, and since a time, by when they were written."""
        rows = self._fetch(
            "SELECT h.host, h.epoch, h.last_event, h.last_capture, count(DISTINCT t.session || ' ' || t.turn),"
            " count(DISTINCT iif(t.captured_at >= ?, t.session || ' ' || t.turn, NULL)),"
            " count(iif(t.captured_at >= ? AND t.texts = ?, 1, NULL)) FROM hosts h"
            " LEFT JOIN turns t ON t.host = h.host AND t.state = ? GROUP BY h.host ORDER BY h.host",
            *(since, since, STATEMENT_TEXTS, DONE),
        )
        return tuple(
            HostCaptures(host, format_time(first), format_time(last), format_time(captured), *counts)
            for host, first, last, captured, *counts in rows
        )

    def _fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._file.translated():
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._file.translated(), transaction(self._connection) as db:
            yield db


def open_captures(folder: Path) -> AbstractContextManager[CaptureDatabase]:
    return closing(CaptureDatabase(folder))


@contextmanager
def read_captures(folder: Path) -> Iterator[CaptureDatabase]:
    """Open the captures for reading; a temporary empty database if there are none."""
    from tempfile import TemporaryDirectory

    exists = (folder / "captures.db").exists()
    with (
        TemporaryDirectory(prefix="lorelog-") as temporary,
        open_captures(folder if exists else Path(temporary)) as opened,
    ):
        yield opened


def session_status(workspace: Workspace) -> SessionStatus:
    """Return the status of a tenant's captures and of the spool. Creates no file."""
    hosts: tuple[HostCaptures, ...] = ()
    sessions: dict[str, str] = {}
    if (workspace.tenant_folder / "captures.db").exists():
        midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        with open_captures(workspace.tenant_folder) as captures:
            hosts = captures.status(midnight.timestamp())
            recent = captures.recent_sessions(workspace.project.id, time.time() - OPEN_TURN_S)
            sessions = {session: PauseNotes(str(workspace.home), session).state for session in recent}
    waiting, oldest_s = count_waiting(str(workspace.home))
    # An old fault must not be reported for ever. The time of its reason is that of the failure, the event's own is older.
    earliest, failed = time.time() - _FAILURE_SHOWN_S, 0
    aside = workspace.home / "spool" / "failed"
    for reason in aside.glob("*.why") if aside.exists() else ():
        with suppress(OSError):
            failed += reason.stat().st_mtime >= earliest
    spent = Receipts.of_tenant(workspace.tenant_folder).spent_today()
    files = DeliveryFiles(str(workspace.tenant_folder), workspace.project.id)
    own = [memory for memory in read_standing(files.standing) if is_users_word(memory)]
    standing = [memory for memory in own if memory.get("type") in STANDING_TYPES]
    rules = sum(memory["type"] in RULE_TYPES for memory in standing)
    counts = (rules, len(standing) - rules, sum(bool(memory.get("edited")) for memory in standing))
    return SessionStatus(hosts, waiting, round(oldest_s, 1), failed, spent, *counts, sessions)
