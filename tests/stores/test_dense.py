"""The dense lane with codes: the same results as a scan, whatever happens to the codes."""

from __future__ import annotations

import random
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.stores.making import ALL, OPENED, PlainAnalyser, chunk, kill_while_writing, update
from tests.stores.test_embedded import check_lanes

from lorelog.core.errors import ModelFault
from lorelog.core.ports import Vector
from lorelog.core.query import Filters
from lorelog.stores.embedded import EmbeddedStore, dense, vector_codes

DIMENSION = 24
EXACT_UP_TO = 400
Array = np.ndarray[Any, Any]


def clustered(count: int, dimension: int, seed: int, clusters: int = 60) -> Array:
    """Points around centres with a common direction, like the vectors of texts."""
    centres = np.random.default_rng(0).standard_normal((clusters, dimension))
    luck = np.random.default_rng(seed)
    points = centres[luck.integers(0, clusters, count)] + 0.6 * luck.standard_normal((count, dimension)) + 1.0
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), dtype=np.float32)


def open_small(place: Path, exact_up_to: int = EXACT_UP_TO) -> EmbeddedStore:
    store = EmbeddedStore(place / "index", PlainAnalyser(), provider="test", model="m", exact_up_to=exact_up_to)
    OPENED.append(store)
    return store


def vector_of(text: str) -> Vector:
    """Each text has its own fixed vector."""
    return bytes(clustered(1, DIMENSION, zlib.crc32(text.encode()))[0].tobytes())


def fill(store: EmbeddedStore, name: str, count: int, *, project: str = "/p", sweep: bool = True) -> None:
    texts = [chunk(f"/{name}.md", f"{name} {n}", n + 1, type="note" if n % 2 else "") for n in range(count)]
    with store.writer() as writer:
        writer.put([update(f"/{name}.md", texts, project=project)])
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(count)})
        if sweep:
            writer.sweep()


def follow(store: EmbeddedStore) -> None:
    """Let the lanes drop removed rows, as the next writer does."""
    with store.writer():
        pass


def nearest(store: EmbeddedStore, question: Vector, filters: Filters = ALL, limit: int = 20) -> list[tuple[str, float]]:
    found = store.propose((), question, filters, limit)[1]
    chunks = store.fetch([hit.key for hit in found])
    return [(chunks[hit.key].chunk.text, round(hit.score, 4)) for hit in found if hit.key in chunks]


def scanned(store: EmbeddedStore, question: Vector, admits: Callable[[Any], bool] = bool) -> list[tuple[str, float]]:
    """Return the expected result, computed from every chunk's vector."""
    scores = []
    for document in store.documents():
        for stored in store.chunks_of(document.source):
            if stored.has_vector and admits(stored):
                cosine = np.frombuffer(vector_of(stored.chunk.text), "<f4") @ np.frombuffer(question, "<f4")
                scores.append((stored.chunk.text, round(float(cosine), 4)))
    return sorted(scores, key=lambda pair: -pair[1])[:20]


def codes_of(place: Path) -> list[Path]:
    return sorted((place / "index").glob("dense/*/*.codes"))


def assert_right(store: EmbeddedStore, admits: Callable[[Any], bool] = bool, filters: Filters = ALL) -> None:
    for n in range(3):
        question = clustered(1, DIMENSION, 10**6 + n)[0].tobytes()
        got, wanted = nearest(store, question, filters), scanned(store, question, admits)
        # Of texts that are as near as the last one, either may be returned.
        last = wanted[-1][1] + 2e-4 if len(wanted) == 20 else -2.0
        assert {text for text, score in got if score > last} == {text for text, score in wanted if score > last}
        assert [score for _, score in got] == pytest.approx([score for _, score in wanted], abs=2e-4)


def assert_scores(store: EmbeddedStore, question: Vector) -> None:
    """Each result is unique and has its exact cosine."""
    found = nearest(store, question)
    assert len({text for text, _ in found}) == len(found)
    for text, score in found:
        cosine = float(np.frombuffer(vector_of(text), "<f4") @ np.frombuffer(question, "<f4"))
        assert score == pytest.approx(cosine, abs=1e-3)


def coded(path: Path, vectors: Any) -> Any:
    """Return the codes of all vectors, built and opened."""
    assert vector_codes.build_codes(path, vectors, np.arange(1, len(vectors) + 1))
    opened = vector_codes.open_codes(path, vectors.shape[1], len(vectors))
    assert opened is not None
    return opened


