"""What files say can be asked for, follows them, and can be thrown away."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorelog.code.names import base_name, tail_of
from lorelog.code.parsed import Parsed, rows_of
from lorelog.code.tables import CodeTables
from lorelog.code.tables_writing import CodeWriter, writing
from lorelog.core.code import Extract, Import, Span, Symbol, SymbolKind, Use, UseKind
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable

ROOT, OTHER = "/tree", "/other"


def symbol(name: str, line: int = 1, kind: SymbolKind = SymbolKind.FUNCTION, **more: object) -> Symbol:
    return Symbol(name, kind, Span(line, 1, line + 2, 9), line, 5, **more)  # type: ignore[arg-type]


def parsed(path: str, *symbols: Symbol, uses: tuple[Use, ...] = (), imports: tuple[Import, ...] = ()) -> Parsed:
    return rows_of(path, (10, 20, 30), f"digest of {path}", Extract("python", symbols, uses, imports, 9))


@contextmanager
def filled(path: Path, files: dict[str, list[Parsed]]) -> Iterator[CodeTables]:
    put(path, files)
    tables = CodeTables(path)
    yield tables
    tables.close()


def put(path: Path, files: dict[str, list[Parsed]]) -> None:
    with writing(path, wait_s=0) as writer:
        for root, some in files.items():
            number = writer.root(root, f"project of {root}", ())
            writer.put(number, some, "1")
            writer.finish(number, "2026-01-01T00:00:00+00:00", "abc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index" / "code.db"


def test_without_a_file_nothing_is_known_and_nothing_is_made(path: Path) -> None:
    """Asking makes no file, and every answer is empty."""
    tables = CodeTables(path)
    assert tables.roots() == []
    assert tables.root(ROOT) is None
    assert tables.file(ROOT, "a.py") is None
    assert not any((tables.files(ROOT), tables.problems(ROOT), tables.symbols_of(ROOT, "a.py")))
    assert not any((tables.definitions("f"), tables.uses("f"), tables.uses_in(ROOT, "a.py")))
    assert not any((tables.importers("os"), tables.importers_of("path"), tables.imports_of(ROOT, "a.py")))
    assert not any((tables.like("f"), tables.by_digest("d"), tables.by_content("d"), tables.classes_below("C")))
    assert tables.revision() == (0, 0)
    assert not path.exists()


def test_a_definition_is_found_with_everything_that_was_said_of_it(path: Path) -> None:
    """Every field comes back, in every working tree that has it, or only in those that are asked about."""
    whole = symbol(
        "parse",
        7,
        SymbolKind.METHOD,
        signature="def parse(self, text: str) -> Tree",
        docstring="Größe matters.\nTwice.",
        visibility="protected",
        container="Parser",
        digest="d1",
    )
    with filled(
        path, {ROOT: [parsed("b.py", whole), parsed("a.py", symbol("parse"))], OTHER: [parsed("a.py", whole)]}
    ) as t:
        assert [(one.root, one.path) for one in t.definitions("parse")] == [
            (OTHER, "a.py"),
            (ROOT, "a.py"),
            (ROOT, "b.py"),
        ]
        (found,) = t.definitions("parse", [OTHER])
        assert found.symbol == whole
        assert found.absolute == "/other/a.py"
        assert (found.language, found.ordinal) == ("python", 0)
        assert len(t.definitions("parse", None, 2)) == 2
        assert t.definitions("parse", []) == []
        assert t.definitions("Parse") == []


def test_uses_come_with_the_definition_around_them(path: Path) -> None:
    """Each use knows its place, what is done, what stands before the dot, and what it stands in."""
    outer, inner = symbol("Outer", 1, SymbolKind.CLASS), symbol("inner", 2, SymbolKind.METHOD, container="Outer")
    uses = (
        Use("helper", UseKind.CALL, 3, 9, 1, "self"),
        Use("helper", UseKind.READ, 1, 4, -1, "some.where"),
        Use("other", UseKind.WRITE, 2, 2, 0),
    )
    with filled(path, {ROOT: [parsed("a.py", outer, inner, uses=uses)], OTHER: [parsed("b.py", uses=uses[1:2])]}) as t:
        assert [(one.use, one.enclosing) for one in t.uses("helper", [ROOT])] == [(uses[1], None), (uses[0], inner)]
        assert [one.root for one in t.uses("helper")] == [OTHER, ROOT, ROOT]
        assert len(t.uses("helper", None, 2)) == 2
        assert [one.use for one in t.uses_in(ROOT, "a.py")] == [uses[1], uses[2], uses[0]]
        assert [one.enclosing for one in t.uses_in(ROOT, "a.py")] == [None, outer, inner]
        assert t.symbols_of(ROOT, "a.py") == [outer, inner]


def test_names_of_a_functions_own_are_kept_only_where_they_may_mean_more(path: Path) -> None:
    """A local variable is nobody else's name; one that is defined or imported in the same file may be."""
    names = ("value", "nested", "taken", "renamed")
    uses = tuple(Use(name, UseKind.READ, 5, place, 0, local=True) for place, name in enumerate(names, 1))
    imports = (Import("mod", "taken", "", 2, 1), Import("mod", "original", "renamed", 3, 1))
    with filled(path, {ROOT: [parsed("a.py", symbol("f"), symbol("nested", 2), uses=uses, imports=imports)]}) as t:
        assert [one.use.name for one in t.uses_in(ROOT, "a.py")] == ["nested", "taken", "renamed"]
        assert t.uses("nested")[0].use.local
        assert t.uses("value") == []


