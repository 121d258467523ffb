"""Sections leave a file without touching another byte, also while others write to it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from lorelog.core.errors import StoreBusy
from lorelog.core.memory import NewMemory
from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import MAX_HEADINGS
from lorelog.services.forget.entries import erase_sections, reword_summary
from lorelog.services.forget.forget_plan import ForgottenEntry
from lorelog.services.forget.residues import Quotes, make_quotes
from lorelog.services.memories.edit import edit_file
from lorelog.services.memories.journal import append_entries
from lorelog.services.memory_state.tombstones import deletion_keys, memory_key

NOW = datetime(2026, 3, 5, 14, 0)  # noqa: DTZ001
JOURNAL = (
    "# 2026-03-05\n\n### 10:00\n<!-- memory:a type:fact -->\nOne  with odd   spaces.\t\n\n"
    "### 10:01\n<!-- memory:b type:fact -->\nGone.\n\n```\n### not a heading\n```\n\n\n### 10:02\n<!-- memory:c -->\nLast"
)


def entry(memory: str, source: Path, action: str = "cut") -> ForgottenEntry:
    return ForgottenEntry(
        key=memory_key(memory), memory=memory, source=str(source), project="/p", root="/", action=action
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("memory", ["a", "b", "c"])
def test_every_other_byte_stays(tmp_path: Path, memory: str, end: str, mark: str) -> None:
    """Whatever the line ends and the byte order mark: what is left are the bytes before and after the entry."""
    data = (mark + JOURNAL.replace("\n", end)).encode()
    starts = [data.index(f"### 10:0{number}".encode()) for number in range(3)] + [len(data)]
    number = "abc".index(memory)

    left = erase_sections(data, [entry(memory, tmp_path / "j.md")], (), ChunkOptions())

    assert left == data[: starts[number]] + data[starts[number + 1] :]
    assert erase_sections(left, [entry(memory, tmp_path / "j.md")], (), ChunkOptions()) == left


def test_nothing_that_is_appended_meanwhile_is_lost(tmp_path: Path) -> None:
    """Entries that others append while sections are taken out are all there, each once."""
    append_entries(tmp_path, [NewMemory(f"Old {n}", id=f"old{n}") for n in range(10)], NOW)
    path = tmp_path / "2026-03-05.md"

    def append(writer: int) -> None:
        for number in range(10):
            while True:
                try:
                    append_entries(tmp_path, [NewMemory("New", id=f"new{writer}-{number}")], NOW)
                    break
                except StoreBusy:  # refused, not lost: the file was replaced five times in a row
                    continue

    threads = [Thread(target=append, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        gone = [entry(f"old{number}", path)]
        assert edit_file(path, lambda data, gone=gone: erase_sections(data, gone, (), ChunkOptions()))  # type: ignore[misc]
    for thread in threads:
        thread.join()

    text = path.read_text()
    assert "Old" not in text
    assert all(text.count(f"memory:new{writer}-{number} ") == 1 for writer in range(3) for number in range(10))
    assert [path.name] == [file.name for file in tmp_path.iterdir()]


def test_an_extracted_summary_keeps_its_other_sentences() -> None:
    """Lines that cite a forgotten source go, with its hash; a summary by a model, or without other lines, goes whole."""
    one, two = "a" * 16, "b" * 16
    text = (
        f"### 10:00\n<!-- memory:compact-1 type:summary origin:user covers:{one},{two} -->\n"
        f"Summary of 2 chunks, 2026-03-05, in their own sentences.\n\n- First. [{one[:8]}]\n- Second. [{two[:8]}]\n"
    )

    assert reword_summary(text, {one}) == (
        f"### 10:00\n<!-- memory:compact-1 type:summary origin:user covers:{two} -->\n"
        f"Summary of 1 chunk, 2026-03-05, in their own sentences.\n\n- Second. [{two[:8]}]\n"
    )
    assert reword_summary(text, {one, two}) == ""
    assert reword_summary(text.replace("in their own sentences", "worded by x/y"), {one}) == ""


def test_a_quotation_is_recognized_in_every_form() -> None:
    """Case, punctuation, line breaks and JSON escapes do not hide a quotation; shared and common words are none."""
    quotes = make_quotes(["Launch the red balloon at dawn with sk-9f8e7d6c5b.", "ok"], ["the red balloon at noon"])
    stored = msgspec.json.encode(quotes)
    quotes = msgspec.json.decode(stored, type=Quotes)

    assert quotes.occur_in('{"text": "LAUNCH the\\nred, balloon"}')
    assert quotes.occur_in("key=sk-9f8e7d6c5b")
    assert not quotes.occur_in("the red balloon at noon")
    assert not quotes.occur_in("ok, launch it at dawn")
    assert b"balloon" not in stored


def test_a_chunk_of_merged_sections_is_taken_out_whole() -> None:
    """A chunk beyond the limit of headings is taken out with all sections that it consists of, and no other byte."""
    lines = [line for n in range(MAX_HEADINGS + 500) for line in (f"## H{n}", f"text {n}")]
    text = "\n".join(lines) + "\n"
    chunks = chunk_markdown(text, "/p/a.md", ChunkOptions()).chunks
    number = MAX_HEADINGS + 2
    key = deletion_keys(chunks, "/p")[number]
    gone = ForgottenEntry(key=key, memory="", source="/p/a.md", project="/p", root="/p", action="cut")

    left = erase_sections(text.encode(), [gone], (), ChunkOptions()).decode()

    chunk = chunks[number]
    assert chunk.end_line - chunk.start_line > 10
    assert left == "\n".join([*lines[: chunk.start_line - 1], *lines[chunk.end_line :]]) + "\n"
