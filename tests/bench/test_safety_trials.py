"""The trials of `bench.safety`: they pass on a sound program, and notice one that breaks a promise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.safety.children import run_child
from bench.safety.fault_trials import (
    try_changed_cache,
    try_full_disk,
    try_lost_cache,
    try_read_only_home,
    try_torn_files,
)
from bench.safety.kill_trials import TRIALS, AddTrial, KillTrial, Report, TrialHome, run_kill_steps, run_kill_trial


def test_an_error_of_a_child_is_reported() -> None:
    """A child that fails is told apart from one that succeeds, with its error."""

    def act(tell: Report) -> None:
        raise ValueError("no walrus")

    done = run_child(act)

    assert not done.ok
    assert done.reported == ({"error": "ValueError: no walrus"},)


class HarmingTrial(AddTrial):
    """Acknowledges a memory, and changes its file or deletes the registry of own memories."""

    def __init__(self, harm: Callable[[Path], object], pattern: str = "*.md") -> None:
        self._harm, self._pattern = harm, pattern

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        super().act(place, word, given, report)
        for path in [*place.project.rglob(self._pattern), *place.home.rglob(self._pattern)]:
            self._harm(path)


LOSING = HarmingTrial(lambda path: path.write_text("# nothing\n", "utf-8"))
DOUBLING = HarmingTrial(lambda path: path.write_text(path.read_text("utf-8") * 2, "utf-8"))
FOREIGN = HarmingTrial(Path.unlink, "authored.jsonl")


class ResidueTrial(KillTrial):
    """Leaves a word behind in a file of the home."""

    verb = "forget"

    def act(self, place: TrialHome, word: str, given: dict[str, Any], report: Report) -> None:
        place.home.mkdir(exist_ok=True)
        (place.home / "leftover").write_text(word, "utf-8")
        report("forgotten")

    def check(self, place: TrialHome, word: str, given: dict[str, Any], *, acknowledged: bool) -> Iterator[str]:
        if place.count(word):
            yield "residues"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trial", "count"), [(FOREIGN, "foreign"), (LOSING, "lost"), (DOUBLING, "twice"), (ResidueTrial(), "residues")]
)
def test_a_broken_promise_is_noticed(trial: KillTrial, count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that loses, doubles, disowns or leaves text behind fails its trial, with the promise named."""
    monkeypatch.setattr("bench.safety.kill_trials.random_moment", lambda _chance, _duration: 60.0)

    report = run_kill_trial(trial, 1)

    assert not report.ok
    assert getattr(report, count)
    assert any(count in fault for fault in report.faults)


@pytest.mark.slow
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.verb)
def test_a_killed_verb_keeps_its_promise(trial: KillTrial) -> None:
    """Killed at random moments, and before each write, the verb loses, doubles and disowns nothing, and leaves nothing forgotten behind."""
    at_random, steps = run_kill_trial(trial, 6, seed=os.getpid()), run_kill_steps(trial)

    assert steps.killed  # on a busy machine, each of six random moments may come too late
    assert at_random.ok, at_random.faults
    assert steps.ok, steps.faults


@pytest.mark.parametrize(
    ("verb", "files", "kills"),
    [
        ("add", "authored.jsonl", 1),  # before it is registered
        ("add", ".own", 2),  # between the entry and the index
        ("supersede", ".own", 2),
        ("edit", "authored.jsonl", 2),  # before it is registered, and after the file is replaced
        ("edit", ".lorelog/memory", 2),  # between them
        ("capture", "authored.jsonl", 1),
    ],
)
def test_a_verb_killed_between_its_steps_leaves_own_entries_only(verb: str, files: str, kills: int) -> None:
    """An entry whose writer was killed is the user's or does not exist, and the repeated command writes it once."""
    report = run_kill_steps(next(trial for trial in TRIALS if trial.verb == verb), files)

    assert report.killed >= kills
    assert report.ok, report.faults


@pytest.mark.slow
@pytest.mark.parametrize(
    "trial", [try_full_disk, try_read_only_home, try_lost_cache, try_changed_cache, try_torn_files]
)
def test_a_fault_is_survived(trial: Any, tmp_path: Path) -> None:
    """Full disk, read-only home, lost or changed cache, torn files: every memory is found, every refusal has a message."""
    report = trial(TrialHome(tmp_path))

    assert report.ok, report.faults
