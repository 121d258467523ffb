"""Queries on code.db return the content of the indexed files, follow their changes, and survive damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.threads import in_threads

from lorelog.code.parsing import ParsedFile, build_rows
from lorelog.code.tables import USE_KINDS, CodeTables, pack_uses, unpack_uses
from lorelog.code.writer import CodeWriter, open_writer
from lorelog.core.code import FileExtract, ImportStatement, NameUse, SourceSpan, Symbol, SymbolKind, UseKind
from lorelog.core.errors import StoreDamaged, StoreError

ROOT, OTHER = "/tree", "/other"


def symbol(name: str, line: int = 1, kind: SymbolKind = SymbolKind.FUNCTION, **details: object) -> Symbol:
    return Symbol(name, kind, SourceSpan(line, 1, line + 2, 9), line, 5, **details)  # type: ignore[arg-type]


def parsed(
    path: str, *symbols: Symbol, uses: tuple[NameUse, ...] = (), imports: tuple[ImportStatement, ...] = ()
) -> ParsedFile:
    return build_rows(path, (10, 20, 30), f"digest of {path}", FileExtract("python", symbols, uses, imports, 9))


@contextmanager
def filled(path: Path, files: dict[str, list[ParsedFile]]) -> Iterator[CodeTables]:
    put(path, files)
    tables = CodeTables(path)
    yield tables
    tables.close()


def put(path: Path, files: dict[str, list[ParsedFile]]) -> None:
    with open_writer(path, wait_s=0) as writer:
        for root, parsed_files in files.items():
            root_id = writer.root(root, f"project of {root}", ())
            writer.put(root_id, parsed_files, "1")
            writer.finish(root_id, "2026-01-01T00:00:00+00:00", "abc")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index" / "code.db"


def test_without_a_file_every_result_is_empty(path: Path) -> None:
    """Queries create no file, and every result is empty."""
    tables = CodeTables(path)
    assert tables.roots() == []
    assert tables.root(ROOT) is None
    assert tables.file(ROOT, "a.py") is None
    assert not any((tables.files(ROOT), tables.problems(ROOT), tables.symbols_of(ROOT, "a.py")))
    assert not any((tables.definitions("f"), tables.uses("f")))
    assert not any((tables.importers("os"), tables.importers_of_name("path"), tables.imports_of(ROOT, "a.py")))
    assert not any((tables.search_names("f"), tables.by_digest("d")))
    assert not path.exists()


def test_a_definition_is_stored_with_all_its_fields(path: Path) -> None:
    """Every field is returned, for all working trees or for the given ones."""
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
        assert [(definition.root, definition.path) for definition in t.definitions("parse")] == [
            (OTHER, "a.py"),
            (ROOT, "a.py"),
            (ROOT, "b.py"),
        ]
        (definition,) = t.definitions("parse", [OTHER])
        assert definition.symbol == whole
        assert definition.absolute == "/other/a.py"
        assert (definition.language, definition.ordinal) == ("python", 0)
        assert len(t.definitions("parse", None, 2)) == 2
        assert t.definitions("parse", []) == []
        assert t.definitions("Parse") == []


def test_uses_of_local_variables_are_stored_only_if_the_file_has_the_name(path: Path) -> None:
    """A use of a local variable is stored only if the same file defines or imports its name."""
    names = ("value", "nested", "taken", "renamed")
    uses = tuple(NameUse(name, UseKind.READ, 5, column, 0, local=True) for column, name in enumerate(names, 1))
    imports = (ImportStatement("mod", "taken", "", 2, 1), ImportStatement("mod", "original", "renamed", 3, 1))
    with filled(path, {ROOT: [parsed("a.py", symbol("f"), symbol("nested", 2), uses=uses, imports=imports)]}) as t:
        assert [len(t.uses(name)) for name in names] == [0, 1, 1, 1]
        assert t.uses("nested")[0].use.local


def test_similar_names_are_found_best_first(path: Path) -> None:
    """Typos, parts and another case find a name; so does a name with its class."""
    symbols = [
        symbol("find_definition", 1),
        symbol("Engine", 2, SymbolKind.CLASS),
        symbol("search", 3, container="Engine"),
    ]
    symbols += [symbol("search", 4, container="Searcher"), symbol("unrelated", 5)]
    with filled(path, {ROOT: [parsed("a.py", *symbols)], OTHER: [parsed("b.py", symbol("find_defect"))]}) as t:
        for text in ("find_definition", "FindDefinition", "find_def", "find_defintion", "definition"):
            assert t.search_names(text, [ROOT])[0].symbol.name == "find_definition"
        assert t.similar_names("find_defintion", [ROOT], 3) == ["find_definition"]
        assert [match.symbol.container for match in t.search_names("Engine.serach")] == ["Engine"]
        assert [match.symbol.name for match in t.search_names("find", [OTHER])] == ["find_defect"]
        assert len(t.search_names("search", None, 1)) == 1
        assert t.search_names("zzz") == t.search_names("") == t.search_names("search", []) == []


def test_files_are_listed_by_root_or_folder(path: Path) -> None:
    """A folder lists the code files below it, not those of a folder with the same prefix."""
    files = [parsed(name) for name in ("a/b.py", "a/c/d.py", "ab/e.py", "a.py")]
    files += [ParsedFile("README", (1, 2, 3), "x"), ParsedFile("a/min.js", (1, 2, 3), "y", problem="minified")]
    with filled(path, {ROOT: files}) as t:
        assert [file.path for file in t.files(ROOT)] == ["a.py", "a/b.py", "a/c/d.py", "ab/e.py"]
        assert [file.path for file in t.files(ROOT, "a/")] == ["a/b.py", "a/c/d.py"]
        assert [file.path for file in t.files(ROOT, "a.py")] == ["a.py"]
        assert [(file.path, file.problem) for file in t.problems(ROOT)] == [("a/min.js", "minified")]
        (root,) = t.roots()
        assert (root.path, root.files, root.symbols, root.indexed_at[:4], root.head) == (ROOT, 6, 0, "2026", "abc")


def test_forgetting_a_root_removes_all_of_it(path: Path) -> None:
    """Forgetting a working tree removes all its rows, and none of the others."""
    file = parsed(
        "a.py",
        symbol("f", bases=("B",)),
        uses=(NameUse("g", UseKind.CALL, 1, 1, 0),),
        imports=(ImportStatement("m", "n", "", 1, 1),),
    )
    with filled(path, {ROOT: [file], OTHER: [file]}) as t:
        with open_writer(path, wait_s=0) as writer:
            assert writer.forget(ROOT) == 1
            assert writer.forget("/never") == 0
        assert [root.path for root in t.roots()] == [OTHER]
        assert {table: _rows(path, table) for table in ("files", "symbols", "uses", "imports")} == {
            "files": 1,
            "symbols": 1,
            "uses": 1,
            "imports": 1,
        }
        with open_writer(path, wait_s=0) as writer:
            writer.forget(OTHER)
        assert _rows(path, "names") == 0


def test_forgetting_a_large_tree_shrinks_the_file(path: Path) -> None:
    """After a large tree is forgotten, the database file is small again."""
    put(path, {ROOT: [parsed(f"{n}.py", symbol(f"f{n}", docstring="x" * 900)) for n in range(500)], OTHER: []})
    with open_writer(path, wait_s=0) as writer:
        before = path.stat().st_size
        writer.forget(ROOT)
    assert path.stat().st_size < before / 2
    assert [root.path for root in CodeTables(path).roots()] == [OTHER]


def test_readers_do_not_wait_for_a_run(path: Path) -> None:
    """While a run writes, readers see what it has committed so far."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t, open_writer(path, wait_s=0) as writer:
        writer.put(1, [parsed("b.py", symbol("f"))], "1")
        writer.commit()
        writer.put(1, [parsed("c.py", symbol("f"))], "1")
        assert [definition.path for definition in t.definitions("f")] == ["a.py", "b.py"]


