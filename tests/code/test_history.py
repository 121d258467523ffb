"""What Git remembers is asked for in a real repository: renames step by step, what files were, and whether a commit came in."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from lorelog.code.git import Git
from lorelog.code.history import History

TEXT = "".join(f"line {number} of something\n" for number in range(30))


class Repository:
    """A real one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self("init", "-q", "-b", "main")
        self.write("a.py", TEXT)
        self.first = self.commit("first")

    def __call__(self, *args: str, at: str = "2026-03-05T12:00:00Z") -> str:
        named = {
            f"GIT_{who}_{what}": "mara@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        dated = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at, "GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(
            ["git", *args], cwd=self.root, check=True, capture_output=True, env={**os.environ, **named, **dated}
        )
        return done.stdout.decode().strip()

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def commit(self, message: str, at: str = "2026-03-05T12:00:00Z") -> str:
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message, at=at)
        return self("rev-parse", "HEAD")

    def history(self) -> History:
        return History(Git(str(self.root)))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with one commit."""
    return Repository(tmp_path / "repo")


def test_a_file_is_followed_through_several_renames(repository: Repository) -> None:
    """Renamed, edited, renamed again, and once more without a commit: it is the same file, and only its last name is told."""
    repository("mv", "a.py", "b.py")
    repository.commit("b")
    repository.write("b.py", TEXT.replace("line 3 ", "LINE 3 "))
    repository.commit("edit")
    (repository.root / "sub").mkdir()
    repository("mv", "b.py", "sub/c.py")
    repository.commit("c")
    history = repository.history()
    assert history.renames(repository.first) == history.renames_by_steps(repository.first) == {"a.py": "sub/c.py"}
    repository("mv", "sub/c.py", "d é.py")
    assert history.renames(repository.first) == history.renames_by_steps(repository.first) == {"a.py": "d é.py"}


def test_a_new_file_under_an_old_name_is_another_one(repository: Repository) -> None:
    """What left is where it went, even when a later file of its old name was renamed, too."""
    repository("mv", "a.py", "b.py")
    repository.commit("b")
    repository.write("a.py", "".join(f"{number} is quite another thing\n" for number in range(30)))
    repository.commit("another")
    repository("mv", "a.py", "c.py")
    repository.commit("c")
    assert repository.history().renames_by_steps(repository.first) == {"a.py": "b.py"}


def test_no_time_is_no_answer(repository: Repository) -> None:
    """What Git was given no time for is not told: nothing found would be read as gone, or as not merged."""
    repository("checkout", "-q", "-b", "feature")
    repository.write("f.py", "one\n")
    unmerged = repository.commit("unmerged")
    made = repository.commit("made")
    repository("checkout", "-q", "main")
    hurried = History(Git(str(repository.root)), left_s=lambda: 0.0)
    assert hurried.renames(made) is hurried.renames_by_steps(made) is None
    assert hurried.files_with_now("line") is hurried.files_now() is None
    assert hurried.is_merged(made) is None
    for answers in range(1, 8):  # however far it came
        left = iter([10.0] * answers)
        assert History(Git(str(repository.root)), left_s=partial(next, left, 0.0)).is_merged(unmerged) is None


def test_a_file_that_came_back_to_its_name_was_not_renamed(repository: Repository) -> None:
    """There and back again is nowhere."""
    for before, after in (("a.py", "b.py"), ("b.py", "a.py")):
        repository("mv", before, after)
        repository.commit(after)
    assert repository.history().renames(repository.first) == {}


def test_contents_of_a_commit_are_read(repository: Repository) -> None:
    """What a file was is read by what the commit lists, whatever its name; a missing one is left out."""
    repository.write("odd\nname", "two\nlines\n")
    then = repository.commit("odd")
    repository.write("odd\nname", "else")
    files = repository.history().files(then)
    assert set(files) == {"a.py", "odd\nname"}
    held = repository.history().contents([*files.values(), "0" * 40])
    assert {held[one] for one in files.values()} == {TEXT.encode(), b"two\nlines\n"}
    assert len(held) == 2


def test_the_commit_of_a_day_is_the_last_one_by_then(repository: Repository) -> None:
    """A moment names the commit that was checked out then; before the first there is none."""
    later = repository.commit("later", at="2026-03-09T12:00:00Z")
    history = repository.history()
    assert history.commit_before("2026-03-07T00:00:00Z") == repository.first
    assert history.commit_before("2026-03-10T00:00:00Z") == later
    assert history.commit_before("2020-01-01T00:00:00Z") == ""
    assert history.commit(later[:12]) == later
    assert history.commit("--help") == history.commit("0" * 12) == history.commit("abc") == ""


def test_words_are_found_in_a_commit_and_now(repository: Repository) -> None:
    """Whole words only, in tracked and in new files."""
    repository.write("x.toml", "search.k = 3\n")
    then = repository.commit("x")
    repository.write("x.toml", "search.kind = 3\n")
    repository.write("new.toml", "search.k = 4\n")
    history = repository.history()
    assert history.files_with(then, ["search.k", "nothing"]) == ["x.toml"]
    assert history.files_with(then, []) == []
    assert history.files_with_now("search.k") == ["new.toml"]
    assert history.files_with_now("no.such.word") == []
    assert history.files_with_now("--output=x") == []
    assert not (repository.root / "x").exists()
    assert sorted(history.files_now() or []) == ["a.py", "new.toml", "x.toml"]


@pytest.mark.parametrize("way", ["merge", "rebase", "squash"])
def test_a_commit_that_came_in_is_merged_however_it_came(repository: Repository, way: str) -> None:
    """Before, it is not; afterwards it is: by a merge, commit by commit, or as one."""
    repository("checkout", "-q", "-b", "feature")
    repository.write("f.py", "one\n")
    repository.commit("one")
    repository.write("f.py", "one\ntwo\n")
    made = repository.commit("two")
    repository("checkout", "-q", "main")
    repository.write("g.py", "else\n")
    repository.commit("else")
    history = repository.history()
    assert history.is_merged(made) is False
    if way == "merge":
        repository("merge", "-q", "--no-ff", "-m", "merge", "feature")
    elif way == "rebase":
        repository("cherry-pick", "main..feature")
    else:
        repository("merge", "-q", "--squash", "feature")
        repository.commit("squashed")
    before = repository("count-objects", "-v")
    assert history.is_merged(made) is True
    assert history.is_merged(made[:12]) is True
    assert repository("count-objects", "-v") == before, "asking must leave the repository as it is"


@pytest.mark.parametrize("deleted", [True, False], ids=["branch deleted", "branch kept"])
def test_what_was_squashed_stays_merged_when_both_went_on(repository: Repository, *, deleted: bool) -> None:
    """A commit from the middle of a branch has come in with the whole, and later work on the same lines does not undo that."""
    repository("checkout", "-q", "-b", "feature")
    repository.write("f.py", "one\n")
    middle = repository.commit("one")
    repository.write("f.py", "two\n")
    repository.commit("two")
    repository("checkout", "-q", "main")
    repository("merge", "-q", "--squash", "feature")
    repository.commit("squashed")
    if deleted:
        repository("branch", "-q", "-D", "feature")
    repository.write("f.py", "three\n")
    repository.commit("three")
    assert repository.history().is_merged(middle) is True


def test_no_program_that_a_repository_names_is_run(repository: Repository, tmp_path: Path) -> None:
    """Filters, merge drivers, external diffs, conversions, hooks and monitors of a stranger's repository stay where they are."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\ncat 2>/dev/null\nexit 0\n")
    program.chmod(0o755)
    repository.write(".gitattributes", "* filter=evil merge=evil diff=evil\n")
    repository.commit("attributes")
    repository("checkout", "-q", "-b", "feature")
    repository.write("a.py", TEXT.replace("line 3 ", "LINE 3 "))
    made = repository.commit("made")
    repository("checkout", "-q", "main")
    repository.write("a.py", TEXT.replace("line 5 ", "LINE 5 "))
    repository.commit("else")
    keys = ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "merge.evil.driver", "diff.evil.textconv")
    for key in (*keys, "diff.evil.command", "diff.external", "core.fsmonitor", "gpg.program"):
        repository("config", key, str(program))
    repository("config", "commit.gpgSign", "true")
    repository.write("a.py", TEXT)
    ran.unlink(missing_ok=True)
    history = repository.history()
    assert history.is_merged(made) is False
    assert history.renames(repository.first) == history.renames_by_steps(repository.first) == {}
    assert history.files_with_now("line") == ["a.py"]
    assert history.files_with(made, ["line"]) == ["a.py"]
    assert history.files_now() == [".gitattributes", "a.py"]
    assert history.contents(history.files(made).values())
    assert not ran.exists(), ran.read_text()


def test_what_git_does_not_know_is_not_told(repository: Repository, tmp_path: Path) -> None:
    """A commit that is not there is neither merged nor not; without a repository there is no history, and no fault."""
    assert repository.history().is_merged("1234567890ab") is None
    bare = History(Git(str(tmp_path)))
    assert bare.files("HEAD") == {}
    assert bare.renames("HEAD") is None
    assert bare.renames_by_steps("HEAD") is None
    assert bare.files_with_now("word") is None
    assert bare.contents(["0" * 40]) == {}
    assert bare.is_merged("1234567890ab") is None
