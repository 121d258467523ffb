"""The watcher keeps registered working trees up to date, and never parses any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write
from tests.services.watch.watching import PATIENCE_S, QUICK, engine_in, eventually

from lorelog.code.tables import CodeTables
from lorelog.code.writer import open_writer
from lorelog.core.options import ScanOptions
from lorelog.services.code.index_run import CodeIndexReport, IndexedTrees
from lorelog.services.code.watcher import CodeWatcher
from lorelog.services.places.workspace import CODE_DATABASE


class WatchedHome:
    def __init__(self, home: Path, may_continue: Callable[[], bool] = lambda: True) -> None:
        self.runs: list[CodeIndexReport | Exception] = []
        self.watcher = CodeWatcher(
            home, lambda tenant, root: ScanOptions(), QUICK, may_continue=may_continue, on_run=self.runs.append
        )
        self.tables = CodeTables(home / "cache" / "default" / CODE_DATABASE)

    def knows(self, name: str, times: int = 1) -> bool:
        return len(self.tables.definitions(name)) == times


@contextmanager
def watching(home: Path, may_continue: Callable[[], bool] = lambda: True) -> Iterator[WatchedHome]:
    watched = WatchedHome(home, may_continue)
    watched.watcher.start()
    try:
        yield watched
    finally:
        assert watched.watcher.stop(PATIENCE_S)
        assert [run for run in watched.runs if isinstance(run, Exception)] == []


def register(root: Path) -> None:
    with engine_in(root) as engine:
        IndexedTrees(engine.place, engine.code().tables).index(scan=ScanOptions())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", {"a.py": "def alpha(): pass\n", ".gitignore": "no/\n"})


@pytest.mark.slow
def test_changes_are_followed(home: Path, root: Path) -> None:
    """Saved, new, renamed, deleted and ignored files and folders are updated automatically."""
    register(root)
    with watching(home) as watched:
        eventually(lambda: bool(watched.runs), "compared once")
        write(root, {"a.py": "def changed(): pass\n"})
        eventually(lambda: watched.knows("changed") and watched.knows("alpha", 0), "a saved file")
        write(root, {"new/deep/b.py": "def new(): pass\n", "no/c.py": "def no(): pass\n"})
        eventually(lambda: watched.knows("new"), "a new folder")
        (root / "new").rename(root / "moved")
        eventually(
            lambda: [definition.path for definition in watched.tables.definitions("new")] == ["moved/deep/b.py"],
            "a moved folder",
        )
        (root / "a.py").unlink()
        eventually(lambda: watched.knows("changed", 0), "a deleted file")
        write(root, {".gitignore": "no/\nmoved/\n"})
        eventually(lambda: watched.knows("new", 0), "an ignored folder")
        assert watched.knows("no", 0)


@pytest.mark.slow
def test_changes_before_the_start_are_found(home: Path, root: Path) -> None:
    """Files that changed while no daemon was running are indexed when it starts."""
    register(root)
    write(root, {"late.py": "def late(): pass\n"})
    with watching(home) as watched:
        eventually(lambda: watched.knows("late"), "compared at the start")


@pytest.mark.slow
def test_registered_and_forgotten_trees_are_noticed(home: Path, root: Path, tmp_path: Path) -> None:
    """A tree is parsed only while it is registered."""
    with engine_in(root) as engine:
        engine.place.create()
    with watching(home) as watched:
        other = repository(tmp_path / "other", {"o.py": "def other(): pass\n"})
        write(root, {"b.py": "def unasked(): pass\n"})
        register(other)
        write(other, {"p.py": "def later(): pass\n"})
        eventually(lambda: watched.knows("later"), "registered while it runs")
        assert watched.knows("unasked", 0)
        with engine_in(other) as engine:
            IndexedTrees(engine.place, engine.code().tables).forget()
        eventually(lambda: watched.watcher.state()["roots"] == [], "forgotten")
        write(other, {"q.py": "def too_late(): pass\n"})
        assert watched.knows("later", 0)


@pytest.mark.slow
def test_submodules_and_branch_switches_are_followed(home: Path, root: Path, tmp_path: Path) -> None:
    """A change inside a submodule, and many changes at once, are indexed."""
    inner = repository(tmp_path / "inner", {"lib.py": "def library(): pass\n"})
    git(root, "submodule", "--quiet", "add", str(inner), "sub")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "sub")
    git(root, "checkout", "-qb", "many")
    write(root, {f"m{number}.py": "def many(): pass\n" for number in range(250)})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "many")
    git(root, "checkout", "-q", "main")
    register(root)
    with watching(home) as watched:
        eventually(lambda: bool(watched.runs), "compared once")
        write(root / "sub", {"lib.py": "def renamed(): pass\n"})
        eventually(lambda: watched.knows("renamed"), "a submodule")
        git(root, "checkout", "-q", "many")
        eventually(lambda: watched.knows("many", 250), "another branch")


@pytest.mark.slow
def test_an_update_is_retried_after_another_run(home: Path, root: Path) -> None:
    """While another run holds the lock the watcher postpones its update, and does it afterwards."""
    register(root)
    with watching(home) as watched:
        eventually(lambda: bool(watched.runs), "compared once")
        with open_writer(watched.tables.path, wait_s=5):
            write(root, {"b.py": "def beta(): pass\n"})
            runs = len(watched.runs)
            eventually(lambda: any(tree.not_before for tree in watched.watcher._trees.values()), "postponed")
            assert len(watched.runs) == runs
        eventually(lambda: watched.knows("beta"), "after it")


@pytest.mark.slow
def test_a_tree_that_comes_back_is_followed_again(home: Path, root: Path) -> None:
    """The index of a missing tree is kept, and updated when the tree is back."""
    register(root)
    with watching(home) as watched:
        eventually(lambda: bool(watched.runs), "compared once")
        away = root.with_name("away")
        root.rename(away)
        write(away, {"b.py": "def beta(): pass\n"})
        eventually(lambda: all(not tree.identity for tree in watched.watcher._trees.values()), "noticed")
        assert watched.knows("alpha")
        away.rename(root)
        eventually(lambda: watched.knows("beta"), "back again")
