"""Damaged files of the dense lane: no wrong answer, a name for the damage, and a repair from the catalog."""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.stores.making import PlainAnalyser, chunk, update

from lorelog.core.ports import REPAIR_NOTE
from lorelog.core.query import Filters, Term
from lorelog.stores.embedded import EmbeddedStore, dense

COUNT, DIMENSION = 60, 8
VECTORS, LANE_FILES = ".i16", (".rows", ".projects", ".slots", ".sums")


@contextmanager
def opened(place: Path, *, exact_up_to: int = 10_000) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(place, PlainAnalyser(), provider="test", model="m", exact_up_to=exact_up_to)
    try:
        yield store
    finally:
        store.close()


def vector_of(text: str) -> bytes:
    values = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSION)
    return bytes((values / np.linalg.norm(values)).astype("<f4").tobytes())


def fill(place: Path, *, exact_up_to: int = 10_000) -> None:
    with opened(place, exact_up_to=exact_up_to) as store, store.writer() as writer:
        writer.put([update("/a.md", [chunk("/a.md", f"text {n}", n + 1) for n in range(COUNT)])])
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(COUNT)})
        writer.sweep()


def make_again(store: EmbeddedStore) -> int:
    """Embed what has no vector, as an index run does; return the number of texts."""
    waiting = store.pending(1000)
    with store.writer() as writer:
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in waiting})
    return len(waiting)


