"""Homes with memories and records, for tests of backups."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.paths import tenant_folder
from lorelog.records.ledger import Ledger
from lorelog.services.backup.archive import BackupWriter

SETTINGS = {"embedding.provider": "none"}


class BackedUpHome:
    """A home and a project; both may be lost."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home, self.project = home, project
        project.mkdir(parents=True, exist_ok=True)

    @property
    def data(self) -> Path:
        return Path(tenant_folder(self.home, "default"))

    def open(self) -> Lorelog:
        return Lorelog(project=self.project, home=self.home, settings=SETTINGS)

    def fill(self) -> BackedUpHome:
        """Write a memory of the project, a global one, one that is deleted, a judgement and a record."""
        with self.open() as memory:
            memory.add("the otter lives in the river")
            memory.add("I prefer tabs in Makefiles", to_global=True)
            gone = memory.add("the newt has left", to_global=True)
            memory.index()
            memory.delete(gone.id)
            memory.feedback("otter", memory.search("otter").hits[0], relevant=True)
            memory.task.start("count the fish")
        (self.home / "config.toml").write_text("[search]\nk = 7\n", "utf-8")
        return self

    def found(self) -> list[str]:
        """Index, and return which of the three words are found."""
        with self.open() as memory:
            memory.index()
            texts = [
                hit.snippet.replace("«", "").replace("»", "")
                for word in WORDS
                for hit in memory.search(word, all_projects=True).hits
            ]
            return [word for word in WORDS if any(word in text for text in texts)]

    def records(self) -> list[str]:
        """Return the ids of all records, after a check of the chain."""
        ledger = Ledger(self.data)
        assert ledger.verify().faults == ()
        return [record.id for record in ledger.read()]


WORDS = ("otter", "tabs", "newt", "fish")


def data_files(*folders: Path) -> dict[str, bytes]:
    """Return all files below folders that hold data, by path."""
    return {
        str(path): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.name.endswith(".lock")
        and not {"cache", "run", "logs", "backups"} & set(path.parts)
        and path.name not in {"traces.spool", "ledger.import"}
    }


def kill_backup(home: Path, target: Path) -> Path:
    """Kill a process while it writes the last file of a backup; return the file that it leaves."""
    script = (
        "import os, sys; from pathlib import Path; from lorelog.services.backup import archive\n"
        "real = archive._add_member\n"
        "def add(tar, name, content):\n"
        "    real(tar, name + '.noise', os.urandom(100_000))  # so that what was added before leaves the buffers\n"
        "    if name == 'manifest.json': os.kill(os.getpid(), 9)\n"
        "    real(tar, name, content)\n"
        "archive._add_member = add\n"
        "archive.BackupWriter(Path(sys.argv[1])).write(Path(sys.argv[2]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(home), str(target)], check=False)
    assert (done.returncode, target.exists()) == (-9, False)
    (left,) = target.parent.glob(f".{target.name}.*")
    return left


@pytest.fixture
def here(home: Path, tmp_path: Path) -> BackedUpHome:
    return BackedUpHome(home, tmp_path / "app").fill()


@pytest.fixture
def backup(here: BackedUpHome, tmp_path: Path) -> Path:
    BackupWriter(here.home).write(tmp_path / "b.tar.gz")
    return tmp_path / "b.tar.gz"
