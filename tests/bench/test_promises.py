"""`bench.safety.promises`: a sound program passes, and without any one of its protections it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.safety.promises import MODULE, TrialPlace, TrialReport, check_words

import lorelog

SABOTAGES = [
    (
        "core/atomic_file.py",
        "def write_all(descriptor, data, **_): os.write(descriptor, data)",
        "before it was on disk",
    ),
    ("services/memories/journal.py", "def acquire_file_lock(*_, **__): return True", "written without a lock: add"),
    ("services/memories/journal.py", "def has_entry(*_): return False", "twice: add"),
    ("services/memory_state/authored.py", "AuthoredMemories.record = lambda *_, **__: None", "not known as the user's"),
    ("services/imports/memory_importer.py", "ImportRun._is_present = lambda *_: False", "twice: import"),
    ("services/sync/merge.py", "def add_to_journal(text, *_): return text", "lost: add"),
    (
        "services/forget/scrub.py",
        "def edit_file(*_, **__): return False",
        "left behind: home/data/default/feedback.jsonl",
    ),
    ("core/caller.py", "def detect_agent(_): return ''", "not refused: forget"),
    ("light/guard_check.py", "def check_guards(*_): return None", "a guard does not block"),
]
"""A line at the end of a module that removes a protection, and the fault that must be named then."""


def run_trials(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", MODULE, "--json", *words]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.slow
def test_every_promise_holds() -> None:
    """Two killed writers, a killed daemon, repetition, sync, an agent and forget break no promise, and each trial is named."""
    status, reply = run_trials(Path(lorelog.__path__[0]).parent, "--cycles", "2")

    assert (status, reply["ok"]) == (0, True), reply
    assert [trial["acknowledged"] >= 2 for trial in reply["trials"][:4]] == [True] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("module", "line", "fault"), SABOTAGES)
def test_a_missing_protection_is_noticed(tmp_path: Path, module: str, line: str, fault: str) -> None:
    """A copy of the program without the flush, a lock, a registration, an erasing step, a check or a merge fails, with the reason."""
    shutil.copytree(lorelog.__path__[0], tmp_path / "lorelog", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "lorelog" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{line}\n")

    status, reply = run_trials(tmp_path, "--cycles", "1")

    assert status == 1
    assert fault in str(reply["trials"])


def test_a_lost_or_doubled_write_is_noticed(tmp_path: Path) -> None:
    """A command that was acknowledged and left nothing is lost; what is there two times is named, and so is what is not the user's."""
    place, report = TrialPlace(tmp_path), TrialReport("killed writers")
    for words in (["add", "The otterx sleeps at noon."], *[["task", "start", "Feed the otterx."]] * 2):
        place.run(report, *words)
    next((tmp_path / "home").rglob("authored.jsonl")).write_text("")

    check_words(place, report, {("add", "otterx"), ("guard", "walrusx")})

    assert report.faults == ["twice: task otterx", "lost: guard walrusx", "not known as the user's: otterx"]
