"""A working tree is registered by indexing it, in whole or in part, until it is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write
from tests.services.watch.watching import engine_in

from lorelog.core.errors import NotFound, StoreUnwritable, UsageError
from lorelog.core.options import ScanOptions
from lorelog.services.code.index_run import IndexedTrees, registered_trees

FILES = {"a.py": "def alpha(): pass\n", "src/b.py": "def beta(): pass\n", "web/c.js": "function gamma() {}\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", FILES)


def trees_in(directory: Path) -> IndexedTrees:
    engine = engine_in(directory)
    return IndexedTrees(engine.place, engine.code().tables)


def indexed(trees: IndexedTrees) -> dict[str, tuple[tuple[str, ...], int]]:
    return {tree.path: (tree.parts, tree.files) for tree in trees.all()}


@pytest.mark.slow
def test_a_tree_is_indexed_from_anywhere_inside_it(root: Path) -> None:
    """Without a path the whole current working tree is indexed, also from a subfolder."""
    trees = trees_in(root / "src")
    assert not trees.is_registered()
    assert trees.index(scan=ScanOptions()).root == str(root)
    assert trees.is_registered()
    (tree,) = trees.all()
    assert (tree.path, tree.parts, tree.files, tree.symbols, tree.exists) == (str(root), (), 3, 3, True)
    assert tree.languages == {"python": 2, "javascript": 1}
    assert tree.commit == git(root, "rev-parse", "HEAD").strip()
    assert trees.size() > 0


@pytest.mark.slow
def test_parts_add_up_to_the_whole_tree(root: Path) -> None:
    """A given folder is indexed alone, another is added, and the whole tree includes both."""
    trees = trees_in(root)
    trees.index(str(root / "src"), scan=ScanOptions())
    assert indexed(trees) == {str(root): (("src",), 1)}
    trees.index(str(root / "web"), scan=ScanOptions())
    assert indexed(trees) == {str(root): (("src", "web"), 2)}
    trees.index(scan=ScanOptions())
    assert indexed(trees) == {str(root): ((), 3)}
    write(root, {"src/d.py": "def delta(): pass\n", "e.py": "def epsilon(): pass\n"})
    trees.index(str(root / "src"), scan=ScanOptions())
    assert indexed(trees) == {str(root): ((), 4)}


def test_a_missing_tree_can_be_forgotten(root: Path, tmp_path: Path) -> None:
    """A tree whose folder is missing is listed as such and can be forgotten by its path."""
    trees_in(root).index(scan=ScanOptions())
    root.rename(tmp_path / "elsewhere")
    trees = trees_in(tmp_path)
    (tree,) = trees.all()
    assert not tree.exists
    assert trees.forget(str(root)) == (str(root), 3)


@pytest.mark.slow
def test_the_registry_outlives_the_database(root: Path) -> None:
    """After code.db is deleted the tree is still registered, and the next run indexes it again."""
    trees = trees_in(root)
    trees.index(scan=ScanOptions())
    trees._tables.path.unlink()
    assert [(tree.path, tree.files, tree.indexed_at) for tree in trees.all()] == [(str(root), 0, None)]
    trees.index(scan=ScanOptions())
    assert indexed(trees) == {str(root): ((), 3)}


def test_a_home_directory_is_not_a_project(home: Path) -> None:
    """A home directory without Git and the root directory are rejected; a folder inside is accepted."""
    person = home.parent
    write(person, {"notes/a.py": "def alpha(): pass\n"})
    for directory in (person, Path("/")):
        with pytest.raises(UsageError):
            trees_in(directory).index(scan=ScanOptions())
    report = trees_in(person).index(str(person / "notes"), scan=ScanOptions())
    assert (report.files, report.root) == (1, str((person / "notes").resolve()))


def test_a_missing_path_is_an_error(root: Path) -> None:
    """A path that does not exist raises NotFound and registers nothing."""
    trees = trees_in(root)
    with pytest.raises(NotFound):
        trees.index(str(root / "scr"), scan=ScanOptions())
    assert trees.all() == []


def test_a_run_that_cannot_start_registers_nothing(root: Path, home: Path) -> None:
    """If the database cannot be written, the tree is not registered."""
    folder = home / "data" / "default"
    folder.mkdir(parents=True)
    (home / "cache").write_text("in the way")
    trees = trees_in(root)
    with pytest.raises(StoreUnwritable):
        trees.index(scan=ScanOptions())
    assert registered_trees(folder).all() == ()
