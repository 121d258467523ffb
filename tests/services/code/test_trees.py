"""A person chooses whose code is indexed: by indexing it once, whole or in part, and by forgetting it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write
from tests.services.watching import engine_in

from lorelog.core.errors import NotFound, StoreUnwritable, UsageError
from lorelog.core.options import ScanOptions
from lorelog.services.code.registry import Registry
from lorelog.services.code.trees import Trees

FILES = {"a.py": "def alpha(): pass\n", "src/b.py": "def beta(): pass\n", "web/c.js": "function gamma() {}\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", FILES)


def trees_in(directory: Path) -> Trees:
    engine = engine_in(directory)
    return Trees(engine.place, engine.code().tables)


def known(trees: Trees) -> dict[str, tuple[tuple[str, ...], int]]:
    return {tree.path: (tree.parts, tree.files) for tree in trees.all()}


def test_a_tree_is_indexed_from_anywhere_inside_it(root: Path) -> None:
    """Without a path it is the whole tree one stands in, from its deepest folder too."""
    trees = trees_in(root / "src")
    assert not trees.is_registered()
    assert trees.index(scan=ScanOptions()).root == str(root)
    assert trees.is_registered()
    (tree,) = trees.all()
    assert (tree.path, tree.parts, tree.files, tree.symbols, tree.exists) == (str(root), (), 3, 3, True)
    assert tree.languages == {"python": 2, "javascript": 1}
    assert tree.head == git(root, "rev-parse", "HEAD").strip()
    assert trees.size() > 0


def test_parts_add_up_and_the_whole_tree_takes_them_in(root: Path) -> None:
    """A folder that is named is indexed alone; another is added; the whole tree includes both."""
    trees = trees_in(root)
    trees.index(str(root / "src"), scan=ScanOptions())
    assert known(trees) == {str(root): (("src",), 1)}
    trees.index(str(root / "web"), scan=ScanOptions())
    assert known(trees) == {str(root): (("src", "web"), 2)}
    trees.index(scan=ScanOptions())
    assert known(trees) == {str(root): ((), 3)}
    write(root, {"src/d.py": "def delta(): pass\n", "e.py": "def epsilon(): pass\n"})
    trees.index(str(root / "src"), scan=ScanOptions())
    assert known(trees) == {str(root): ((), 4)}


def test_what_is_forgotten_is_gone_and_no_longer_registered(root: Path, home: Path) -> None:
    """Forgetting takes out what is known and what was promised; what was never indexed cannot be forgotten."""
    trees = trees_in(root)
    trees.index(scan=ScanOptions())
    assert trees.forget(str(root / "src")) == (str(root), 3)
    assert trees.all() == []
    assert Registry(home / "tenants" / "default").all() == {}
    with pytest.raises(NotFound):
        trees.forget()


def test_a_tree_that_is_gone_from_disk_is_told_and_can_be_forgotten(root: Path, tmp_path: Path) -> None:
    """Its folder is missing, its name still leads to it."""
    trees_in(root).index(scan=ScanOptions())
    root.rename(tmp_path / "elsewhere")
    trees = trees_in(tmp_path)
    (tree,) = trees.all()
    assert not tree.exists
    assert trees.forget(str(root)) == (str(root), 3)


def test_the_list_outlives_the_database(root: Path) -> None:
    """A code.db that was deleted is made again by the same command, and the tree is still among those that are kept."""
    trees = trees_in(root)
    trees.index(scan=ScanOptions())
    trees._tables.path.unlink()
    assert [(tree.path, tree.files, tree.indexed_at) for tree in trees.all()] == [(str(root), 0, "")]
    trees.index(scan=ScanOptions())
    assert known(trees) == {str(root): ((), 3)}


def test_everything_below_a_home_is_not_a_project(home: Path) -> None:
    """A home directory without Git, and the root of all, are refused; a folder in it that is named is not."""
    person = home.parent
    write(person, {"notes/a.py": "def alpha(): pass\n"})
    for place in (person, Path("/")):
        with pytest.raises(UsageError):
            trees_in(place).index(scan=ScanOptions())
    report = trees_in(person).index(str(person / "notes"), scan=ScanOptions())
    assert (report.files, report.root) == (1, str((person / "notes").resolve()))


def test_a_path_that_is_not_there_is_told(root: Path) -> None:
    """A typing error registers nothing."""
    trees = trees_in(root)
    with pytest.raises(NotFound):
        trees.index(str(root / "scr"), scan=ScanOptions())
    assert trees.all() == []


def test_a_run_that_could_not_begin_registers_nothing(root: Path, home: Path) -> None:
    """Where nothing can be written, nothing is promised either."""
    folder = home / "tenants" / "default"
    folder.mkdir(parents=True)
    (folder / "index").write_text("in the way")
    trees = trees_in(root)
    with pytest.raises(StoreUnwritable):
        trees.index(scan=ScanOptions())
    assert Registry(folder).all() == {}
