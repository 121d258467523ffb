"""Which turns have been captured: a small database of a tenant, so that none is written twice.

It is a memory of what was done, not of what was said: ids, times and places. A turn is noted before it is written to its
journal, with the entry itself, and again after: whoever is stopped in between leaves a row behind from which the next one
goes on. Without this file, journals themselves still guard against repeats by the ids in their anchors; so a
damaged one is set aside and begun anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lorelog.core.errors import StoreBusy, StoreError, StoreIncompatible, StoreUnwritable
from lorelog.core.locking import choose_wal, locks_within
from lorelog.core.session import HostCaptures

VERSION = 1
_BUSY_S = 10.0
_LOCK_S = 60.0
_AT_ONCE_S = 5.0
"""A host may tell of a session's beginning and of its first prompt at the same time, in any order."""
_MOST_LEFT_OPEN = 5
"""Sessions without an end that are looked at again at once."""
_SHOWN_S = 30 * 86400.0
"""After so long a session that goes on may be shown the same again."""
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
CREATE TABLE shown (
    host TEXT NOT NULL, session TEXT NOT NULL, memory TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (host, session, memory)
) WITHOUT ROWID;
"""
_COLUMNS = "memory, host, session, turn, time, journal, texts, calls, state, entry"
WRITING, DONE, EMPTY = "writing", "done", "empty"
"""States of a turn: on its way into a journal, in it, or with nothing in it to remember."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a turn, or of a part of it that came later."""

    memory: str
    host: str
    session: str
    turn: str
    time: str
    journal: str
    texts: int
    """How much of the turn has been captured: so many texts of the assistant, so many calls."""
    calls: int
    state: str
    entry: str = ""
    """What is being written, as JSON: whoever is stopped is followed by one who writes exactly that."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Since when a host and a session are known, in seconds since 1970."""

    epoch: float
    """The first event of the host ever: what was said before is history, and not captured unasked."""
    created: float
    """When the session was begun, if that was seen; 0 otherwise."""


