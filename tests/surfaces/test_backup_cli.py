"""The recipes of docs/backup.md, and backup, restore and export from the shell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.docs.pages import read, sections
from tests.records.drafts import draft
from tests.surfaces.conftest import Shell

from lorelog.core.paths import tenant_folder
from lorelog.records.ledger import Ledger


@pytest.fixture
def full(shell: Shell, project: Path, home: Path) -> Path:
    """A home with a memory of the project, a global one and two records; returns a backup of it."""
    assert shell("add", "the otter lives in the river").status == 0
    assert shell("add", "--global", "I prefer tabs").status == 0
    Ledger(Path(tenant_folder(home, "default"))).append([draft("task_start", project=str(project.resolve()))])
    Ledger(Path(tenant_folder(home, "default"))).append([draft("decision", project=str(project.resolve()))])
    file = project.parent / "b.tar.gz"
    made = shell("backup", file)
    assert made.status == 0, made.err
    return file


def finds(shell: Shell, word: str) -> bool:
    return any(word in hit["snippet"] for hit in shell("search", word, "--json").json["hits"])


def test_a_lost_home_without_a_backup_keeps_the_memories_of_projects(shell: Shell, full: Path, home: Path) -> None:
    """If the home is gone and there is no backup, `index` finds the memories of the project's journals."""
    shutil.rmtree(home)
    assert shell("index").status == 0
    assert finds(shell, "otter")
    assert not finds(shell, "tabs")


def test_a_lost_home_is_restored(shell: Shell, full: Path, home: Path) -> None:
    """Restoring a backup into nothing, and indexing, finds everything; `--undo` takes it away again."""
    shutil.rmtree(home)
    planned = shell("restore", full, "--dry-run")
    assert "would change" in planned.out
    assert not (home / "data").exists()
    assert shell("restore", full).status == 0
    assert shell("index").status == 0
    assert finds(shell, "otter")
    assert finds(shell, "tabs")
    assert shell("ledger", "check").status == 0
    assert shell("restore", "--undo").status == 0
    assert not list((home / "data" / "default").glob("memory/*.md"))


def test_fields_of_exported_memories_are_documented(shell: Shell, full: Path) -> None:
    """docs/backup.md names every field of a line of the JSONL export."""
    exported = shell("export", "--format", "jsonl", "--json").json
    names = {name for line in exported["text"].splitlines() for name in json.loads(line)}
    assert all(f"`{name}`" in sections(read("docs/backup.md"))["Export"] for name in names)


def test_export_is_plain_text(shell: Shell, full: Path, project: Path) -> None:
    """Markdown has each memory once, without anchors, and a file is written where it was asked for."""
    text = shell("export").out
    assert text.count("the otter lives in the river") == 1
    assert "I prefer tabs" not in text
    text = shell("export", "--with-global").out
    assert text.count("the otter lives in the river") == text.count("I prefer tabs") == 1
    assert "<!--" not in text
    assert shell("export", "--format", "jsonl", "--output", project).status == 0
    lines = [json.loads(line) for line in (project / "memories.jsonl").read_text("utf-8").splitlines()]
    assert sorted(line["item"] for line in lines) == ["memory", "record", "record"]
    nothing = shell("export", "--since", "2999-01-01")
    assert nothing.out == ""
    assert "--with-global" in nothing.err


def test_messages_name_what_is_wrong(shell: Shell, full: Path, project: Path) -> None:
    """An existing target, another file, a missing file and a bad mapping are usage errors with a hint."""
    (project / "notes.txt").write_text("no backup", "utf-8")
    for words, status, text in (
        (("backup", full), 2, "exists"),
        (("restore", "notes.txt"), 2, "is not a lorelog backup"),
        (("restore", "./gone.tar.gz"), 1, "there is no file"),
        (("restore", full, "--project-map", "nonsense"), 2, "OLD=NEW"),
        (("restore",), 2, "is missing"),
        (("restore", "--undo"), 1, "no restore to undo"),
        (("backup", "--verify", full, "--with-keys"), 2, "--verify"),
    ):
        done = shell(*words)
        assert (done.status, text in done.err) == (status, True), (words, done.status, done.err)
