"""A restore adds what is missing, keeps what is here, and can be repeated, interrupted and undone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.services.backup.conftest import WORDS, BackedUpHome, data_files

from lorelog.core.errors import StoreUnwritable
from lorelog.services.backup import restore
from lorelog.services.backup.restore import Restorer, RestoreReport, read_entries, undo_restore
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones, memory_key


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