class Captures:
    """The database of one tenant. Open it for a call, and close it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "captures.db"
        self._lock = folder / "captures.lock"
        self._connection = self._open()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes and threads from capturing for this tenant; the lock ends with its holder."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnwritable(f"{self._lock} cannot be made: {error.strerror}", hint="make it writable") from error
        try:
            if not locks_within(descriptor, _LOCK_S):
                raise StoreBusy(f"{self._lock} is held by another capture", hint="try again")
            yield
        finally:
            os.close(descriptor)

    def see(self, host: str, session: str, at: float, *, begins: bool = False, backfill: bool = False) -> Seen:
        """Take note of an event, and return since when its host and session are known. Backfilling is no event."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO hosts VALUES (?, ?, ?, 0) ON CONFLICT (host) DO UPDATE SET"
                " last_event = max(last_event, excluded.last_event), epoch = min(epoch, excluded.epoch)",
                (host, time.time() if backfill else at, 0 if backfill else at),
            )
            if not backfill:
                db.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (host, session) DO UPDATE SET"
                    " last_seen = max(last_seen, excluded.last_seen),"
                    " created = iif(created = 0 AND first_seen > excluded.created - ?, excluded.created, created)",
                    (host, session, at if begins else 0, at, at, _AT_ONCE_S),
                )
        return self.seen(host, session)

    def seen(self, host: str, session: str) -> Seen:
        """Return since when a host and a session are known."""
        with self._translating():
            host_row = self._connection.execute("SELECT epoch FROM hosts WHERE host = ?", (host,)).fetchone()
            row = self._connection.execute(
                "SELECT created FROM sessions WHERE host = ? AND session = ?", (host, session)
            ).fetchone()
        return Seen(host_row[0] if host_row else 0, row[0] if row else 0)

    def mute(self, host: str, session: str, until: float) -> None:
        """Take note that nothing of a session that was said before a time is to be captured."""
        with self._writing() as db:
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (host, session) DO UPDATE SET"
                " created = max(created, excluded.created)",
                (host, session, until, until, until),
            )

    def leave_open(self, host: str, session: str, project: str, at: float, event: str) -> None:
        """Remember the last event of a session, as text, until its end is told; an empty one is that end."""
        with self._writing() as db:
            if event:
                db.execute(
                    "INSERT OR REPLACE INTO left_open VALUES (?, ?, ?, ?, ?)", (host, session, project, at, event)
                )
            else:
                db.execute("DELETE FROM left_open WHERE host = ? AND session = ?", (host, session))

    def left_open(self, host: str, project: str, before: float) -> list[str]:
        """Return the last events of a host's sessions in a project that have been silent since a time, the newest first."""
        with self._translating():
            rows = self._connection.execute(
                "SELECT event FROM left_open WHERE host = ? AND project = ? AND at < ? ORDER BY at DESC LIMIT ?",
                (host, project, before, _MOST_LEFT_OPEN),
            ).fetchall()
        return [event for (event,) in rows]

    def find(self, memory: str) -> Row | None:
        """Return what is known of a turn by the id of its memory."""
        with self._translating():
            found = self._connection.execute(f"SELECT {_COLUMNS} FROM turns WHERE memory = ?", (memory,)).fetchone()  # noqa: S608
        return Row(*found) if found else None

    def last_turn(self, host: str, session: str) -> str:
        """Return the id of the last turn of a session that is in a journal; empty where none is."""
        with self._translating():
            found = self._connection.execute(
                "SELECT turn FROM turns WHERE host = ? AND session = ? AND state = ? ORDER BY time DESC LIMIT 1",
                (host, session, DONE),
            ).fetchone()
        return str(found[0]) if found else ""

    def unfinished(self) -> list[Row]:
        """Return what somebody was stopped in the middle of writing, in the order it was to be written."""
        with self._translating():
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM turns WHERE state = 'writing' ORDER BY captured_at"  # noqa: S608
            ).fetchall()
        return [Row(*row) for row in rows]

    def note(self, *rows: Row) -> None:
        """Write down what is known of turns now, of all or none."""
        now = time.time()
        with self._writing() as db:
            for number, row in enumerate(rows):
                place = (row.memory, row.host, row.session, row.turn, row.time, row.journal)
                extent = (
                    now + number / 1e6,
                    row.texts,
                    row.calls,
                    row.state,
                    row.entry if row.state == WRITING else "",
                )
                db.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*place, *extent))
                if row.state == DONE:
                    db.execute("UPDATE hosts SET last_capture = ? WHERE host = ?", (now, row.host))

    def status(self, since: float) -> tuple[HostCaptures, ...]:
        """Return what was captured of each host, and how much of it since a time."""
        with self._translating():
            rows = self._connection.execute(
                "SELECT h.host, h.epoch, h.last_event, h.last_capture, count(t.memory), total(t.captured_at >= ?) FROM hosts h"
                " LEFT JOIN turns t ON t.host = h.host AND t.state = ? GROUP BY h.host ORDER BY h.host",
                (since, DONE),
            ).fetchall()
        return tuple(
            HostCaptures(host, _iso(first), _iso(last), _iso(captured), int(count), int(today))
            for host, first, last, captured, count, today in rows
        )

    def shown(self, host: str, session: str) -> frozenset[str]:
        """Return the memories that a session has been shown unasked."""
        with self._translating():
            rows = self._connection.execute(
                "SELECT memory FROM shown WHERE host = ? AND session = ?", (host, session)
            ).fetchall()
        return frozenset(memory for (memory,) in rows)

    def add_shown(self, host: str, session: str, memories: Iterable[str]) -> frozenset[str]:
        """Take note of what a session is shown; return what it was not shown before. Sessions of long ago are forgotten."""
        now = time.time()
        new: set[str] = set()
        # Somebody waits for this one, and to be shown something again after a power cut does no harm.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._writing() as db:
            db.execute("DELETE FROM shown WHERE at < ?", (now - _SHOWN_S,))
            for one in memories:
                added = db.execute("INSERT OR IGNORE INTO shown VALUES (?, ?, ?, ?)", (host, session, one, now))
                if added.rowcount:
                    new.add(one)
        return frozenset(new)

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise _translated(error, self._path) from error
            self._set_aside()
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            raise _translated(error, self._path) from error

    def _set_aside(self) -> None:
        """Let the next one begin anew where bytes are not a database any more: what it knew, journals and tombstones know."""
        with suppress(OSError):
            self._path.replace(self._path.with_name(f"captures.damaged-{time.time_ns()}.db"))
            for suffix in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    Path(f"{self._path}{suffix}").unlink()

    def _connect(self) -> sqlite3.Connection:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be written: {error.strerror}", hint="make it writable, or free some space"
            ) from error
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            choose_wal(connection, _BUSY_S)
            connection.execute("PRAGMA synchronous = FULL")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreIncompatible(
                f"{self._path} was written by a newer lorelog", hint="update lorelog, or set that file aside"
            )
        if version == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:  # another process may have been faster
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translating():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                self._set_aside()
            raise _translated(error, self._path) from error


@contextmanager
def open_captures(folder: Path) -> Iterator[Captures]:
    """Open what a tenant's captures are known by, for as long as it is needed."""
    with closing(Captures(folder)) as captures:
        yield captures


@contextmanager
def known_captures(folder: Path) -> Iterator[Captures]:
    """Open what is known for reading; where nothing is, an empty one that lies nowhere."""
    if (folder / "captures.db").exists():
        with open_captures(folder) as captures:
            yield captures
        return
    with TemporaryDirectory(prefix="lorelog-") as nowhere, closing(Captures(Path(nowhere))) as captures:
        yield captures


def mute(folder: Path, host: str, session: str, until: float) -> None:
    """Leave what was said in a session while nothing was to be captured for good, when capturing is switched on again.

    Where nothing was ever captured, nothing needs to be known: what was said before the first event is history anyway.
    """
    if (folder / "captures.db").exists():
        with open_captures(folder) as captures:
            captures.mute(host, session, until)


def _translated(error: sqlite3.Error, path: Path) -> StoreError:
    if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{path} is being written by another process", hint="try again")
    if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_READONLY", "SQLITE_FULL", "SQLITE_CANTOPEN")):
        return StoreUnwritable(f"{path} cannot be written: {error}", hint="make it writable, or free some space")
    return StoreError(f"{path}: {error}", hint="set it aside: journals know what was captured, too")


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)) if seconds else ""
