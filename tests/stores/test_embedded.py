"""The embedded store beyond the contract: crashes, damage, versions, other processes."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import tantivy
from msgspec.structs import replace
from tests.stores.making import (
    ALL,
    OPENED,
    PlainAnalyser,
    chunk,
    fill,
    kill_while_writing,
    search_texts,
    update,
    vector,
)

from lorelog.core.document import is_entry_path
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreIncompatible
from lorelog.core.ports import Store
from lorelog.core.query import Term
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.embedded.connection import open_writer
from lorelog.stores.embedded.migrations import FIRST_VERSION, MIGRATIONS, SCHEMA_VERSION
from lorelog.stores.embedded.rows import read_text


def open_store(place: Path, *, model: str = "m", version: str = "plain 1") -> EmbeddedStore:
    analyser = PlainAnalyser()
    analyser.version = version
    store = EmbeddedStore(place / "index", analyser, provider="test", model=model)
    OPENED.append(store)
    return store


def test_what_another_process_commits_is_read_again(tmp_path: Path) -> None:
    """Facts and counts are remembered between reads only as long as nobody else commits."""
    reader, other = open_store(tmp_path), open_store(tmp_path)
    fill(other, "heron")
    assert (reader.get_note("n"), reader.coverage(ALL).chunks, len(search_texts(reader, "heron"))) == ("", 1, 1)

    with other.writer() as writer:
        writer.set_note("n", "told")
        writer.put([update("/b.md", ["heron two"])])

    assert (reader.get_note("n"), reader.coverage(ALL).chunks, len(search_texts(reader, "heron"))) == ("told", 2, 2)


def test_a_lane_that_could_not_be_repaired_is_tried_again(tmp_path: Path) -> None:
    """A search that finds the words missing while another process writes does not take them for usable later."""
    reader, other = open_store(tmp_path), open_store(tmp_path)
    fill(other, "heron")
    shutil.rmtree(tmp_path / "index" / "lexical")
    with other.writer():
        shutil.rmtree(tmp_path / "index" / "lexical")
        assert search_texts(reader, "heron") == []

    assert search_texts(reader, "heron") == ["heron"]


def _put_and_stop(store: Store, source: str, texts: list[str]) -> None:
    with store.writer() as writer:
        writer.put([update(source, texts)])
        raise RuntimeError("stopped")


def test_a_write_keeps_one_writer_of_words_and_frees_it(tmp_path: Path) -> None:
    """All puts of a write share tantivy's writer; afterwards, and after a failure, another process can write at once."""
    store, other = open_store(tmp_path), open_store(tmp_path)
    many = [f"heron {number}" for number in range(65)]
    with store.writer() as writer:
        writer.put([update("/a.md", many)])
        opened = store._lexical._writing
        writer.put([update("/b.md", many)])
        assert opened is not None
        assert store._lexical._writing is opened
    fill(other, *many, source="/c.md")

    with pytest.raises(RuntimeError, match="stopped"):
        _put_and_stop(store, "/d.md", many)
    fill(other, *many, source="/e.md")

    assert len(store.propose([Term("heron")], None, ALL, 1000)[0]) == 5 * 65
    words = next((tmp_path / "index" / "lexical").glob("words-*"))
    assert {file.stat().st_mode & 0o077 for file in words.iterdir()} == {0}


@pytest.mark.parametrize("rows", [1, 100])
def test_rows_that_wait_for_a_commit_are_found_and_scored_like_the_others(tmp_path: Path, rows: int) -> None:
    """A write of few rows commits no keyword file; searches, rarity and filters give what they give after a commit."""
    words = ("heron", "kiwi", "stork", "crane")
    texts = [" ".join(words[(n * k) % 4] for k in range(1, 40 + n % 9)) + f" n{n % 7} u{n}" for n in range(rows + 40)]
    store = open_store(tmp_path)
    fill(store, *texts[:rows], source="/a/a.md")
    if rows < 65:
        (tmp_path / "index" / "lexical" / "current.json").unlink()
        fill(store, *texts[:rows], source="/a/a.md")
    files = sorted((tmp_path / "index" / "lexical").rglob("*"))
    fill(store, *texts[:rows], *texts[rows:], source="/a/a.md")
    fill(store, "heron away", source="/b/b.md")
    with store.writer() as writer:
        writer.remove(["/b/b.md"])
    assert sorted((tmp_path / "index" / "lexical").rglob("*")) == files
    terms = [Term("heron"), Term("n3", 0.5), Term("u5"), Term(f"u{rows + 5}"), Term("nowhere")]
    filters = [
        ALL,
        replace(ALL, source_prefix="/a"),
        replace(ALL, source_prefix="/b"),
        replace(ALL, projects=("none",)),
    ]

    def ask(asked: EmbeddedStore) -> list[dict[str, float]]:
        lanes = [asked.propose(terms, None, chosen, limit)[0] for chosen in filters for limit in (10, 1000)]
        rarity = asked.rarity([term.text for term in terms])
        return [rarity, *({str(hit.key): hit.score for hit in lane} for lane in lanes)]

    before = ask(open_store(tmp_path))
    assert before == ask(store)
    (tmp_path / "index" / "lexical" / "current.json").unlink()
    with store.writer():
        pass

    after = ask(store)
    assert [len(found) for found in before] == [len(found) for found in after]
    for early, late in zip(before, after, strict=True):
        assert [early[key] for key in late.keys() & early.keys()] == pytest.approx(
            [late[key] for key in late.keys() & early.keys()], rel=0.05
        )
    assert before[2].keys() == after[2].keys()


