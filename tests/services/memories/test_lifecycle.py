"""An episode becomes one memory, once, that cites its sources and is worth no more than they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import NotFound, UsageError

FAKE = {"embedding.provider": "fake"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    """An empty memory."""
    (tmp_path / "app").mkdir()
    with Lorelog(project=tmp_path / "app", settings=FAKE) as opened:
        yield opened


def walk(memory: Lorelog, *texts: str, origin: str = "user") -> list[str]:
    """Remember things of the episode `walk`; return their ids."""
    given = [{"text": text, "tags": ["episode:walk"], "origin": origin} for text in texts]
    return [item.memory for item in memory.add_batch(given)]


def shown(memory: Lorelog) -> set[str]:
    """Ids of the memories that are listed."""
    return {item.chunk.anchor.memory for item in memory.list().memories if item.chunk.anchor}


def test_a_summary_has_a_sentence_of_each_and_cites_all(memory: Lorelog) -> None:
    """In the order of time, what was said before left out; its type and tag tell what it is; the sources stay."""
    sources = walk(
        memory,
        "Otters sleep in holts near the river. It was sunny.",
        "Kelp holds sea otters while they sleep.",
        "Otters sleep in holts near the river!",
    )
    memory.add("a beaver of another day")

    reply = memory.consolidate_episode("walk")

    assert (reply.changed, reply.retained, list(reply.sources)) == (True, True, sources)
    stored = memory.get(reply.summary.memory).memory
    assert stored is not None
    assert (stored.chunk.type, stored.chunk.tags) == ("summary", ("episode:walk",))
    lines = stored.chunk.content.splitlines()
    bullets = [line for line in lines if line.startswith("- ")]
    assert bullets == ["- Otters sleep in holts near the river.", "- Kelp holds sea otters while they sleep."]
    assert lines[-1] == f"Sources: {', '.join(sources)}"
    assert set(sources) < shown(memory)


def test_the_same_is_summed_up_once(memory: Lorelog) -> None:
    """Asked for again nothing is written; with one memory more there is a new summary in the place of the old one."""
    walk(memory, "Otters sleep in holts", "Kelp holds otters")
    first = memory.consolidate_episode("walk")
    journal = Path(first.summary.source).read_bytes()

    again = memory.consolidate_episode("walk")
    assert (again.changed, again.summary.memory) == (False, first.summary.memory)
    assert Path(first.summary.source).read_bytes() == journal

    (more,) = walk(memory, "Minks are no otters")
    second = memory.consolidate_episode("walk")
    assert second.changed
    assert second.sources[-1] == more
    assert memory.get(first.summary.memory).lifecycle.superseded_by == second.summary.memory


def test_sources_are_hidden_when_they_are_not_to_be_retained(memory: Lorelog) -> None:
    """The summary alone is shown then, still only once; deleting it brings the sources back."""
    sources = walk(memory, "Otters sleep in holts", "Kelp holds otters")
    memory.consolidate_episode("walk")

    reply = memory.consolidate_episode("walk", retain_source_chunks=False)

    assert (reply.changed, reply.retained) == (True, False)
    assert shown(memory) == {reply.summary.memory}
    assert not memory.consolidate_episode("walk", retain_source_chunks=False).changed
    memory.delete(reply.summary.memory)
    assert set(sources) < shown(memory)
    with pytest.raises(UsageError, match="was deleted") as raised:
        memory.consolidate_episode("walk", retain_source_chunks=False)
    assert "restore" in raised.value.hint


@pytest.mark.parametrize(
    ("origins", "worst"),
    [
        (["user"], "user"),
        (["user", "agent"], "agent"),
        (["agent", "tool", "user"], "tool"),
        (["import", "tool"], "import"),
    ],
)
def test_a_summary_bears_the_worst_origin(memory: Lorelog, origins: list[str], worst: str) -> None:
    """What a tool put out or an import brought taints what is made of it."""
    for number, origin in enumerate(origins):
        walk(memory, f"otter number {number} sleeps", origin=origin)

    stored = memory.get(memory.consolidate_episode("walk").summary.memory).memory

    assert stored is not None
    assert stored.chunk.anchor is not None
    assert stored.chunk.anchor.origin == worst


def test_a_session_is_an_episode(memory: Lorelog, tmp_path: Path) -> None:
    """Memories noted in a session belong to the episode of that name; what names no origin is a person's own file."""
    notes = "# A\n<!-- session:s-1 turn:1 -->\n- Outcome: the otters sleep\n\n# B\n<!-- session:s-2 -->\nminks\n"
    (tmp_path / "app" / "n.md").write_text(notes, "utf-8")
    memory.index([tmp_path / "app" / "n.md"])

    reply = memory.consolidate_episode("s-1", retain_source_chunks=False)

    stored = memory.get(reply.summary.memory).memory
    assert stored is not None
    assert "- the otters sleep" in stored.chunk.content
    assert len(reply.sources) == 1
    assert reply.notes == ("1 of its sources are still shown: they have no id, or belong to another project",)


def test_the_newest_are_taken_and_the_rest_is_told(memory: Lorelog) -> None:
    """Beyond as many as were asked for, the older ones are left out."""
    sources = walk(memory, *(f"otter number {number} sleeps" for number in range(4)))

    reply = memory.consolidate_episode("walk", max_chunks=2)

    assert list(reply.sources) == sources[-2:]
    assert reply.notes == ("2 older memories of the episode are not included",)


def test_an_episode_that_is_not_there_is_said(memory: Lorelog) -> None:
    """Neither is one made up, nor can any text be its id."""
    with pytest.raises(NotFound, match="no memory belongs"):
        memory.consolidate_episode("nothing")
    with pytest.raises(UsageError, match="cannot be an episode"):
        memory.consolidate_episode("a b -->")
