"""A deleted memory is gone from every answer, stays gone when the index is made anew, and can come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import NotFound
from lorelog.services.memories import edit
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones

FAKE = {"embedding.provider": "fake"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two notes."""
    place = tmp_path / "app"
    place.mkdir()
    (place / "a.md").write_text("# Otter\n\nan otter in the river\n\n# Beaver\n\na beaver's dam\n", "utf-8")
    return place


@pytest.fixture
def memory(project: Path) -> Iterator[Lorelog]:
    """A memory with both of them indexed."""
    with Lorelog(project=project, settings=FAKE) as opened:
        opened.index([project / "a.md"])
        yield opened


def headings(memory: Lorelog) -> set[str]:
    """What a search for everything finds."""
    return {hit.heading for hit in memory.search("otter beaver river dam", k=50).hits}


def test_a_deleted_section_is_found_no_more(memory: Lorelog, project: Path) -> None:
    """Neither search nor list nor expand shows it, its neighbour stays, and the file is as it was."""
    before = (project / "a.md").read_bytes()
    identity = next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter")

    reply = memory.delete(identity)

    assert (reply.changed, reply.chunks) == (True, 1)
    assert headings(memory) == {"Beaver"}
    assert {item.chunk.heading for item in memory.list().memories} == {"Beaver"}
    with pytest.raises(NotFound):
        memory.expand(identity)
    assert (project / "a.md").read_bytes() == before


