"""A backup holds all that cannot be rebuilt; a restore adds what is missing, keeps what is here, and trusts no archive."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.backup.conftest import WORDS, BackedUpHome, data_files, kill_backup

from lorelog.core.errors import LorelogError, NotFound, StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.processes import try_file_lock
from lorelog.records.ledger import Ledger
from lorelog.services.backup import archive, restore
from lorelog.services.backup.archive import MANIFEST, BackupWriter, read_backup, remove_partial_backups
from lorelog.services.backup.restore import Restorer, RestoreReport, read_entries, undo_restore
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, memory_key
from lorelog.services.records.keyring import Keyring


class Killed(BaseException):
    """Stands for the end of the process."""


def actions(report: RestoreReport) -> dict[str, str]:
    return {file.path.rpartition("/")[2]: file.action for file in report.files}


def test_a_lost_home_comes_back(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """On a new machine, with the project elsewhere, everything is found again, and what was deleted stays deleted."""
    there = BackedUpHome(tmp_path / "new" / "home", tmp_path / "new" / "app")
    report = Restorer(there.home, {str(here.project.resolve()): str(there.project)}).run(backup)

    assert {file.action for file in report.files} == {"created"}
    assert there.found() == ["otter", "tabs", "fish"]
    assert there.records() == here.records()
    assert (there.home / "config.toml").read_text("utf-8") == (here.home / "config.toml").read_text("utf-8")
    roots = json.loads((there.data / "roots.json").read_text("utf-8"))["roots"]
    assert {root["path"] for root in roots} == {str(there.data / "memory"), str(there.project / ".lorelog" / "memory")}
    again = Restorer(there.home, {str(here.project.resolve()): str(there.project)}).run(backup)
    assert {file.action for file in again.files} == {"unchanged"}


def test_a_restore_into_the_same_home_changes_nothing(here: BackedUpHome, backup: Path) -> None:
    """Restoring a backup where it came from changes no byte, also after new memories and records."""
    with here.open() as memory:
        memory.add("a new heron")
        memory.task.start("later")
    before = data_files(here.home, here.project)

    report = Restorer(here.home).run(backup)
    assert {file.action for file in report.files} <= {"unchanged", "merged"}
    assert data_files(here.home, here.project) == before
    assert report.undo == ""


def test_both_sides_keep_what_they_have(here: BackedUpHome, backup: Path) -> None:
    """Entries are merged by id: lost ones come back, local edits win and are reported, new ones stay, nothing is twice."""
    with here.open() as memory:
        memory.add("a new heron")
    (journal,) = (here.project / ".lorelog" / "memory").iterdir()
    (shared,) = (here.data / "memory").iterdir()
    journal.write_text(journal.read_text("utf-8").replace("otter lives", "otter now sleeps"), "utf-8")
    shared.write_text("# a day\n\n### 09:00\nby hand\n", "utf-8")

    report = Restorer(here.home).run(backup)
    assert "otter now sleeps" in journal.read_text("utf-8")
    assert "otter lives" not in journal.read_text("utf-8")
    assert [len(file.different) for file in report.files if file.path == str(journal)] == [1]
    texts = [section.text for section in read_entries(shared.read_text("utf-8"))]
    assert len(texts) == 3
    assert texts[0].strip() == "### 09:00\nby hand"
    assert ["tabs" in text for text in texts] == [False, True, False]
    before = data_files(here.home, here.project)
    Restorer(here.home).run(backup)
    assert data_files(here.home, here.project) == before


def test_what_was_forgotten_does_not_come_back(here: BackedUpHome, backup: Path) -> None:
    """An entry that was erased permanently after the backup stays out, and so do judgements that name it."""
    (journal,) = (here.project / ".lorelog" / "memory").iterdir()
    (section,) = read_entries(journal.read_text("utf-8"))
    stone = Tombstone(memory_key(section.memory), section.memory, str(journal), (), "2026-03-05", forgotten=True)
    Tombstones(here.data / "tombstones.jsonl").append([stone])
    journal.unlink()
    (here.data / "feedback.jsonl").unlink()

    report = Restorer(here.home).run(backup)
    assert not journal.exists() or "otter" not in journal.read_text("utf-8")
    assert sum(file.forgotten for file in report.files) == 2


def test_ledgers_are_extended_kept_or_merged(here: BackedUpHome, backup: Path) -> None:
    """A truncated ledger is completed, a longer one is kept, and one with other records gets the missing ones appended."""
    old = here.records()
    with here.open() as memory:
        memory.task.start("later")
    longer = here.records()
    assert actions(Restorer(here.home).run(backup))["ledger.jsonl"] == "unchanged"
    assert here.records() == longer

    (here.data / "ledger.jsonl").unlink()
    (here.data / "ledger.lock").unlink()
    with here.open() as memory:
        memory.task.start("another beginning")
    assert actions(Restorer(here.home).run(backup))["ledger.jsonl"] == "merged"
    assert here.records()[1:] == old

    (here.data / "ledger.jsonl").write_bytes(b"")
    (here.data / "ledger.lock").write_bytes(b"")
    assert actions(Restorer(here.home).run(backup))["ledger.jsonl"] in {"created", "merged"}
    assert here.records() == old


def test_a_restore_killed_at_any_step_is_completed_by_the_next(
    here: BackedUpHome, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file was the last one written, running it again restores the rest, each file once and whole."""
    there = BackedUpHome(tmp_path / "new" / "home", tmp_path / "new" / "app")
    moved = {str(here.project.resolve()): str(there.project)}
    real: Callable[..., Any] = restore.write_whole_file
    steps = 0

    def write(path: Path, content: bytes, *, replaces: bool) -> None:
        nonlocal steps
        if steps == 0:
            raise Killed
        steps -= 1
        real(path, content, replaces=replaces)

    with monkeypatch.context() as patch:
        patch.setattr(restore, "write_whole_file", write)
        for kills in range(50):
            steps = 1
            try:
                Restorer(there.home, moved).run(backup)
                assert kills > 3
                break
            except Killed:
                continue
    assert there.found() == ["otter", "tabs", "fish"]
    assert there.records() == here.records()
    assert list((there.home / "run").glob("restore-*")) == []


