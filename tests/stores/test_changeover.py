"""Two models over one index: whose vectors are found, before and after one takes the other's place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stores.making import PlainAnalyser, update, vector
from tests.stores.milvus_server import tenant

from lorelog.core.options import StoreOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters, Term
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.embedded.spaces import model_of, newest, next_after, owner_of
from lorelog.stores.milvus import MilvusStore

ALL = Filters()
Open = Callable[[str], Store]


@pytest.fixture(params=["embedded", "milvus-lite"])
def open_as(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """One index, opened as the model of a name."""
    whose = tenant()

    def opened(model: str) -> Store:
        if request.param == "embedded":
            return EmbeddedStore(tmp_path / "index", PlainAnalyser(), provider="test", model=model)
        options = StoreOptions(request.getfixturevalue("milvus_file"))
        return MilvusStore(tmp_path / "index", PlainAnalyser(), options, tenant=whose, provider="test", model=model)

    return opened


def found(store: Store, *numbers: float) -> list[str]:
    """The texts nearest to a vector, found by vectors; words find all of them, too."""
    assert len(store.lexical([Term("alpha")], ALL, 5)) == 1
    hits = store.dense(vector(*numbers), ALL, 5)
    chunks = store.fetch([one.key for one in hits])
    return [chunks[one.key].chunk.text for one in hits]


def fill(store: Store) -> None:
    with store.writer(take_over=True) as writer:
        writer.put([update("/a.md", ["alpha", "beta"])])
        keys = {one.text: one.vector_key for one in store.pending(5)}
        writer.put_vectors({keys["alpha"]: vector(1, 0), keys["beta"]: vector(0, 1)})


def make_beside(store: Store) -> None:
    """Vectors of the same dimension that say the opposite."""
    with store.writer() as writer:
        writer.begin_beside(2)
        keys = {one.text: one.vector_key for one in store.pending_beside(5)}
        writer.put_beside({keys["alpha"]: vector(0, 1), keys["beta"]: vector(1, 0)})


def test_each_model_finds_by_its_own_vectors(open_as: Open) -> None:
    """Up to the swap the old model finds by its vectors and the other by none; from then on it is the other way round."""
    old, new = open_as("old"), open_as("new")
    fill(old)
    make_beside(new)
    assert found(old, 1, 0) == ["alpha", "beta"]
    assert new.coverage(ALL).with_vectors == 0
    assert old.serves_model()
    assert not new.serves_model()
    known = new.changeover()
    assert (known.own, known.served, known.begun, known.waiting) == ("test/new", "test/old", "test/new", 0)

    with new.writer() as writer:
        writer.swap()
        writer.sweep()

    assert found(new, 1, 0) == ["beta", "alpha"]
    assert old.coverage(ALL).with_vectors == 0
    assert new.serves_model()
    assert not old.serves_model()
    assert [one.id for one in new.chunks_of("/a.md")] == [one.chunk.identify("new") for one in new.chunks_of("/a.md")]
    assert new.compare().is_whole
    for store in (old, new):
        store.close()


def test_going_back_and_on_again(open_as: Open) -> None:
    """Each time all vectors of one model and its ids are there at once, also of what was changed in between."""
    old, new = open_as("old"), open_as("new")
    fill(old)
    make_beside(new)
    with new.writer() as writer:
        writer.swap()
        writer.put([update("/a.md", ["alpha", "beta", "gamma"], size=2)])

    with new.writer() as writer:
        writer.roll_back()
    assert found(old, 1, 0) == ["alpha", "beta"]
    assert [one.id for one in old.chunks_of("/a.md")] == [one.chunk.identify("old") for one in old.chunks_of("/a.md")]
    assert [one.text for one in old.pending(5)] == ["gamma"]
    with old.writer() as writer:
        writer.put_vectors({one.vector_key: vector(1, 1) for one in old.pending(5)})
    assert old.compare().is_whole
    with old.writer() as writer:
        writer.roll_back()
    assert found(new, 1, 0) == ["beta", "alpha"]
    assert [one.text for one in new.pending(5)] == ["gamma"]
    with new.writer() as writer:
        assert writer.forget_others() == 3

    assert found(new, 1, 0) == ["beta", "alpha"]
    assert new.stats().other_vectors == 0
    assert new.compare().is_whole
    for store in (old, new):
        store.close()


def test_vectors_left_by_a_model_are_used_again(open_as: Open) -> None:
    """A model that comes back makes only what it has not made before, unless it has another dimension by now."""
    old, new = open_as("old"), open_as("new")
    fill(old)
    make_beside(new)
    with new.writer() as writer:
        writer.swap()

    with old.writer() as writer:
        writer.begin_beside(2)
    assert old.pending_beside(5) == []
    with old.writer() as writer:
        writer.begin_beside(3)

    assert len(old.pending_beside(5)) == 2
    assert found(new, 1, 0) == ["beta", "alpha"]
    for store in (old, new):
        store.close()


def test_an_unfinished_change_leaves_lanes_alone(tmp_path: Path) -> None:
    """Writes of the old model while another makes vectors beside are found by the old one, and waited for by the other."""
    old, new = (
        EmbeddedStore(tmp_path / "index", PlainAnalyser(), provider="test", model=one) for one in ("old", "new")
    )
    fill(old)
    make_beside(new)

    with old.writer() as writer:
        writer.put([update("/b.md", ["gamma"])])
        writer.put_vectors({one.vector_key: vector(1, 1) for one in old.pending(5)})
        writer.sweep()

    assert found(old, 1, 1)[0] == "gamma"
    assert [one.text for one in new.pending_beside(5)] == ["gamma"]
    old.close()
    new.close()


KILLED = """
import os, sys
from pathlib import Path
from tests.stores.making import PlainAnalyser
from lorelog.stores.embedded import EmbeddedStore, beside, writing

