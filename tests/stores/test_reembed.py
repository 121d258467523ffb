"""Two models over one index: whose vectors are found before and after a swap."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores.making import ALL, PlainAnalyser, update, vector
from tests.stores.milvus_server import tenant

from lorelog.core.options import StoreOptions
from lorelog.core.ports import Store
from lorelog.core.query import Term
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.embedded.catalog_reader import newest_space, next_space, space_model, space_owner
from lorelog.stores.milvus import MilvusStore


def nearest_texts(store: Store, *numbers: float) -> list[str]:
    """Return the texts nearest to a vector, and assert that words find all of them."""
    assert len(store.propose([Term("alpha")], None, ALL, 5)[0]) == 1
    hits = store.propose((), vector(*numbers), ALL, 5)[1]
    chunks = store.fetch([hit.key for hit in hits])
    return [chunks[hit.key].chunk.text for hit in hits]


def fill(store: Store) -> None:
    with store.writer(take_over=True) as writer:
        writer.put([update("/a.md", ["alpha", "beta"])])
        keys = {pending.text: pending.vector_key for pending in store.pending(5)}
        writer.put_vectors({keys["alpha"]: vector(1, 0), keys["beta"]: vector(0, 1)})


def make_beside(store: Store) -> None:
    """Store vectors of the same dimension in the opposite order."""
    with store.writer() as writer:
        writer.begin_shadow_vectors(2)
        keys = {pending.text: pending.vector_key for pending in store.pending(5, shadow=True)}
        writer.put_vectors({keys["alpha"]: vector(0, 1), keys["beta"]: vector(1, 0)}, shadow=True)


TwoModels = tuple[Store, Store]
"""One index as the old model sees it and as the new one does, whose vectors are made beside."""


@pytest.fixture(params=["embedded", "milvus-lite"])
def models(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TwoModels]:
    whose = tenant()

    def opened(model: str) -> Store:
        if request.param == "embedded":
            return EmbeddedStore(tmp_path / "index", PlainAnalyser(), provider="test", model=model)
        options = StoreOptions(request.getfixturevalue("milvus_file"))
        return MilvusStore(tmp_path / "index", PlainAnalyser(), options, tenant=whose, provider="test", model=model)

    old, new = opened("old"), opened("new")
    fill(old)
    make_beside(new)
    yield old, new
    old.close()
    new.close()


def ids_are_of(store: Store, model: str) -> bool:
    return all(stored.id == stored.chunk.identify(model) for stored in store.chunks_of("/a.md"))


def test_each_model_finds_by_its_own_vectors(models: TwoModels) -> None:
    """Before the swap only the old model finds by vectors, after it only the new one; a rollback undoes that."""
    old, new = models
    assert nearest_texts(old, 1, 0) == ["alpha", "beta"]
    assert new.coverage(ALL).with_vectors == 0
    assert old.serves_model()
    assert not new.serves_model()
    known = new.reembed_state()
    assert (known.own, known.served, known.begun, known.waiting) == ("test/new", "test/old", "test/new", 0)

    with new.writer() as writer:
        writer.swap_vectors()
        writer.sweep()

    assert nearest_texts(new, 1, 0) == ["beta", "alpha"]
    assert old.coverage(ALL).with_vectors == 0
    assert new.serves_model()
    assert not old.serves_model()
    assert ids_are_of(new, "new")
    assert new.compare().is_consistent
    with new.writer() as writer:
        writer.roll_back()
    assert nearest_texts(old, 1, 0) == ["alpha", "beta"]
    assert ids_are_of(old, "old")
    assert old.compare().is_consistent


def test_vectors_left_by_a_model_are_used_again(models: TwoModels) -> None:
    """A model that returns embeds only what it lacks, unless its dimension has changed."""
    old, new = models
    with new.writer() as writer:
        writer.swap_vectors()

    with old.writer() as writer:
        writer.begin_shadow_vectors(2)
    assert old.pending(5, shadow=True) == []
    with old.writer() as writer:
        writer.begin_shadow_vectors(3)

    assert len(old.pending(5, shadow=True)) == 2
    assert nearest_texts(new, 1, 0) == ["beta", "alpha"]


KILLED = """
import os, sys
from pathlib import Path
from tests.stores.making import PlainAnalyser
from lorelog.stores.embedded import EmbeddedStore, catalog_writer
from lorelog.stores.embedded.catalog_writer import CatalogWriter, ShadowVectors

def end(*_):
    os._exit(9)

place, moment = sys.argv[1:]
store = EmbeddedStore(Path(place) / "index", PlainAnalyser(), provider="test", model="new")
with store.writer() as writer:
    if moment == "before":
        ShadowVectors.swap = end
    elif moment == "within":
        catalog_writer.chunk_id = end
    else:
        CatalogWriter._update_lanes = end
    writer.swap_vectors()
"""


@pytest.mark.parametrize("models", ["embedded"], indirect=True)
@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_killed_while_vectors_are_exchanged(tmp_path: Path, models: TwoModels, moment: str) -> None:
    """If the process dies during a swap, one model's vectors and ids are complete, and the swap can be done or undone."""
    old, new = models

    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment], check=False, timeout=60)

    assert killed.returncode == 9
    if moment == "after":
        assert nearest_texts(new, 1, 0) == ["beta", "alpha"]
        with new.writer() as writer:
            writer.roll_back()
    assert nearest_texts(old, 1, 0) == ["alpha", "beta"]
    assert ids_are_of(old, "old")
    again = "roll_back" if moment == "after" else "swap_vectors"
    with new.writer() as writer:
        getattr(writer, again)()
    assert nearest_texts(new, 1, 0) == ["beta", "alpha"]


def test_names_of_vectors() -> None:
    """A model's spaces have its name and rising numbers; other models' names do not count."""
    known = ["p/m"]
    for _ in range(11):
        known.append(next_space("p/m", known))

    assert len(set(known)) == 12
    assert newest_space("p/m", [*known, "p/m2", "q/m"]) == known[-1]
    assert next_space("p/other", known) == newest_space("p/other", known) == "p/other"
    assert {(space_owner(name), space_model(name)) for name in known} == {("p/m", "m")}
    assert space_model("onnx/org/model@256") == "org/model@256"
