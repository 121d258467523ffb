"""A deletion holds whatever else goes on: other runs, copies, renames, long sections, and slips of the hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import NotFound, UsageError
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
    """The headings of all chunks, by source and place."""
    hits = memory.search("otter beaver river dam walrus word", k=100).hits
    return [hit.heading for hit in sorted(hits, key=lambda hit: (hit.source, hit.start_line))]


def named(memory: Lorelog, heading: str) -> str:
    """The id of a chunk under a heading."""
    return next(hit.id for hit in memory.search(heading, k=100).hits if hit.heading == heading)


def once(action: Callable[[], object], stage: str = "words") -> Callable[[str, int, int], None]:
    """Progress that does something the first time a stage is heard of."""
    left = [action]

    def progress(at: str, done: int, total: int) -> None:
        if at == stage and left:
            left.pop()()

    return progress


# -- while an index run is under way ------------------------------------------------------------------------------------


def test_a_run_under_way_brings_nothing_back(memory: Lorelog, project: Path) -> None:
    """What is deleted after a run has read its file, and before it puts it, stays deleted."""
    identity = named(memory, "Otter")
    with Lorelog(project=project, settings=FAKE) as other:
        memory.index(force=True, progress=once(lambda: other.delete(identity)))

    assert found(memory) == ["Beaver"]
    assert memory.get(identity).deleted_at


def test_a_run_under_way_hides_nothing_again(memory: Lorelog, project: Path) -> None:
    """What is restored after a run has read its file, and before it puts it, is shown."""
    identity = named(memory, "Otter")
    memory.delete(identity)
    with Lorelog(project=project, settings=FAKE) as other:
        memory.index(force=True, progress=once(lambda: other.restore(identity)))

    assert found(memory) == ["Otter", "Beaver"]


def test_a_changed_file_brings_nothing_back(memory: Lorelog, project: Path) -> None:
    """It stays deleted too when the file changes once more between being read and being put."""
    identity = named(memory, "Otter")

    def meanwhile() -> None:
        other.delete(identity)
        (project / "notes" / "a.md").write_text(TWO + "\n# Crane\n\na crane by the dam\n", "utf-8")

    with Lorelog(project=project, settings=FAKE) as other:
        memory.index(force=True, progress=once(meanwhile))

    assert found(memory) == ["Beaver", "Crane"]


def test_a_list_that_others_append_to_is_read_again(tmp_path: Path) -> None:
    """Who has read the deletions sees those that another process writes afterwards."""
    path = tmp_path / "tombstones.jsonl"
    mine, theirs = Tombstones(path), Tombstones(path)
    assert (mine.keys(), mine.generation()) == (frozenset(), "")

    theirs.append([Tombstone("k" * 16, "", "/a.md", ("1" * 16,), "2026-03-05T10:00:00+00:00")])

    assert mine.keys() == {"k" * 16}
    assert mine.generation() == theirs.generation() != ""


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


def test_a_long_section_stays_deleted_however_it_is_cut(memory: Lorelog, project: Path) -> None:
    """Other settings for cutting do not make another section of it."""
    (project / "notes" / "long.md").write_text(long("Walrus"), "utf-8")
    memory.index()
    memory.delete(named(memory, "Walrus"))

    with Lorelog(
        project=project, settings=FAKE | {"chunking.max_chunk_size": 700, "chunking.overlap_lines": 0}
    ) as other:
        other.index()
        assert "Walrus" not in found(other)


def test_equal_sections_go_together_and_are_counted(memory: Lorelog, project: Path) -> None:
    """Two sections that say the same under the same heading are one; the reply tells how many chunks went."""
    (project / "notes" / "a.md").write_text(TWO + "\n# Otter\n\nan otter in the river\n", "utf-8")
    memory.index()

    assert memory.delete(named(memory, "Otter")).chunks == 2
    assert found(memory) == ["Beaver"]


# -- ids ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["", " ", "\t\n"])
def test_nothing_names_nothing(memory: Lorelog, identity: str) -> None:
    """White space restores nothing."""
    memory.delete(named(memory, "Otter"))

    with pytest.raises(UsageError, match=r"must not be empty|an id is needed"):
        memory.restore(identity)
    assert found(memory) == ["Beaver"]


def test_a_few_characters_name_nothing(memory: Lorelog) -> None:
    """Three characters of an id are too few, four are enough, and white space around them does not count."""
    identity = named(memory, "Otter")
    memory.delete(identity)

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