def test_importers_are_found_by_whole_names_by_what_is_below_and_by_endings(path: Path) -> None:
    """A module is found however it is written, and another whose name merely begins alike is not."""
    modules = (
        "requests",
        "requests.adapters",
        "requests_mock",
        "..requests",
        "./lib/requests.js",
        "my/requests",
        "xrequests",
    )
    imports = tuple(Import(module, "", "", line, 1) for line, module in enumerate(modules, 1))
    with filled(path, {ROOT: [parsed("a.py", imports=imports)]}) as t:
        found = [one.what.module for one in t.importers("requests")]
        assert found == ["requests", "requests.adapters", "..requests", "./lib/requests.js", "my/requests"]
        assert [one.what.module for one in t.importers("lib/requests")] == ["./lib/requests.js"]
        assert t.importers("requests", [OTHER]) == []


def test_imported_names_are_found(path: Path) -> None:
    """What is taken out of a module is found by its own name, wherever it comes from."""
    imports = (Import("os", "path", "p", 1, 1), Import("./path", "", "", 2, 1), Import("pathlib", "Path", "", 3, 1))
    with filled(path, {ROOT: [parsed("a.py", imports=imports)]}) as t:
        (found,) = t.importers_of("path")
        assert found.what == imports[0]
        assert t.imports_of(ROOT, "a.py") == list(imports)
        assert t.importers_of("") == []


def test_classes_are_found_by_what_they_are_made_from(path: Path) -> None:
    """One step down, by the last part of a base's name, without what it is filled with."""
    made = [
        symbol(name, line, SymbolKind.CLASS, bases=bases)
        for line, (name, bases) in enumerate({"A": ("abc.ABC",), "B": ("Base[int]", "A"), "C": ("A",)}.items(), 1)
    ]
    with filled(path, {ROOT: [parsed("a.py", *made)]}) as t:
        assert [one.symbol.name for one in t.classes_below("A")] == ["B", "C"]
        assert [one.symbol.name for one in t.classes_below("ABC")] == ["A"]
        assert [one.symbol.name for one in t.classes_below("typing.Base")] == ["B"]
        assert t.classes_below("A")[0].symbol.bases == ("Base[int]", "A")


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("Base", "Base"),
        ("abc.ABC", "ABC"),
        ("Base[int, str]", "Base"),
        ("std::vector<int>", "vector"),
        ("a.b.C<D.E>", "C"),
        ("$x", "x"),
        ("", ""),
    ],
)
def test_a_base_is_known_by_its_last_name(base: str, name: str) -> None:
    """Modules around it and what is in brackets do not count."""
    assert base_name(base) == name


