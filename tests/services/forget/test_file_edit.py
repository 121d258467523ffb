"""Sections that are taken out of a file."""

from __future__ import annotations

from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import MAX_HEADINGS
from lorelog.services.forget.file_edit import take_out
from lorelog.services.forget.plan import ForgottenEntry
from lorelog.services.memory_state.tombstones import deletion_keys


def test_a_chunk_of_merged_sections_is_taken_out_whole() -> None:
    """A chunk beyond the limit of headings is taken out with all sections that it consists of, and no other byte."""
    lines = [line for n in range(MAX_HEADINGS + 500) for line in (f"## H{n}", f"text {n}")]
    text = "\n".join(lines) + "\n"
    chunks = chunk_markdown(text, "/p/a.md", ChunkOptions()).chunks
    number = MAX_HEADINGS + 2
    key = deletion_keys(chunks, "/p")[number]
    entry = ForgottenEntry(key=key, memory="", source="/p/a.md", project="/p", root="/p", action="cut")

    left = take_out(text.encode(), [entry], (), ChunkOptions()).decode()

    chunk = chunks[number]
    assert chunk.end_line - chunk.start_line > 10
    assert left == "\n".join([*lines[: chunk.start_line - 1], *lines[chunk.end_line :]]) + "\n"
