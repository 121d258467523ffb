"""code.db matches the working tree after every run, whatever happens to the files, the run or the database; trees are registered by indexing them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.code.repositories import git, repository, write
from tests.services.watch.watching import engine_in

from lorelog.code.parsing import ParseRequest, ParserPool
from lorelog.code.tables import CodeTables
from lorelog.code.writer import open_writer
from lorelog.core.errors import Cancelled, NotFound, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.options import ScanOptions
from lorelog.services.code.index_run import CodeIndexJob, CodeIndexReport, IndexedTrees, index_code, registered_trees


class IndexedTree:
    def __init__(self, root: Path, database: Path) -> None:
        self.root = root
        self.database = database
        self.tables = CodeTables(database)

    def index(self, **options: object) -> CodeIndexReport:
        return index_code(self.database, CodeIndexJob(str(self.root), str(self.root), **options))  # type: ignore[arg-type]

    def defined(self, name: str) -> list[str]:
        return [definition.path for definition in self.tables.definitions(name, [str(self.root)])]


@pytest.fixture
def bench(tmp_path: Path) -> IndexedTree:
    files = {
        "a.py": "def alpha():\n    return beta()\n",
        "src/b.py": "from a import alpha\n\nclass Beta:\n    def beta(self):\n        alpha()\n",
        "web/c.ts": "export function gamma(x: number): number { return x }\n",
        ".gitignore": "ignored/\n",
        "ignored/no.py": "def ignored(): pass\n",
        "notes.md": "def nothing",
    }
    return IndexedTree(repository(tmp_path / "work", files), tmp_path / "index" / "code.db")


def test_files_are_indexed(bench: IndexedTree) -> None:
    """Symbols, uses and imports of all languages are indexed, ignored files are not, and the report counts them."""
    report = bench.index()
    assert (report.files, report.changed, report.unchanged, report.problems) == (3, 3, 0, ())
    assert report.languages == {"python": 2, "typescript": 1}
    assert report.symbols == 4
    assert bench.defined("alpha") == ["a.py"]
    assert bench.defined("gamma") == ["web/c.ts"]
    assert bench.defined("ignored") == []
    assert [(use.path, use.enclosing and use.enclosing.qualified_name) for use in bench.tables.uses("alpha")][-1] == (
        "src/b.py",
        "Beta.beta",
    )
    assert [importer.path for importer in bench.tables.importers("a")] == ["src/b.py"]
    (root,) = bench.tables.roots()
    assert root.head == git(bench.root, "rev-parse", "HEAD").strip()


@pytest.mark.slow
def test_only_changed_files_are_parsed_again(bench: IndexedTree) -> None:
    """A second run parses nothing; a new stamp with the same bytes is recorded; new bytes are parsed."""
    bench.index()
    again = bench.index()
    assert (again.changed, again.touched, again.unchanged) == (0, 0, 3)
    os.utime(bench.root / "a.py", (1, 1))
    touched = bench.index()
    assert (touched.changed, touched.touched, touched.unchanged) == (0, 1, 2)
    assert bench.index().unchanged == 3
    write(bench.root, {"a.py": "def omega(): pass\n"})
    assert bench.index().changed == 1
    assert (bench.defined("alpha"), bench.defined("omega")) == ([], ["a.py"])
    assert bench.index(force=True).changed == 3


@pytest.mark.slow
def test_deleted_and_ignored_files_are_removed(bench: IndexedTree) -> None:
    """Files that were deleted, moved, ignored or replaced by a link are removed from the index."""
    write(bench.root, {"late.py": "def late(): pass\n", "linked.py": "def linked(): pass\n"})
    bench.index()
    (bench.root / "a.py").unlink()
    (bench.root / "src").rename(bench.root / "moved")
    (bench.root / "linked.py").unlink()
    (bench.root / "linked.py").symlink_to("/etc/hostname")
    write(bench.root, {".gitignore": "ignored/\nlate.py\n"})
    report = bench.index()
    assert report.removed == 4
    assert bench.defined("alpha") == bench.defined("late") == bench.defined("linked") == []
    assert bench.defined("Beta") == ["moved/b.py"]


def test_our_own_ignore_rules_apply_to_code(bench: IndexedTree) -> None:
    """`.lorelogignore` and index.exclude also leave out files that Git tracks."""
    write(bench.root, {"src/.lorelogignore": "b.py\n"})
    report = bench.index(scan=ScanOptions(exclude=("web/",)))
    assert report.files == 1
    assert bench.defined("Beta") == bench.defined("gamma") == []
    write(bench.root, {"src/b.py": "def changed(): pass\n", "src/c.py": "def other(): pass\n"})
    bench.index(only=("src/b.py", "src/c.py"))
    assert (bench.defined("changed"), bench.defined("other")) == ([], ["src/c.py"])


def test_links_do_not_lead_out_of_the_tree(bench: IndexedTree, tmp_path: Path) -> None:
    """Neither a linked file nor a linked folder adds files from outside."""
    write(tmp_path, {"outside/secret.py": "def secret(): pass\n"})
    (bench.root / "link.py").symlink_to(tmp_path / "outside" / "secret.py")
    (bench.root / "folder").symlink_to(tmp_path / "outside")
    git(bench.root, "add", "-A")
    bench.index()
    (bench.root / "src" / "b.py").unlink()
    (bench.root / "src").rmdir()
    (bench.root / "src").symlink_to(tmp_path / "outside")
    write(tmp_path, {"outside/b.py": "def secret(): pass\n"})
    report = bench.index()
    assert bench.defined("secret") == bench.defined("Beta") == []
    assert report.problems == ()


def test_without_git_the_tree_is_walked(tmp_path: Path) -> None:
    """Ignore files apply; hidden folders, dependencies, virtual environments and nested repositories are skipped."""
    root = (tmp_path / "plain").resolve()
    write(
        root,
        {
            "a.py": "def alpha(): pass\n",
            "deep/b.py": "def beta(): pass\n",
            ".gitignore": "no.py\n",
            "no.py": "def no(): pass\n",
            "node_modules/x/i.js": "function no() {}\n",
            "env/pyvenv.cfg": "",
            "env/lib/m.py": "def no(): pass\n",
            ".hidden/h.py": "def no(): pass\n",
        },
    )
    repository(root / "apart", {"r.py": "def no(): pass\n"})
    (root / "loop").symlink_to(root)
    bench = IndexedTree(root, tmp_path / "index" / "code.db")
    report = bench.index()
    assert (report.files, bench.defined("no")) == (2, [])
    assert bench.defined("beta") == ["deep/b.py"]
    assert any("repository" in note for note in report.notes)
    assert bench.tables.roots()[0].head == ""


@pytest.mark.slow
def test_bad_files_are_counted_and_do_not_stop_a_run(bench: IndexedTree) -> None:
    """Binary, minified and huge files are left out, broken files parsed in part, and encodings detected."""
    write(bench.root, {"min.js": "x=1;" * 60_000, "huge.py": "x = 1\n" * 2_000_000})
    (bench.root / "binary.py").write_bytes(b"\0\1\2\xff" * 5000)
    (bench.root / "latin.py").write_bytes("def größe(): pass\n".encode("latin-1"))
    (bench.root / "utf16.py").write_bytes("def wide(): pass\n".encode("utf-16"))
    write(bench.root, {"broken.py": "def good(): pass\n\nclass (((\n\ndef after(): pass\n", "deep.py": "(\n" * 50_000})
    report = bench.index()
    assert report.problems == ()
    assert report.left_out == {"minified": 1, "too large": 1, "binary": 1}
    assert report.broken >= 1
    assert bench.defined("good") == ["broken.py"]
    assert bench.defined("größe") == ["latin.py"]
    assert bench.defined("wide") == ["utf16.py"]
    assert {file.path for file in bench.tables.problems(str(bench.root))} == {"min.js", "huge.py", "binary.py"}
    again = bench.index()
    assert (again.changed, again.touched) == (0, 0)


def test_unreadable_files_are_reported_and_kept(bench: IndexedTree) -> None:
    """An unreadable file or folder is reported by each run, and its symbols stay until it can be read again."""
    bench.index()
    (bench.root / "a.py").chmod(0)
    (bench.root / "src").chmod(0)
    if os.access(bench.root / "a.py", os.R_OK):
        pytest.skip("this user can read every file")
    try:
        write(bench.root, {"new.py": "def new(): pass\n"})
        os.utime(bench.root / "a.py", (5, 5))
        report = bench.index()
        assert {Path(problem.path).name for problem in report.problems} >= {"a.py"}
        assert bench.defined("Beta") == ["src/b.py"]
        assert bench.defined("new") == ["new.py"]
        assert bench.index().problems
    finally:
        (bench.root / "src").chmod(0o755)
        (bench.root / "a.py").chmod(0o644)
    assert bench.index().problems == ()
    assert bench.defined("alpha") == ["a.py"]


@pytest.mark.slow
def test_file_names_may_have_any_characters(bench: IndexedTree) -> None:
    """File names may have spaces, quotes, line breaks and any script; a name that is not UTF-8 is reported."""
    names = ["a b.py", 'quo"te.py', "line\nbreak.py", "日本.py", "%41.py", "-x.py"]
    write(bench.root, dict.fromkeys(names, "def odd(): pass\n"))
    with open(os.fsencode(str(bench.root)) + b"/\xff.py", "w") as file:  # noqa: PTH123  (Path cannot represent it)
        file.write("def odd(): pass\n")
    report = bench.index()
    assert bench.defined("odd") == sorted(names)
    assert len(report.problems) == 1


def test_a_part_of_a_tree_can_be_indexed(bench: IndexedTree) -> None:
    """Only the given folders are indexed; folders that are no longer given are removed."""
    bench.index(parts=("src",))
    assert (bench.defined("Beta"), bench.defined("alpha")) == (["src/b.py"], [])
    root = bench.tables.roots()[0]
    assert root.parts == ("src",)
    bench.index(parts=("src", "a.py"))
    assert bench.defined("alpha") == ["a.py"]
    bench.index(parts=("a.py",))
    assert bench.defined("Beta") == []


@pytest.mark.slow
def test_given_files_are_updated_alone(bench: IndexedTree) -> None:
    """New, changed, deleted and ignored files and whole folders are updated without checking the rest."""
    bench.index()
    write(
        bench.root, {"a.py": "def alpha2(): pass\n", "new.py": "def new(): pass\n", "src/b.py": "def unseen(): pass\n"}
    )
    write(bench.root, {"ignored/also.py": "def ignored(): pass\n"})
    (bench.root / "web/c.ts").unlink()
    report = bench.index(only=("a.py", "new.py", "web/c.ts", "ignored/also.py", "never.py"))
    assert (report.changed, report.removed) == (2, 1)
    assert bench.defined("alpha2") == ["a.py"]
    assert bench.defined("new") == ["new.py"]
    assert bench.defined("gamma") == bench.defined("ignored") == bench.defined("unseen") == []
    assert bench.defined("Beta") == ["src/b.py"]
    bench.index(only=("src",))
    assert bench.defined("unseen") == ["src/b.py"]


@pytest.mark.slow
def test_progress_may_stop_a_run_and_the_next_completes_it(bench: IndexedTree) -> None:
    """Work before the stop is kept, the root is not marked complete, and the next run does the rest."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): pass\n" for number in range(300)})
    calls: list[tuple[str, int, int]] = []

    def stop(stage: str, done: int, total: int) -> None:
        calls.append((stage, done, total))
        if done >= 200:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        index_code(bench.database, CodeIndexJob(str(bench.root), str(bench.root)), stop)
    assert calls[0] == ("code", 0, 304)
    (root,) = bench.tables.roots()
    assert 100 <= root.files < 304
    assert root.indexed_at == ""
    assert bench.index().files == 303
    assert bench.tables.roots()[0].indexed_at