def test_codes_of_more_lines_than_a_scan_takes(tmp_path: Path) -> None:
    """Beyond the number of lines that are scanned, with nothing changed for the test, codes look at a part of the lists and miss at most 2 of 100."""
    vectors = clustered(40_000, 32, 1, clusters=300)
    assert len(vectors) > dense.EXACT_UP_TO
    opened = coded(tmp_path / "a.codes", vectors)
    assert opened.header.look_share < vector_codes.MAX_LOOK_SHARE

    found = 0
    for question in clustered(20, 32, 2, clusters=300):
        places = opened.propose(question, None, 10)
        assert len(places) <= opened.header.max_returned < len(vectors) / 10
        best = places[np.argsort(-(vectors[places] @ question))[:10]]
        found += len(set(best.tolist()) & set(np.argsort(-(vectors @ question))[:10].tolist()))
    assert found >= 0.98 * 200


@pytest.mark.slow
def test_a_store_of_more_chunks_than_are_scanned(tmp_path: Path) -> None:
    """At the product's own limit the store makes codes by itself and answers with exact cosines, in four writes and after another one."""
    store = open_small(tmp_path, dense.EXACT_UP_TO)
    for lot in range(4):
        fill(store, f"lot{lot}", 8_500, sweep=lot == 3)
    assert list(tmp_path.rglob("*.codes"))
    for number in range(5):
        question = vector_of(f"lot{number % 4} {number * 7}")
        text, cosine = nearest(store, question)[0]
        assert text == f"lot{number % 4} {number * 7}"
        assert cosine == pytest.approx(1.0, abs=1e-3)
        assert_scores(store, question)
    fill(store, "more", 10)
    assert nearest(store, vector_of("more 3"))[0][0] == "more 3"


def test_lists_that_do_not_narrow_a_search_are_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If all lines are estimated anyway they are in few lists, and a filter admits what is nearest among its own."""
    monkeypatch.setattr(vector_codes, "_LOOK_SETTINGS", ((1 / 1000, 1),))
    monkeypatch.setattr(vector_codes, "_MIN_LINES_LOOKED_AT", 0)
    monkeypatch.setattr(vector_codes, "_LINES_PER_BLOCK", 500)
    vectors = clustered(4_000, 96, 1, clusters=60)
    opened = coded(tmp_path / "a.codes", vectors)
    assert opened.header.lists == 8

    admitted = np.arange(len(vectors)) % 2 == 0
    for question in clustered(5, 96, 2, clusters=60):
        exact = np.argsort(-(vectors[admitted] @ question))[:10] * 2
        assert set(exact.tolist()) <= set(opened.propose(question, opened.positions(admitted), 10).tolist())


def test_codes_find_within_what_a_filter_admits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A filter that admits a third of the lines finds their neighbours."""
    monkeypatch.setattr(vector_codes, "_MIN_LINES_LOOKED_AT", 0)
    vectors = clustered(20_000, 96, 1, clusters=300)
    opened = coded(tmp_path / "a.codes", vectors)
    mask = np.random.default_rng(3).random(len(vectors)) < 0.3
    positions = opened.positions(mask)

    found = 0
    for question in clustered(50, 96, 2, clusters=300):
        places = opened.propose(question, positions, 10)
        assert mask[places].all()
        best = places[np.argsort(-(vectors[places] @ question))[:10]]
        true = np.argsort(-np.where(mask, vectors @ question, -2))[:10]
        found += len(set(best.tolist()) & set(true.tolist()))

    assert found >= 0.98 * 500


def test_a_removal_writes_only_the_files_that_it_changes(tmp_path: Path) -> None:
    """Removed lines are marked in place; projects and slots are neither written nor synced again."""
    store = open_small(tmp_path)
    fill(store, "a", 60)
    fill(store, "b", 60)
    files = {path.suffix: path for path in (tmp_path / "index" / "dense").rglob("*.*") if path.suffix != ".json"}
    before = {suffix: path.stat().st_mtime_ns for suffix, path in files.items()}
    with store.writer() as writer:
        writer.remove(["/b.md"])
    follow(store)

    written = {suffix for suffix, path in files.items() if path.stat().st_mtime_ns != before[suffix]}
    assert set(before) == {".rows", ".projects", ".slots", ".sums"}
    assert written == {".rows", ".sums"}
    assert_right(store)
    check_lanes(store)


def test_a_small_index_has_no_codes(tmp_path: Path) -> None:
    """Up to the size where a scan is fast no codes are built."""
    store = open_small(tmp_path)
    fill(store, "a", EXACT_UP_TO)

    assert codes_of(tmp_path) == []
    assert_right(store)


@pytest.mark.slow
def test_a_large_index_gets_codes_and_answers_alike(tmp_path: Path) -> None:
    """A sweep builds one codes file, which an open reader picks up."""
    reader, store = open_small(tmp_path), open_small(tmp_path)
    fill(store, "a", 600, sweep=False)
    assert codes_of(tmp_path) == []
    before = reader.revision()
    assert_right(reader)

    with store.writer() as writer:
        writer.sweep()

    (made,) = codes_of(tmp_path)
    assert store.stats().bytes_mapped == 600 * (2 * DIMENSION + 12 + 28) + made.stat().st_size
    assert reader.revision() != before
    assert_right(reader)
    assert_right(open_small(tmp_path))


