"""What an index run reads, embeds, keeps and forgets; what an appended entry costs; and what a run does when a model fails."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.stores.making import TemporaryStore
from tests.surfaces.conftest import write

from lorelog.core import sqlite_file
from lorelog.core.errors import ModelUnavailable
from lorelog.core.memory import IndexReport
from lorelog.core.options import ChunkOptions, ScanOptions, SearchOptions
from lorelog.core.ports import EmbeddedTexts, Progress, Store, Vector
from lorelog.core.query import Filters, Lane
from lorelog.ingest import markdown
from lorelog.ingest.files import read_text
from lorelog.ingest.outline import Outline, Section, read_outline
from lorelog.language.analyser import WordAnalyser
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.indexing import IndexJob, run
from lorelog.services.indexing.run import IndexRun
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.roots import Root
from lorelog.services.search.searcher import Searcher
from lorelog.stores.embedded import EmbeddedStore, connection


class CountingEmbedder(FakeEmbedder):
    """The fake provider, with a list of what it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        self.asked += texts
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(text)


class IndexedDirectory:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.embedder = CountingEmbedder()
        self.store = TemporaryStore(WordAnalyser(), provider="fake", model="fake-64")

    chunking = ChunkOptions()

    def run(self, *excluded: str, force: bool = False, **scan_options: object) -> tuple[int, int, int, int, int]:
        """Index and return (changed, unchanged, touched, removed, texts embedded)."""
        self.embedder.asked.clear()
        root = Root(os.path.realpath(self.place), "/p", tuple(os.path.realpath(self.place / item) for item in excluded))
        job = IndexJob((root,), (), ScanOptions(**scan_options), self.chunking, force)  # type: ignore[arg-type]
        report = IndexRun(self.store, self.embedder, job).over_roots()
        assert report.problems == ()
        assert report.waiting == 0
        assert report.embedded == len(self.embedder.asked)
        return report.changed, report.unchanged, report.touched, report.removed, len(self.embedder.asked)


@pytest.fixture
def bench(tmp_path: Path) -> IndexedDirectory:
    return IndexedDirectory(tmp_path / "notes")


SECTIONS = [f"## Section {n}\n\ntext number {n}\n\n" for n in range(20)]


def test_a_first_run_embeds_every_text_once(bench: IndexedDirectory) -> None:
    """Every section is one text, and a text that stands twice is embedded once."""
    write(bench.place / "a.md", "".join(SECTIONS))
    write(bench.place / "b.md", SECTIONS[0])

    assert bench.run() == (2, 0, 0, 0, 20)