_RUN = """
import sys
from pathlib import Path
from lorelog.services.code.index_run import CodeIndexJob, index_code
root, database = sys.argv[1:]
def progress(stage, done, total):
    print(stage, done, flush=True)
print(index_code(Path(database), CodeIndexJob(root, root), progress).changed)
"""


def _start_run(bench: IndexedTree) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _RUN, str(bench.root), str(bench.database)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_run_leaves_a_valid_database(bench: IndexedTree) -> None:
    """After SIGKILL the database can be read and is intact, and the next run completes it."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): return alpha()\n" for number in range(1500)})
    for kill_at in (50, 400):
        run = _start_run(bench)
        assert run.stdout is not None
        for line in run.stdout:
            if int(line.split()[-1]) >= kill_at:
                break
        run.send_signal(signal.SIGKILL)
        run.stdout.close()
        run.wait()
        assert isinstance(bench.tables.definitions("many1"), list)
        with sqlite3.connect(bench.database) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
    bench.index()
    assert len(bench.tables.uses("alpha")) >= 1500
    assert all(bench.defined(f"many{number}") for number in (0, 777, 1499))


@pytest.mark.slow
def test_concurrent_runs_take_turns(bench: IndexedTree) -> None:
    """A second run waits for the first and notes it; a run that must not wait raises StoreBusy."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): pass\n" for number in range(100)})
    with open_writer(bench.database, wait_s=0):
        run = threading.Thread(target=lambda: reports.append(bench.index()))
        reports: list[CodeIndexReport] = []
        run.start()
        with pytest.raises(StoreBusy):
            bench.index(waits=False)
        time.sleep(0.2)
        assert not reports
    run.join()
    assert any("waited" in note for note in reports[0].notes)
    runs = [_start_run(bench), _start_run(bench)]
    assert [process.wait() for process in runs if process.communicate()] == [0, 0]
    assert bench.defined("many99") == ["many/m99.py"]


