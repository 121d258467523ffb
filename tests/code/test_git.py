"""Git runs read-only and safely, and every failure gives None."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write

from lorelog.code.git import Git


def test_tracked_and_new_files_are_listed(tmp_path: Path) -> None:
    """A file is listed if it is tracked, or new and not ignored."""
    root = repository(tmp_path / "work", {"a.py": "", ".gitignore": "*.log\nbuild/\n", "kept.log": ""})
    git(root, "add", "-f", "kept.log")
    write(root, {"new.py": "", "noise.log": "", "build/made.py": "", "deep/er/b.py": ""})
    assert Git(str(root)).files() == [".gitignore", "a.py", "deep/er/b.py", "kept.log", "new.py"]


def test_the_list_can_be_limited_to_paths(tmp_path: Path) -> None:
    """Given files and folders are listed alone, and patterns are taken literally."""
    root = repository(tmp_path / "work", {"a.py": "", "b/c.py": "", "b/d.py": "", "[x].py": "", "x.py": ""})
    assert Git(str(root)).files(["b", "[x].py"]) == ["[x].py", "b/c.py", "b/d.py"]


def test_submodules_are_listed_and_other_repositories_are_not(tmp_path: Path) -> None:
    """Files of a submodule belong to the tree; those of a nested repository or a linked worktree do not."""
    inner = repository(tmp_path / "inner", {"lib.py": ""})
    deepest = repository(tmp_path / "deepest", {"leaf.py": ""})
    git(inner, "submodule", "--quiet", "add", str(deepest), "deep")
    git(inner, "commit", "-q", "-m", "deep")
    root = repository(tmp_path / "work", {"a.py": ""})
    git(root, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    git(root, "submodule", "--quiet", "update", "--init", "--recursive")
    repository(root / "stray", {"stray.py": ""})
    git(root, "worktree", "add", "-q", "trees/other")
    listed = Git(str(root)).files()
    assert listed is not None
    assert {"a.py", "vendor/inner/lib.py", "vendor/inner/deep/leaf.py"} <= set(listed)
    assert not [path for path in listed if path.startswith(("stray", "trees"))]


def test_a_submodule_that_was_never_fetched_is_skipped(tmp_path: Path) -> None:
    """A submodule that is an empty folder lists nothing, and is not a failure."""
    inner = repository(tmp_path / "inner", {"lib.py": ""})
    outer = repository(tmp_path / "outer", {"a.py": ""})
    git(outer, "submodule", "--quiet", "add", str(inner), "inner")
    git(outer, "commit", "-q", "-m", "inner")
    git(tmp_path, "clone", "-q", str(outer), "clone")
    assert Git(str(tmp_path / "clone")).files() == [".gitmodules", "a.py"]


def test_shallow_detached_and_unborn_heads(tmp_path: Path) -> None:
    """A shallow clone is detected; a detached head has a commit; a repository without commits has none."""
    root = repository(tmp_path / "work", {"a.py": "1"})
    write(root, {"a.py": "2"})
    git(root, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    first = git(root, "rev-parse", "HEAD~1").strip()
    git(root, "checkout", "-q", "--detach", first)
    (tmp_path / "unborn").mkdir()
    git(tmp_path / "unborn", "init", "-q")
    assert Git(str(tmp_path / "shallow")).is_shallow()
    assert not Git(str(root)).is_shallow()
    assert Git(str(root)).head() == first
    assert Git(str(tmp_path / "unborn")).head() == ""
    assert Git(str(tmp_path / "unborn")).files() == []


def test_no_repository_no_git_and_no_directory_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Git, repository or directory the result is None."""
    root = repository(tmp_path / "work", {"a.py": ""})
    (tmp_path / "plain").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert Git(str(tmp_path / "plain")).files() is None
    assert Git(str(tmp_path / "missing")).run("status") is None
    assert Git(str(root)).run("no-such-command") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Git(str(root)).run("status") is None


def test_time_and_output_are_limited(tmp_path: Path) -> None:
    """A command that takes too long or prints too much gives None."""
    root = repository(tmp_path / "work", {f"{number}.py": "" for number in range(50)})
    assert Git(str(root)).run("ls-files", max_bytes=100) is None
    # Waits for a standard input that it would only be given after the time is up.
    assert Git(str(root)).run("ls-files", timeout_s=0.0) is None


@pytest.mark.slow
def test_input_and_output_may_exceed_a_pipe(tmp_path: Path) -> None:
    """More input and output than a pipe buffers is transferred."""
    root = repository(tmp_path / "work", {"a.py": "x"})
    output = Git(str(root)).run("cat-file", "--batch-check", "--buffer", stdin=b"HEAD:a.py\n" * 20_000, timeout_s=60)
    assert output is not None
    assert output.count(b"blob 1\n") == 20_000


def test_git_variables_of_the_caller_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a hook of another repository, commands still run on the given one."""
    root = repository(tmp_path / "work", {"mine.py": ""})
    other = repository(tmp_path / "other", {"theirs.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert Git(str(root)).files() == ["mine.py"]


def test_commands_write_nothing(tmp_path: Path) -> None:
    """The repository does not change; new objects are written to another directory."""
    root = repository(tmp_path / "work", {"a.py": "1\n"})
    git(root, "checkout", "-q", "-b", "side")
    write(root, {"b.py": "2\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "side")
    git(root, "checkout", "-q", "main")
    write(root, {"c.py": "3\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "main")

    def state() -> dict[str, tuple[int, int]]:
        files = [path for path in (root / ".git").rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    os.utime(root / "a.py")
    before = state()
    spare = tmp_path / "objects"
    spare.mkdir()
    asked = Git(str(root))
    asked.files()
    asked.run("status")
    assert asked.run("merge-tree", "--write-tree", "main", "side", objects=str(spare)) is not None
    assert state() == before
    assert list(spare.rglob("*"))