def test_readers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """While one thread reads, others search and write, and a reset is seen by all; connections do not pile up."""
    store, texts = open_store(tmp_path), list[list[str]]()
    fill(store, "kiwi one", "kiwi two")

    def work() -> None:
        texts.append(search_texts(store, "kiwi"))
        fill(store, "kiwi three", source="/b.md")
        texts.append(search_texts(store, "kiwi"))
        store.reset()
        texts.append(search_texts(store, "kiwi"))

    with store._open_reader() as catalog:
        assert catalog is not None
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        assert len(catalog.documents()) in {1, 2}  # what it has open

    assert list(map(len, texts)) == [2, 3, 0]
    assert search_texts(store, "kiwi") == []
    fill(store, "kiwi four")
    assert search_texts(store, "kiwi") == ["kiwi four"]
    assert len(store._idle_readers) == 1


def test_another_process_and_another_model_change_the_revision(tmp_path: Path) -> None:
    """The revision changes when another process writes or changes the model."""
    reader, writer = open_store(tmp_path), open_store(tmp_path)
    fill(writer, "alpha one")
    first = reader.revision()
    assert first == writer.revision() == open_store(tmp_path).revision()

    fill(writer, "alpha one", "alpha two")
    second = reader.revision()
    with open_store(tmp_path, model="other").writer(take_over=True):
        pass

    assert len({first, second, reader.revision()}) == 3


@pytest.mark.parametrize("lost", ["lexical", "dense", "lexical/current.json", "dense state", "both states", "words"])
def test_a_lost_lane_is_rebuilt_from_the_catalog(tmp_path: Path, lost: str) -> None:
    """Lanes that are missing or damaged, or whose state is lost, are rebuilt completely."""
    store = open_store(tmp_path)
    fill(store, "alpha one", "beta two")
    store.close()
    index = tmp_path / "index"
    states = [index / "lexical" / "current.json", *index.glob("dense/*/current.json")]
    words = list(index.glob("lexical/words-*/*.term"))
    victims = {"dense state": states[1:], "both states": states, "words": words}.get(lost, [index / lost])
    for victim in victims:
        subprocess.run(["rm", "-r", str(victim)], check=True)

    again = open_store(tmp_path)

    assert search_texts(again, "alpha") == ["alpha one"]
    assert len(again.propose((), vector(1, 9), ALL, 10)[1]) == 2
    fill(again, "alpha one", "alpha two")
    check_lanes(again)


def test_a_purge_leaves_no_byte_of_removed_text_in_any_file(tmp_path: Path) -> None:
    """Content, words and vector of a removed chunk are in no file of the index after a purge; readers may be open."""
    store, reader = open_store(tmp_path), open_store(tmp_path)
    text = "alpha zebracanary one"
    fill(store, text, "beta two")
    (stored,) = store.fetch([hit.key for hit in store.propose([Term("zebracanary")], None, ALL, 10)[0]]).values()
    needles = (b"zebracanary", *store.vector_records([stored.key]), stored.chunk.vector_key.encode())
    assert search_texts(reader, "zebracanary")
    fill(store, "beta two")

    def residues() -> set[str]:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {path.name for path in files if any(needle in path.read_bytes() for needle in needles)}

    assert residues()

    with store.writer() as writer:
        writer.purge([stored.chunk.vector_key])

    assert residues() == set()
    assert search_texts(reader, "zebracanary") == []
    assert search_texts(reader, "beta") == ["beta two"]
    assert len(reader.propose((), vector(1, 8), ALL, 10)[1]) == 1