@pytest.mark.slow
def test_what_comes_and_goes_after_the_codes_counts_at_once(tmp_path: Path) -> None:
    """Later lines are found and removed ones are not before a rebuild, and a sweep extends the codes."""
    store = open_small(tmp_path)
    fill(store, "a", 600)
    first = codes_of(tmp_path)

    fill(store, "b", 90, sweep=False)
    assert_right(store)
    with store.writer() as writer:
        writer.put([update("/a.md", [chunk("/a.md", f"a {n}", n + 1) for n in range(50, 600)], size=2)])
    follow(store)
    assert_right(store)
    fill(store, "c", 200)

    assert len(codes_of(tmp_path)) == 1
    assert codes_of(tmp_path) != first
    assert_right(store)
    check_lanes(store)


@pytest.mark.slow
def test_a_long_run_makes_codes_as_it_goes_and_an_entry_never_does(tmp_path: Path) -> None:
    """Outside an index run no codes are built without a sweep; within one they are built before its end."""
    store = open_small(tmp_path, 200)
    fill(store, "a", 500, sweep=False)
    assert codes_of(tmp_path) == []

    with store.run(wait_s=0):
        fill(store, "b", 10, sweep=False)

    assert len(codes_of(tmp_path)) == 1
    assert_right(store)


@pytest.mark.slow
def test_a_rewritten_matrix_gets_new_codes(tmp_path: Path) -> None:
    """A rewritten matrix never uses the codes of the old one."""
    store = open_small(tmp_path)
    fill(store, "a", 700)
    fill(store, "b", 700)

    with store.writer() as writer:
        writer.remove(["/a.md"])
    follow(store)
    assert codes_of(tmp_path)  # of the old matrix, until someone makes new ones
    assert_right(store)
    with store.writer() as writer:
        writer.sweep()

    assert_right(store)
    assert len(codes_of(tmp_path)) == 1
    check_lanes(store)


