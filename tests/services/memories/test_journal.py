"""Appending to a journal where the id is given: never twice, and completed where it was torn."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import FileStamp, SourceFile
from lorelog.core.errors import StoreUnwritable, UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.options import ChunkOptions
from lorelog.ingest.files import read_text
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import read_outline
from lorelog.services.memories import journal
from lorelog.services.memories.journal import append_entries, has_entry

NOW = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)


def memory(identity: str, text: str = "- said", minute: int = 5) -> NewMemory:
    source = (("session", "s"), ("turn", identity), ("transcript", "/a b/t.jsonl"))
    return NewMemory(text, "turn", origin="agent", id=identity, source=source, at=NOW.replace(minute=minute))


def test_an_entry_has_its_own_time_and_anchor(tmp_path: Path) -> None:
    """The heading tells when it happened, and the words stand in the order they were given in."""
    (entry,) = append_entries(tmp_path, [memory("m1")], NOW)

    assert entry.path.read_text() == (
        "# 2026-03-05\n\n### 14:05\n"
        "<!-- session:s turn:m1 transcript:/a b/t.jsonl memory:m1 type:turn origin:agent -->\n- said\n"
    )
    assert (entry.start_line, entry.end_line, entry.existed) == (3, 5, False)


@pytest.mark.parametrize("count", [0, 1, 24, 25, 100])
def test_what_a_summary_covers_is_read_back(tmp_path: Path, count: int) -> None:
    """However many hashes there are, no line is long, and cutting the journal finds them all."""
    covers = tuple(f"{number:016x}" for number in range(count))
    (entry,) = append_entries(tmp_path, [NewMemory("- said", "summary", id="m", covers=covers, at=NOW)], NOW)
    text = entry.path.read_text()
    (chunk,) = chunk_markdown(text, str(entry.path), ChunkOptions(max_chunk_size=10_000)).chunks

    assert max(map(len, text.splitlines())) < 600
    assert chunk.anchor is not None
    assert chunk.anchor.covers == covers
    assert (entry.start_line, entry.end_line) == (3, text.count("\n"))
    with pytest.raises(UsageError, match="content hashes"):
        append_entries(tmp_path, [NewMemory("x", covers=("no hash -->",))], NOW)


def test_a_session_has_one_heading_until_another_speaks(tmp_path: Path) -> None:
    """With session headings, `## Session` stands where the session changes, and positions point at the entries."""

    def capture(identity: str, session: str) -> str:
        source = (("session", session), ("host", "claude"))
        new = NewMemory("- said", "turn", id=identity, source=source, at=NOW)
        (entry,) = append_entries(tmp_path, [new], NOW, session=session)
        return entry.path.read_text("utf-8").splitlines()[entry.start_line]

    anchors = [capture(f"m{index}", session) for index, session in enumerate(("a", "a", "ab", "a", "ab"))]

    assert [f"memory:m{index}" in anchor for index, anchor in enumerate(anchors)] == [True] * 5
    (journal,) = tmp_path.glob("*.md")
    assert journal.read_text("utf-8").count(f"\n## Session {NOW:%H:%M}\n\n### ") == 4


def test_an_id_that_stands_there_is_not_written_again(tmp_path: Path) -> None:
    """Of several only those that are missing are written, and each is told where it stands."""
    append_entries(tmp_path, [memory("m1"), memory("m2")], NOW)
    entries = append_entries(tmp_path, [memory("m2"), memory("m3"), memory("m1")], NOW)

    lines = entries[0].path.read_text().splitlines()
    assert [entry.existed for entry in entries] == [True, False, True]
    assert [f"memory:{entry.memory} " in lines[entry.start_line] for entry in entries] == [True] * 3
    assert sum(line.startswith("###") for line in lines) == 3
    assert has_entry(entries[0].path, "m3")
    assert not has_entry(entries[0].path, "m4")
    assert not has_entry(tmp_path / "none.md", "m1")


@given(cut=st.integers(0, 10_000), text=st.text(min_size=1, max_size=60).filter(str.strip))
def test_a_torn_entry_is_completed(tmp_path_factory: pytest.TempPathFactory, cut: int, text: str) -> None:
    """Wherever a write was ended, writing the same again leaves the file as if it had not been."""
    bullets = "- " + " ".join(text.replace("\0", "").split()) + "\n- päge\n- end"
    try:
        bullets.encode()
    except UnicodeEncodeError:
        return
    whole, torn = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("torn")
    entries = [memory("m1"), memory("m2", bullets, 6), memory("m3", "- other", 7)]
    for folder in (whole, torn):
        append_entries(folder, entries[:1], NOW)
    path = torn / "2026-03-05.md"
    before = len(path.read_bytes())
    (last, *_) = append_entries(whole, entries[1:], NOW)
    data = last.path.read_bytes()
    path.write_bytes(data[: min(before + cut, len(data))])

    append_entries(torn, entries[1:], NOW)

    assert _said(path) == _said(last.path)
    assert [path.read_bytes().count(f"memory:m{number} ".encode()) for number in (1, 2, 3)] == [1, 1, 1]


def _said(path: Path) -> dict[str, str]:
    """Return what each memory of a journal says. A heading that nothing follows, which a cut may leave, says nothing."""
    chunks = chunk_markdown(path.read_text("utf-8"), str(path), ChunkOptions()).chunks
    return {chunk.anchor.memory: chunk.content for chunk in chunks if chunk.anchor is not None}


def test_a_pipe_in_the_place_of_a_journal_does_not_block(tmp_path: Path) -> None:
    """A pipe in the place of a journal would keep us for ever."""
    os.mkfifo(tmp_path / "2026-03-05.md")
    assert not has_entry(tmp_path / "2026-03-05.md", "m1")
    with pytest.raises(StoreUnwritable):
        append_entries(tmp_path, [memory("m1")], NOW)


TAGS = st.lists(st.from_regex(r"\A[A-Za-z0-9é][\w.:/*@+-]{0,30}\Z"), max_size=4, unique=True).map(tuple)
# An entry cannot supersede itself, so the entry's own id, m0, is not generated.
IDS = st.lists(
    st.from_regex(r"\A[a-z0-9][a-z0-9.:-]{0,20}\Z").filter(lambda memory: memory != "m0"), max_size=3, unique=True
).map(tuple)


@given(TAGS, IDS, st.just("") | st.dates().map(str))
def test_what_an_anchor_is_told_comes_back(tags: tuple[str, ...], supersedes: tuple[str, ...], expires: str) -> None:
    """Tags of whatever signs they may have, what is superseded and the last day are read from the file as they were given."""
    new = NewMemory("said", "fact", tags, supersedes=supersedes, expires=expires, id="m0")
    with TemporaryDirectory() as place:
        (entry,) = append_entries(Path(place), [new], NOW)
        (chunk,) = chunk_markdown(entry.path.read_text("utf-8"), "/j.md", ChunkOptions()).chunks

    assert chunk.anchor is not None
    assert (chunk.tags, chunk.anchor.superseded_ids, chunk.anchor.expires) == (tags, supersedes, expires)
    assert chunk.anchor.memory == "m0"


@pytest.mark.parametrize("tag", ["a b", "a,b", "a>b", "", "-a", ":a", "a\n", "a" * 201])
def test_tags_that_an_anchor_cannot_hold_are_refused(tag: str, tmp_path: Path) -> None:
    """It is refused before anything is written; so is an id that would end the anchor."""
    with pytest.raises(UsageError, match="cannot be a tag"):
        append_entries(tmp_path, [NewMemory("said", tags=(tag,))], NOW)
    with pytest.raises(UsageError, match="cannot be superseded"):
        append_entries(tmp_path, [NewMemory("said", supersedes=("a b-->",))], NOW)
    assert list(tmp_path.iterdir()) == []


def test_an_entry_after_a_torn_end_is_an_entry(tmp_path: Path) -> None:
    """Wherever a kill tore off the last entry, or NUL bytes end the file: nothing is deleted, and the next entry is whole."""
    text = "记忆 é plain"
    first = append_entries(tmp_path, [NewMemory(text, id="old")], NOW)[0].path
    whole = first.read_bytes()
    tails = [whole[:size] for size in range(len(whole) - 40, len(whole))] + [whole.rstrip() + b"\0" * 4096]
    for number, torn in enumerate(tails):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / first.name
        path.write_bytes(torn)
        entry = append_entries(folder, [NewMemory("the next entry", id="new", tags=("kept",))], NOW)[0]
        assert path.read_bytes().startswith(torn)
        content = read_text(SourceFile(str(path), str(folder), FileStamp(0, 0, 0)))
        chunks = chunk_markdown(content.text, str(path), ChunkOptions()).chunks
        (chunk,) = [chunk for chunk in chunks if chunk.anchor and chunk.anchor.memory == "new"]
        assert (chunk.start_line, chunk.tags) == (entry.start_line, ("kept",))
        assert chunk.text.endswith("the next entry")


def test_new_journals_are_as_private_as_their_folder(tmp_path: Path) -> None:
    """A new `.lorelog` and its journals are their owner's alone; a folder that a person opened stays open."""
    old = os.umask(0o022)
    try:
        closed = append_entries(tmp_path / "a" / ".lorelog" / "memory", [NewMemory("x")], NOW)[0].path
        (tmp_path / "b" / ".lorelog").mkdir(parents=True)
        opened = append_entries(tmp_path / "b" / ".lorelog" / "memory", [NewMemory("x")], NOW)[0].path
        elsewhere = append_entries(tmp_path / "docs", [NewMemory("x")], NOW)[0].path
    finally:
        os.umask(old)
    places = (closed, closed.parent, closed.parents[1], opened, opened.parent, elsewhere, elsewhere.parent)
    modes = [oct(place.stat().st_mode & 0o777) for place in places]
    assert modes == ["0o600", "0o700", "0o700", "0o644", "0o755", "0o644", "0o755"]


