"""Databases are created once, checked, and replaced if they are damaged."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from bench.safety.children import run_child
from msgspec.structs import replace

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreIncompatible
from lorelog.core.sqlite_file import DatabaseSchema, SqliteFile, connect, connect_readonly, transaction
from lorelog.services.sessions import capture_db
from lorelog.services.traces import tables

SCHEMA = DatabaseSchema(
    "CREATE TABLE things (name TEXT); CREATE INDEX by_name ON things (name)", 2, hint="move it away"
)
DERIVED = replace(SCHEMA, is_derived=True, application=7)


def names_in(file: SqliteFile) -> list[str]:
    with closing(file.open()) as db:
        return [name for (name,) in db.execute("SELECT name FROM things")]


def fill(file: SqliteFile, name: str) -> None:
    with closing(file.open()) as db, transaction(db):
        db.execute("INSERT INTO things VALUES (?)", (name,))


@pytest.mark.parametrize("schema", [SCHEMA, DERIVED])
def test_a_new_database_is_private_and_kept(tmp_path: Path, schema: DatabaseSchema) -> None:
    """A new file has the tables, is readable by its owner only, and is not changed by opening it again."""
    file = SqliteFile(tmp_path / "odd ?#% name" / "a.db", schema)
    fill(file, "alpha")

    assert names_in(file) == ["alpha"]
    assert file.path is not None
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.replaced == ""


def test_a_damaged_database_is_moved_aside(tmp_path: Path) -> None:
    """A file that is not a database is kept under another name, and a new one takes its place."""
    (tmp_path / "a.db").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    file = SqliteFile(tmp_path / "a.db", SCHEMA)

    assert names_in(file) == []
    assert file.replaced.startswith("a.db was damaged")
    (aside,) = tmp_path.glob("a.damaged-*.db")
    assert aside.read_bytes().startswith(b"not a database")


@pytest.mark.parametrize("version", [1, 3])
def test_a_derived_database_of_another_version_is_made_again(tmp_path: Path, version: int) -> None:
    """Derived tables of an older or newer version are replaced, and nothing is kept."""
    fill(SqliteFile(tmp_path / "a.db", replace(DERIVED, version=version)), "old")
    file = SqliteFile(tmp_path / "a.db", DERIVED)

    assert names_in(file) == []
    assert file.replaced == "a.db was written by another version"
    assert not list(tmp_path.glob("*damaged*"))


def test_an_older_version_is_migrated(tmp_path: Path) -> None:
    """A file of version 1 runs every later step, keeps its rows, and is opened by the next one as it is."""
    fill(SqliteFile(tmp_path / "a.db", replace(SCHEMA, version=1)), "alpha")
    steps = ("ALTER TABLE things ADD COLUMN size INTEGER", "UPDATE things SET size = 3")
    file = SqliteFile(tmp_path / "a.db", replace(SCHEMA, version=3, steps=steps))

    for _ in range(2):
        with closing(file.open()) as db:
            assert db.execute("SELECT * FROM things").fetchall() == [("alpha", 3)]


@pytest.mark.parametrize("schema", [SCHEMA, capture_db._DATABASE, tables._DATABASE], ids=["own", "captures", "traces"])
def test_a_newer_version_is_not_touched(tmp_path: Path, schema: DatabaseSchema) -> None:
    """A file that cannot be rebuilt and was written by a newer version is left as it is."""
    path = tmp_path / "a.db"
    newer = SqliteFile(path, replace(schema, version=schema.version + 1, steps=(*schema.steps, "")))
    newer.open().close()

    with pytest.raises(StoreIncompatible, match="newer lorelog"):
        SqliteFile(path, schema).open()
    newer.open().close()
    assert (newer.replaced, list(tmp_path.glob("*damaged*"))) == ("", [])


def test_a_failed_transaction_changes_nothing(tmp_path: Path) -> None:
    """An exception inside a transaction rolls it back."""
    file = SqliteFile(tmp_path / "a.db", SCHEMA)
    with closing(file.open()) as db, pytest.raises(sqlite3.ProgrammingError), transaction(db):
        db.executemany("INSERT INTO things VALUES (?)", [("alpha",), ("beta", "too many")])

    assert names_in(file) == []


def test_errors_are_translated(tmp_path: Path) -> None:
    """A locked file and a damaged page are our errors, and a damaged file is moved aside."""
    file = SqliteFile(tmp_path / "a.db", replace(SCHEMA, busy_s=0.01))
    for number in range(200):
        fill(file, f"{number} " * 100)
    with closing(file.open()) as db, transaction(db), pytest.raises(StoreBusy, match=r"a\.db"), file.translated():
        fill(file, "beta")
    with closing(connect(file.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = (tmp_path / "a.db").read_bytes()
    (tmp_path / "a.db").write_bytes(data[:8192] + b"\xff" * (len(data) - 8192))

    with pytest.raises(StoreDamaged, match="is damaged"), file.translated():
        names_in(file)
    assert list(tmp_path.glob("a.damaged-*.db"))


def test_a_read_only_database_is_read(tmp_path: Path) -> None:
    """A database in a folder that cannot be written is read as it is."""
    file = SqliteFile(tmp_path / "a.db", SCHEMA)
    fill(file, "alpha")

    db = file.open_readonly()
    assert db is not None
    with closing(db):
        assert db.execute("SELECT name FROM things").fetchall() == [("alpha",)]
        with pytest.raises(sqlite3.OperationalError):
            db.execute("DELETE FROM things")


def test_a_file_whose_first_write_was_killed_can_be_read(tmp_path: Path) -> None:
    """A reader rolls back what a killed process left, instead of calling the file unwritable for ever."""
    path = tmp_path / "a.db"

    def write(_: object) -> None:
        db = connect(path)
        for statement in (
            "PRAGMA cache_size = 1",
            "CREATE TABLE t (x)",
            "BEGIN",
            "INSERT INTO t VALUES (zeroblob(99999))",
        ):
            db.execute(statement)
        os.kill(os.getpid(), signal.SIGKILL)

    assert run_child(write).killed
    assert (tmp_path / "a.db-journal").stat().st_size
    with closing(connect_readonly(path)) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
