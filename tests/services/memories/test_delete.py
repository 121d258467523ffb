"""A deleted memory is gone from every answer, stays gone whatever else goes on, and can come back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import NotFound, UsageError
from lorelog.services.memories import edit
from lorelog.services.memory_state.tombstones import Tombstone, Tombstones

FAKE = {"embedding.provider": "fake"}
TWO = "# Otter\n\nan otter in the river\n\n# Beaver\n\na beaver's dam\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A note in a directory."""
    place = tmp_path / "app"
    (place / "notes").mkdir(parents=True)
    (place / "notes" / "a.md").write_text(TWO, "utf-8")
    return place


@pytest.fixture
def memory(project: Path) -> Iterator[Lorelog]:
    """A memory with the directory indexed."""
    with Lorelog(project=project, settings=FAKE) as opened:
        opened.index([project / "notes"])
        yield opened


def found(memory: Lorelog) -> list[str]:
    hits = memory.search("otter beaver river dam walrus word", k=100).hits
    return [hit.heading for hit in sorted(hits, key=lambda hit: (hit.source, hit.start_line))]


def named(memory: Lorelog, heading: str) -> str:
    return next(hit.id for hit in memory.search(heading, k=100).hits if hit.heading == heading)


def once(action: Callable[[], object], stage: str = "words") -> Callable[[str, int, int], None]:
    """Progress that does something the first time a stage is heard of."""
    left = [action]

    def progress(at: str, done: int, total: int) -> None:
        if at == stage and left:
            left.pop()()

    return progress


def test_a_deleted_section_is_found_no_more(memory: Lorelog, project: Path) -> None:
    """Neither search nor list nor expand shows it, its neighbour stays, and the file is as it was."""
    before = (project / "notes" / "a.md").read_bytes()
    identity = named(memory, "Otter")

    reply = memory.delete(identity)

    assert (reply.changed, reply.chunks) == (True, 1)
    assert set(found(memory)) == {"Beaver"}
    assert {item.chunk.heading for item in memory.list().memories} == {"Beaver"}
    with pytest.raises(NotFound):
        memory.expand(identity)
    assert (project / "notes" / "a.md").read_bytes() == before


def test_it_stays_deleted(memory: Lorelog, project: Path) -> None:
    """Reading the file again, editing it elsewhere, and deleting the index bring nothing back."""
    memory.delete(named(memory, "Otter"))

    memory.index(force=True)
    assert set(found(memory)) == {"Beaver"}
    with (project / "notes" / "a.md").open("a", encoding="utf-8") as file:
        file.write("\n# Crane\n\na crane by the dam\n")
    memory.index()
    assert set(found(memory)) == {"Beaver", "Crane"}
    memory.reset()
    memory.index()
    assert set(found(memory)) == {"Beaver", "Crane"}


def test_it_comes_back(memory: Lorelog) -> None:
    """Restored, it is found as before; `get` tells the three states apart."""
    identity = named(memory, "Otter")

    assert memory.get(identity).memory is not None
    memory.delete(identity)
    gone = memory.get(identity)
    assert (gone.exists, gone.memory, bool(gone.deleted_at)) == (True, None, True)
    assert memory.delete(identity).changed is False
    memory.restore(identity)
    assert set(found(memory)) == {"Otter", "Beaver"}
    assert memory.get("0" * 16).exists is False
    again = memory.restore(identity)
    assert (again.changed, again.notes) == (False, ("it was restored before",))
    with pytest.raises(NotFound):
        memory.restore("0" * 16)


def _killed(*_: object) -> object:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("verb", "step"),
    [
        *(("restore", step) for step in ("mark_in_sync", "_reindex", "_chunks_with_keys")),
        *(("delete", step) for step in ("mark_in_sync", "SummaryLinks", "utc_now")),
    ],
)
def test_an_interrupted_change_is_completed_by_the_next(
    memory: Lorelog, monkeypatch: pytest.MonkeyPatch, verb: str, step: str
) -> None:
    """Whichever step a restore or a deletion was killed before, the same command again completes it."""
    identity = named(memory, "Otter")
    if verb == "restore":
        memory.delete(identity)
    change = getattr(memory, verb)

    with monkeypatch.context() as patch:
        patch.setattr(edit, step, _killed)
        with pytest.raises(KeyboardInterrupt):
            change(identity)

    change(identity)
    assert set(found(memory)) == ({"Otter", "Beaver"} if verb == "restore" else {"Beaver"})
    assert bool(memory.get(identity).deleted_at) is (verb == "delete")


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