def flip(place: Path, ending: str, *, keep_time: bool) -> None:
    """Damage the middle of a file, as another program or a failing disk does."""
    (path,) = place.rglob(f"*{ending}")
    status = path.stat()
    content = bytearray(path.read_bytes())
    for at in range(len(content) // 4, len(content) // 2):
        content[at] ^= 0x55
    path.write_bytes(content)
    times = (status.st_atime_ns, status.st_mtime_ns if keep_time else status.st_mtime_ns + 10**9)
    os.utime(path, ns=times)


def first_texts(store: EmbeddedStore) -> list[str]:
    """Return the nearest text to each text's own vector."""
    found = [store.propose((), vector_of(f"text {n}"), Filters(projects=("/p",)), 1)[1][0] for n in range(COUNT)]
    return [store.fetch([hit.key])[hit.key].chunk.text for hit in found]


EXPECTED = [f"text {n}" for n in range(COUNT)]


@pytest.mark.parametrize("ending", LANE_FILES)
def test_a_search_never_answers_from_damaged_files(tmp_path: Path, ending: str) -> None:
    """Whichever file of the lane is damaged, the next search answers rightly, and the repair is noted."""
    fill(tmp_path)
    flip(tmp_path, ending, keep_time=True)

    with opened(tmp_path) as store:
        assert first_texts(store) == EXPECTED
        assert "lines of" in store.get_note(REPAIR_NOTE)
        assert store.compare().is_consistent


def test_damaged_vectors_give_no_answer_and_are_made_again(tmp_path: Path) -> None:
    """A search answers from the vectors that are as written; those alone that are not are embedded again."""
    fill(tmp_path)
    flip(tmp_path, VECTORS, keep_time=True)

    with opened(tmp_path) as store:
        found = [store.propose((), vector_of(text), Filters(), 1)[1][0].key for text in EXPECTED]
        assert VECTORS in store.get_note(REPAIR_NOTE)
        lost = {pending.text for pending in store.pending(COUNT)}
        assert COUNT // 5 < len(lost) < COUNT // 3
        texts = [store.fetch([key])[key].chunk.text for key in found]
        assert all(text not in lost for text in texts)
        assert all(text == wanted or wanted in lost for text, wanted in zip(texts, EXPECTED, strict=True))
        assert store.compare().is_consistent
        assert make_again(store) == len(lost)
        assert first_texts(store) == EXPECTED
        assert store.compare().is_consistent


@pytest.mark.parametrize("ending", [VECTORS, *LANE_FILES])
def test_a_check_names_the_damaged_file(tmp_path: Path, ending: str) -> None:
    """`compare` names the damage without a change, and with `repair` reports what it repaired."""
    fill(tmp_path)
    flip(tmp_path, ending, keep_time=True)

    with opened(tmp_path) as store:
        found = store.compare()
        assert not found.is_consistent
        assert ending in found.damage or ending == ".sums"
        assert (found.unlike > 0) == (ending != ".sums")
        assert store.compare() == found
        repaired = store.compare(repair=True)
        assert (repaired.damage, repaired.repaired) == (found.damage, True)
        assert store.compare().is_consistent


def test_a_large_matrix_is_checked_where_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix too large to be checked when opened gives no wrong score: returned lines are checked."""
    fill(tmp_path)
    flip(tmp_path, VECTORS, keep_time=True)
    monkeypatch.setattr(dense, "_CHECKED_WHEN_OPENED", 0)

    with opened(tmp_path) as store:
        found = store.propose((), vector_of("text 30"), Filters(), COUNT)[1]
        texts = store.fetch([hit.key for hit in found])
        scores = {texts[hit.key].chunk.text: hit.score for hit in found}
        question = np.frombuffer(vector_of("text 30"), "<f4")
        right = {text: float(np.frombuffer(vector_of(text), "<f4") @ question) for text in scores}
        assert COUNT // 2 < len(scores) < COUNT
        assert scores == pytest.approx(right, abs=5e-5)


def test_files_that_another_program_wrote_are_checked_at_the_next_write(tmp_path: Path) -> None:
    """A write after damage takes the damaged vectors out before it adds to them."""
    fill(tmp_path)
    flip(tmp_path, VECTORS, keep_time=False)

    with opened(tmp_path) as store:
        with store.writer():
            pass
        assert VECTORS in store.get_note(REPAIR_NOTE)
        assert 0 < make_again(store) < COUNT
        assert first_texts(store) == EXPECTED


def test_copied_files_are_intact(tmp_path: Path) -> None:
    """Other times alone are no damage: nothing is rebuilt."""
    fill(tmp_path)
    (path,) = tmp_path.rglob("*.i16")
    os.utime(path, ns=(1, 1))

    with opened(tmp_path) as store:
        with store.writer():
            pass
        assert first_texts(store) == EXPECTED
        assert store.get_note(REPAIR_NOTE) == ""
    assert path.exists()


@pytest.mark.parametrize("keep_time", [True, False])
def test_damaged_codes_are_named_and_dropped(tmp_path: Path, *, keep_time: bool) -> None:
    """Damaged codes hide lines: they are not used if another program wrote them, and a check drops them in any case."""
    fill(tmp_path, exact_up_to=20)
    flip(tmp_path, ".codes", keep_time=keep_time)

    with opened(tmp_path, exact_up_to=20) as store:
        if not keep_time:
            assert first_texts(store) == EXPECTED
        assert ".codes" in store.compare().damage
        assert ".codes" in store.mend(thoroughly=True)
        assert first_texts(store) == EXPECTED
        assert ".codes" in store.get_note(REPAIR_NOTE)


@pytest.mark.parametrize("ending", [VECTORS, *LANE_FILES])
def test_a_missing_file_is_named_and_made_again(tmp_path: Path, ending: str) -> None:
    """Without one of its files the lane is named as damaged, and the next search has what can be had without a model."""
    fill(tmp_path)
    next(tmp_path.rglob(f"*{ending}")).unlink()

    with opened(tmp_path) as store:
        assert "missing" in store.compare().damage
        if ending == VECTORS:
            assert store.propose((), vector_of("text 1"), Filters(), 5)[1] == []
            assert make_again(store) == COUNT
        assert first_texts(store) == EXPECTED


def test_removed_lines_are_not_damage(tmp_path: Path) -> None:
    """Lines of removed and changed documents pass every check."""
    fill(tmp_path)
    with opened(tmp_path) as store:
        with store.writer() as writer:
            writer.put([update("/a.md", [chunk("/a.md", f"text {n}", n + 1) for n in range(COUNT - 5)])])
        with store.writer():
            pass
        assert store.compare().is_consistent
        assert store.mend(thoroughly=True) == ""
        assert store.get_note(REPAIR_NOTE) == ""


TORN = (VECTORS, *LANE_FILES, "lines", "dense/*/current.json", "lexical/current.json", ".idx", "catalog")


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("torn", TORN)
def test_what_a_power_failure_took_is_made_again(
    tmp_path: Path, torn: str, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool
) -> None:
    """Files that were not synced may be cut, or zeros in their time of before, and the catalog older than the lanes."""
    monkeypatch.setattr(dense, "_CHECKED_WHEN_OPENED", 0)
    early = [update("/a.md", [chunk("/a.md", f"text {n}", n + 1) for n in range(COUNT)])]
    with opened(tmp_path) as store, store.writer() as writer:
        writer.put(early)
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(COUNT)})
    old = {path: path.read_bytes() for path in tmp_path.glob("catalog.db*")}
    with opened(tmp_path) as store, store.writer() as writer:
        writer.put([update("/b.md", [chunk("/b.md", f"other {n}", n + 1) for n in range(70)])])
        writer.put_vectors({pending.vector_key: vector_of(pending.text) for pending in store.pending(70)})
    if torn == "catalog":
        for path in tmp_path.glob("catalog.db*"):
            path.unlink()
        for path, content in old.items():
            path.write_bytes(content)
    endings = LANE_FILES if torn == "lines" else (torn,) if "/" in torn else (torn.replace("catalog", ".none"),)
    for path in [path for ending in endings for path in tmp_path.rglob(ending if "/" in ending else f"*{ending}")]:
        content, status = path.read_bytes(), path.stat()
        kept = content[: len(content) // 2]
        path.write_bytes(kept if is_cut else kept + bytes(len(content) - len(kept)))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for path in tmp_path.glob("dense/*/current.json"):  # the last check was before the machine started
        path.write_text(re.sub(r'"checked": \d+', '"checked": 0', path.read_text("utf-8")), "utf-8")
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database, database:
        database.execute("DELETE FROM facts WHERE name = 'checked_at'")

    with opened(tmp_path) as store:
        assert {stored.chunk.text for stored in store.fetch(range(1, 200)).values()} >= set(EXPECTED)
        found = store.propose([Term("text")], vector_of("text 1"), Filters(), 200)
        assert len(found[0]) == COUNT
        assert all(hit.score < 1.001 for hit in found[1])
        with store.writer() as writer:
            writer.put([*early, update("/b.md", [chunk("/b.md", f"other {n}", n + 1) for n in range(70)])])
        lost = make_again(store)
        assert bool(lost) == (torn in {VECTORS, "catalog"})
        assert first_texts(store) == EXPECTED
        assert len(store.propose([Term("other")], vector_of("other 1"), Filters(), 200)[1]) == COUNT + 70
        assert len(store.propose([Term("other")], None, Filters(), 200)[0]) == 70
        assert store.compare().is_consistent
