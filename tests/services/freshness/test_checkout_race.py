"""Files of another branch are never called gone, whatever happens at the same moment: real Git processes, held still."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.services.freshness.repository import Repository

from lorelog.core.query import Freshness, FreshnessVerdict
from lorelog.services.freshness import checker as checker_module
from lorelog.services.freshness.checker import FreshnessChecker, claim_of

FEATURE = "def brand_new_thing(one):\n    print(one)\n    return one\n"
WAIT_S = 60.0
"""Limit for a process to reach the point where it is held; nothing is measured."""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository on branch feature-x, with a memory about a file that only this branch has."""
    made = Repository(tmp_path)
    made.git("checkout", "-q", "-b", "feature-x")
    made.write("feature.py", FEATURE)
    made.commit("feature")
    made.remember("The team agreed on feature.py.")
    assert made.verdict().freshness is Freshness.FRESH
    return made


@contextmanager
def held(repository: Repository, waiting: str, *command: str) -> Iterator[None]:
    """Run a Git command until it waits in a script of ours, and let it end afterwards."""
    entered, leave = repository.root.parent / "entered", repository.root.parent / "leave"
    process = subprocess.Popen(["git", *command], cwd=repository.root, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + WAIT_S
        while not entered.exists():
            assert time.monotonic() < deadline, waiting
            time.sleep(0.01)
        yield
    finally:
        leave.touch()
        process.wait(WAIT_S)
    assert process.returncode == 0


def waiting_script(repository: Repository) -> str:
    """Return shell commands that tell they are reached, and wait."""
    place = repository.root.parent
    return f"touch '{place}/entered'; while [ ! -e '{place}/leave' ]; do sleep 0.01; done"


def test_nothing_is_gone_while_a_checkout_removes_files(repository: Repository) -> None:
    """While Git has removed the file and HEAD still is the memory's branch, the file is not called gone."""
    repository.git("config", "filter.held.smudge", f"{waiting_script(repository)}; cat")
    repository.git("checkout", "-q", "main")
    repository.write(".gitattributes", "*.held filter=held\n")
    repository.write("late.held", "arrives late\n")
    repository.commit("held")
    repository.git("checkout", "-q", "feature-x")
    with held(repository, "the filter was not run", "checkout", "-q", "main"):
        assert not (repository.root / "feature.py").exists()
        assert repository.git("symbolic-ref", "--short", "HEAD") == "feature-x"
        assert repository.verdict().freshness is Freshness.UNCHECKED
    assert repository.verdict() == FreshnessVerdict(Freshness.UNCHECKED, "feature-x")


def test_nothing_is_gone_before_a_checkout_moves_head(repository: Repository) -> None:
    """After Git has written files and index, and before it has moved HEAD, the file is not called gone."""
    hook = repository.root / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\n[ "$1" = prepared ] || exit 0\n{waiting_script(repository)}\n')
    hook.chmod(0o755)
    with held(repository, "the hook was not run", "checkout", "-q", "--detach", "main"):
        assert not (repository.root / "feature.py").exists()
        assert not (repository.root / ".git" / "index.lock").exists()
        assert repository.git("symbolic-ref", "--short", "HEAD") == "feature-x"
        now = time.time()
        os.utime(repository.root / ".git" / "index", (now, now + WAIT_S))  # just now, however slow this machine is
        assert repository.verdict().freshness is Freshness.UNCHECKED
    assert repository.verdict() == FreshnessVerdict(Freshness.UNCHECKED, "feature-x")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for Git")
def test_a_branch_is_not_taken_for_merged_if_git_does_not_tell(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If a slow Git does not tell in time whether the memory's branch is merged, its file is not called gone."""
    repository.git("checkout", "-q", "main")
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase " $* " in *" merge-base "*) exec sleep 30;; esac\nexec "{shutil.which("git")}" "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(checker_module, "_SEARCH_BUDGET_S", 3.0)
    with repository.engine() as engine:
        (hit,) = engine.search("team agreed", replace(engine.defaults.search, k=10)).hits
    assert hit.verdict == FreshnessVerdict()
    monkeypatch.undo()
    assert repository.verdict() == FreshnessVerdict(Freshness.UNCHECKED, "feature-x")


def test_one_checker_follows_a_checkout(repository: Repository) -> None:
    """What the daemon's checker learnt on one branch is not used on another."""
    repository.git("checkout", "-q", "main")
    with repository.engine() as engine:
        (hit,) = engine.search("team agreed", replace(engine.defaults.search, k=10)).hits
        claims = {"m": claim_of(hit, hit.project)}
        checker = FreshnessChecker(engine.place, engine.code().tables).without_time_limit()
        for branch, expected in (("feature-x", Freshness.FRESH), ("main", Freshness.UNCHECKED)) * 2:
            repository.git("checkout", "-q", branch)
            assert checker.verdicts(claims)["m"].freshness is expected


def test_a_file_committed_later_on_another_branch_is_not_gone(tmp_path: Path) -> None:
    """A file that was not committed when the memory was made is gone only from a branch that once had it."""
    repository = Repository(tmp_path)
    repository.git("checkout", "-q", "-b", "feature-x")
    repository.write("feature.py", FEATURE)
    repository.remember("The team agreed on feature.py.")
    assert repository.verdict().freshness is Freshness.FRESH
    repository.commit("feature")
    repository.git("checkout", "-q", "main")
    assert repository.verdict() == FreshnessVerdict()
    repository.git("merge", "-q", "feature-x")
    assert repository.verdict().freshness is Freshness.FRESH
    (repository.root / "feature.py").unlink()
    repository.commit("removed")
    assert repository.verdict().change_phrases == ("feature.py is gone",)