# -- while an index run is under way ------------------------------------------------------------------------------------


def test_a_run_under_way_undoes_nothing(memory: Lorelog, project: Path) -> None:
    """What is deleted after a run has read its file, and before it puts it, stays deleted, also if the file changes then; what is restored is shown."""
    identity = named(memory, "Otter")

    def meanwhile() -> None:
        other.delete(identity)
        (project / "notes" / "a.md").write_text(TWO + "\n# Crane\n\na crane by the dam\n", "utf-8")

    with Lorelog(project=project, settings=FAKE) as other:
        memory.index(force=True, progress=once(lambda: other.delete(identity)))
        assert found(memory) == ["Beaver"]
        assert memory.get(identity).deleted_at
        memory.index(force=True, progress=once(lambda: other.restore(identity)))
        assert found(memory) == ["Otter", "Beaver"]
        memory.index(force=True, progress=once(meanwhile))

    assert found(memory) == ["Beaver", "Crane"]


# -- copies and moves ---------------------------------------------------------------------------------------------------


def test_a_memory_goes_from_every_file_it_stands_in(memory: Lorelog, project: Path) -> None:
    """A journal that was copied has its memories twice; deleting one, by either id, hides both, and both come back."""
    added = memory.add("walrus on the ice")
    for number in range(12):
        shutil.copy(added.source, project / "notes" / f"copy-{number:02}.md")
    memory.index()

    reply = memory.delete(added.memory)

    assert reply.chunks == 13
    assert not [hit for hit in memory.search("walrus", k=100).hits if "walrus" in hit.content]
    assert memory.index().changed == 0
    assert memory.restore(added.memory).chunks == 13


def test_a_moved_journal_gives_its_memories_back(memory: Lorelog, project: Path) -> None:
    """A memory that was deleted in one file and now stands in another is shown there once it is restored."""
    added = memory.add("walrus on the ice")
    memory.delete(added.memory)
    Path(added.source).rename(project / "notes" / "moved.md")
    memory.index()

    reply = memory.restore(added.memory)

    assert (reply.chunks, Path(reply.source).name) == (1, "moved.md")
    assert [hit.source for hit in memory.search("walrus").hits if "walrus" in hit.content] == [reply.source]


def test_the_next_run_shows_what_was_restored_without_the_index(memory: Lorelog, project: Path) -> None:
    """A restoration that could not be followed, because the file was away, is heeded by the next ordinary run."""
    identity = named(memory, "Otter")
    memory.delete(identity)
    away = project / "away"
    (project / "notes").rename(away)

    reply = memory.restore(identity)
    assert reply.chunks == 0
    assert reply.notes
    away.rename(project / "notes")
    memory.index()

    assert found(memory) == ["Otter", "Beaver"]


def test_the_next_run_hides_what_was_deleted_elsewhere(memory: Lorelog, home: Path) -> None:
    """A deletion that the index did not follow (its writer was stopped, the list came from a backup) is heeded by the next run."""
    memory.delete(named(memory, "Otter"))
    path = home / "data" / "default" / "tombstones.jsonl"
    lines = path.read_bytes()
    path.unlink()
    memory.index()
    assert found(memory) == ["Otter", "Beaver"]

    path.write_bytes(lines)
    memory.index()

    assert found(memory) == ["Beaver"]


@pytest.mark.parametrize("place", ["notes/b.md", "notes/deeper/a.md"])
def test_a_renamed_file_brings_nothing_back(memory: Lorelog, project: Path, place: str) -> None:
    """A section without an id of its own stays deleted wherever in the project its file goes, and can be restored there."""
    identity = named(memory, "Otter")
    memory.delete(identity)
    (project / place).parent.mkdir(exist_ok=True)
    (project / "notes" / "a.md").rename(project / place)
    memory.index()

    assert found(memory) == ["Beaver"]
    memory.restore(identity)
    assert found(memory) == ["Otter", "Beaver"]