def test_a_comparison_tells_of_each_lane(tmp_path: Path) -> None:
    """A comparison reports each missing lane, and changes nothing without `repair`."""
    store = open_store(tmp_path)
    fill(store, "alpha", "beta")
    assert store.compare().is_consistent

    for lane, told in (("dense", (0, 2)), ("lexical", (2, 0))):
        store.close()
        shutil.rmtree(tmp_path / "index" / lane)
        for repair in (False, True):
            compared = store.compare(repair=repair)
            assert (compared.missing, compared.unlike) == told
        assert store.compare().is_consistent


def test_a_new_analyser_rebuilds_the_lexical_lane(tmp_path: Path) -> None:
    """A new version of the analyser rebuilds the lexical lane."""
    fill(open_store(tmp_path), "alpha one")
    folders = set((tmp_path / "index" / "lexical").glob("words-*"))

    store = open_store(tmp_path, version="plain 2")

    assert search_texts(store, "alpha") == ["alpha one"]
    assert set((tmp_path / "index" / "lexical").glob("words-*")).isdisjoint(folders)


def test_vectors_of_two_models_never_meet(tmp_path: Path) -> None:
    """Another model has no vectors until it embeds; going back finds the first model's vectors again."""
    fill(open_store(tmp_path), "alpha")

    other = open_store(tmp_path, model="other")
    assert other.propose((), vector(1, 2, 3), ALL, 5)[1] == []
    assert other.coverage(ALL).with_vectors == 0
    with other.writer():
        pass
    assert other.pending(5) == []
    assert not other.serves_model()
    with other.writer(take_over=True) as writer:
        assert [pending.text for pending in other.pending(5)] == ["alpha"]
        writer.put_vectors({pending.vector_key: vector(1, 2, 3) for pending in other.pending(5)})
    assert len(other.propose((), vector(1, 2, 3), ALL, 5)[1]) == 1
    assert [stored.id for stored in other.chunks_of("/a.md")] == [
        stored.chunk.identify("other") for stored in other.chunks_of("/a.md")
    ]

    back = open_store(tmp_path)
    with back.writer(take_over=True):
        pass
    assert len(back.propose((), vector(1, 5), ALL, 5)[1]) == 1
    assert back.stats().other_vectors == 1


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """An index of a newer version is rejected with a hint, and is not changed."""
    fill(open_store(tmp_path), "alpha")
    path = tmp_path / "index" / "catalog.db"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()
    before = path.read_bytes()

    store = open_store(tmp_path)
    with pytest.raises(StoreIncompatible, match="newer lorelog") as caught:
        store.documents()
    with pytest.raises(StoreIncompatible), store.writer():
        pass

    assert "lorelog reset" in caught.value.hint
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """A database of another program is not overwritten."""
    (tmp_path / "index").mkdir()
    with sqlite3.connect(tmp_path / "index" / "catalog.db") as database:
        database.execute("CREATE TABLE precious (x)")
    database.close()

    with pytest.raises(StoreIncompatible, match="another program"), open_store(tmp_path).writer():
        pass


@pytest.mark.parametrize("damage", ["text", "middle", "truncated", "unreleased"])
def test_a_damaged_database_is_named_and_reset_helps(tmp_path: Path, damage: str) -> None:
    """Damage, or a schema from before the first release, raises StoreDamaged with a hint, and a reset gives a new index."""
    store = open_store(tmp_path)
    fill(store, *(f"alpha {number} {'x' * 500}" for number in range(200)))
    with store.writer() as writer:
        writer.sweep()
    store.close()
    path = tmp_path / "index" / "catalog.db"
    content = bytearray(path.read_bytes())
    if damage == "text":
        content = bytearray(b"this is no database at all " * 1000)
    elif damage == "middle":
        content[4096:-1] = random.Random(1).randbytes(len(content) - 4097)
    elif damage == "unreleased":
        content[60:64] = (FIRST_VERSION - 1).to_bytes(4)  # user_version
    else:
        content = content[: len(content) // 3]
    path.write_bytes(content)

    damaged = open_store(tmp_path)
    with pytest.raises(StoreDamaged) as caught:
        damaged.chunks_of("/a.md")

    assert "lorelog index" in caught.value.hint
    damaged.reset()
    fill(damaged, "alpha")
    assert search_texts(damaged, "alpha") == ["alpha"]


def test_a_run_is_seen_by_other_processes(tmp_path: Path) -> None:
    """Another store sees a run while it lasts, and asking does not disturb it."""
    store, other = open_store(tmp_path), open_store(tmp_path)
    fill(store, "alpha")

    assert not other.is_running()
    with store.run(wait_s=0):
        assert (store.is_running(), other.is_running()) == (True, True)
    assert not other.is_running()
    with other.run(wait_s=0):
        pass


def test_a_later_schema_step_is_applied_once(tmp_path: Path) -> None:
    """A database of an older schema is migrated by the steps it lacks, and keeps its content."""
    fill(open_store(tmp_path), "alpha")
    path = tmp_path / "index" / "catalog.db"

    def add_column(database: sqlite3.Connection) -> None:
        database.execute("ALTER TABLE documents ADD COLUMN note TEXT NOT NULL DEFAULT 'new'")

    for _ in range(2):
        with closing(open_writer(path, (*MIGRATIONS, add_column))) as database:
            assert database.execute("SELECT source, note FROM documents").fetchall() == [("/a.md", "new")]
            assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)


