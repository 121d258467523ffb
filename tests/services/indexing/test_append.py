"""What an appended entry costs: a file that only grew is not parsed, written, analysed or embedded again as a whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.services.indexing.test_run import CountingEmbedder
from tests.stores.making import TemporaryStore

from lorelog.core import sqlite_file
from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.core.ports import Store
from lorelog.ingest import markdown
from lorelog.ingest.files import read_text
from lorelog.ingest.outline import Outline, read_outline
from lorelog.language.analyser import WordAnalyser
from lorelog.services.indexing import run
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.roots import Root
from lorelog.stores.embedded import EmbeddedStore, connection

ENTRIES = 500


def entry(number: int, text: str = "") -> str:
    return f"\n### {number // 60:02}:{number % 60:02}\n<!-- memory:m{number} -->\n{text or f'entry number {number}'}\n"


JOURNAL = "# 2026-03-05\n" + "".join(map(entry, range(ENTRIES)))


class Costs:
    """What index runs over one journal read, parse, write, analyse and embed."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "memory" / "2026-03-05.md"
        self.file.parent.mkdir(parents=True)
        self.root = Root(os.path.realpath(self.file.parent), "/p")
        self.analyser = WordAnalyser()
        self.embedder = CountingEmbedder()
        self.tombstones = Tombstones(folder / "tombstones.jsonl")
        self.store: Store = EmbeddedStore(folder / "index", self.analyser, provider="fake", model="fake-64")
        self.parsed = self.read = self.analysed = 0
        self.statements: list[str] = []

    def index(self) -> None:
        """Run an index over the journal, and count from zero."""
        self.parsed = self.read = self.analysed = 0
        self.statements.clear()
        self.embedder.asked.clear()
        job = IndexJob((self.root,), (), ScanOptions(), ChunkOptions(), tombstones=self.tombstones)
        report = IndexRun(self.store, self.embedder, job).over_roots()
        assert report.problems == ()

    def append(self, text: str) -> None:
        with self.file.open("a") as stream:
            stream.write(text)

    @property
    def rows_written(self) -> int:
        """Rows of chunks that were inserted, updated or deleted."""
        changes = (
            "UPDATE chunks SET id",
            "UPDATE chunks SET project",
            "UPDATE chunks SET ordinal",
            "UPDATE chunks SET embedded",
        )
        words = ("INSERT INTO chunks", "DELETE FROM chunks", *changes)
        return len({statement for statement in self.statements if statement.startswith(words)})  # triggers repeat them


@pytest.fixture
def costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Costs]:
    costs = Costs(tmp_path)
    outline, read, words, opened = read_outline, read_text, costs.analyser.words, sqlite_file.connect

    def count_parsed(text: str, **options: object) -> Outline:
        costs.parsed += len(text)
        return outline(text, **options)  # type: ignore[arg-type]

    def count_read(*arguments: object) -> object:
        costs.read += 1
        return read(*arguments)  # type: ignore[arg-type]

    def count_analysed(text: str) -> list[str]:
        costs.analysed += 1
        return words(text)

    def trace(path: Path, options: str = "mode=rwc", busy_s: float = 1.0) -> sqlite3.Connection:
        database = opened(path, options, busy_s)
        database.set_trace_callback(costs.statements.append)
        return database

    for module, name, count in ((markdown, "read_outline", count_parsed), (run, "read_text", count_read)):
        monkeypatch.setattr(module, name, count)
    monkeypatch.setattr(costs.analyser, "words", count_analysed)
    monkeypatch.setattr(connection, "connect", trace)
    costs.file.write_text(JOURNAL)
    costs.index()
    assert (costs.analysed, len(costs.embedder.asked)) == (ENTRIES, ENTRIES)
    yield costs
    costs.store.close()


def test_an_appended_entry_costs_an_entry(costs: Costs) -> None:
    """Of a journal with 500 entries, an appended one parses two, writes one row (and its mark), and embeds one; searches analyse it."""
    for number in (ENTRIES, ENTRIES + 1):
        added = entry(number)
        costs.append(added)
        costs.index()
        assert costs.parsed <= 2 * len(added)
        assert (costs.rows_written, costs.analysed, len(costs.embedder.asked)) == (2, 0, 1)
    assert len(costs.store.chunks_of(str(costs.file))) == ENTRIES + 2


def test_an_unchanged_file_costs_nothing(costs: Costs) -> None:
    """An index run over an unchanged file reads no content and writes no row of any table."""
    costs.index()
    written = [
        statement for statement in costs.statements if statement.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE"))
    ]
    assert (costs.read, costs.parsed, written) == (0, 0, [])


def test_a_changed_line_writes_its_own_row(costs: Costs) -> None:
    """A changed entry in the middle is deleted, inserted and marked; the rows of all others stay as they are."""
    costs.file.write_text(JOURNAL.replace("number 250\n", "number two hundred fifty\n"))
    costs.index()
    assert (costs.rows_written, costs.analysed, len(costs.embedder.asked)) == (2, 0, 1)


def change_the_start(text: str) -> str:
    return text.replace("number 3\n", "number three\n") + entry(ENTRIES)


def continue_the_last_entry(text: str) -> str:
    return text + "and a line more\n"


def close_an_early_comment(text: str) -> str:
    return text + "-->\n" + entry(ENTRIES)


@pytest.mark.parametrize("change", [change_the_start, continue_the_last_entry, close_an_early_comment])
def test_what_is_indexed_is_what_a_first_run_would_index(costs: Costs, change: Callable[[str], str]) -> None:
    """However a file changes and grows, the index is that of a first run over it."""
    old = JOURNAL.replace("entry number 2\n", "entry <!-- number 2\n") if change is close_an_early_comment else JOURNAL
    costs.file.write_text(old)
    costs.index()
    costs.file.write_text(change(old))
    costs.index()
    fresh = TemporaryStore(WordAnalyser(), provider="fake", model="fake-64")
    job = IndexJob((costs.root,), (), ScanOptions(), ChunkOptions())
    IndexRun(fresh, CountingEmbedder(), job).over_roots()
    source = str(costs.file)
    assert [item.chunk for item in costs.store.chunks_of(source)] == [entry.chunk for entry in fresh.chunks_of(source)]