@pytest.mark.slow
def test_a_damaged_database_is_rebuilt_in_the_same_run(bench: IndexedTree) -> None:
    """The next run rebuilds a damaged database, and its notes say so."""
    bench.index()
    bench.tables.close()
    bench.database.write_bytes(os.urandom(50_000))
    report = bench.index()
    assert report.changed == 3
    assert any("rebuilt" in note for note in report.notes)
    assert bench.defined("alpha") == ["a.py"]
    # Damaged in the middle, which opening does not check.
    write(bench.root, {f"m{number}.py": f"def many{number}(): return alpha()\n" for number in range(400)})
    bench.index()
    with bench.database.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(bench.database.stat().st_size - 4096 * 5))
    report = bench.index(force=True)
    assert any("rebuilt" in note for note in report.notes)
    assert bench.defined("many7") == ["m7.py"]


def test_a_parser_that_hangs_costs_one_file(bench: IndexedTree) -> None:
    """A file that cannot be parsed in time gets a problem; the other files are parsed."""
    for name in ("x.py", "y.py", "z.py"):
        write(bench.root, {name: "def fine(): pass\n"})
    os.mkfifo(bench.root / "pipe.py")  # would block a reader forever
    with ParserPool(str(bench.root), processes=1, file_timeout_s=20) as pool:
        parsed = {
            file.path: file
            for file in pool.parse(
                [ParseRequest("x.py"), ParseRequest("pipe.py"), ParseRequest("gone.py"), ParseRequest("z.py")]
            )
        }
    assert parsed["pipe.py"].problem == "not a regular file"
    assert parsed["gone.py"].missing
    assert [len(parsed[name].symbols) for name in ("x.py", "z.py")] == [1, 1]
    # It takes seconds; the timeout is checked every 0.2 s.
    write(bench.root, {"slow.py": "def slow(a, b): return [a, b, (a, b)]\n" * 90_000})
    with ParserPool(str(bench.root), processes=1, file_timeout_s=0.0) as pool:
        (late,) = pool.parse([ParseRequest("slow.py")])
    assert "took longer" in late.problem


def test_a_killed_parser_process_is_replaced(bench: IndexedTree) -> None:
    """A parser process may be killed at any time; another one parses the rest."""
    write(bench.root, {f"m{number}.py": "def many(): pass\n" for number in range(100)})
    requests = [ParseRequest(f"m{number}.py") for number in range(100)]
    with ParserPool(str(bench.root), processes=1) as pool:
        results = pool.parse(requests)
        parsed = [next(results)]
        pool.workers()[0].kill()
        parsed += results
    assert {file.path for file in parsed} == {request.path for request in requests}
    assert sum(len(file.symbols) for file in parsed) >= 99


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
