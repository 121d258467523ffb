"""Taking forgotten text out of logs, databases and other files: what goes, and that everything else keeps its bytes."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.services.forget.conftest import CANARY, OTHER, SECRET, ForgetScene

from lorelog.core.errors import StoreBusy
from lorelog.services.forget import scrub
from lorelog.services.forget.forget_plan import ForgetPlan


@pytest.fixture
def plan(scene: ForgetScene) -> ForgetPlan:
    """The plan of a forget of the secret that has changed nothing yet."""
    return scene.plan(ids=(scene.secret,))


def test_lines_that_name_or_quote_it_are_dropped(plan: ForgetPlan, scene: ForgetScene, tmp_path: Path) -> None:
    """A line goes if any text in it, however deep, names or quotes it; others keep their bytes, torn ones too."""
    log = tmp_path / "log.jsonl"
    kept = [b'{"memory":  "m2"}', b"", b'{"torn": "li', "{ü}".encode(), b'{"n": [1, {"x": null}]}']
    gone = [
        json.dumps({"memory": scene.secret}).encode(),
        json.dumps({"a": [{"b": {"c": scene.secret}}]}).encode(),
        json.dumps({"text": f"as we said: {SECRET}"}).encode(),
        f'{{"torn": "{SECRET}'.encode(),
    ]
    log.write_bytes(b"\n".join([kept[0], gone[0], kept[1], gone[1], kept[2], gone[2], kept[3], gone[3], kept[4]]))

    scrub.drop_lines(
        log, lambda line: bool(scrub.quotes_in(list(map(str, line.values())), plan) or scene.secret in str(line))
    )

    assert log.read_bytes() == b"\n".join(kept)
    assert not scrub.drop_lines(tmp_path / "missing.jsonl", lambda line: True)


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE t (a TEXT, b TEXT)",
        "CREATE TABLE t (a TEXT PRIMARY KEY, b TEXT) WITHOUT ROWID",
        'CREATE TABLE "odd ""name" (a TEXT, b TEXT, PRIMARY KEY (b, a))',
    ],
)
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_rows_leave_a_database_and_its_free_pages(plan: ForgetPlan, tmp_path: Path, schema: str, journal: str) -> None:
    """Rows that quote it go from any table, with the bytes of rows that were deleted before, in the file and its log."""
    path = tmp_path / "some.db"
    table = schema.split("TABLE ", 1)[1].partition(" (")[0]
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute(schema)
        rows = [(f"row {number}", SECRET if number % 3 == 0 else f"{OTHER} {number}") for number in range(90)]
        db.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        db.execute(f"DELETE FROM {table} WHERE a < 'row 2'")
        db.commit()
        left = db.execute(f"SELECT count(*) FROM {table} WHERE b != ?", (SECRET,)).fetchone()[0]

    deleted = scrub.scrub_database(path, plan)

    assert deleted > 10
    for file in tmp_path.glob("some.db*"):
        assert CANARY.encode() not in file.read_bytes(), file
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == left
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert scrub.scrub_database(tmp_path / "missing.db", plan) == 0


def test_derived_tables_are_emptied(plan: ForgetPlan, tmp_path: Path) -> None:
    """A table whose rows do not say which memory they are of loses all of them; other tables keep theirs."""
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("targets", "others"):
            db.execute(f"CREATE TABLE {table} (x TEXT)")
            db.execute(f"INSERT INTO {table} VALUES ('harmless')")

    assert scrub.scrub_database(path, plan, every_row_of=("targets",)) == 1

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM others").fetchone() == (1,)


def test_a_database_in_use_is_reported(plan: ForgetPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that another process is writing is StoreBusy, and keeps its rows."""
    monkeypatch.setattr(scrub, "_BUSY_S", 0.1)
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE t (x TEXT)")
        db.execute("INSERT INTO t VALUES (?)", (SECRET,))
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusy, match="used by another process"):
            scrub.scrub_database(path, plan)
        db.execute("ROLLBACK")
        assert db.execute("SELECT x FROM t").fetchone() == (SECRET,)


def test_files_are_scrubbed_by_their_kind(plan: ForgetPlan, tmp_path: Path) -> None:
    """Text loses its quoting lines, a disposable file goes whole, and a binary or packed file is left and reported."""
    text = tmp_path / "a.log"
    text.write_bytes(b"one\r\n" + SECRET.encode() + b"\nthree \xff\n")
    binary = tmp_path / "b.bin"
    binary.write_bytes(b"\0" + SECRET.encode())
    packed = tmp_path / "c.gz"
    packed.write_bytes(gzip.compress(SECRET.encode()))
    waiting = tmp_path / "d.json"
    waiting.write_text(SECRET)
    damaged = tmp_path / "e.db"
    damaged.write_bytes(b"SQLite format 3\0" + SECRET.encode())
    before = {path: path.read_bytes() for path in (binary, packed, damaged)}

    assert scrub.scrub_file(text, plan, disposable=False)
    assert text.read_bytes() == b"one\r\nthree \xff\n"
    for path, data in before.items():
        assert not scrub.scrub_file(path, plan, disposable=False)
        assert path.read_bytes() == data
    for path in (waiting, damaged):
        assert scrub.scrub_file(path, plan, disposable=True)
        assert not path.exists()
    assert not scrub.scrub_file(tmp_path / "missing", plan, disposable=True)


def test_a_link_out_of_a_folder_is_not_followed(plan: ForgetPlan, tmp_path: Path) -> None:
    """A link in the project's folder to a file elsewhere leaves that file as it is."""
    outside = tmp_path / "outside.md"
    outside.write_text(SECRET)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "context.md").symlink_to(outside)
    (folder / "own.md").write_text(f"{SECRET}\nother\n")

    scrub.scrub_folder(folder, plan, "*", disposable=False)

    assert outside.read_text() == SECRET
    assert (folder / "own.md").read_text() == "other\n"
