"""Chunks, ids and the embedded text."""

from __future__ import annotations

from lorelog.core.document import Chunk, chunk_id
from lorelog.core.options import ChunkOptions
from lorelog.ingest import markdown


def chunk_markdown(text: str, source: str = "", max_chunk_size: int = 1500, overlap_lines: int = 2) -> list[Chunk]:
    options = ChunkOptions(max_chunk_size=max_chunk_size, overlap_lines=overlap_lines)
    return list(markdown.chunk_markdown(text, source, options).chunks)


def clean_content_for_embedding(text: str) -> str:
    return "\n".join(chunk.text for chunk in chunk_markdown(text, "/a.md"))


def compute_chunk_id(source: str, start_line: int, end_line: int, content_hash: str, model: str) -> str:
    return chunk_id(source, start_line, end_line, content_hash, model)
