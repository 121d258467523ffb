"""`lorelog watch`, and the roots that `lorelog index` adds, lists and removes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, command_line, write


@pytest.fixture
def notes(project: Path) -> Path:
    write(project / "notes" / "a.md", "otter\n")
    return project / "notes"


@contextmanager
def watching(project: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Run `lorelog watch` as a process that ends with the test."""
    process = subprocess.Popen(
        command_line("watch", *words), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def next_event(process: subprocess.Popen[str]) -> Any:
    return json.loads(next_line(process))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_tells_each_pass_until_it_is_ended(
    project: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell, number: signal.Signals
) -> None:
    """It prints the watched roots and one line per pass, and Ctrl-C ends it with status 0."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    with watching(project, "notes") as process:
        assert next_line(process) == "Watching 1 root: notes. Press Ctrl-C to stop.\n"
        write(notes / "b.md", "beaver\n")
        assert "1 changed, 1 text embedded" in next_line(process)
        assert [hit["content"] for hit in shell("search", "beaver", "-k", 1, "--json").json["hits"]] == ["beaver"]
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_watch_without_paths_follows_what_the_project_knows(
    project: Path, notes: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without paths it watches what `lorelog index` would refresh."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    assert shell("index", "notes").status == 0
    assert shell("add", "a first memory").status == 0
    with watching(project, "--json") as process:
        assert next_event(process)["roots"] == [str(project / ".lorelog" / "memory"), str(notes)]
        write(notes / "a.md", "otter, edited\n")
        assert next_event(process)["changed"] == 1


def test_watch_without_anything_to_watch_says_so(shell: Shell) -> None:
    """In an empty project it fails with a hint instead of watching nothing."""
    outcome = shell("watch")

    assert outcome.status == 2
    assert "nothing to index yet" in outcome.err


def test_roots_are_added_listed_and_removed(project: Path, notes: Path, shell: Shell) -> None:
    """Indexed paths are listed with their documents; removed ones leave the index, not the disk."""
    assert shell("index", "--list").out.startswith("Nothing is indexed yet;")

    added = shell("index", "notes", "--exclude", "*.tmp.md", "--json")
    assert (added.status, added.json["changed"]) == (0, 1)
    (root,) = shell("index", "--list", "--json").json["roots"]
    assert (root["path"], root["documents"], root["exists"], root["patterns"]) == (str(notes), 1, True, ["*.tmp.md"])
    listed = shell("index", "--list").out
    assert listed == f"notes  1 document  project {root['project']}  without *.tmp.md\n"

    removed = shell("index", "--remove", "notes")
    assert removed.out == "Removed 1 root: 1 document removed from the index. Your files are unchanged.\n"
    assert (notes / "a.md").exists()
    assert shell("index", "--list", "--json").json == {"roots": []}
    again = shell("index", "--remove", "notes")
    assert (again.status, "is not an indexed path" in again.err, "index --list" in again.err) == (1, True, True)


def test_an_empty_directory_is_not_remembered(project: Path, notes: Path, shell: Shell) -> None:
    """A directory without Markdown does not become a root, which a note says, and another what was passed over; one that lost its files stays."""
    write(project / "empty" / "a.txt", "text")
    shell("index", "notes")

    done = shell("index", "empty/")
    (notes / "a.md").unlink()
    shell("index", "notes")

    assert (done.status, done.out) == (0, "")
    assert done.err.splitlines() == [
        "note: no Markdown below empty/; it is not remembered",
        "note: passed over: 1 .txt file; to index them: lorelog config set index.extensions '[\".txt\"]', and index again",
    ]
    assert [root["path"] for root in shell("index", "--list", "--json").json["roots"]] == [str(notes)]


def test_a_misspelt_path_is_refused_before_the_run(project: Path, notes: Path, shell: Shell) -> None:
    """A path that does not exist is one line with the nearest name, while another process holds the index."""
    shell("index", "notes")
    holder = _hold_index(project)
    try:
        done = shell("index", "nots", "notes")
    finally:
        holder.kill()
        holder.communicate()

    assert (done.status, done.out) == (1, "")
    assert done.err == "lorelog: nots does not exist\n  hint: did you mean notes?\n"


def _hold_index(project: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of index runs until it is killed."""
    script = (
        "import time\nfrom lorelog.wiring import open_engine, resolve_location\n"
        "with open_engine(resolve_location()) as engine, engine.store.run(wait_s=0):\n"
        "    print('held', flush=True)\n    time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], cwd=project, stdout=subprocess.PIPE, text=True)
    assert next_line(holder) == "held\n"
    return holder


@pytest.mark.slow
def test_an_empty_directory_can_be_watched(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lorelog watch` waits for the first file of a directory; with --json each line is one object."""
    monkeypatch.setenv("LORELOG_WATCH_DEBOUNCE_MS", "100")
    (project / "empty").mkdir()
    with watching(project, "empty", "--json") as process:
        assert next_event(process) == {"event": "watching", "roots": [str(project / "empty")]}
        write(project / "empty" / "a.md", "otter\n")
        done = next_event(process)

    assert (done["event"], done["changed"], done["removed"], done["problems"]) == ("pass", 1, 0, [])