_LINES = "```|~~~|````|``` py|  ```|    ```|- ```|a ~~~|`` ``` ``|<!--|-->|---|x||# h".split("|")


@given(st.lists(st.sampled_from(_LINES), max_size=9).map("\n".join))
def test_a_text_that_is_surely_closed_needs_no_line_to_close_it(text: str) -> None:
    """Where the quick look at a journal finds no open fence, the whole parse finds none; the usual code block needs no parse."""
    if journal.is_surely_closed(text):
        assert journal._closing_fence(read_outline(text)) == []
    assert journal.is_surely_closed("### 10:00\n<!-- memory:a -->\n```py\nx = 1\n```\ntext\n")


_FENCED = st.sampled_from(["said", "```\nx\n```", "~~~ open", "<!-- open", "- ```\n  x", "# h\n\n### 14:30\n"])
_OTHERS = st.sampled_from(["", "```\n", "\n", "typed without an end", "<!--\n", "### 09:00\n<!-- memory:m3 -->\nx\n"])


@given(st.lists(st.tuples(_OTHERS, st.booleans(), _FENCED, st.booleans()), max_size=6))
def test_a_journal_is_continued_as_if_it_was_read_again(steps: list[tuple[str, bool, str, bool]]) -> None:
    """What a process remembers of the journals it wrote changes neither their text nor positions, whatever others write in between."""
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        for number, (others, in_place, text, are_new) in enumerate(steps):
            told, is_new = [], are_new and number != 3  # others may have written that id
            for folder in map(Path, (first, second)):
                path = folder / "2026-03-05.md"
                if others and path.exists():
                    before = path.read_text()
                    path.write_text(others + before[len(others) :] if in_place else before + others)
                    os.utime(path, (0, number))  # two writes may come within one tick of the clock
                if str(folder) == second:
                    journal._ends.pop(folder, None)
                new = [memory(f"m{number}", text), memory(f"n{number}")]
                placed = append_entries(folder, new, NOW, session="s", are_new=is_new)
                told.append((path.read_text(), [(entry.start_line, entry.end_line, entry.existed) for entry in placed]))
            assert told[0] == told[1]