def test_a_failed_write_is_rolled_back(path: Path) -> None:
    """A failure rolls back what was not committed, and the writer can continue."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t:
        invalid = parsed("a.py", symbol("g"))._replace(imports=((None,) * 6,))  # type: ignore[arg-type]
        with open_writer(path, wait_s=0) as writer:
            with pytest.raises((StoreError, TypeError)):
                writer.put(1, [parsed("b.py", symbol("h")), invalid], "1")
            writer.put(1, [parsed("c.py", symbol("new_name"))], "1")
        assert [len(t.definitions(name)) for name in ("f", "g", "h", "new_name")] == [1, 0, 0, 1]


def test_damage_that_only_a_reader_found_is_repaired(path: Path) -> None:
    """After a reader finds a damaged page that no index run reads, the next writer rebuilds the file."""
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
    with open_writer(path, wait_s=0) as writer:
        assert "damaged" in writer.note
    with open_writer(path, wait_s=0) as writer:
        assert writer.note == ""


def test_a_file_of_another_version_is_replaced(path: Path) -> None:
    """A file of another version is empty for readers, and replaced by the next writer."""
    put(path, {ROOT: [parsed("a.py", symbol("f"))]})
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert CodeTables(path).definitions("f") == []
    with open_writer(path, wait_s=0) as writer:
        assert "another version" in writer.note


def test_a_reader_notices_a_replaced_file(path: Path) -> None:
    """A reader with the old file open reads the new one from the next query on."""
    with filled(path, {ROOT: [parsed("a.py", symbol("f"))]}) as t:
        assert t.definitions("f")
        path.unlink()
        assert t.definitions("f") == []
        put(path, {ROOT: [parsed("a.py", symbol("g"))]})
        assert t.definitions("g")
        assert t.definitions("f") == []


def test_threads_may_share_the_tables(path: Path) -> None:
    """Concurrent queries of several threads all return the whole result."""
    with filled(path, {ROOT: [parsed(f"{number}.py", symbol("f")) for number in range(20)]}) as t:
        counts: list[int] = []
        assert in_threads(lambda _: counts.append(len(t.definitions("f"))), 16) == []
        assert counts == [20] * 16


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


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(_FILES)
def test_tables_match_the_files_after_any_changes(
    changes: list[tuple[str, list[str], list[tuple[str, int]], bool]],
) -> None:
    """After any sequence of changes, each name has exactly the definitions and uses of the current files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "code.db"
        current: dict[str, tuple[list[str], list[tuple[str, int]]]] = {}
        with open_writer(path, wait_s=0) as writer:
            root_id = writer.root(ROOT, "", ())
            for name, defined, used, stays in changes:
                _change(writer, root_id, name, (defined, used), stays=stays)
                if stays:
                    current[name] = (defined, used)
                else:
                    current.pop(name, None)
        tables = CodeTables(path)
        for name in ("f", "g", "Größe", "x" * 300, "_", "日本"):
            defined_in = sorted(file for file, (defined, _) in current.items() for other in defined if other == name)
            assert [definition.path for definition in tables.definitions(name)] == defined_in
            used_at = sorted(
                (file, line) for file, (_, used) in current.items() for other, line in used if other == name
            )
            assert sorted((use.path, use.use.line) for use in tables.uses(name)) == used_at
        tables.close()


