"""A backup from elsewhere may be made to do harm, and a home may have changed since: neither costs a memory."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.backup.conftest import BackedUpHome, data_files

from lorelog.core.errors import LorelogError, StoreDamaged, StoreUnwritable, UsageError
from lorelog.services.backup.archive import MANIFEST, BackupWriter, read_backup
from lorelog.services.backup.restore import Restorer

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
