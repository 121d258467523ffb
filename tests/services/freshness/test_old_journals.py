"""Memories that are older than the clone: the code is indexed only as it is now, and verdicts are still true."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.services.freshness.repository import Repository

from lorelog.code.git import GitHistory
from lorelog.core.query import Freshness

pytestmark = pytest.mark.slow

DAY = "2026-03-05"
"""A day after the first commit of these tests, and long before they run."""
TOTAL = "def add_totals(first, second):\n    total = first + second\n    print(total)\n    return total\n"


def old_commit(repository: Repository) -> str:
    """Commit the working tree as of some days before the memories."""
    repository.git("add", "-A")
    made = "2026-03-01T12:00:00Z"
    author = ["-c", "user.name=mara", "-c", "user.email=mara@example.org"]
    words = ["git", *author, "commit", "-q", "--amend", "--no-edit", "--date", made]
    subprocess.run(words, cwd=repository.root, check=True, env={"GIT_COMMITTER_DATE": made, "PATH": "/usr/bin:/bin"})
    return repository.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository whose package name is a word in more files than one search reads."""
    made = Repository(tmp_path)
    for number in range(260):
        made.write(f"pkg/many/file_{number:03}.py", f"import pkg\n\nNUMBER_{number} = pkg.value\n")
    made.write("pkg/zeta/sums.py", TOTAL)
    return made


def fresh_clone(repository: Repository, text: str, commit: str, place: Path) -> Repository:
    """Return a new clone with one old memory, its code indexed as it is now."""
    repository.commit("now")
    clone = repository.clone(place)
    clone.write_journal(DAY, text, commit)
    clone.index()
    return clone


@pytest.mark.parametrize("with_commit", [True, False], ids=["commit", "day"])
@pytest.mark.parametrize(
    "text",
    [
        "The team agreed on `add_totals` in `pkg/zeta/sums.py`.",
        "The team agreed on add_totals() in pkg/zeta/sums.py.",
        "The team agreed on `pkg.zeta.sums.add_totals` and nothing else.",
    ],
)
def test_a_changed_function_has_drifted_in_a_fresh_clone(
    repository: Repository, tmp_path: Path, text: str, *, with_commit: bool
) -> None:
    """A function that changed after the memory has drifted, however common the words of its path are."""
    commit = old_commit(repository)
    repository.edit("pkg/zeta/sums.py", "first + second", "first - second")
    clone = fresh_clone(repository, text, commit[:12] if with_commit else "", tmp_path / "clone")
    verdict = clone.verdict()
    assert verdict.freshness is Freshness.DRIFTED
    assert any(phrase.endswith("add_totals has changed since") for phrase in verdict.change_phrases)


def test_a_search_that_was_cut_is_unchecked(repository: Repository, tmp_path: Path) -> None:
    """If too many files of the old commit seem to define a name, it is not called fresh, nor gone."""
    for number in range(60):
        repository.write(f"docs/page_{number:02}.py", '"""\nclass MovingTarget is described here\n"""\n')
    repository.write("pkg/zz_target.py", "class MovingTarget:\n    def run(self):\n        return 1\n")
    commit = old_commit(repository)
    repository.write("pkg/zz_target.py", "OTHER = 1\n")
    repository.write("pkg/new_home.py", "class MovingTarget:\n    def run(self):\n        return 2\n")
    clone = fresh_clone(repository, "The team agreed on `MovingTarget`.", commit, tmp_path / "clone")
    assert clone.verdict().freshness is Freshness.UNCHECKED


@pytest.mark.parametrize("text", ["The team agreed on `add_totals`.", "The team agreed on pkg/zeta/later.py."])
def test_what_came_later_is_not_called_fresh(repository: Repository, tmp_path: Path, text: str) -> None:
    """A file or function that the memory's commit does not have was not necessarily then as it is now."""
    (repository.root / "pkg/zeta/sums.py").unlink()
    commit = old_commit(repository)
    repository.write("pkg/zeta/later.py", TOTAL)
    clone = fresh_clone(repository, text, commit, tmp_path / "clone")
    assert clone.verdict().freshness is Freshness.UNCHECKED


def test_a_search_without_an_answer_is_unchecked_and_made_again(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Git does not answer a search of the old commit, nothing is concluded and nothing is kept."""
    commit = old_commit(repository)
    (repository.root / "pkg/zeta/sums.py").unlink()
    clone = fresh_clone(repository, "The team agreed on `add_totals` and other.py.", commit, tmp_path / "clone")
    monkeypatch.setattr(GitHistory, "lines_with", lambda *_: None)
    assert clone.verdict().freshness is Freshness.UNCHECKED
    monkeypatch.undo()
    assert clone.verdict().change_phrases == ("add_totals is gone",)


def test_a_definition_that_was_there_all_along_is_not_the_new_place(repository: Repository, tmp_path: Path) -> None:
    """A similar function that the old commit already had elsewhere is not where the deleted one moved to."""
    repository.write("pkg/twin.py", TOTAL.replace("print(total)", "print(total, 1)"))
    commit = old_commit(repository)
    (repository.root / "pkg/zeta/sums.py").unlink()
    text = "The team agreed on `add_totals` in `pkg/zeta/sums.py`."
    assert fresh_clone(repository, text, commit, tmp_path / "clone").verdict().freshness is Freshness.GONE


def test_a_bare_name_is_not_a_member_of_something_else(repository: Repository, tmp_path: Path) -> None:
    """A deleted function is gone, although an unchanged class has a method of its name."""
    repository.write("pkg/other_class.py", "class Sums:\n    def add_totals(self):\n        return 1\n")
    commit = old_commit(repository)
    (repository.root / "pkg/zeta/sums.py").unlink()
    clone = fresh_clone(repository, "The team agreed on `add_totals`.", commit, tmp_path / "clone")
    assert clone.verdict().change_phrases == ("add_totals is gone",)
