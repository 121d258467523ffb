"""Memories that say nearly the same are told, the newest first, and nothing else is."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from tests.stores.making import TemporaryStore, chunk, update, vector

from lorelog import Lorelog
from lorelog.core.document import Anchor
from lorelog.core.errors import UsageError
from lorelog.core.memory import DuplicatesReply
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.language.analyser import WordAnalyser
from lorelog.services.memories.lifecycle import find_near_duplicates
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex

FAKE = {"embedding.provider": "fake"}
LONG = "we chose kafka for the event bus because replays matter to billing"


@pytest.fixture
def store() -> Store:
    return TemporaryStore(WordAnalyser(), provider="test", model="m")


def put(store: Store, *texts: str) -> None:
    """Store memories, each a day later than the one before."""
    chunks = [
        chunk("/j.md", text, line, date=f"2026-03-{line:02}", anchor=Anchor(memory=f"m{line}"))
        for line, text in enumerate(texts, 1)
    ]
    with store.writer() as writer:
        writer.put([update("/j.md", chunks)])


def embed(store: Store, **vectors: tuple[float, float]) -> None:
    keys = {item.chunk.anchor.memory: item.chunk.vector_key for item in store.chunks_of("/j.md") if item.chunk.anchor}
    with store.writer() as writer:
        writer.put_vectors({keys[name]: vector(*numbers) for name, numbers in vectors.items()})


def near(store: Store, place: Path, threshold: float | None = None, limit: int = 20) -> DuplicatesReply:
    lifecycle = LifecycleIndex(store, place, date(2026, 4, 1))
    return find_near_duplicates(store, lifecycle, Filters(), threshold=threshold, limit=limit)


def names(reply: DuplicatesReply) -> list[list[str]]:
    return [[item.memory for item in group if item.memory] for group in reply.groups]


SINCE = LONG.replace("because", "since")
MEANT = ("kafka is our event bus for billing", "for billing our events go through kafka", "otters sleep in holts")
NEAR_VECTORS = {"m1": (1.0, 0.0), "m2": (1.0, 0.1), "m3": (1.0, 0.05)}
Vectors = dict[str, tuple[float, float]]


@pytest.mark.parametrize(
    ("texts", "vectors", "similarities"),
    [
        # One other word is near, half the words are not.
        ((LONG, SINCE, "we chose kafka for the event bus but nobody knows why", "otters"), {}, [1.0, 0.85]),
        # Near vectors and a good part of the words make a group; near vectors of other words do not.
        (MEANT, NEAR_VECTORS, [1.0, 0.99]),
        # A memory that still waits for its vector is compared by words with all others.
        ((LONG, SINCE), {"m1": (1.0, 0.0)}, [1.0, 0.85]),
        # Two words that are equal are a group; two that differ are not.
        (("use redis", "use redis", "use kafka", "x"), {}, [1.0, 1.0]),
    ],
)
def test_words_and_meaning_tell(
    store: Store, tmp_path: Path, texts: tuple[str, ...], vectors: Vectors, similarities: list[float]
) -> None:
    """Memories are near by their words, or by vectors and words; the newest comes first with a similarity of 1."""
    put(store, *texts)
    embed(store, **vectors)

    reply = near(store, tmp_path)

    assert names(reply) == [["m2", "m1"]]
    assert [group.similarity for group in reply.groups[0]] == pytest.approx(similarities, abs=0.006)
    assert (reply.compared, reply.by_vectors) == (len(texts), len(vectors))
    assert names(near(store, tmp_path, threshold=0.999)) == ([["m2", "m1"]] if similarities[1] == 1.0 else [])


def test_groups_are_stars_and_the_largest_comes_first(store: Store, tmp_path: Path) -> None:
    """Whoever is in a group is near to the one to keep; nobody is in two; no more groups come than were asked for."""
    beavers = "beavers build dams of wood and mud along the slow river banks"
    put(store, LONG, beavers, LONG, beavers, LONG)

    reply = near(store, tmp_path)
    assert names(reply) == [["m5", "m3", "m1"], ["m4", "m2"]]
    assert not reply.more
    few = near(store, tmp_path, limit=1)
    assert (names(few), few.more) == ([["m5", "m3", "m1"]], True)


def test_what_was_superseded_is_settled(tmp_path: Path) -> None:
    """A memory in whose place another stands is no repetition of it; and nothing was changed by looking."""
    (tmp_path / "app").mkdir()
    with Lorelog(project=tmp_path / "app", settings=FAKE) as memory:
        old = memory.add(LONG, type="decision")
        assert memory.find_near_duplicates().groups == ()
        again = memory.add(LONG + " now")
        journal = Path(old.source).read_bytes()
        (group,) = memory.find_near_duplicates().groups
        assert [item.id for item in group] == [again.id, old.id]
        assert memory.find_near_duplicates(types=["decision"]).groups == ()
        assert Path(old.source).read_bytes() == journal
        memory.delete(again.memory)
        memory.supersede(old.memory, LONG + " now")
        assert memory.find_near_duplicates().groups == ()


def test_a_threshold_is_a_share(store: Store, tmp_path: Path) -> None:
    """What is not within 0 and 1 is refused."""
    for wrong in (0.0, 1.5):
        with pytest.raises(UsageError, match="threshold"):
            near(store, tmp_path, threshold=wrong)


def test_the_built_in_model_finds_notes_that_say_the_same_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pairs of reworded notes are found with the real model, and notes about other things are not."""
    monkeypatch.chdir(tmp_path)
    with Lorelog(home=tmp_path / "home") as memory:
        for text in (
            "The API rate limit is 100 requests per minute.",
            "Retry failed uploads three times.",
            "Deploys happen on Tuesdays.",
            "Requests to the API are limited to 100 a minute.",
            "A failed upload is retried three times.",
            "The staging database is reset every night.",
        ):
            memory.add(text)
        groups = memory.find_near_duplicates().groups
    assert len(groups) == 2
    assert all(len(group) == 2 for group in groups)