def _change(
    writer: CodeWriter, root: int, path: str, content: tuple[list[str], list[tuple[str, int]]], *, stays: bool
) -> None:
    if stays:
        uses = tuple(NameUse(name, UseKind.READ, line, 1, -1) for name, line in content[1])
        writer.put(root, [parsed(path, *(symbol(name) for name in content[0]), uses=uses)], "1")
    else:
        writer.remove(file.id for file in writer.files_at(root, path))


def _rows(path: Path, table: str) -> int:
    with sqlite3.connect(path) as db:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    db.close()
    return int(count)


_USES = st.lists(
    st.builds(
        NameUse,
        st.just("name"),
        st.sampled_from(UseKind),
        st.integers(1, 2**40),
        st.integers(1, 2**33),
        st.integers(-1, 2**21),
        st.one_of(st.sampled_from(["", "?", "self", "cls", "this", "os.path"]), st.text(max_size=200)),
        st.booleans(),
    ),
    max_size=50,
)


@given(_USES)
def test_uses_survive_a_round_trip(uses: list[NameUse]) -> None:
    """All uses are decoded, sorted by position, with any numbers and receivers."""
    unpacked = unpack_uses("name", pack_uses(uses))
    assert sorted(unpacked) == sorted(uses)
    assert [(use.line, use.column) for use in unpacked] == sorted((use.line, use.column) for use in uses)


def test_every_kind_of_use_has_a_code() -> None:
    """Every kind of use can be stored; a new kind is appended."""
    assert set(USE_KINDS) == set(UseKind)
    assert USE_KINDS[:5] == (UseKind.CALL, UseKind.READ, UseKind.WRITE, UseKind.TYPE, UseKind.IMPORT)