def test_a_wrong_restore_is_undone(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """Undoing a restore puts every file back byte for byte, except those that were changed since; records go on."""
    there = BackedUpHome(tmp_path / "other", here.project)
    (here.project / ".lorelog" / "memory").rename(tmp_path / "away")
    with there.open() as memory:
        memory.add("mine")
        memory.task.start("own")
    before = data_files(there.home, there.project)
    report = Restorer(there.home).run(backup)
    assert data_files(there.home, there.project) != before
    assert Path(report.undo).is_dir()

    undo_restore(there.home)
    after = data_files(there.home, there.project)
    assert after == before
    with there.open() as memory:
        memory.task.start("after it")
    assert len(there.records()) == 2


def test_a_dry_run_changes_nothing(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """A dry run reports what a restore does, and writes nothing."""
    there = BackedUpHome(tmp_path / "other", here.project)
    (here.data / "ledger.jsonl").unlink()
    for target in (there, here):
        before = data_files(target.home, here.project)
        planned = Restorer(target.home, dry_run=True).run(backup)
        assert data_files(target.home, here.project) == before
        assert actions(planned) == actions(Restorer(target.home).run(backup))


def test_a_project_that_is_not_there_is_named(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """Journals of a project that does not exist are skipped with what to do; the rest is restored."""
    here.project.rename(tmp_path / "gone")
    report = Restorer(tmp_path / "other").run(backup)
    (skipped,) = [file for file in report.files if file.action == "skipped"]
    assert f"--project-map {here.project.resolve()}=DIR" in skipped.reason
    assert report.count("created") > 3
    assert not here.project.exists()


def test_a_link_out_of_the_project_is_not_written_through(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """If a repository's journals are a link that leads out of it, nothing is written there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (here.project / ".lorelog" / "memory").rename(tmp_path / "away")
    (here.project / ".lorelog" / "memory").symlink_to(outside)
    report = Restorer(tmp_path / "other").run(backup)
    assert "skipped" in actions(report).values()
    assert list(outside.iterdir()) == []


def test_a_full_disk_stops_a_restore_with_whole_files(
    here: BackedUpHome, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full, the error says that complete files stay and what to do; the next restore completes it."""
    real, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise OSError(28, "No space left on device")
        real(descriptor)

    there = BackedUpHome(tmp_path / "other", here.project)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreUnwritable, match="No space left") as raised:
            Restorer(there.home).run(backup)
    assert "restore again" in raised.value.hint
    Restorer(there.home).run(backup)
    assert there.found() == [word for word in WORDS if word != "newt"]


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


Members = list[tuple[tarfile.TarInfo, bytes]]


def members_of(backup: Path) -> Members:
    with tarfile.open(backup) as archive:
        return [
            (member, file.read() if (file := archive.extractfile(member)) else b"") for member in archive.getmembers()
        ]


def write_archive(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def with_manifest(change: Callable[[dict[str, list[dict[str, str]]]], object]) -> Callable[[Members], Members]:
    """Return a change of a backup's manifest."""

    def apply(members: Members) -> Members:
        changed = []
        for member, content in members:
            if member.name == MANIFEST:
                values = json.loads(content)
                change(values)
                changed.append((member, json.dumps(values).encode()))
            else:
                changed.append((member, content))
        return changed

    return apply


def first_of(kind: str, **fields: str) -> Callable[[Members], Members]:
    """Return a change of the first file of a kind in the manifest."""
    return with_manifest(lambda values: next(file for file in values["files"] if file["kind"] == kind).update(fields))


HOSTILE: dict[str, Callable[[Members], Members]] = {
    "symbolic link": lambda members: [entry("home/config.toml", tarfile.SYMTYPE, "/etc/passwd"), *members],
    "link, then a file through it": lambda members: [
        entry("home/out", tarfile.SYMTYPE, "/tmp"),
        entry("home/out/x"),
        *members,
    ],
    "hard link": lambda members: [*members, entry("home/hard", tarfile.LNKTYPE, "home/config.toml")],
    "device": lambda members: [entry("home/null", tarfile.CHRTYPE), *members],
    "pipe": lambda members: [*members, entry("home/pipe", tarfile.FIFOTYPE)],
    "folder": lambda members: [entry("home/folder", tarfile.DIRTYPE), *members],
    "absolute path": lambda members: [entry("/tmp/lorelog-hostile"), *members],
    "path that leads out": lambda members: [*members, entry("home/../../out")],
    "the same name twice": lambda members: [*members, entry("home/config.toml")],
    "a file that the manifest lacks": lambda members: [*members, entry("home/extra")],
    "a file is missing": lambda members: [
        (member, content) for member, content in members if "ledger" not in member.name
    ],
    "no manifest": lambda members: [(member, content) for member, content in members if member.name != MANIFEST],
    "a target outside the home": first_of("home", path="../out.toml"),
    "an absolute target": first_of("home", path="/tmp/lorelog-hostile"),
    "a tenant outside the home": first_of("data", tenant="../../other"),
    "another format": with_manifest(lambda values: values.update(format="other")),  # type: ignore[call-overload]
    "a newer version": with_manifest(lambda values: values.update(version=99)),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_backup_changes_nothing(here: BackedUpHome, backup: Path, tmp_path: Path, name: str) -> None:
    """Links, devices, paths that lead out and files that the manifest does not list are refused before anything is written."""
    hostile = write_archive(tmp_path / "hostile.tar.gz", HOSTILE[name](members_of(backup)))
    (here.home / "config.toml").write_text("[search]\nk = 3\n", "utf-8")
    before = data_files(tmp_path)

    with pytest.raises(LorelogError) as caught:
        Restorer(here.home).run(hostile)

    assert isinstance(caught.value, UsageError | StoreDamaged)
    assert caught.value.hint
    assert data_files(tmp_path) == before
    assert not Path("/tmp/lorelog-hostile").exists()
    with pytest.raises(LorelogError):
        read_backup(hostile, tmp_path / "out")


def test_a_restore_does_not_write_through_links(here: BackedUpHome, backup: Path, tmp_path: Path) -> None:
    """Where a file of the home is a link that leads out, the file behind it keeps its bytes."""
    outside = tmp_path / "outside.jsonl"
    outside.write_text("untouched\n")
    (here.data / "feedback.jsonl").unlink()
    (here.data / "feedback.jsonl").symlink_to(outside)

    with pytest.raises(StoreUnwritable, match=r"feedback\.jsonl cannot be written"):
        Restorer(here.home).run(backup)

    assert outside.read_text() == "untouched\n"


def test_settings_and_later_decisions_of_this_machine_win(here: BackedUpHome, backup: Path) -> None:
    """A local setting is kept, and a memory that was deleted here after the backup stays deleted."""
    (here.home / "config.toml").write_text("[search]\nk = 3\n", "utf-8")
    with here.open() as memory:
        memory.delete(memory.search("tabs in Makefiles", all_projects=True).hits[0].id)

    Restorer(here.home).run(backup)

    assert (here.home / "config.toml").read_text("utf-8") == "[search]\nk = 3\n"
    assert here.found() == ["otter", "fish"]


def test_captured_sessions_of_both_sides_are_kept(here: BackedUpHome, tmp_path: Path) -> None:
    """Rows of the captures database are merged: a turn that either side captured is not captured again."""
    path = here.data / "captures.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE turns (session TEXT, turn TEXT, note TEXT, PRIMARY KEY (session, turn))")
        db.execute("INSERT INTO turns VALUES ('s', '1', 'backup'), ('s', '2', 'backup')")
    BackupWriter(here.home).write(tmp_path / "c.tar.gz")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM turns WHERE turn = '1'")
        db.execute("UPDATE turns SET note = 'here'")
        db.execute("INSERT INTO turns VALUES ('s', '3', 'here')")

    Restorer(here.home).run(tmp_path / "c.tar.gz")

    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT turn, note FROM turns ORDER BY turn").fetchall()
    assert rows == [("1", "backup"), ("2", "here"), ("3", "here")]


ENTRY_TEXTS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), unique=True, max_size=4)


def journal_text(names: list[str], version: str) -> str:
    entries = [f"### 10:0{number}\n<!-- memory:{name} -->\n{name} {version}\n" for number, name in enumerate(names)]
    return "# 2026-03-05\n\n" + "\n".join(entries)


@given(ENTRY_TEXTS, ENTRY_TEXTS, ENTRY_TEXTS)
def test_no_order_of_entries_loses_one(saved: list[str], kept: list[str], added: list[str]) -> None:
    """Whatever entries a journal had and has, a restore leaves the union, each once, in the wording of this machine."""
    with TemporaryDirectory() as folder:
        home = Path(os.path.realpath(folder)) / "home"
        journal = home / "data" / "default" / "memory" / "2026-03-05.md"
        journal.parent.mkdir(parents=True)
        journal.write_text(journal_text(saved, "then"), "utf-8")
        BackupWriter(home).write(home.parent / "b.tar.gz")
        now = list(dict.fromkeys([*kept, *added]))
        journal.write_text(journal_text(now, "now"), "utf-8")

        Restorer(home).run(home.parent / "b.tar.gz")

        lines = [line for line in journal.read_text("utf-8").splitlines() if line.endswith(("now", "then"))]
        assert sorted(lines) == sorted(
            [f"{name} now" for name in now] + [f"{name} then" for name in saved if name not in now]
        )