@pytest.mark.parametrize(
    ("module", "tail"),
    [
        ("os.path", "path"),
        ("./util.js", "util"),
        ("net/util.h", "util"),
        ("stdio.h", "stdio"),
        ("github.com/x/yaml.v3", "yaml"),
        ("crate::core::code", "code"),
        ("..core", "core"),
        (".", "."),
        ("react", "react"),
        ("A\\B\\C", "C"),
    ],
)
def test_a_module_is_known_by_its_last_part(module: str, tail: str) -> None:
    """Whatever the language puts between parts, and without the ending of a file."""
    assert tail_of(module) == tail


def test_names_that_are_like_a_text_are_found_best_first(path: Path) -> None:
    """Typing errors, initials, parts and other cases find a name; so does a name with its class."""
    made = [
        symbol("find_definition", 1),
        symbol("Engine", 2, SymbolKind.CLASS),
        symbol("search", 3, container="Engine"),
    ]
    made += [symbol("search", 4, container="Searcher"), symbol("unrelated", 5)]
    with filled(path, {ROOT: [parsed("a.py", *made)], OTHER: [parsed("b.py", symbol("find_defect"))]}) as t:
        for text in ("find_definition", "FindDefinition", "find_def", "fdef", "find_defintion", "definition"):
            assert t.like(text, [ROOT])[0][0].symbol.name == "find_definition"
        assert t.like("find_definition")[0][1] == 1.0
        assert [one.symbol.container for one, _ in t.like("Engine.serach")] == ["Engine"]
        assert [one.symbol.name for one, _ in t.like("find", [OTHER])] == ["find_defect"]
        assert len(t.like("search", None, 1)) == 1
        assert t.like("zzz") == t.like("") == t.like("search", []) == []


def test_the_same_tokens_and_the_same_bytes_are_found_elsewhere(path: Path) -> None:
    """A definition that was moved or renamed is found by its digest, a file by its own."""
    files = {ROOT: [parsed("a.py", symbol("old", digest="d"))], OTHER: [parsed("b.py", symbol("new", digest="d"))]}
    with filled(path, files) as t:
        assert [one.symbol.name for one in t.by_digest("d")] == ["new", "old"]
        assert [one.symbol.name for one in t.by_digest("d", [ROOT])] == ["old"]
        assert [one.path for one in t.by_content("digest of b.py")] == ["b.py"]
        assert not any((t.by_digest(""), t.by_content("")))


def test_files_are_listed_whole_or_by_folder(path: Path) -> None:
    """A folder's files are those below it, and not those of a folder whose name begins alike; what is no code is left out."""
    files = [parsed(name) for name in ("a/b.py", "a/c/d.py", "ab/e.py", "a.py")]
    files += [Parsed("README", (1, 2, 3), "x"), Parsed("a/min.js", (1, 2, 3), "y", problem="minified")]
    with filled(path, {ROOT: files}) as t:
        assert [file.path for file in t.files(ROOT)] == ["a.py", "a/b.py", "a/c/d.py", "ab/e.py"]
        assert [file.path for file in t.files(ROOT, "a/")] == ["a/b.py", "a/c/d.py"]
        assert [file.path for file in t.files(ROOT, "a.py")] == ["a.py"]
        assert [(file.path, file.problem) for file in t.problems(ROOT)] == [("a/min.js", "minified")]
        (root,) = t.roots()
        assert (root.path, root.files, root.symbols, root.indexed_at[:4], root.head) == (ROOT, 6, 0, "2026", "abc")


def test_what_a_file_said_before_is_gone_when_it_says_something_else(path: Path) -> None:
    """Symbols, uses, imports and bases of the old text are found no longer; those of other files are."""
    old = parsed(
        "a.py",
        symbol("old", bases=("Base",), digest="o"),
        uses=(Use("used", UseKind.CALL, 1, 1, 0),),
        imports=(Import("old_module", "thing", "", 1, 1),),
    )
    stays = parsed("b.py", symbol("old"), uses=(Use("used", UseKind.READ, 4, 4, -1),))
    with filled(path, {ROOT: [old, stays]}) as t:
        before = t.revision()
        put(path, {ROOT: [parsed("a.py", symbol("new"))]})
        assert [one.path for one in t.definitions("old")] == ["b.py"]
        assert [one.path for one in t.uses("used")] == ["b.py"]
        assert not any((t.importers("old_module"), t.importers_of("thing"), t.classes_below("Base"), t.by_digest("o")))
        assert [one.path for one in t.definitions("new")] == ["a.py"]
        assert t.revision() != before
        assert _rows(path, "symbols") == 2