def test_a_text_is_kept_once(tmp_path: Path) -> None:
    """A text that lacks one part of its content is stored as that part, and is read, searched and embedded as it is."""
    line = "<!-- memory:m1 -->"
    texts = {"# A\n\nalpha": "# A\n\nalpha", f"# B\n{line}\nbeta é": "# B\nbeta é", f"{line}x{line}": "x"}
    chunks = [chunk("/a.md", text, number, content=content) for number, (content, text) in enumerate(texts.items(), 1)]
    store = open_store(tmp_path)
    with store.writer() as writer:
        writer.put([update("/a.md", chunks)])

    assert {stored.chunk.content: stored.chunk.text for stored in store.chunks_of("/a.md")} == texts
    assert [pending.text.split()[-1] for pending in store.pending(10)] == ["alpha", "é", "x"]
    assert len(search_texts(store, "é")) == len(search_texts(store, "beta")) == 1
    with closing(sqlite3.connect(tmp_path / "index" / "catalog.db")) as database:
        assert database.execute("PRAGMA page_size").fetchone() == (16_384,)
        assert [text for (text,) in database.execute("SELECT text FROM chunks ORDER BY row")] == [None, None, "x"]


def test_a_schema_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    """A step is one transaction: after a failure the database has its old schema, version and content."""
    fill(open_store(tmp_path), "alpha")

    def fail(database: sqlite3.Connection) -> None:
        database.execute("DROP TABLE tagged")
        raise sqlite3.OperationalError("no such table: other")

    with pytest.raises(StoreDamaged):
        open_writer(tmp_path / "index" / "catalog.db", (*MIGRATIONS, fail))
    assert search_texts(open_store(tmp_path), "alpha") == ["alpha"]
    fill(open_store(tmp_path), "beta", source="/b.md")


CRASHING = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.stores.test_embedded import open_store
from tests.stores.making import update, vector
store = open_store(Path({place!r}))
round_ = int(sys.argv[1])
print("ready", flush=True)
while True:
    round_ += 1
    with store.writer() as writer:
        writer.put([update(f"/{{n}}.md", [f"word{{n}} kept", f"word{{n}} round{{round_}}"], size=round_) for n in range(5)])
        writer.put_vectors({{pending.vector_key: vector(1, len(pending.text)) for pending in store.pending(100)}})
        writer.sweep()
