"""Renames, old contents and merged commits are found in real repositories."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.code.repositories import git

from lorelog.code.git import Git, GitHistory

TEXT = "".join(f"line {number} of something\n" for number in range(30))


class RealRepository:
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

    def history(self) -> GitHistory:
        return GitHistory(Git(str(self.root)))


@pytest.fixture
def repository(tmp_path: Path) -> RealRepository:
    """A repository with one commit."""
    return RealRepository(tmp_path / "repo")


def test_a_file_is_followed_through_several_renames(repository: RealRepository) -> None:
    """A file that was renamed and edited several times, also without a commit, is found under its last name."""
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


def test_a_new_file_with_an_old_name_is_another_file(repository: RealRepository) -> None:
    """A renamed file is followed even if a later file with its old name was renamed as well."""
    repository("mv", "a.py", "b.py")
    repository.commit("b")
    repository.write("a.py", "".join(f"{number} is quite another thing\n" for number in range(30)))
    repository.commit("another")
    repository("mv", "a.py", "c.py")
    repository.commit("c")
    assert repository.history().renames_by_steps(repository.first) == {"a.py": "b.py"}


def test_a_timeout_gives_none(repository: RealRepository) -> None:
    """A timeout gives None: an empty result would mean gone, or not merged."""
    repository("checkout", "-q", "-b", "feature")
    repository.write("f.py", "one\n")
    unmerged = repository.commit("unmerged")
    made = repository.commit("made")
    repository("checkout", "-q", "main")
    hurried = GitHistory(Git(str(repository.root)), remaining_s=lambda: 0.0)
    assert hurried.renames(made) is hurried.renames_by_steps(made) is None
    assert hurried.files_with_now("line") is hurried.files_now() is None
    assert hurried.is_merged(made) is None
    assert hurried.commit(made) is hurried.commit_before("2026-03-07T00:00:00Z") is None
    assert hurried.files(made) is None
    assert hurried.contents(["0" * 40]) is None
    assert hurried.lines_with(made, ["line"]) is None
    for answers in range(1, 8):  # however far it came
        left = iter([10.0] * answers)
        assert GitHistory(Git(str(repository.root)), remaining_s=partial(next, left, 0.0)).is_merged(unmerged) is None


def test_a_file_renamed_back_was_not_renamed(repository: RealRepository) -> None:
    """A file that was renamed and renamed back has its old name."""
    for before, after in (("a.py", "b.py"), ("b.py", "a.py")):
        repository("mv", before, after)
        repository.commit(after)
    assert repository.history().renames(repository.first) == {}


def test_contents_of_a_commit_are_read(repository: RealRepository) -> None:
    """Contents are read by the ids that the commit lists; a missing id is left out."""
    repository.write("odd\nname", "two\nlines\n")
    then = repository.commit("odd")
    repository.write("odd\nname", "else")
    files = repository.history().files(then)
    assert files is not None
    assert set(files) == {"a.py", "odd\nname"}
    contents = repository.history().contents([*files.values(), "0" * 40])
    assert contents is not None
    assert {contents[file] for file in files.values()} == {TEXT.encode(), b"two\nlines\n"}
    assert len(contents) == 2


def test_the_commit_before_a_moment_is_found(repository: RealRepository) -> None:
    """The last commit before a moment is returned; before the first there is none."""
    later = repository.commit("later", at="2026-03-09T12:00:00Z")
    history = repository.history()
    assert history.commit_before("2026-03-07T00:00:00Z") == repository.first
    assert history.commit_before("2026-03-10T00:00:00Z") == later
    assert history.commit_before("2020-01-01T00:00:00Z") == ""
    assert history.commit(later[:12]) == later
    assert history.commit("--help") == history.commit("0" * 12) == history.commit("abc") == ""


def test_words_are_found_in_a_commit_and_in_the_tree(repository: RealRepository) -> None:
    """Whole words are found in tracked and in new files."""
    repository.write("x.toml", "search.k = 3\n")
    then = repository.commit("x")
    repository.write("x.toml", "search.kind = 3\n")
    repository.write("new.toml", "search.k = 4\n")
    history = repository.history()
    (line,) = history.lines_with(then, ["search.k", "nothing"]) or []
    assert line[0] == "x.toml"
    assert b"search.k" in line[1]
    assert history.lines_with(then, []) == []
    assert history.files_with_now("search.k") == ["new.toml"]
    assert history.files_with_now("no.such.word") == []
    assert history.files_with_now("--output=x") == []
    assert not (repository.root / "x").exists()
    assert sorted(history.files_now() or []) == ["a.py", "new.toml", "x.toml"]


@pytest.mark.parametrize("way", ["merge", "rebase", "squash"])
def test_a_merged_commit_is_recognised(repository: RealRepository, way: str) -> None:
    """A commit is merged after a merge, a rebase or a squash, and not before."""
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
def test_a_squashed_commit_stays_merged(repository: RealRepository, *, deleted: bool) -> None:
    """A commit from the middle of a squashed branch is merged, and stays so after later work on the same lines."""
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


def test_no_program_of_a_repository_runs(repository: RealRepository, tmp_path: Path) -> None:
    """Filters, merge drivers, external diffs, conversions, hooks and monitors of a repository are not started."""
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
    assert {path for path, _ in history.lines_with(made, ["line"]) or ()} == {"a.py"}
    assert history.files_now() == [".gitattributes", "a.py"]
    assert history.contents((history.files(made) or {}).values())
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-index-change").symlink_to(program)
    repository("config", "core.hooksPath", str(tmp_path / "hooks"))
    repository("config", "core.pager", str(program))
    git = Git(str(repository.root))
    assert git.files() == [".gitattributes", "a.py"]
    for words in (("show", "HEAD"), ("log", "-p", "-1")):
        assert b"@@" in (git.run(*words) or b"")
    assert not ran.exists(), ran.read_text()


def test_an_unknown_commit_gives_none(repository: RealRepository, tmp_path: Path) -> None:
    """A missing commit is neither merged nor unmerged; without a repository there is no history, and no error."""
    assert repository.history().is_merged("1234567890ab") is None
    bare = GitHistory(Git(str(tmp_path)))
    assert bare.files("HEAD") is None
    assert bare.commit("1234567890ab") is bare.commit_before("2026-03-07T00:00:00Z") is None
    assert bare.renames("HEAD") is None
    assert bare.renames_by_steps("HEAD") is None
    assert bare.files_with_now("word") is None
    assert bare.contents(["0" * 40]) is None
    assert bare.has_known("a.py") is bare.is_staged_otherwise("a.py") is None
    assert bare.is_merged("1234567890ab") is None


def test_a_branch_without_a_commit_has_none_before_a_moment(tmp_path: Path) -> None:
    """In a repository without a commit, no commit is an answer."""
    git(tmp_path, "init", "-q")
    assert GitHistory(Git(str(tmp_path))).commit_before("2026-03-07T00:00:00Z") == ""


def test_what_head_and_the_index_say_of_a_file_is_compared(repository: RealRepository) -> None:
    """A file that is staged as it is committed differs in nothing; staged changes and removals differ."""
    history = repository.history()
    assert history.is_staged_otherwise("a.py") is False
    repository("rm", "-q", "--cached", "a.py")
    assert history.is_staged_otherwise("a.py") is True
    assert history.has_known("a.py") is True
    assert history.has_known("b.py") is False