def end(*_):
    os._exit(9)

place, moment = sys.argv[1:]
store = EmbeddedStore(Path(place) / "index", PlainAnalyser(), provider="test", model="new")
with store.writer() as writer:
    if moment == "before":
        beside.BesideTable.exchange = end
    elif moment == "within":
        beside.BesideTable._rename = end
    else:
        writing.EmbeddedWriter._follow = end
    writer.swap()
"""


@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_killed_while_vectors_are_exchanged(tmp_path: Path, moment: str) -> None:
    """Whenever in a swap the process dies, one model's vectors and ids are all there, and the swap can be made or undone."""
    old, new = (
        EmbeddedStore(tmp_path / "index", PlainAnalyser(), provider="test", model=one) for one in ("old", "new")
    )
    fill(old)
    make_beside(new)

    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False, timeout=60)

    assert killed.returncode == 9
    if moment == "after":
        assert found(new, 1, 0) == ["beta", "alpha"]
        with new.writer() as writer:
            writer.roll_back()
    assert found(old, 1, 0) == ["alpha", "beta"]
    assert [one.id for one in old.chunks_of("/a.md")] == [one.chunk.identify("old") for one in old.chunks_of("/a.md")]
    again = "roll_back" if moment == "after" else "swap"
    with new.writer() as writer:
        getattr(writer, again)()
    assert found(new, 1, 0) == ["beta", "alpha"]
    old.close()
    new.close()


def test_names_of_vectors() -> None:
    """A model's vectors bear its name, and a higher number each time; no other model's name counts."""
    known = ["p/m"]
    for _ in range(11):
        known.append(next_after("p/m", known))

    assert len(set(known)) == 12
    assert newest("p/m", [*known, "p/m2", "q/m"]) == known[-1]
    assert next_after("p/other", known) == newest("p/other", known) == "p/other"
    assert {(owner_of(one), model_of(one)) for one in known} == {("p/m", "m")}
    assert model_of("onnx/org/model@256") == "org/model@256"