@pytest.mark.slow
@pytest.mark.parametrize("few", [1, 10_000])
def test_filters_admit_the_same_with_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Filters restrict a coded search exactly, including lines after the codes."""
    monkeypatch.setattr(dense, "_MAX_EXACT_LINES", few)
    monkeypatch.setattr(dense, "_MIN_LINES_PER_LIMIT", 1)
    store = open_small(tmp_path)
    fill(store, "a", 500, project="/p")
    fill(store, "b", 300, project="/q")
    fill(store, "c", 60, project="/q", sweep=False)

    for _ in range(2):  # the second time what is admitted is known
        assert_right(store, lambda stored: stored.project == "/q", Filters(projects=("/q",)))
        assert_right(store, lambda stored: stored.project == "/q", Filters(projects=("/q", "/none")))
        assert_right(store, lambda stored: stored.chunk.type == "note", Filters(types=("note",)))
        both = Filters(projects=("/q",), types=("note",))
        assert_right(store, lambda stored: stored.project == "/q" and stored.chunk.type == "note", both)
    assert_right(store, bool, Filters(projects=("/p", "/q")))
    assert nearest(store, vector_of("x"), Filters(projects=("/none",))) == []


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _overwrite(start: int, end: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        last = len(content) if end == 0 else end
        content[start:last] = random.Random(4).randbytes(last - start)
        path.write_bytes(content)

    return damage


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        _cut,
        lambda path: path.write_bytes(b""),
        _overwrite(0, 100),
        _overwrite(600, 900),
        _overwrite(4000, 0),
    ],
    ids=["missing", "cut", "empty", "header", "centres", "all else"],
)
def test_damaged_codes_never_give_a_wrong_answer(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """With a damaged file no search fails and no score is wrong; the next sweep rebuilds it."""
    store = open_small(tmp_path)
    fill(store, "a", 600)
    store.close()
    (path,) = codes_of(tmp_path)
    damage(path)

    again = open_small(tmp_path)
    question = vector_of("any")
    assert_scores(again, question)
    with again.writer() as writer:
        writer.sweep()

    assert_right(again)
    (new,) = codes_of(tmp_path)
    assert vector_codes.is_intact(new)


@pytest.mark.slow
def test_similarities_know_every_line(tmp_path: Path) -> None:
    """Cosines are right for coded, later and dead lines."""
    store = open_small(tmp_path)
    fill(store, "a", 600)
    fill(store, "b", 30, sweep=False)
    with store.writer() as writer:
        writer.put([update("/a.md", [chunk("/a.md", f"a {n}", n + 1) for n in range(590)], size=2)])
    follow(store)
    kept = [stored for document in store.documents() for stored in store.chunks_of(document.source)]
    question = vector_of("any")

    told = store.similarities(question, [stored.key for stored in kept] + [10**9, 595])

    asked = np.frombuffer(question, "<f4")
    assert set(told) == {stored.key for stored in kept}
    for stored in kept:
        assert told[stored.key] == pytest.approx(
            float(np.frombuffer(vector_of(stored.chunk.text), "<f4") @ asked), abs=5e-5
        )


def test_zero_vectors_are_coded_and_far_from_everything(tmp_path: Path) -> None:
    """A zero vector has a code, scores 0, and ranks after every similar vector."""
    store = open_small(tmp_path)
    texts = [f"a {n}" for n in range(600)]
    with store.writer() as writer:
        writer.put([update("/a.md", texts)])
        zero = array("f", [0.0] * DIMENSION).tobytes()
        writer.put_vectors(
            {
                pending.vector_key: zero if pending.text == "a 7" else vector_of(pending.text)
                for pending in store.pending(600)
            }
        )
        writer.sweep()
    assert len(codes_of(tmp_path)) == 1

    found = dict(nearest(store, vector_of("a 8"), limit=600))

    assert found["a 7"] == 0.0
    assert max(found, key=lambda text: found[text]) == "a 8"


def test_what_is_not_a_number_is_refused(tmp_path: Path) -> None:
    """NaN and infinity are rejected in stored vectors and queries, and a rejected batch leaves nothing behind."""
    store = open_small(tmp_path)
    with store.writer() as writer:
        writer.put([update("/a.md", ["a", "b"])])
        one, two = store.pending(2)
        broken = array("f", [float("nan")] * DIMENSION).tobytes()
        with pytest.raises(ModelFault, match="NaN"):
            writer.put_vectors({one.vector_key: vector_of("a"), two.vector_key: broken})
        assert len(store.pending(2)) == 2
        writer.put_vectors({one.vector_key: vector_of("a")})

    for bad in (float("nan"), float("inf")):
        with pytest.raises(ModelFault, match="NaN"):
            store.propose((), array("f", [bad] * DIMENSION).tobytes(), ALL, 5)[1]


@pytest.mark.slow
def test_vectors_that_codes_cannot_tell_apart_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If codes would miss neighbours there are none; this is remembered until the index has doubled."""
    monkeypatch.setattr(vector_codes, "_MIN_LINES_LOOKED_AT", 0)
    monkeypatch.setattr(vector_codes, "_LOOK_SETTINGS", ((1 / 1000, 1),))
    monkeypatch.setattr(vector_codes, "_WIDE_SETTINGS", ((1.0, 1),))
    store = open_small(tmp_path)
    fill(store, "a", 600)

    assert codes_of(tmp_path) == []
    assert_right(store)
    state = store._dense._state()
    assert state is not None
    assert state.refused == 600
    monkeypatch.undo()
    with store.writer() as writer:
        writer.sweep()
    assert codes_of(tmp_path) == []
    fill(store, "b", 700)
    assert len(codes_of(tmp_path)) == 1
    assert_right(store)


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.stores.test_dense import fill, open_small
store = open_small(Path({place!r}), 150)
round_ = int(sys.argv[1])
print("ready", flush=True)
while True:
    round_ += 1
    fill(store, f"n{{round_ % 7}}", 60 + round_ % 40)
    print(round_, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cycles", [2, pytest.param(14, marks=pytest.mark.slow)])
def test_a_killed_build_leaves_an_index_that_answers_rightly(tmp_path: Path, cycles: int) -> None:
    """After kill -9 while codes are built, extended or swapped, searches return what the catalog has."""
    rng = random.Random(11)
    seen = 0
    for cycle in range(cycles):
        # So many writes, however slow the machine.
        kill_while_writing(KILLED, tmp_path, cycle * 1000, 1 + rng.randrange(8), rng.uniform(0.0, 0.1))
        seen += len(codes_of(tmp_path))
        store = open_small(tmp_path, 150)
        assert_scores(
            store, vector_of("any")
        )  # vectors that did not reach the lane may be missing until someone writes
        follow(store)
        assert_right(store)
        with store.writer() as writer:
            writer.sweep()
        assert_right(store)
        assert len(codes_of(tmp_path)) <= 2
        check_lanes(store)
        store.close()
    assert seen or cycles < 14


@pytest.mark.slow
def test_a_build_that_fails_costs_nothing_but_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while codes are built does not fail the write before it, and leaves no file in use."""
    store = open_small(tmp_path)
    fill(store, "a", 600, sweep=False)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vector_codes, "write_codes", fail)
    with store.writer() as writer:
        writer.sweep()
    monkeypatch.undo()

    assert codes_of(tmp_path) == []
    assert_right(store)
