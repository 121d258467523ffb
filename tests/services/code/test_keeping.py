"""Code that a person had indexed stays up to date while the daemon is there, and nothing else is ever parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write
from tests.services.watching import PATIENCE_S, QUICK, engine_in, eventually

from lorelog.code.tables import CodeTables
from lorelog.code.tables_writing import writing
from lorelog.core.options import ScanOptions
from lorelog.services.code.indexing import CodeReport
from lorelog.services.code.keeping import Keeper
from lorelog.services.code.trees import Trees, database


class Kept:
    """A keeper over the home, and what it did."""

    def __init__(self, home: Path, go_on: Callable[[], bool] = lambda: True) -> None:
        self.done: list[CodeReport | Exception] = []
        self.keeper = Keeper(home, lambda tenant, root: ScanOptions(), QUICK, go_on, self.done.append)
        self.tables = CodeTables(database(home / "tenants" / "default"))

    def knows(self, name: str, times: int = 1) -> bool:
        return len(self.tables.definitions(name)) == times


@contextmanager
def keeping(home: Path, go_on: Callable[[], bool] = lambda: True) -> Iterator[Kept]:
    kept = Kept(home, go_on)
    kept.keeper.start()
    try:
        yield kept
    finally:
        assert kept.keeper.stop(PATIENCE_S)
        assert [one for one in kept.done if isinstance(one, Exception)] == []


def register(root: Path) -> None:
    with engine_in(root) as engine:
        Trees(engine.place, engine.code().tables).index(scan=ScanOptions())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", {"a.py": "def alpha(): pass\n", ".gitignore": "no/\n"})


def test_what_changes_is_followed(home: Path, root: Path) -> None:
    """Saved, new, renamed, deleted and ignored files, whole folders too, without anybody asking."""
    register(root)
    with keeping(home) as kept:
        eventually(lambda: bool(kept.done), "compared once")
        write(root, {"a.py": "def changed(): pass\n"})
        eventually(lambda: kept.knows("changed") and kept.knows("alpha", 0), "a saved file")
        write(root, {"new/deep/b.py": "def new(): pass\n", "no/c.py": "def no(): pass\n"})
        eventually(lambda: kept.knows("new"), "a new folder")
        (root / "new").rename(root / "moved")
        eventually(
            lambda: [one.path for one in kept.tables.definitions("new")] == ["moved/deep/b.py"], "a moved folder"
        )
        (root / "a.py").unlink()
        eventually(lambda: kept.knows("changed", 0), "a deleted file")
        write(root, {".gitignore": "no/\nmoved/\n"})
        eventually(lambda: kept.knows("new", 0), "an ignored folder")
        assert kept.knows("no", 0)


def test_what_happened_meanwhile_is_made_up_for(home: Path, root: Path) -> None:
    """What changed while no daemon was there is found when one begins."""
    register(root)
    write(root, {"late.py": "def late(): pass\n"})
    with keeping(home) as kept:
        eventually(lambda: kept.knows("late"), "compared at the start")


def test_a_tree_that_is_registered_or_forgotten_later_is_noticed(home: Path, root: Path, tmp_path: Path) -> None:
    """Nothing is parsed before a person says so, and nothing after they take it back."""
    with engine_in(root) as engine:
        engine.place.found()
    with keeping(home) as kept:
        other = repository(tmp_path / "other", {"o.py": "def other(): pass\n"})
        write(root, {"b.py": "def unasked(): pass\n"})
        register(other)
        write(other, {"p.py": "def later(): pass\n"})
        eventually(lambda: kept.knows("later"), "registered while it runs")
        assert kept.knows("unasked", 0)
        with engine_in(other) as engine:
            Trees(engine.place, engine.code().tables).forget()
        eventually(lambda: kept.keeper.state()["roots"] == [], "forgotten")
        write(other, {"q.py": "def too_late(): pass\n"})
        assert kept.knows("later", 0)


def test_a_submodule_is_followed_and_a_branch_switch_too(home: Path, root: Path, tmp_path: Path) -> None:
    """A change inside a submodule, and many files at once."""
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
    with keeping(home) as kept:
        eventually(lambda: bool(kept.done), "compared once")
        write(root / "sub", {"lib.py": "def renamed(): pass\n"})
        eventually(lambda: kept.knows("renamed"), "a submodule")
        git(root, "checkout", "-q", "many")
        eventually(lambda: kept.knows("many", 250), "another branch")


def test_another_run_is_not_waited_for_but_made_up_for(home: Path, root: Path) -> None:
    """While a person's own run lasts the keeper steps back; what changed meanwhile is followed after it."""
    register(root)
    with keeping(home) as kept:
        eventually(lambda: bool(kept.done), "compared once")
        with writing(kept.tables.path, wait_s=5):
            write(root, {"b.py": "def beta(): pass\n"})
            runs = len(kept.done)
            eventually(lambda: any(tree.not_before for tree in kept.keeper._trees.values()), "stepped back")
            assert len(kept.done) == runs
        eventually(lambda: kept.knows("beta"), "after it")


def test_a_tree_that_vanishes_and_comes_back_is_taken_up_again(home: Path, root: Path) -> None:
    """What was known of it stays while it is away; what is new is found when it is back."""
    register(root)
    with keeping(home) as kept:
        eventually(lambda: bool(kept.done), "compared once")
        away = root.with_name("away")
        root.rename(away)
        write(away, {"b.py": "def beta(): pass\n"})
        eventually(lambda: all(tree.identity is None for tree in kept.keeper._trees.values()), "noticed")
        assert kept.knows("alpha")
        away.rename(root)
        eventually(lambda: kept.knows("beta"), "back again")
