"""A home of the first layout is moved to the current one, and nothing is lost however often that is interrupted."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lorelog import Lorelog
from lorelog.core.errors import StoreBusy, StoreUnwritable
from lorelog.core.paths import HOME_LAYOUT, first_layout_folder, tenant_folder
from lorelog.services.places import home_layout
from lorelog.services.places.workspace import ignore_folder
from lorelog.stores.embedded.migrations import rename_sources
from lorelog.wiring import update_home

SETTINGS = {"embedding.provider": "none"}


class ProcessKilled(BaseException):
    """Stands for the end of the process."""


def open_memory(home: Path, project: Path) -> Lorelog:
    return Lorelog(project=project, home=home, settings=SETTINGS)


def make_first_layout(home: Path, project: Path) -> None:
    """Fill a home, and give it the layout of older versions: data below `tenants`, the index within it."""
    project.mkdir()
    with open_memory(home, project) as memory:
        memory.add("the otter lives in the river")
        memory.add("I prefer tabs in Makefiles", to_global=True)
        memory.task.start("count the fish")
        memory.index()
        memory.search("otter")
    old, data, cache = Path(first_layout_folder(home)), home / "data", home / "cache"
    (cache / "default").rename(data / "default" / "index")
    data.rename(old)
    cache.rmdir()
    roots = old / "default" / "roots.json"
    roots.write_text(roots.read_text("utf-8").replace(str(data), str(old)), "utf-8")
    back = {str(cache / "default"): str(old / "default" / "index"), str(data / "default"): str(old / "default")}
    rename_sources(old / "default" / "index" / "catalog.db", back)


def found(home: Path, project: Path) -> list[str]:
    """Search for everything, and return the sources below the home."""
    with open_memory(home, project) as memory:
        hits = [*memory.search("otter").hits, *memory.search("tabs").hits, *memory.search("fish").hits]
        assert {"otter", "tabs", "fish"} <= set(" ".join(hit.snippet for hit in hits).replace("«", "").split())
        assert memory.index().changed == 0  # the catalog knows its files by their new paths
        return sorted({hit.source.removeprefix(f"{home}/").split("/")[0] for hit in hits if str(home) in hit.source})


def test_a_home_of_the_first_layout_is_moved(home: Path, tmp_path: Path) -> None:
    """Data and cache lie apart after the first command, every memory is found where it is now, and ids stay."""
    make_first_layout(home, tmp_path / "p")

    assert found(home, tmp_path / "p") == ["cache", "data"]
    assert sorted(path.name for path in home.iterdir()) == [".gitignore", "cache", "data", "run"]
    assert (home / "cache" / "default" / "catalog.db").exists()
    assert not (home / "data" / "default" / "index").exists()
    roots = json.loads((home / "data" / "default" / "roots.json").read_text("utf-8"))["roots"]
    assert str(home / "data" / "default" / "memory") in {root["path"] for root in roots}


def test_a_migration_killed_after_any_step_is_completed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its renames is the last one done, the next command completes it and finds everything."""
    make_first_layout(home, tmp_path / "p")
    left = 0
    real: Callable[..., Any] = os.rename
    real_replace: Callable[..., Any] = os.replace

    def counted(done: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                raise ProcessKilled
            left -= 1
            return done(*args, **options)

        return step

    for steps in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", counted(real))
            patch.setattr(os, "replace", counted(real_replace))
            left = 1
            try:
                update_home(home)
            except ProcessKilled:
                continue
            assert steps > 1
            break
    assert found(home, tmp_path / "p") == ["cache", "data"]
    assert not Path(first_layout_folder(home)).exists()


def test_files_of_both_layouts_are_kept(home: Path) -> None:
    """A file that an older process wrote after the migration is kept beside the new one; derived files and locks are not."""
    old, new = Path(first_layout_folder(home)) / "default", Path(tenant_folder(home, "default"))
    for folder, text in ((old, "old"), (new, "new")):
        for name in ("memory/2026-03-05.md", "ledger.jsonl", "ledger.lock", "deliveries/claude-s.jsonl"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
    (old / "index").mkdir()
    (old / "index" / "catalog.db").write_text("old", "utf-8")
    (home / "cache" / "default").mkdir(parents=True)
    (home / "cache" / "default" / "catalog.db").write_text("new", "utf-8")
    (old / "authored.jsonl").write_text("old", "utf-8")

    update_home(home)

    files = {str(path.relative_to(home)): path.read_text("utf-8") for path in home.rglob("*") if path.is_file()}
    files.pop("run/layout.lock")
    assert files == {
        "cache/default/catalog.db": "new",
        "data/default/authored.jsonl": "old",
        "data/default/deliveries/claude-s.jsonl": "new",
        "data/default/deliveries/claude-s.older-1.jsonl": "old",
        "data/default/ledger.jsonl": "new",
        "data/default/ledger.lock": "new",
        "data/default/ledger.older-1.jsonl": "old",
        "data/default/memory/2026-03-05.md": "new",
        "data/default/memory/2026-03-05.older-1.md": "old",
    }


def test_a_daemon_of_an_older_version_is_stopped_first(home: Path) -> None:
    """A daemon that does not name this layout is asked to stop, and files are moved once its lock is free."""
    (Path(first_layout_folder(home)) / "default" / "memory").mkdir(parents=True)
    (home / "run").mkdir()
    lock = home / "run" / "daemon.lock"
    program = (
        "import fcntl, os, sys, time\n"
        "lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        'lock.write(\'{"pid": %d, "version": "0.0.1"}\' % os.getpid()); lock.flush(); print("held", flush=True)\n'
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(lock)], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"held\n"
        update_home(home)
        assert daemon.wait(10) == -15
    assert (home / "data" / "default" / "memory").is_dir()


def test_files_are_not_moved_under_a_running_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a process holds the index, nothing is moved and the error names the lock; a daemon of this layout may run."""
    monkeypatch.setattr(home_layout, "_WAIT_S", 0.05)
    index = Path(first_layout_folder(home)) / "default" / "index"
    index.mkdir(parents=True)
    (home / "run").mkdir()
    with (home / "run" / "daemon.lock").open("w") as daemon, (index / "run.lock").open("w") as writer:
        fcntl.flock(daemon, fcntl.LOCK_EX)
        daemon.write(json.dumps({"pid": os.getpid(), "layout": HOME_LAYOUT}))
        daemon.flush()
        fcntl.flock(writer, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match=r"run\.lock"):
            update_home(home)
        assert index.is_dir()
        writer.close()
        update_home(home)
    assert (home / "cache" / "default").is_dir()


def test_a_home_that_cannot_be_written_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file cannot be moved, the error says which, and what goes where."""
    (Path(first_layout_folder(home)) / "default").mkdir(parents=True)

    def refuse(path: Path, _: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreUnwritable, match="cannot be moved") as raised:
        update_home(home)
    assert "data/NAME" in raised.value.hint


def test_a_deleted_cache_is_reported_and_rebuilt(home: Path, tmp_path: Path) -> None:
    """After the cache was deleted under an open engine, a search says what to do, and `index` finds everything again."""
    (tmp_path / "p").mkdir()
    with open_memory(home, tmp_path / "p") as memory:
        memory.add("the otter lives in the river")
        memory.task.start("count the fish")
        memory.index()
        shutil.rmtree(home / "cache")

        reply = memory.search("otter river")
        assert reply.hits == ()
        assert any("lorelog index" in note for note in reply.notes)
        memory.index()
        assert "otter" in memory.search("otter river").hits[0].snippet
        assert [hit.type for hit in memory.search("count fish").hits][:1] == ["task_start"]


def test_two_processes_that_create_a_home_at_once_do_not_fail(tmp_path: Path) -> None:
    """A `.gitignore` that another process has just written, or that the user changed, is left as it is."""
    ignored = tmp_path / ".gitignore"
    ignore_folder(str(tmp_path))
    written = ignored.read_text()
    ignored.write_text("mine\n")

    with mock.patch("os.path.lexists", return_value=False):
        ignore_folder(str(tmp_path))

    assert written.endswith("\n*\n")
    assert ignored.read_text() == "mine\n"
