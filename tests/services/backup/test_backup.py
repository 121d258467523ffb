"""A backup holds all that cannot be rebuilt, whoever writes meanwhile, and is complete or not there."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import tarfile
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.services.backup.conftest import BackedUpHome, kill_backup

from lorelog.core.errors import NotFound, StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.processes import try_file_lock
from lorelog.records.ledger import Ledger
from lorelog.services.backup import archive
from lorelog.services.backup.archive import BackupWriter, read_backup, remove_partial_backups
from lorelog.services.backup.restore import read_entries
from lorelog.services.records.keyring import Keyring


def test_a_backup_names_every_file_and_its_hash(here: BackedUpHome, tmp_path: Path) -> None:
    """Journals, ledger, settings and state are in it, with project and tenant; cache, locks and keys are not."""
    Keyring(here.home / "identities").create("mara")
    file = tmp_path / "b.tar.gz"
    written = BackupWriter(here.home).write(file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert read_backup(file) == written
    kinds = {(entry.kind, entry.path.split("/")[-1].split("-")[0]) for entry in written.files}
    assert {("home", "config.toml"), ("data", "ledger.jsonl"), ("data", "tombstones.jsonl")} <= kinds
    assert {("data", "feedback.jsonl"), ("data", "roots.json"), ("home", "known.json")} <= kinds
    assert written.counts["journals"] == 2
    assert written.projects == (str(here.project.resolve()),)
    names = [entry.name for entry in written.files]
    assert not [name for name in names if name.endswith((".lock", ".key")) or "cache" in name or "catalog" in name]
    with_keys = BackupWriter(here.home, with_keys=True).preview()
    assert [entry.name for entry in with_keys.files if entry.name.endswith(".key")] == ["home/identities/mara.key"]
    with pytest.raises(UsageError, match="exists"):
        BackupWriter(here.home).write(file)


def test_a_changed_or_foreign_file_is_not_a_backup(here: BackedUpHome, tmp_path: Path) -> None:
    """A changed byte, a missing end, another archive and a path that leads out are refused before anything is read."""
    file = tmp_path / "b.tar.gz"
    BackupWriter(here.home).write(file)
    plain = gzip.decompress(file.read_bytes())

    for name, content, kind in (
        ("changed", gzip.compress(plain.replace(b"otter", b"ottor", 1)), StoreDamaged),
        ("short", file.read_bytes()[:-200], (StoreDamaged, UsageError)),
        ("text", b"no archive", UsageError),
        ("empty", b"", UsageError),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(kind):
            read_backup(tmp_path / name)
    with tarfile.open(tmp_path / "evil", "w:gz") as evil:
        evil.addfile(tarfile.TarInfo("../../evil"))
    with pytest.raises(UsageError, match="not a lorelog backup"):
        read_backup(tmp_path / "evil", tmp_path / "out")
    with pytest.raises(NotFound):
        read_backup(tmp_path / "none")


def test_a_backup_is_consistent_while_others_write(here: BackedUpHome, tmp_path: Path) -> None:
    """While memories and records are added, every backup has an unbroken ledger, whole entries and a sound database."""
    with sqlite3.connect(here.data / "captures.db") as database:
        database.execute("CREATE TABLE turns (n INTEGER)")
    stop = Event()
    added: list[int] = []

    def write() -> None:
        with here.open() as memory, sqlite3.connect(here.data / "captures.db", timeout=10) as database:
            while not stop.is_set():
                number = len(added)
                memory.add(f"entry {number} " + "x" * 3000 + f" end {number}")
                memory.task.start(f"task {number}")
                database.execute("INSERT INTO turns VALUES (?)", (number,))
                database.commit()
                added.append(number)

    writer = Thread(target=write)
    writer.start()
    try:
        for number in range(4):
            before = len(added)
            BackupWriter(here.home).write(tmp_path / f"{number}.tar.gz")
            out = tmp_path / f"out{number}"
            manifest = read_backup(tmp_path / f"{number}.tar.gz", out)
            assert manifest.problems == ()
            assert Ledger(out / "data" / "default").verify().faults == ()
            (journal,) = [entry.name for entry in manifest.files if entry.kind == "journal"]
            texts = [section.text for section in read_entries((out / journal).read_text("utf-8"))][1:]
            assert len(texts) >= before
            assert all(text.split()[-2] == "end" for text in texts)
            with sqlite3.connect(out / "data" / "default" / "captures.db") as copy:
                assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert copy.execute("SELECT count(*) FROM turns").fetchone()[0] <= len(texts)
    finally:
        stop.set()
        writer.join()


def test_what_a_killed_backup_leaves_is_removed_by_the_next_one(here: BackedUpHome, tmp_path: Path) -> None:
    """A killed backup does not exist under its name; the next backup, wherever it goes, removes its file, and none in use."""
    left = kill_backup(here.home, tmp_path / "b.tar.gz")
    with left.open("rb") as file:
        assert try_file_lock(file.fileno())
        assert remove_partial_backups(here.home) == []
    (tmp_path / "to").mkdir()
    BackupWriter(here.home).write(tmp_path / "to" / "c.tar.gz")
    assert not left.exists()
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["c.tar.gz"]


def test_a_full_disk_leaves_nothing(here: BackedUpHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, the error says so and neither the backup nor a part of it is left."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "to").mkdir()
    monkeypatch.setattr(archive, "_add_member", full)
    with pytest.raises(StoreUnwritable, match="No space left"):
        BackupWriter(here.home).write(tmp_path / "to" / "b.tar.gz")
    assert list((tmp_path / "to").iterdir()) == []


def test_an_unreadable_file_is_named_and_the_rest_is_saved(here: BackedUpHome, tmp_path: Path) -> None:
    """A damaged database or list is named in the problems; everything else is in the backup."""
    (here.data / "captures.db").write_bytes(b"no database at all" * 100)
    (here.data / "code_roots.json").write_text("nonsense", "utf-8")
    written = BackupWriter(here.home).write(tmp_path / "b.tar.gz")
    assert [problem.split(":")[0] for problem in written.problems] == [
        "data/default/captures.db",
        "projects of the tenant default",
    ]
    assert written.counts["journals"] == 2
    assert json.loads((here.data / "roots.json").read_text("utf-8"))
    assert os.path.exists(tmp_path / "b.tar.gz")  # noqa: PTH110
