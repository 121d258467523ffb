"""Git is asked read-only and safely, and whoever asks can do without it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write

from lorelog.code.git import Git


def test_tracked_and_new_files_are_listed_and_ignored_ones_are_not(tmp_path: Path) -> None:
    """A file is listed when it is tracked, or new and not ignored."""
    root = repository(tmp_path / "work", {"a.py": "", ".gitignore": "*.log\nbuild/\n", "kept.log": ""})
    git(root, "add", "-f", "kept.log")
    write(root, {"new.py": "", "noise.log": "", "build/made.py": "", "deep/er/b.py": ""})
    assert Git(str(root)).files() == [".gitignore", "a.py", "deep/er/b.py", "kept.log", "new.py"]


def test_some_files_alone_can_be_asked_for(tmp_path: Path) -> None:
    """Asked for some paths, files and folders of them are listed, patterns taken as names."""
    root = repository(tmp_path / "work", {"a.py": "", "b/c.py": "", "b/d.py": "", "[x].py": "", "x.py": ""})
    assert Git(str(root)).files(["b", "[x].py"]) == ["[x].py", "b/c.py", "b/d.py"]


def test_names_may_hold_anything(tmp_path: Path) -> None:
    """Names with line breaks, spaces, quotes and other alphabets come back as they are."""
    names = ["a b.py", 'quo"te.py', "line\nbreak.py", "größe.py", "日本.py"]
    root = repository(tmp_path / "work", dict.fromkeys(names, ""))
    assert Git(str(root)).files() == sorted(names)


def test_submodules_are_listed_and_other_repositories_are_not(tmp_path: Path) -> None:
    """What lies in a submodule belongs to the tree; a repository, or a linked worktree, that merely lies there does not."""
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


def test_a_submodule_that_was_never_fetched_is_passed_over(tmp_path: Path) -> None:
    """An empty folder in the place of a submodule lists nothing, and is no failure."""
    inner = repository(tmp_path / "inner", {"lib.py": ""})
    outer = repository(tmp_path / "outer", {"a.py": ""})
    git(outer, "submodule", "--quiet", "add", str(inner), "inner")
    git(outer, "commit", "-q", "-m", "inner")
    git(tmp_path, "clone", "-q", str(outer), "clone")
    assert Git(str(tmp_path / "clone")).files() == [".gitmodules", "a.py"]


def test_shallow_detached_and_unborn_heads_are_told(tmp_path: Path) -> None:
    """A shallow clone says so; a detached head has a commit; a repository without commits has none."""
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
    """Whatever is missing, the answer is None."""
    root = repository(tmp_path / "work", {"a.py": ""})
    (tmp_path / "plain").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert Git(str(tmp_path / "plain")).files() is None
    assert Git(str(tmp_path / "missing")).run("status") is None
    assert Git(str(root)).run("no-such-command") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Git(str(root)).run("status") is None


def test_what_takes_too_long_or_says_too_much_is_none(tmp_path: Path) -> None:
    """Neither time nor output is without bounds."""
    root = repository(tmp_path / "work", {f"{number}.py": "" for number in range(50)})
    assert Git(str(root)).run("ls-files", most_bytes=100) is None
    # Waits for a standard input that it would only be given after the time is up.
    assert Git(str(root)).run("ls-files", timeout_s=0.0) is None


def test_much_can_be_asked_at_once(tmp_path: Path) -> None:
    """More than a pipe holds goes in and comes out."""
    root = repository(tmp_path / "work", {"a.py": "x"})
    said = Git(str(root)).run("cat-file", "--batch-check", "--buffer", stdin=b"HEAD:a.py\n" * 20_000, timeout_s=60)
    assert said is not None
    assert said.count(b"blob 1\n") == 20_000


def test_the_callers_variables_lead_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a hook of another repository the answer is still about the one that is asked."""
    root = repository(tmp_path / "work", {"mine.py": ""})
    other = repository(tmp_path / "other", {"theirs.py": ""})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert Git(str(root)).files() == ["mine.py"]


@pytest.mark.parametrize(
    "setting",
    ["core.fsmonitor", "diff.external", "core.pager", "diff.evil.textconv", "diff.evil.command", "core.hooksPath"],
)
def test_no_program_of_a_repository_is_run(tmp_path: Path, setting: str) -> None:
    """Whatever its configuration and attributes name, nothing of it is started by listing, showing, logging or comparing."""
    root = repository(tmp_path / "work", {"a.py": "1\n", ".gitattributes": "*.py diff=evil\n"})
    write(root, {"a.py": "2\n"})
    git(root, "commit", "-qam", "second")
    write(root, {"a.py": "3\n"})
    mark, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!{sys.executable}\nopen({str(mark)!r}, 'w')\n", "utf-8")
    program.chmod(0o755)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-index-change").symlink_to(program)
    value = str(tmp_path / "hooks") if setting == "core.hooksPath" else str(program)
    git(root, "config", setting, value)
    asked = Git(str(root))
    assert asked.files() == [".gitattributes", "a.py"]
    assert asked.run("show", "HEAD:a.py") == b"2\n"
    assert b"+2" in (asked.run("show", "HEAD") or b"")
    assert b"+2" in (asked.run("log", "-p", "-1") or b"")
    assert b"+3" in (asked.run("diff", "HEAD") or b"")
    assert asked.run("status", "--porcelain") is not None
    assert not mark.exists()


def test_asking_writes_nothing(tmp_path: Path) -> None:
    """A repository is the same, byte for byte, after it was asked; objects that a command makes go elsewhere."""
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
        found = [path for path in (root / ".git").rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

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
