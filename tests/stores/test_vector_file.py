"""The catalog's vectors: each on disk once, in half of its bytes, whatever happens while they are written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.stores.making import ALL, PlainAnalyser, chunk, update

from lorelog.stores.embedded import EmbeddedStore, catalog_writer, dense, vector_file
from lorelog.stores.embedded.catalog_reader import CatalogReader

DIMENSION = 64
FILES = {".i16", ".rows", ".projects", ".slots", ".sums"}


def open_store(place: Path) -> EmbeddedStore:
    return EmbeddedStore(place, PlainAnalyser(), provider="test", model="m")


def vector_of(text: str) -> bytes:
    values = np.random.default_rng(list(text.encode())).standard_normal(DIMENSION)
    return bytes((values / np.linalg.norm(values)).astype("<f4").tobytes())


def put(store: EmbeddedStore, source: str, texts: list[str], *, sweep: bool = False) -> None:
    with store.writer() as writer:
        writer.put([update(source, [chunk(source, text, n + 1) for n, text in enumerate(texts)], size=len(texts))])
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(10_000)})
        if sweep:
            writer.sweep()


def assert_right(store: EmbeddedStore) -> None:
    """Every chunk is the nearest to its own vector, and its vector comes back."""
    for document in store.documents():
        for stored in store.chunks_of(document.source):
            found = store.propose((), vector_of(stored.chunk.text), ALL, 1)[1]
            assert found[0].key == stored.key
            assert found[0].score == pytest.approx(1, abs=1e-4)
            kept = np.frombuffer(store.vectors([stored.key])[stored.key], "<f4")
            assert kept == pytest.approx(np.frombuffer(vector_of(stored.chunk.text), "<f4"), abs=1e-5)


def bytes_on_disk(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_each_vector_is_on_disk_once_in_half_of_its_bytes(tmp_path: Path) -> None:
    """The 16-bit numbers of a vector are in one place of one file, and its float32 bytes in none."""
    store = open_store(tmp_path)
    put(store, "/a.md", [f"text {n}" for n in range(40)], sweep=True)
    files = bytes_on_disk(tmp_path)

    for stored in store.chunks_of("/a.md"):
        (record,) = store.vector_records([stored.key])
        assert len(record) == 2 * DIMENSION
        assert sum(content.count(record) for content in files.values()) == 1
        assert not any(vector_of(stored.chunk.text)[:32] in content for content in files.values())


def test_the_bytes_of_a_chunk_on_disk_are_counted(tmp_path: Path) -> None:
    """A chunk costs its vector's numbers, twice its text, and at most 800 bytes."""
    store, texts = open_store(tmp_path), [f"{n} " + "lorem ipsum dolor sit amet " * 20 for n in range(400)]
    put(store, "/a.md", texts[:200])
    first = sum(map(len, bytes_on_disk(tmp_path).values()))
    put(store, "/b.md", texts[200:], sweep=True)

    grown = sum(map(len, bytes_on_disk(tmp_path).values())) - first
    assert grown / 200 < 2 * DIMENSION + 2 * len(texts[-1]) + 800


def test_stats_cost_the_same_however_many_documents_there_are(tmp_path: Path) -> None:
    """SQLite takes as many steps for the sizes of an index with 120 documents as for one with 3."""
    steps = []
    for count in (3, 120):
        store = open_store(tmp_path / str(count))
        with store.writer() as writer:
            writer.put([update(f"/{n}.md", [f"text {n}"]) for n in range(count)])
            writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(count)})
        assert (store.stats().documents, store.stats().vectors) == (count, count)
        assert store.stats().project_documents == {"/p": count}
        (reader,) = store._idle_readers
        taken: list[int] = []
        reader.database.set_progress_handler(partial(taken.append, 1), 1)
        store.stats()
        steps.append(len(taken))
        store.close()
    assert 0 < steps[0] == steps[1]


