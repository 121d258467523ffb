"""code.db follows a working tree, whatever becomes of its files, of the run, and of the database itself."""

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

from lorelog.code.crew import Crew
from lorelog.code.parsed import Asked
from lorelog.code.tables import CodeTables
from lorelog.code.tables_writing import writing
from lorelog.core.errors import Cancelled, StoreBusy
from lorelog.core.options import ScanOptions
from lorelog.services.code.indexing import CodeJob, CodeReport, index_code


class Bench:
    """A working tree and its tables."""

    def __init__(self, root: Path, database: Path) -> None:
        self.root = root
        self.database = database
        self.tables = CodeTables(database)

    def index(self, **more: object) -> CodeReport:
        return index_code(self.database, CodeJob(str(self.root), str(self.root), **more))  # type: ignore[arg-type]

    def defined(self, name: str) -> list[str]:
        return [one.path for one in self.tables.definitions(name, [str(self.root)])]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    files = {
        "a.py": "def alpha():\n    return beta()\n",
        "src/b.py": "from a import alpha\n\nclass Beta:\n    def beta(self):\n        alpha()\n",
        "web/c.ts": "export function gamma(x: number): number { return x }\n",
        ".gitignore": "ignored/\n",
        "ignored/no.py": "def ignored(): pass\n",
        "notes.md": "def nothing",
    }
    return Bench(repository(tmp_path / "work", files), tmp_path / "index" / "code.db")


def test_what_is_in_the_files_is_known(bench: Bench) -> None:
    """Symbols, uses and imports of every language are there, ignored files are not, and the run says what it did."""
    report = bench.index()
    assert (report.files, report.changed, report.unchanged, report.problems) == (3, 3, 0, ())
    assert report.languages == {"python": 2, "typescript": 1}
    assert report.symbols == 4
    assert bench.defined("alpha") == ["a.py"]
    assert bench.defined("gamma") == ["web/c.ts"]
    assert bench.defined("ignored") == []
    assert [(one.path, one.enclosing and one.enclosing.qualified) for one in bench.tables.uses("alpha")][-1] == (
        "src/b.py",
        "Beta.beta",
    )
    assert [one.path for one in bench.tables.importers("a")] == ["src/b.py"]
    (root,) = bench.tables.roots()
    assert root.head == git(bench.root, "rev-parse", "HEAD").strip()


def test_only_what_changed_is_parsed_again(bench: Bench) -> None:
    """A second run parses nothing; a new stamp with the old bytes is only noted; new bytes are parsed."""
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


def test_files_that_left_or_are_ignored_now_leave(bench: Bench) -> None:
    """Deleted, moved, newly ignored, or turned into a link: what they said is known no longer."""
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


def test_our_own_ignore_files_and_patterns_hold_for_code(bench: Bench) -> None:
    """`.lorelogignore` and index.exclude leave code out, also what Git has."""
    write(bench.root, {"src/.lorelogignore": "b.py\n"})
    report = bench.index(scan=ScanOptions(exclude=("web/",)))
    assert report.files == 1
    assert bench.defined("Beta") == bench.defined("gamma") == []
    write(bench.root, {"src/b.py": "def changed(): pass\n", "src/c.py": "def other(): pass\n"})
    bench.index(only=("src/b.py", "src/c.py"))
    assert (bench.defined("changed"), bench.defined("other")) == ([], ["src/c.py"])


def test_links_do_not_lead_out_of_the_tree(bench: Bench, tmp_path: Path) -> None:
    """Neither a linked file nor a linked folder brings in what lies elsewhere."""
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


def test_without_git_ignore_files_count_and_foreign_folders_do_not(tmp_path: Path) -> None:
    """A plain folder is walked: hidden folders, dependencies, environments and repositories of their own are left alone."""
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
    bench = Bench(root, tmp_path / "index" / "code.db")
    report = bench.index()
    assert (report.files, bench.defined("no")) == (2, [])
    assert bench.defined("beta") == ["deep/b.py"]
    assert any("repository" in note for note in report.notes)
    assert bench.tables.roots()[0].head == ""