def test_it_stays_deleted(memory: Lorelog, project: Path) -> None:
    """Reading the file again, editing it elsewhere, and deleting the index bring nothing back."""
    memory.delete(next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter"))

    memory.index(force=True)
    assert headings(memory) == {"Beaver"}
    with (project / "a.md").open("a", encoding="utf-8") as file:
        file.write("\n# Crane\n\na crane by the dam\n")
    memory.index()
    assert headings(memory) == {"Beaver", "Crane"}
    memory.reset()
    memory.index()
    assert headings(memory) == {"Beaver", "Crane"}


def test_it_comes_back(memory: Lorelog) -> None:
    """Restored, it is found as before; `get` tells the three states apart."""
    identity = next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter")

    assert memory.get(identity).memory is not None
    memory.delete(identity)
    gone = memory.get(identity)
    assert (gone.exists, gone.memory, bool(gone.deleted_at)) == (True, None, True)
    assert memory.delete(identity).changed is False
    memory.restore(identity)
    assert headings(memory) == {"Otter", "Beaver"}
    assert memory.get("0" * 16).exists is False
    again = memory.restore(identity)
    assert (again.changed, again.notes) == (False, ("it was restored before",))
    with pytest.raises(NotFound):
        memory.restore("0" * 16)


@pytest.mark.parametrize("step", ["mark_in_sync", "_reindex", "_chunks_with_keys"])
def test_an_interrupted_restore_is_completed_by_the_next(
    memory: Lorelog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whichever step a restore was killed before, the same command again shows the memory."""
    identity = next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter")
    memory.delete(identity)

    with monkeypatch.context() as patch:
        patch.setattr(edit, step, _killed)
        with pytest.raises(KeyboardInterrupt):
            memory.restore(identity)

    memory.restore(identity)
    assert headings(memory) == {"Otter", "Beaver"}
    assert memory.get(identity).memory is not None


@pytest.mark.parametrize("step", ["mark_in_sync", "SummaryLinks", "utc_now"])
def test_an_interrupted_deletion_is_completed_by_the_next(
    memory: Lorelog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whichever step a deletion was killed before, the same command again hides the memory."""
    identity = next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter")

    with monkeypatch.context() as patch:
        patch.setattr(edit, step, _killed)
        with pytest.raises(KeyboardInterrupt):
            memory.delete(identity)

    memory.delete(identity)
    assert headings(memory) == {"Beaver"}
    assert memory.get(identity).deleted_at


def _killed(*_: object) -> object:
    raise KeyboardInterrupt


def test_a_memory_is_deleted_whole(memory: Lorelog) -> None:
    """A journal entry that was cut into pieces goes as one, by its own id or by that of a piece, wherever it moves."""
    added = memory.add("\n\n".join(f"walrus paragraph {number} " + "word " * 80 for number in range(12)))
    (piece,) = (hit for hit in memory.search("walrus", k=50).hits if "walrus" in hit.content)  # an entry is one hit

    reply = memory.delete(piece.id)

    assert reply.memory == added.memory
    assert reply.chunks > 1
    assert not [hit for hit in memory.search("walrus", k=50).hits if "walrus" in hit.content]
    memory.add("pushes lines around")
    assert not [hit for hit in memory.search("walrus", k=50).hits if "walrus" in hit.content]
    assert memory.restore(added.memory).chunks == reply.chunks
    assert len([hit for hit in memory.search("walrus", k=50).hits if "walrus" in hit.content]) == 1


def test_a_tombstone_holds_no_text(memory: Lorelog, home: Path) -> None:
    """What is written down about a deletion is ids and a hash."""
    memory.delete(next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter"))

    assert "otter in the river" not in (home / "data" / "default" / "tombstones.jsonl").read_text("utf-8")


def stone(number: int) -> Tombstone:
    return Tombstone(f"{number:016x}", "", f"/notes/{number}.md", (f"{number:016x}",), "2026-03-05T10:00:00+00:00")


def test_a_torn_line_is_passed_over_and_repaired(tmp_path: Path) -> None:
    """A power cut in the middle of a line loses that deletion only, and the next one is whole."""
    path = tmp_path / "tombstones.jsonl"
    Tombstones(path).append([stone(1), stone(2)])
    path.write_bytes(path.read_bytes()[:-20])

    assert [item.source for item in Tombstones(path).all()] == ["/notes/1.md"]
    Tombstones(path).append([stone(3)])
    assert [entry.source for entry in Tombstones(path).all()] == ["/notes/1.md", "/notes/3.md"]


def test_a_line_that_cannot_be_read_is_skipped_and_named(tmp_path: Path) -> None:
    """The other deletions count, the damage is named, and new ones are appended after it."""
    path = tmp_path / "tombstones.jsonl"
    Tombstones(path).append([stone(1)])
    path.write_bytes(b"{}\n" + path.read_bytes() + b"\xff\n")

    stones = Tombstones(path)
    stones.append([stone(2)])

    assert [item.source for item in stones.all()] == ["/notes/1.md", "/notes/2.md"]
    assert "(1, 3)" in stones.damage()


def test_a_damaged_line_still_deletes_what_it_names(tmp_path: Path) -> None:
    """A deletion whose line lost its end or a byte stays in force as long as its key can be read."""
    path = tmp_path / "tombstones.jsonl"
    Tombstones(path).append([stone(1), stone(2)])
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(first[:-9] + b"\n" + second.replace(b'"at"', b"\xff") + b"\n")

    assert Tombstones(path).keys() == {stone(1).key, stone(2).key}
    assert [item.ids for item in Tombstones(path).all()] == [stone(1).ids, stone(2).ids]


def test_a_damaged_list_of_deletions_shows_nothing_that_was_deleted(memory: Lorelog, home: Path, project: Path) -> None:
    """An index run over a list without its deletions goes on, warns, and leaves out what files were read without."""
    memory.delete(next(hit.id for hit in memory.search("otter").hits if hit.heading == "Otter"))
    next(home.rglob("tombstones.jsonl")).write_text("nonsense\n", "utf-8")
    with (project / "a.md").open("a", encoding="utf-8") as file:
        file.write("\n# Crane\n\na crane in the river\n")

    report = memory.index()

    assert any("tombstones.jsonl" in note for note in report.notes)
    assert headings(memory) == {"Beaver", "Crane"}