def test_counts_follow_what_comes_and_goes(tmp_path: Path) -> None:
    """Documents, chunks and vectors are counted right after changes, moves to another project and removals."""
    store = open_store(tmp_path)
    with store.writer() as writer:
        writer.put([update("/a.md", ["one", "two"]), update("/b.md", ["three"]), update("/c.md", [])])
        writer.put([update("/b.md", ["four", "two"], project="/q")])
        writer.remove(["/c.md", "/none.md"])
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(10)})
        writer.remove(["/a.md"])

    stats = store.stats()
    assert (dict(stats.projects), dict(stats.project_documents)) == ({"/q": 2}, {"/q": 1})
    assert (stats.documents, stats.chunks, stats.vectors) == (1, 2, 3)


def test_a_write_that_fails_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that no transaction names are overwritten by the next write, and every answer is right."""
    store = open_store(tmp_path)
    put(store, "/a.md", ["alpha", "beta"])
    with monkeypatch.context() as patched:
        patched.setattr(CatalogReader, "rows_waiting_for", _fail)
        with pytest.raises(RuntimeError):
            put(store, "/b.md", ["gamma", "delta", "epsilon"])
    put(store, "/c.md", ["zeta"])

    assert_right(store)
    assert store.stats().vectors == 6
    assert store.compare().is_consistent


def _fail(*_: object) -> list[int]:
    raise RuntimeError("killed")


def test_many_removed_vectors_are_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When most records are removed, the others move to a new file; a reader of the old one stays right."""
    monkeypatch.setattr(vector_file, "_MIN_DEAD_RECORDS", 10)
    monkeypatch.setattr("lorelog.stores.embedded.catalog_writer._UNUSED_VECTOR_TTL_S", -1)
    store, reader = open_store(tmp_path), open_store(tmp_path)
    put(store, "/a.md", [f"text {n}" for n in range(60)])
    put(store, "/b.md", [f"other {n}" for n in range(10)])
    (before,) = tmp_path.glob("vectors/*")
    assert_right(reader)
    with store.writer() as writer:
        writer.remove(["/a.md"])
        writer.sweep()

    (after,) = tmp_path.glob("vectors/*")
    assert after.stat().st_size * 7 == 70 * vector_file.record_bytes(DIMENSION)
    assert before != after
    assert_right(store)
    assert_right(reader)
    assert store.compare().is_consistent


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 385])
def test_a_few_vectors_are_encoded_without_numpy_into_the_same_bytes(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is the same whichever way it was computed, also of zeros and of few-bit numbers."""
    values = np.random.default_rng(dimension).standard_normal((40, dimension))
    values[0] = 0
    values[1] = np.round(values[1], 1)
    vectors = [line.tobytes() for line in values.astype("<f4")]
    lines = [(7 * n + 1, f"/project {n % 3}", n << 16) for n in range(40)]
    with_numpy = vector_file.encode_records(vectors), vector_file.line_bytes(lines)
    monkeypatch.setattr(vector_file, "needs_numpy", lambda count: False)

    assert (vector_file.encode_records(vectors), vector_file.line_bytes(lines)) == with_numpy


def test_small_writes_without_numpy_leave_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that come, change and go give the same vectors and lines, whether numpy writes them or not."""
    for place in ("with", "without"):
        store = open_store(tmp_path / place)
        put(store, "/a.md", ["one", "two", "three"])
        put(store, "/a.md", ["one", "other", "three"])
        with store.writer() as writer:
            writer.remove(["/a.md"])
        put(store, "/b.md", ["four"], sweep=True)
        assert_right(store)
        store.close()
        for module in (vector_file, dense, catalog_writer):
            monkeypatch.setattr(module, "needs_numpy", lambda count: False)

    written = [
        sorted(
            (path.suffix, content) for path, content in bytes_on_disk(tmp_path / place).items() if path.suffix in FILES
        )
        for place in ("with", "without")
    ]
    assert len(written[0]) == len(FILES)
    assert written[0] == written[1]