def test_a_root_that_is_forgotten_leaves_nothing(path: Path) -> None:
    """Forgetting a working tree takes out all of it, and nothing of the others."""
    one = parsed(
        "a.py",
        symbol("f", bases=("B",)),
        uses=(Use("g", UseKind.CALL, 1, 1, 0),),
        imports=(Import("m", "n", "", 1, 1),),
    )
    with filled(path, {ROOT: [one], OTHER: [one]}) as t:
        with writing(path, wait_s=0) as writer:
            assert writer.forget(ROOT) == 1
            assert writer.forget("/never") == 0
        assert [root.path for root in t.roots()] == [OTHER]
        assert {table: _rows(path, table) for table in ("files", "symbols", "uses", "imports", "bases")} == {
            "files": 1,
            "symbols": 1,
            "uses": 1,
            "imports": 1,
            "bases": 1,
        }
        with writing(path, wait_s=0) as writer:
            writer.forget(OTHER)
        assert _rows(path, "names") == 0


def test_room_that_is_not_needed_is_given_back(path: Path) -> None:
    """A large tree that is forgotten makes the file small again."""
    put(path, {ROOT: [parsed(f"{n}.py", symbol(f"f{n}", docstring="x" * 900)) for n in range(500)], OTHER: []})
    with writing(path, wait_s=0) as writer:
        before = path.stat().st_size
        writer.forget(ROOT)
    assert path.stat().st_size < before / 2
    assert [root.path for root in CodeTables(path).roots()] == [OTHER]


def test_readers_see_a_run_while_it_lasts_and_do_not_wait_for_it(path: Path) -> None:
    """While somebody writes, others read what was there, and then what was shown."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t, writing(path, wait_s=0) as writer:
        writer.put(1, [parsed("b.py", symbol("f"))], "1")
        writer.show()
        writer.put(1, [parsed("c.py", symbol("f"))], "1")
        assert [one.path for one in t.definitions("f")] == ["a.py", "b.py"]


def test_one_writes_at_a_time(path: Path) -> None:
    """A second one is told that somebody writes, and gets its turn when the first has ended."""
    with writing(path, wait_s=0), pytest.raises(StoreBusy), writing(path, wait_s=0.05):
        pass
    with writing(path, wait_s=0):
        pass


def test_a_failure_in_the_middle_of_a_file_leaves_all_files_whole(path: Path) -> None:
    """What cannot be written takes only what was not shown yet with it, and writing can go on."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t:
        torn = parsed("a.py", symbol("g"))._replace(imports=((None,) * 6,))  # type: ignore[arg-type]
        with writing(path, wait_s=0) as writer:
            with pytest.raises((StoreError, TypeError)):
                writer.put(1, [parsed("b.py", symbol("h")), torn], "1")
            writer.put(1, [parsed("c.py", symbol("new_name"))], "1")
        assert [len(t.definitions(name)) for name in ("f", "g", "h", "new_name")] == [1, 0, 0, 1]


def test_a_damaged_file_is_made_anew_and_that_is_said(path: Path) -> None:
    """Reading says that it is damaged; whoever writes begins from nothing, and tells."""
    put(path, {ROOT: [parsed("a.py", symbol("f"))]})
    path.write_bytes(b"this is no database" * 1000)
    with pytest.raises(StoreDamaged):
        CodeTables(path).definitions("f")
    with writing(path, wait_s=0) as writer:
        assert "made anew" in writer.note
        assert writer.roots() == {}
    assert CodeTables(path).definitions("f") == []