def test_an_edited_section_is_a_new_one(memory: Lorelog, project: Path) -> None:
    """White space may change; a word that does makes it another section, which is shown."""
    memory.delete(named(memory, "Otter"))
    (project / "notes" / "a.md").write_text(TWO.replace("otter in", "otter  in"), "utf-8")
    memory.index()
    assert found(memory) == ["Beaver"]

    (project / "notes" / "a.md").write_text(TWO.replace("river", "lake"), "utf-8")
    memory.index()
    assert found(memory) == ["Otter", "Beaver"]


# -- pieces -------------------------------------------------------------------------------------------------------------


def long(heading: str) -> str:
    return (
        f"# {heading}\n\n" + "\n\n".join(f"walrus paragraph {number} " + "word " * 80 for number in range(12)) + "\n\n"
    )


@pytest.mark.parametrize("piece", [0, -1])
def test_a_long_section_goes_whole(memory: Lorelog, project: Path, piece: int) -> None:
    """A section that was cut goes with all its pieces, by the id of any; the one before it, of the same name, stays."""
    (project / "notes" / "long.md").write_text("# Walrus\n\nword of another\n\n" + long("Walrus") + TWO, "utf-8")
    memory.index()
    hits = [hit for hit in memory.search("walrus paragraph", k=100).hits if "paragraph" in hit.content]
    hits.sort(key=lambda hit: hit.start_line)
    assert len(hits) > 1

    reply = memory.delete(hits[piece].id)

    assert reply.chunks > 2
    assert found(memory).count("Walrus") == 1
    assert memory.restore(hits[-1].id).chunks == reply.chunks
    assert found(memory).count("Walrus") == 1 + len(hits)


def test_equal_sections_go_together_and_are_counted(memory: Lorelog, project: Path) -> None:
    """Two sections that say the same under the same heading are one; the reply tells how many chunks went."""
    (project / "notes" / "a.md").write_text(TWO + "\n# Otter\n\nan otter in the river\n", "utf-8")
    memory.index()

    assert memory.delete(named(memory, "Otter")).chunks == 2
    assert found(memory) == ["Beaver"]


# -- ids ----------------------------------------------------------------------------------------------------------------


def test_a_few_characters_name_nothing(memory: Lorelog, home: Path) -> None:
    """Three characters of an id are too few, four are enough, and white space does not count; a deletion is kept as ids and a hash."""
    identity = named(memory, "Otter")
    memory.delete(identity)
    assert "otter in the river" not in (home / "data" / "default" / "tombstones.jsonl").read_text("utf-8")
    for blank in ("", " ", "\t\n"):
        with pytest.raises(UsageError, match=r"must not be empty|an id is needed"):
            memory.restore(blank)

    with pytest.raises(NotFound, match="at least 4"):
        memory.restore(identity[:3] + "  ")
    assert memory.restore(f" {identity[:4]} ").chunks == 1


def test_a_beginning_that_several_share_is_refused(memory: Lorelog, home: Path) -> None:
    """It names them, restores none, and the whole id of one restores that one, of the same file or not."""
    identity = named(memory, "Otter")
    memory.delete(identity)
    stones = Tombstones(home / "data" / "default" / "tombstones.jsonl")
    (stone,) = stones.all()
    twin = identity[:8] + "0" * 8
    stones.append([Tombstone("f" * 16, "", stone.source, (twin,), stone.at)])

    for ask in (memory.restore, memory.get, memory.delete):
        with pytest.raises(UsageError, match=f"{identity}, {twin}"):
            ask(identity[:8])
    memory.restore(identity)

    assert {item.ids[0] for item in stones.all()} == {twin}


# -- the list of deletions -----------------------------------------------------------------------------------------------


def stone(number: int) -> Tombstone:
    return Tombstone(f"{number:016x}", "", f"/notes/{number}.md", (f"{number:016x}",), "2026-03-05T10:00:00+00:00")


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
    memory.delete(named(memory, "Otter"))
    next(home.rglob("tombstones.jsonl")).write_text("nonsense\n", "utf-8")
    with (project / "notes" / "a.md").open("a", encoding="utf-8") as file:
        file.write("\n# Crane\n\na crane in the river\n")

    report = memory.index()

    assert any("tombstones.jsonl" in note for note in report.notes)
    assert set(found(memory)) == {"Beaver", "Crane"}