def test_a_file_that_takes_too_long_is_refused_by_name(
    bench: IndexedDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose parsing takes too long keeps its old version and is reported with its path; other files are indexed."""
    slow = write(bench.place / "slow.md", "# a\n\nbefore\n")
    bench.run()
    write(slow, "# a\n\nafter\n\n# trap\n\ntrap\n")
    write(bench.place / "z.md", "# z\n\nlast\n")
    clock, split = [0.0], markdown.split_section

    def split_slowly(outline: Outline, section: Section, options: ChunkOptions) -> list[markdown.SectionPiece]:
        clock[0] += 60.0 if section.title == "trap" else 0.0
        return split(outline, section, options)

    monkeypatch.setattr(markdown, "split_section", split_slowly)
    monkeypatch.setattr("time.thread_time", lambda: clock[0])
    job = IndexJob((Root(os.path.realpath(bench.place), "/p"),), (), ScanOptions(), bench.chunking)
    report = IndexRun(bench.store, bench.embedder, job).over_roots()

    path = os.path.realpath(slow)
    assert [(problem.path, problem.message) for problem in report.problems] == [
        (path, f"{path} was not indexed: parsing it took more than 5 s")
    ]
    assert report.changed == 1
    assert [stored.chunk.text for stored in bench.store.chunks_of(path)] == ["# a\n\nbefore"]


def test_a_file_with_too_many_headings_is_named(bench: IndexedDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note names the file whose headings are beyond the limit, and the line from which on it is plain text."""
    monkeypatch.setattr("lorelog.ingest.outline.MAX_HEADINGS", 3)
    path = os.path.realpath(write(bench.place / "a.md", "".join(SECTIONS)))
    job = IndexJob((Root(os.path.realpath(bench.place), "/p"),), (), ScanOptions(), bench.chunking)
    (note,) = IndexRun(bench.store, bench.embedder, job).over_roots().notes

    assert note.startswith(path)
    assert "from line 13 on sections are merged" in note
    assert "text number 19" in bench.store.chunks_of(path)[-1].chunk.text


def test_a_touched_file_is_not_chunked_again(bench: IndexedDirectory) -> None:
    """A new time stamp on the same bytes is recorded, and nothing else happens."""
    path = write(bench.place / "a.md", "".join(SECTIONS))
    bench.run()
    os.utime(path, ns=(1, 10**18))

    assert bench.run() == (0, 0, 1, 0, 0)
    assert bench.run() == (0, 1, 0, 0, 0)


def test_a_line_at_the_top_embeds_nothing(bench: IndexedDirectory) -> None:
    """Inserting a line above twenty sections moves all of them and re-embeds none."""
    path = write(bench.place / "a.md", "# Notes\n\nintro\n\n" + "".join(SECTIONS))
    bench.run()
    write(path, "\n" + path.read_text("utf-8"))

    assert bench.run() == (1, 0, 0, 0, 0)
    assert bench.store.chunks_of(os.path.realpath(path))[1].chunk.start_line == 6


def test_a_renamed_file_embeds_nothing(bench: IndexedDirectory) -> None:
    """Moving a file takes its vectors along."""
    path = write(bench.place / "a.md", "".join(SECTIONS))
    bench.run()
    path.rename(bench.place / "b.md")

    assert bench.run() == (1, 0, 0, 1, 0)


def test_vanished_and_excluded_files_lose_their_chunks(bench: IndexedDirectory) -> None:
    """What is deleted, excluded by path, by pattern or by an ignore file leaves the index; its namesakes stay."""
    write(bench.place / "gone.md", "gone\n")
    write(bench.place / "drafts" / "d.md", "draft\n")
    write(bench.place / "drafts-v2" / "e.md", "second draft\n")
    write(bench.place / "x.tmp.md", "scratch\n")
    write(bench.place / "stays.md", "stays\n")
    assert bench.run()[0] == 5
    (bench.place / "gone.md").unlink()

    assert bench.run()[3] == 1
    assert bench.run("drafts")[3] == 1
    assert bench.run("drafts", exclude=("*.tmp.md",))[3] == 1
    left = [Path(document.source).name for document in bench.store.documents()]
    assert left == ["e.md", "stays.md"]
    write(bench.place / ".lorelogignore", "drafts-v2/\n")
    assert bench.run("drafts", exclude=("*.tmp.md",))[3] == 1
    assert [Path(document.source).name for document in bench.store.documents()] == ["stays.md"]


def test_force_reads_everything_and_embeds_nothing_known(bench: IndexedDirectory) -> None:
    """A forced run chunks every file again; vectors that are known are not paid for twice."""
    write(bench.place / "a.md", "".join(SECTIONS))
    bench.run()

    assert bench.run(force=True) == (1, 0, 0, 0, 0)


def test_replaced_text_takes_its_new_vectors_along(bench: IndexedDirectory) -> None:
    """A section that was rewritten is embedded, and the old text is gone with its chunk."""
    path = write(bench.place / "a.md", "".join(SECTIONS))
    bench.run()
    write(path, path.read_text("utf-8").replace("text number 7", "something else"))

    assert bench.run() == (1, 0, 0, 0, 1)
    texts = [item.chunk.text for item in bench.store.chunks_of(os.path.realpath(path))]
    assert "## Section 7\n\nsomething else" in texts
    assert all(entry.has_vector for entry in bench.store.chunks_of(os.path.realpath(path)))


def test_other_rules_of_cutting_read_everything_again(bench: IndexedDirectory) -> None:
    """A file that did not change is cut anew when it is to be cut otherwise, and only then."""
    write(bench.place / "a.md", "# A\n\n" + "one two three. " * 100)
    bench.run()
    bench.chunking = ChunkOptions(max_chunk_size=400)

    assert bench.run()[0] == 1
    assert len(bench.store.chunks_of(os.path.realpath(bench.place / "a.md"))) > 1
    assert bench.run() == (0, 1, 0, 0, 0)


# -- all vectors anew ----------------------------------------------------------------------------------------------------


class ChangedEmbedder(CountingEmbedder):
    """The same model by its name, which now gives vectors of another length."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts)
        return replace(made, vectors=tuple(vector[: len(vector) // 2] for vector in made.vectors))

    def embed_query(self, text: str) -> Vector:
        one = super().embed_query(text)
        return one[: len(one) // 2]


class UnreachableEmbedder(CountingEmbedder):
    def embed_query(self, text: str) -> Vector:
        raise ModelUnavailable("no server at localhost:1")


def reembed(place: Path, store: Store, embedder: CountingEmbedder, progress: Progress | None = None) -> tuple[int, int]:
    """Make all vectors anew and return (texts embedded, chunks waiting)."""
    root = Root(os.path.realpath(place), "/p")
    job = IndexJob((root,), (), ScanOptions(), ChunkOptions(), reembed=True, batch_size=4)
    report = IndexRun(store, embedder, job, progress).over_roots()
    assert report.problems == ()
    return report.embedded, report.waiting


@pytest.mark.parametrize("kind", ["memory", "embedded"])
def test_a_model_of_another_length_under_the_same_name(tmp_path: Path, kind: str) -> None:
    """All vectors anew is the way out of a model that changed under its name."""
    path = write(tmp_path / "notes" / "a.md", "".join(SECTIONS))
    store: Store = EmbeddedStore(tmp_path / "index", WordAnalyser(), provider="fake", model="fake-64")
    if kind == "memory":
        store = TemporaryStore(WordAnalyser(), provider="fake", model="fake-64")
    reembed(tmp_path / "notes", store, CountingEmbedder())
    changed = ChangedEmbedder()

    assert reembed(tmp_path / "notes", store, changed) == (20, 0)

    found = Searcher(store, changed, WordAnalyser()).search("text number 7", SearchOptions(lane=Lane.DENSE))
    assert found.hits[0].source == os.path.realpath(path)
    assert found.notes == ()
    store.close()


def test_nothing_is_begun_for_a_model_that_is_away(bench: IndexedDirectory) -> None:
    """A model that does not answer ends a run that was to make all vectors anew before anything is begun."""
    write(bench.place / "a.md", "".join(SECTIONS))
    bench.run()

    with pytest.raises(ModelUnavailable):
        reembed(bench.place, bench.store, UnreachableEmbedder())

    assert bench.store.stats().vectors == 20
    assert not bench.store.reembed_state().begun


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


class Gone(CountingEmbedder):
    """A model whose server goes away after the first two texts of a call; those two it had made."""

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts[:2])
        gone = ModelUnavailable("the server went away")
        gone.done = dict(enumerate(made.vectors))
        raise gone


class PickyEmbedder(CountingEmbedder):
    """A model that does not take some of the texts."""

    refuses = "stoat"

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        made = super().embed_documents(texts)
        refused = {place: "not allowed" for place, text in enumerate(texts) if self.refuses in text}
        vectors = tuple(b"" if place in refused else vector for place, vector in enumerate(made.vectors))
        return replace(made, vectors=vectors, refused=refused)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = EmbeddedStore(tmp_path / "index", WordAnalyser(), provider="fake", model="fake-64")
    yield made
    made.close()


def run_index(store: Store, place: Path, embedder: CountingEmbedder) -> IndexReport:
    root = Root(os.path.realpath(place / "notes"), "/p")
    return IndexRun(store, embedder, IndexJob((root,), (), ScanOptions(), ChunkOptions(), batch_size=4)).over_roots()


def texts_of(store: Store, path: Path) -> list[tuple[str, bool]]:
    return [(item.chunk.text, item.has_vector) for item in store.chunks_of(os.path.realpath(path))]


def test_what_a_failing_call_had_made_is_kept(store: Store, tmp_path: Path) -> None:
    """Vectors that come along with an error are stored, and the next run asks for the others only."""
    for number in range(6):
        write(tmp_path / "notes" / f"{number}.md", f"otter number {number}\n")
    gone, well = Gone(), CountingEmbedder()

    report = run_index(store, tmp_path, gone)

    assert (report.embedded, report.waiting, len(report.problems)) == (2, 4, 1)
    assert run_index(store, tmp_path, well).embedded == 4
    assert len({*gone.asked, *well.asked}) == len(gone.asked) + len(well.asked) == 6


def test_a_refused_text_is_named_once_and_the_run_goes_on(store: Store, tmp_path: Path) -> None:
    """All other texts have their vectors, the file is a problem, and the text is asked for once in a run."""
    for number in range(9):
        animal = "stoat" if number == 3 else "otter"
        write(tmp_path / "notes" / f"{number}.md", f"{animal} number {number}\n")
    picky = PickyEmbedder()

    report = run_index(store, tmp_path, picky)

    assert [(Path(problem.path).name, problem.message) for problem in report.problems] == [
        ("3.md", "no vector for one of its texts: not allowed")
    ]
    assert (report.embedded, report.waiting) == (8, 1)
    assert len(picky.asked) == 9
    assert store.coverage(Filters()).with_vectors == 8


def test_a_rewritten_file_with_a_refused_text_takes_its_place(store: Store, tmp_path: Path) -> None:
    """The new version is found: waiting for a vector that never comes would keep the old one for ever."""
    path = write(tmp_path / "notes" / "a.md", "the otter is here\n")
    run_index(store, tmp_path, PickyEmbedder())
    write(path, "the stoat is here\n")

    report = run_index(store, tmp_path, PickyEmbedder())

    assert report.changed == 1
    assert texts_of(store, path) == [("the stoat is here", False)]


def test_a_rewritten_file_keeps_its_old_version_in_an_outage(store: Store, tmp_path: Path) -> None:
    """The old text stays with its vector, the file is named, and a note says that it is found as before."""
    path = write(tmp_path / "notes" / "a.md", "the otter is here\n")
    run_index(store, tmp_path, CountingEmbedder())
    write(path, "# A\n\nthe heron\n\n# B\n\nthe linnet\n\n# C\n\nthe plover\n")

    report = run_index(store, tmp_path, Gone())

    assert texts_of(store, path) == [("the otter is here", True)]
    assert [Path(problem.path).name for problem in report.problems] == ["a.md"]
    assert "1 changed file keeps its old version in the index until the model answers again" in report.notes
    assert run_index(store, tmp_path, CountingEmbedder()).embedded == 1
    assert len(texts_of(store, path)) == 3
