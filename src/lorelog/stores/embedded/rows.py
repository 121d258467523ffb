"""Table rows of documents and chunks, and filters as SQL conditions for the catalog and as queries for tantivy.

A source prefix never becomes a pattern. In SQL it is two comparisons, in tantivy one term: each chunk is indexed under
its own path and every directory above it. So `/a/b` cannot match `/a/bc`, and quotes, `%` and `_` have no special
meaning.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from msgspec.json import decode
from msgspec.structs import asdict, astuple, replace

from lorelog.core.document import Anchor, Chunk, Document, FileStamp, StoredChunk
from lorelog.core.ids import sha256
from lorelog.core.query import Filters
from lorelog.core.sqlite_file import placeholders

if TYPE_CHECKING:
    import tantivy


DOCUMENT_COLUMNS = (
    "source, root, project, size, mtime_ns, inode, file_hash, title, date, indexed_at, recipe, chunk_count, date_source"
)

CHUNK_COLUMNS = (
    "c.row, c.id, c.embedded, d.source, c.project, c.heading, c.heading_level, c.heading_path, c.start_line, c.end_line, "
    "c.content, c.content_hash, c.text, c.cut_start, c.cut_end, c.context, c.date, c.type, c.tags, c.anchor, c.piece, c.date_source, d.title"
)

WRITTEN_COLUMNS = (
    "project, ordinal, id, memory, heading, heading_level, heading_path, start_line, end_line, content, content_hash, text, "
    "cut_start, cut_end, context, date, type, tags, anchor, piece, date_source, starts_entry, vector_key, lane_key"
)


def document_values(document: Document, chunk_count: int) -> tuple[Any, ...]:
    """Return a document's values in the order of DOCUMENT_COLUMNS."""
    source, root, project, stamp, *rest = astuple(replace(document, chunk_count=chunk_count))
    return source, root, project, *astuple(stamp), *rest


def read_document(row: tuple[Any, ...]) -> Document:
    source, root, project, size, mtime_ns, inode, *rest = row
    return Document(source, root, project, FileStamp(size, mtime_ns, inode), *rest)


_encode_json = json.JSONEncoder(ensure_ascii=False).encode
"""As `json.dumps`, which makes a new encoder in each call."""


def chunk_values(chunk: Chunk, project: str, ordinal: int, model: str) -> tuple[Any, ...]:
    """Return a chunk's values in the order of WRITTEN_COLUMNS."""
    anchor = chunk.anchor
    return (
        project,
        ordinal,
        chunk.identify(model),
        anchor.memory if anchor else "",
        chunk.heading,
        chunk.heading_level,
        _encode_json(chunk.heading_path),
        chunk.start_line,
        chunk.end_line,
        chunk.content,
        chunk.content_hash,
        *compact_text(chunk.content, chunk.text),
        chunk.context,
        chunk.date,
        chunk.type,
        _encode_json(chunk.tags) if chunk.tags else "[]",
        None if anchor is None else _encode_json({name: value for name, value in asdict(anchor).items() if value}),
        chunk.piece,
        chunk.date_source,
        chunk.starts_entry,
        chunk.vector_key,
        lane_key(chunk, project),
    )


def compact_text(content: str, text: str) -> tuple[str | None, int, int]:
    """Return how a text is stored: as the part of the content that it lacks, mostly a comment, or else as it is."""
    if text == content:
        return None, 0, 0
    start = next((at for at, (one, other) in enumerate(zip(content, text, strict=False)) if one != other), len(text))
    end = start + len(content) - len(text)
    cut = (None, start, end)
    return cut if end > start and read_text(content, *cut) == text else (text, 0, 0)


def read_text(content: str, text: str | None, cut_start: int, cut_end: int) -> str:
    """Return a text from its columns."""
    if text is not None:
        return text
    return content[:cut_start] + content[cut_end:] if cut_end else content