def test_submodules_detached_heads_shallow_clones_and_worktrees(tmp_path: Path) -> None:
    """A submodule belongs to its tree; a shallow clone with a detached head is indexed like any; linked worktrees stand apart."""
    inner = repository(tmp_path / "inner", {"lib.py": "def library(): pass\n"})
    origin = repository(tmp_path / "origin", {"a.py": "def alpha(): pass\n"})
    write(origin, {"a.py": "def alpha(x): pass\n"})
    git(origin, "commit", "-qam", "second")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "clone")
    root = (tmp_path / "clone").resolve()
    git(root, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    git(root, "checkout", "-q", "--detach")
    git(root, "worktree", "add", "-q", "--detach", str(root / "linked"))
    bench = Bench(root, tmp_path / "index" / "code.db")
    linked = Bench(root / "linked", tmp_path / "index" / "code.db")
    write(linked.root, {"a.py": "def alpha(x, y): pass\n"})
    bench.index()
    linked.index()
    assert bench.defined("library") == ["vendor/inner/lib.py"]
    assert [one.symbol.signature for one in bench.tables.definitions("alpha", [str(root)])] == ["def alpha(x)"]
    assert [one.symbol.signature for one in bench.tables.definitions("alpha", [str(linked.root)])] == [
        "def alpha(x, y)"
    ]


def test_bad_files_are_told_apart_and_stop_nothing(bench: Bench) -> None:
    """Binary, minified and huge files are left out by name; broken ones give what could be parsed; encodings are read."""
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


def test_an_unreadable_file_is_a_problem_each_time_and_a_closed_folder_loses_nothing(bench: Bench) -> None:
    """Both are named; what was known of them is kept, until they can be read again."""
    bench.index()
    (bench.root / "a.py").chmod(0)
    (bench.root / "src").chmod(0)
    if os.access(bench.root / "a.py", os.R_OK):
        pytest.skip("whoever runs this may read everything")
    try:
        write(bench.root, {"new.py": "def new(): pass\n"})
        os.utime(bench.root / "a.py", (5, 5))
        report = bench.index()
        assert {Path(one.path).name for one in report.problems} >= {"a.py"}
        assert bench.defined("Beta") == ["src/b.py"]
        assert bench.defined("new") == ["new.py"]
        assert bench.index().problems
    finally:
        (bench.root / "src").chmod(0o755)
        (bench.root / "a.py").chmod(0o644)
    assert bench.index().problems == ()
    assert bench.defined("alpha") == ["a.py"]


def test_names_of_any_kind(bench: Bench) -> None:
    """A file's name may hold spaces, quotes, line breaks and other alphabets; one that is no text is named as a problem."""
    names = ["a b.py", 'quo"te.py', "line\nbreak.py", "日本.py", "%41.py", "-x.py"]
    write(bench.root, dict.fromkeys(names, "def odd(): pass\n"))
    with open(os.fsencode(str(bench.root)) + b"/\xff.py", "w") as file:  # noqa: PTH123  (no path can be made of it)
        file.write("def odd(): pass\n")
    report = bench.index()
    assert bench.defined("odd") == sorted(names)
    assert len(report.problems) == 1


def test_a_part_of_a_tree_can_be_indexed_alone(bench: Bench) -> None:
    """Only the folder that is named is known; with more parts, those too; changes elsewhere do not matter."""
    bench.index(parts=("src",))
    assert (bench.defined("Beta"), bench.defined("alpha")) == (["src/b.py"], [])
    root = bench.tables.roots()[0]
    assert root.parts == ("src",)
    assert (root.covers("src/b.py"), root.covers("srcs/b.py"), root.covers("a.py")) == (True, False, False)
    bench.index(parts=("src", "a.py"))
    assert bench.defined("alpha") == ["a.py"]
    bench.index(parts=("a.py",))
    assert bench.defined("Beta") == []


def test_some_files_alone_are_looked_at_when_they_are_named(bench: Bench) -> None:
    """What changed is followed without a look at the rest: new, changed, deleted, ignored, and whole folders."""
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


def test_progress_is_told_and_may_stop_a_run_that_goes_on_later(bench: Bench) -> None:
    """What was done before it was stopped is kept; the next run does the rest; the root is not called complete before."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): pass\n" for number in range(300)})
    told: list[tuple[str, int, int]] = []

    def stop(stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))
        if done >= 200:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        index_code(bench.database, CodeJob(str(bench.root), str(bench.root)), stop)
    assert told[0] == ("code", 0, 304)
    (root,) = bench.tables.roots()
    assert 100 <= root.files < 304
    assert root.indexed_at == ""
    assert bench.index().files == 303
    assert bench.tables.roots()[0].indexed_at


_RUN = """
import sys
from pathlib import Path
from lorelog.services.code.indexing import CodeJob, index_code
root, database = sys.argv[1:]
def tell(stage, done, total):
    print(stage, done, flush=True)
print(index_code(Path(database), CodeJob(root, root), tell).changed)
"""


def _begin(bench: Bench) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _RUN, str(bench.root), str(bench.database)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_run_that_is_killed_leaves_a_sound_database_and_the_next_completes_it(bench: Bench) -> None:
    """Killed in the middle: readers read, the database is whole, and the next run ends with everything."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): return alpha()\n" for number in range(1500)})
    for kill_at in (50, 400):
        run = _begin(bench)
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