"""


@pytest.mark.parametrize("cycles", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_the_old_version_or_the_new(tmp_path: Path, cycles: int) -> None:
    """After kill -9 every document is complete, ids are unique, and the lanes agree with the catalog."""
    rng = random.Random(7)
    for cycle in range(cycles):
        kill_while_writing(CRASHING, tmp_path, cycle * 10_000, 1, rng.uniform(0.0, 0.3))
        check_whole(tmp_path)


def check_lanes(store: EmbeddedStore) -> None:
    """Assert that after a sweep both lanes hold each chunk of the catalog once, and that its counts are right."""
    with store.writer() as writer:
        writer.sweep()
    with store._open_reader() as catalog:
        if catalog is None:
            return
        live = {row for (row,) in catalog.database.execute("SELECT row FROM chunks WHERE live")}
        embedded = {row for (row,) in catalog.database.execute("SELECT row FROM chunks WHERE live AND embedded")}
        kept = catalog.database.execute("SELECT project, chunks, waiting FROM tallies WHERE chunks").fetchall()
        counted = "SELECT project, count(*), count(*) - sum(embedded) FROM chunks WHERE live GROUP BY project"
        assert sorted(kept) == sorted(catalog.database.execute(counted))
        opened_words = store._lexical._reader(catalog)
    assert opened_words is not None
    searcher, fresh = opened_words[0].searcher(), opened_words[1]
    hits = searcher.search(tantivy.Query.all_query(), 100_000).hits
    followed = [row for row in searcher.fast_field_values("row", [at for _, at in hits]) if row not in fresh.removed]
    assert sorted(map(str, [*followed, *fresh.words])) == sorted(map(str, live))
    opened = store._dense._open_files()
    rows = [] if opened is None else [int(row) for row in opened.rows if row]
    assert sorted(rows) == sorted(embedded)


def check_whole(place: Path) -> None:
    store = open_store(place)
    with store.writer():
        pass
    for document in store.documents():
        name = document.source.removeprefix("/").removesuffix(".md")
        texts = [stored.chunk.text for stored in store.chunks_of(document.source)]
        assert texts == [f"word{name} kept", f"word{name} round{document.stamp.size}"]
        assert search_texts(store, f"word{name}") == sorted(texts)
    ids = [stored.id for document in store.documents() for stored in store.chunks_of(document.source)]
    assert len(ids) == len(set(ids))
    lane = store.propose((), vector(1, 9), ALL, 1000)[1]
    assert len({hit.key for hit in lane}) == len(lane)
    assert set(store.fetch([hit.key for hit in lane])) == {hit.key for hit in lane}
    assert len(lane) == store.coverage(ALL).with_vectors
    check_lanes(store)
    with sqlite3.connect(place / "index" / "catalog.db") as database:
        assert database.execute("SELECT count(*) FROM chunks WHERE NOT live").fetchone() == (0,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    store.close()


def test_changes_that_come_twice_are_entered_once(tmp_path: Path) -> None:
    """A lane that lost its state after a commit applies the same changes again with the same result."""
    store = open_store(tmp_path)
    fill(store, "alpha")
    state = (tmp_path / "index" / "lexical" / "current.json").read_bytes()
    fill(store, "alpha", *(f"beta {number}" for number in range(70)))
    (tmp_path / "index" / "lexical" / "current.json").write_bytes(state)

    with open_store(tmp_path).writer():
        pass

    check_lanes(open_store(tmp_path))


@pytest.mark.slow
def test_threads_may_share_a_store_while_another_process_resets_it(tmp_path: Path) -> None:
    """Searching threads survive resets by another process."""
    fill(open_store(tmp_path), *(f"alpha {n}" for n in range(50)))
    script = (
        f"import sys, threading; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path\n"
        "from tests.stores.test_embedded import open_store, fill, search_texts, ALL\n"
        "from tests.stores.making import vector\n"
        f"store = open_store(Path({str(tmp_path)!r}))\n"
        "stop = threading.Event()\n"
        "def look():\n"
        "    while not stop.is_set():\n"
        "        search_texts(store, 'alpha'); store.propose((), vector(1, 2), ALL, 5); store.documents()\n"
        "threads = [threading.Thread(target=look) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
        "stop.set()\n"
        "for thread in threads: thread.join()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    other = open_store(tmp_path)
    for _ in range(15):
        other.reset()
        fill(other, *(f"alpha {n}" for n in range(50)))
    _, errors = process.communicate("", timeout=120)

    assert process.returncode == 0, errors
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_reset_does_not_pull_the_index_from_under_a_run(tmp_path: Path) -> None:
    """During an index run a reset is rejected, with the process that holds the lock."""
    store = open_store(tmp_path)
    fill(store, "alpha")

    with store.run(wait_s=0), pytest.raises(StoreBusy, match="process"):
        open_store(tmp_path).reset()

    assert search_texts(store, "alpha") == ["alpha"]


def read_places(store: EmbeddedStore) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Return the table of places, and what it should be by the chunks themselves."""
    with closing(sqlite3.connect(store._path)) as database:
        kept = database.execute("SELECT row, document, ordinal, length, starts FROM places ORDER BY row").fetchall()
        chunks = database.execute(
            "SELECT row, document, ordinal, content, text, cut_start, cut_end, piece, heading_path FROM chunks WHERE live ORDER BY row"
        ).fetchall()
    return kept, [
        (*row[:3], len(read_text(*row[3:7])), int(not row[7] and is_entry_path(json.loads(row[8])))) for row in chunks
    ]


def test_places_follow_every_write(tmp_path: Path) -> None:
    """Where chunks stand is known after texts were inserted, moved and removed."""
    store = open_store(tmp_path)
    long = [
        chunk("/a.md", f"text {n}", n, heading_path=("A", f"B{n // 3}")[: 1 + n % 3], piece=n % 2) for n in range(9)
    ]
    for texts in (long, long[4:], [*long[6:], chunk("/a.md", "new", 30), *long[:3]], long[:2]):
        with store.writer() as writer:
            writer.put([update("/a.md", texts, size=len(texts)), update("/b.md", ["other", "texts"])])
        kept, expected = read_places(store)
        assert kept == expected
        assert len(kept) == len(texts) + 2
    store.close()