def lane_key(chunk: Chunk, project: str) -> str:
    """Return a key that is equal for two chunks of a document exactly if the lanes store the same data for both."""
    parts = (project, chunk.context, chunk.text, chunk.heading_path, chunk.date, chunk.type, chunk.tags)
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_chunk(row: tuple[Any, ...], *, current_space: bool) -> StoredChunk:
    (key, identity, embedded, source, project, heading, level, path, start, end, *rest) = row
    (content, content_hash, text, cut_start, cut_end, context, date, kind, tags, anchor, piece, date_source, title) = (
        rest
    )
    chunk = Chunk(  # by position: a search reads twenty, and names double the time of the call
        source,
        heading,
        level,
        read_texts(path),
        start,
        end,
        content,
        read_text(content, text, cut_start, cut_end),
        context,
        date,
        kind,
        read_texts(tags) if tags != "[]" else (),
        None if anchor is None else decode(anchor, type=Anchor),
        piece,
        content_hash,
        date_source,
    )
    return StoredChunk(key, identity, chunk, project, bool(embedded) and current_space, "", title)


@lru_cache(maxsize=4096)
def read_texts(array: str) -> tuple[str, ...]:
    """Return the texts of a JSON array. Cached, because few differ: no tags, the headings of one file."""
    return decode(array, type=tuple[str, ...])


def sql_conditions(filters: Filters) -> tuple[str, list[Any]]:
    """Return a WHERE clause over `chunks c`, joined with `documents d` for a source prefix, and its values."""
    clauses, values = ["c.live"], list[Any]()
    if filters.projects is not None:
        clauses.append(f"c.project IN ({placeholders(filters.projects)})")
        values += filters.projects
    if filters.source_prefix:
        prefix = filters.source_prefix.rstrip("/")
        # '0' is the character after '/', so this range is everything below the directory.
        clauses.append("(d.source = ? OR (d.source >= ? AND d.source < ?))")
        values += [filters.source_prefix, prefix + "/", prefix + "0"]
    if filters.since:
        clauses.append("c.date >= ?")
        values.append(filters.since)
    if filters.until:
        # A time may follow the day: every date that begins with the last day is admitted.
        clauses.append("(c.date <> '' AND c.date < ?)")
        values.append(filters.until + "\U0010ffff")
    if filters.types:
        clauses.append(f"c.type IN ({placeholders(filters.types)})")
        values += filters.types
    for tag in filters.tags:
        clauses.append("c.row IN (SELECT row FROM tagged WHERE tag = ?)")
        values.append(tag)
    return " AND ".join(clauses), values


def tantivy_filters(filters: Filters, schema: tantivy.Schema) -> list[tantivy.Query]:
    """Return queries that must all match and do not affect the score."""
    import tantivy

    query = tantivy.Query
    clauses: list[tantivy.Query] = []
    if filters.projects is not None:
        marks = [f"p{project}" for project in filters.projects]
        # tantivy can skip through a single term; a set is collected first.
        clauses.append(
            query.term_query(schema, "project", marks[0])
            if len(marks) == 1
            else query.term_set_query(schema, "project", marks)
        )
    if filters.source_prefix:
        clauses.append(query.term_query(schema, "path", filters.source_prefix.rstrip("/") or "/"))
    if filters.since or filters.until:
        low = day_number(filters.since) if filters.since else 1
        high = day_number(filters.until) if filters.until else 99_991_231
        kind = tantivy.FieldType.Unsigned
        clauses.append(query.range_query(schema, "day", kind, low, high))
    if filters.types:
        clauses.append(query.term_set_query(schema, "type", list(filters.types)))
    clauses += [query.term_query(schema, "tag", tag) for tag in filters.tags]
    return clauses


@lru_cache(maxsize=64)
def path_terms(source: str) -> tuple[str, ...]:
    """Return a file's path and every directory above it."""
    path = PurePath(source)
    return (str(path), *(str(parent) for parent in path.parents))


def day_number(date: str) -> int:
    """Return an ISO day as a number that sorts like it, or 0 if there is none."""
    return int(date[:10].replace("-", "")) if date else 0