def test_damage_that_only_a_reader_met_is_mended_too(path: Path) -> None:
    """A page that an index run would not look at: the reader's word is enough to begin anew."""
    put(path, {ROOT: [parsed(f"{number}.py", symbol(f"f{number}", docstring="x" * 900)) for number in range(300)]})
    with sqlite3.connect(path) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'symbols_by_name'").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = db.execute("PRAGMA page_size").fetchone()
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(StoreDamaged):
        CodeTables(path).definitions("f7")
    with writing(path, wait_s=0) as writer:
        assert "damaged" in writer.note
    with writing(path, wait_s=0) as writer:
        assert writer.note == ""


def test_a_file_of_another_version_is_nothing_to_readers_and_replaced_by_who_writes(path: Path) -> None:
    """Whoever goes back or forth between versions of lorelog reads nothing wrong."""
    put(path, {ROOT: [parsed("a.py", symbol("f"))]})
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert CodeTables(path).definitions("f") == []
    with writing(path, wait_s=0) as writer:
        assert "another version" in writer.note


def test_a_reader_notices_that_another_file_is_in_place(path: Path) -> None:
    """Who has the old one open reads the new one from the next question on."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t:
        assert t.definitions("f")
        path.unlink()
        assert t.definitions("f") == []
        put(path, {ROOT: [parsed("a.py", symbol("g"))]})
        assert t.definitions("g")
        assert t.definitions("f") == []


def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    """Nobody else on the machine reads what is in the code."""
    put(path, {ROOT: []})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder that is a file gives our error, with what to do."""
    (tmp_path / "index").write_text("in the way")
    with pytest.raises(StoreUnwritable) as told, writing(tmp_path / "index" / "code.db", wait_s=0):
        pass
    assert told.value.hint


def test_many_threads_may_ask_at_once(path: Path) -> None:
    """One object answers all of them, each with the whole answer."""
    with filled(path, {ROOT: [parsed(f"{number}.py", symbol("f")) for number in range(20)]}) as t:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(len(t.definitions("f")))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [20] * 16


_NAMES = st.sampled_from(["f", "g", "Größe", "x" * 300, "_", "日本"])
_FILES = st.lists(
    st.tuples(
        st.sampled_from(["a.py", "b.py", "c/d.py"]),
        st.lists(_NAMES, max_size=4),
        st.lists(st.tuples(_NAMES, st.integers(1, 9)), max_size=6),
        st.booleans(),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(_FILES)
def test_tables_say_what_files_say_whatever_became_of_them(
    changes: list[tuple[str, list[str], list[tuple[str, int]], bool]],
) -> None:
    """However files come, change and go, each name has exactly the definitions and uses that are in the last texts."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "code.db"
        now: dict[str, tuple[list[str], list[tuple[str, int]]]] = {}
        with writing(path, wait_s=0) as writer:
            number = writer.root(ROOT, "", ())
            for name, defined, used, stays in changes:
                _change(writer, number, name, (defined, used), stays=stays)
                if stays:
                    now[name] = (defined, used)
                else:
                    now.pop(name, None)
        tables = CodeTables(path)
        for name in ("f", "g", "Größe", "x" * 300, "_", "日本"):
            defined_in = sorted(file for file, (defined, _) in now.items() for one in defined if one == name)
            assert [one.path for one in tables.definitions(name)] == defined_in
            used_at = sorted((file, line) for file, (_, used) in now.items() for one, line in used if one == name)
            assert sorted((one.path, one.use.line) for one in tables.uses(name)) == used_at
        tables.close()


def _change(
    writer: CodeWriter, root: int, path: str, said: tuple[list[str], list[tuple[str, int]]], *, stays: bool
) -> None:
    if stays:
        uses = tuple(Use(name, UseKind.READ, line, 1, -1) for name, line in said[1])
        writer.put(root, [parsed(path, *(symbol(name) for name in said[0]), uses=uses)], "1")
    else:
        writer.remove(known.id for known in writer.known_at(root, path))


def _rows(path: Path, table: str) -> int:
    with sqlite3.connect(path) as db:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    db.close()
    return int(count)