def test_two_runs_at_once_take_turns(bench: Bench) -> None:
    """The second waits for the first, says so, and both end well; one that will not wait is told."""
    write(bench.root, {f"many/m{number}.py": f"def many{number}(): pass\n" for number in range(100)})
    with writing(bench.database, wait_s=0):
        run = threading.Thread(target=lambda: reports.append(bench.index()))
        reports: list[CodeReport] = []
        run.start()
        with pytest.raises(StoreBusy):
            bench.index(patient=False)
        time.sleep(0.2)
        assert not reports
    run.join()
    assert any("waited" in note for note in reports[0].notes)
    runs = [_begin(bench), _begin(bench)]
    assert [one.wait() for one in runs if one.communicate()] == [0, 0]
    assert bench.defined("many99") == ["many/m99.py"]


def test_a_database_that_is_damaged_is_made_anew_in_the_same_run(bench: Bench) -> None:
    """Whoever indexes again gets a whole index, and is told why it took longer."""
    bench.index()
    bench.tables.close()
    bench.database.write_bytes(os.urandom(50_000))
    report = bench.index()
    assert report.changed == 3
    assert any("made anew" in note for note in report.notes)
    assert bench.defined("alpha") == ["a.py"]
    # Torn in the middle, where opening does not look.
    write(bench.root, {f"m{number}.py": f"def many{number}(): return alpha()\n" for number in range(400)})
    bench.index()
    with bench.database.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(bench.database.stat().st_size - 4096 * 5))
    report = bench.index(force=True)
    assert any("made anew" in note for note in report.notes)
    assert bench.defined("many7") == ["m7.py"]


def test_a_parser_that_crashes_or_hangs_costs_one_file(bench: Bench) -> None:
    """The file is answered for by what happened, the others as if nothing had."""
    for name in ("x.py", "y.py", "z.py"):
        write(bench.root, {name: "def fine(): pass\n"})
    os.mkfifo(bench.root / "pipe.py")  # would keep a reader waiting for ever
    with Crew(str(bench.root), processes=1, patience_s=20) as crew:
        found = {
            one.path: one for one in crew.parse([Asked("x.py"), Asked("pipe.py"), Asked("gone.py"), Asked("z.py")])
        }
    assert found["pipe.py"].problem == "no regular file"
    assert found["gone.py"].gone
    assert [len(found[name].symbols) for name in ("x.py", "z.py")] == [1, 1]
    write(
        bench.root, {"slow.py": "def slow(a, b): return [a, b, (a, b)]\n" * 90_000}
    )  # seconds, and a look is a fifth of one
    with Crew(str(bench.root), processes=1, patience_s=0.0) as crew:
        (late,) = crew.parse([Asked("slow.py")])
    assert "took longer" in late.problem


def test_a_process_that_is_killed_is_replaced(bench: Bench) -> None:
    """Whoever parses may be killed at any time, by the system too: the rest goes to another."""
    write(bench.root, {f"m{number}.py": "def many(): pass\n" for number in range(100)})
    files = [Asked(f"m{number}.py") for number in range(100)]
    with Crew(str(bench.root), processes=1) as crew:
        answers = crew.parse(files)
        found = [next(answers)]
        crew.workers()[0].kill()
        found += answers
    assert {one.path for one in found} == {file.path for file in files}
    assert sum(len(one.symbols) for one in found) >= 99
