"""Conversion between catalog rows and Milvus rows, and the batches in which rows are sent."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from lorelog.core.document import DATE_IN_TEXT, DATE_OF_FILE, Anchor, Chunk, StoredChunk, chunk_id
from lorelog.core.ports import MIN_BM25_WORDS
from lorelog.stores.embedded import vector_file
from lorelog.stores.embedded.catalog_reader import space_model
from lorelog.stores.embedded.rows import day_number
from lorelog.stores.milvus.lexicon import Lexicon
from lorelog.stores.milvus.schema import (
    MAX_PATH_BYTES,
    MAX_TAG_BYTES,
    MAX_TAGS,
    MAX_TEXT_BYTES,
    MAX_TYPE_BYTES,
    encode_words,
    fit_text,
    truncate_text,
)

Row = dict[str, Any]

_ID = re.compile(r"[0-9a-f]{16}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?")

_ROWS_PER_QUERY = 500
_MAX_CALL_BYTES = 4_000_000
"""Of one call. Servers accept 64 MB, but many rows at once make them slow."""
_COLUMNS = (
    "c.row, c.content_hash, d.source, c.project, c.heading, c.heading_level, c.start_line, c.end_line, c.content, c.date, c.type, "
    "c.tags, v.slot, c.text, c.context, c.heading_path, c.anchor, c.piece, c.date_source, "
    "c.memory"
)
_SLOT = _COLUMNS.split(", ").index("v.slot")
READ_FIELDS = (
    "key", "chunk_hash", "content_hash", "home", "shared", "source", "heading", "heading_level", "start_line", "end_line", "text", "type", "tags",
    "has_vector", "about",
)  # fmt: skip
"""Fields that a chunk of another machine is read from."""


class RowOwner(Struct, frozen=True):
    """The index and model that rows are sent for."""

    home: str
    space: str
    width: int
    shared_name: Callable[[str, str], str]
    """Returns the shared name of a file's project, by project and source; empty for files that are not shared."""


def rows_to_send(
    database: sqlite3.Connection, lexicon: Lexicon, rows: Sequence[int], owner: RowOwner
) -> Iterator[list[Row]]:
    """Yield the rows to send in batches of one project each; rows that no longer exist are skipped."""
    for start in range(0, len(rows), _ROWS_PER_QUERY):
        part = rows[start : start + _ROWS_PER_QUERY]
        marks = ", ".join("?" * len(part))
        # CROSS JOIN fixes the order: the few given rows first, then the one vector of each key.
        chunks = database.execute(
            f"SELECT {_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "
            "LEFT JOIN vectors v ON v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = c.vector_key "
            f"WHERE c.row IN ({marks}) ORDER BY c.project, c.row",
            (owner.space, *part),
        ).fetchall()
        bags = lexicon.word_counts(part)
        space = vector_file.find_space(database, owner.space)
        slots = [values[_SLOT] for values in chunks if values[_SLOT] is not None]
        vectors = dict(zip(slots, vector_file.read_vectors(database, space, slots), strict=True))
        batch: list[Row] = []
        size = 0
        for chunk in chunks:
            values = (*chunk[:_SLOT], vectors.get(chunk[_SLOT]), *chunk[_SLOT + 1 :])
            row = _row(values, bags.get(values[0], ([], 0)), owner.home, owner.width)
            row["shared"] = fit_text(owner.shared_name(values[3], values[2]), MAX_PATH_BYTES)
            # Rows are pushed before their model is served, so they get the ids of that model.
            row["chunk_hash"] = chunk_id(
                values[2], row["start_line"], row["end_line"], row["chunk_hash"], space_model(owner.space)
            )
            if batch and (size > _MAX_CALL_BYTES or batch[-1]["project"] != row["project"]):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += 4 * owner.width + len(row["content"]) + 2 * (len(row["text"]) + len(row["about"])) + 500
        if batch:
            yield batch


def mark_row(home: str, mark: str, width: int) -> Row:
    """Return the row that marks a collection as ours; neither words nor vectors find it."""
    return text_row(home, 0, mark, width)


def text_row(home: str, number: int, text: str, width: int) -> Row:
    """Return a row with a text about an index; it is not a chunk and has no words and no vector."""
    empty = ("", "", "", "", 0, 0, 0, text, "", "", "[]", None, None, "", "[]", None, 0, DATE_IN_TEXT, "")
    return _row((number, *empty), ([], MIN_BM25_WORDS), home, width)


def row_key(home: str, row: int) -> str:
    return f"{home}:{row}"


def _row(values: tuple[Any, ...], words: tuple[list[tuple[str, int]], int], home: str, width: int) -> Row:
    number, identity, source, project, heading, level, first, last, content, date, kind, tags, vector, *more = values
    bag, length = words
    return {
        "key": row_key(home, number),
        "chunk_hash": identity,
        "content_hash": identity,
        "dense_vector": _vector_floats(vector, width),
        "has_vector": vector is not None,
        "content": encode_words(bag, MIN_BM25_WORDS - length),
        "text": truncate_text(content, MAX_TEXT_BYTES),
        "source": truncate_text(source, MAX_PATH_BYTES),
        "heading": truncate_text(heading, MAX_PATH_BYTES),
        "project": fit_text(project, MAX_PATH_BYTES),
        "heading_level": level,
        "start_line": first,
        "end_line": last,
        "day": day_number(date),
        "row": number,
        "type": fit_text(kind, MAX_TYPE_BYTES),
        "tags": [fit_text(tag, MAX_TAG_BYTES) for tag in json.loads(tags)[:MAX_TAGS]],
        "home": home,
        "shared": "",
        "memory": truncate_text(more[-1], 1000),
        "about": _about_json(date, more[:-1]),
    }


def _about_json(date: str, rest: Sequence[Any]) -> str:
    """Return the rest of a chunk that other machines need, as JSON, reduced to the size of a field."""
    text, context, path, anchor, piece, date_source = rest
    basics = {"date": date, "context": context, "heading_path": json.loads(path), "piece": piece}
    if date_source == DATE_OF_FILE:
        basics["date_source"] = date_source
    if anchor is not None:
        # Without the memories it covers, which only its own machine needs: there can be thousands.
        basics["anchor"] = {name: value for name, value in json.loads(anchor).items() if name != "covers"}
    for fields in ({**basics, "text": text}, basics, {"date": date, "piece": piece}):
        encoded = json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)
        if len(encoded.encode("utf-8", "replace")) <= MAX_TEXT_BYTES:
            return truncate_text(encoded, MAX_TEXT_BYTES)
    return "{}"


def read_row(row: Mapping[str, Any], machine: str, project: str) -> StoredChunk | None:
    """Return the chunk of another machine's row, with the machine's name before its path; None if it is not valid.

    All of it is untrusted text: invalid fields are skipped, and no path of it is taken for a local one.
    """
    if not _ID.fullmatch(str(row["chunk_hash"])):
        return None
    try:
        about = json.loads(row["about"])
        content = str(row["text"])
        chunk = Chunk(
            source=f"{machine}:{str(row['source']).replace(chr(0), '?')}",
            heading=str(row["heading"]),
            heading_level=max(0, int(row["heading_level"])),
            heading_path=tuple(map(str, about.get("heading_path", ()))),
            start_line=max(1, int(row["start_line"])),
            end_line=max(1, int(row["end_line"])),
            content=content,
            text=str(about.get("text", content)),
            context=str(about.get("context", "")),
            date=_read_day(about.get("date", "")),
            type=str(row["type"]),
            tags=tuple(map(str, row["tags"])),
            anchor=_read_anchor(about.get("anchor") or {}),
            piece=int(about.get("piece", 0)),
            content_hash=str(row["content_hash"]),
            date_source=DATE_OF_FILE if about.get("date_source") == DATE_OF_FILE else DATE_IN_TEXT,
        )
        return StoredChunk(row["key"], row["chunk_hash"], chunk, project, bool(row["has_vector"]), machine)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _read_anchor(fields: Mapping[str, Any]) -> Anchor:
    """Return an anchor without the transcript's path, which is a file of the other machine.

    The text came from outside, as with every import: the origin says so, and agents see it quoted as such.
    """
    names = [
        name for name in Anchor.__struct_fields__ if name not in ("tags", "covers", "cues", "transcript", "origin")
    ]
    texts: dict[str, Any] = {name: str(fields.get(name, "")) for name in names}
    return Anchor(**texts, origin="import", tags=tuple(map(str, fields.get("tags", ()))))


def _read_day(date: Any) -> str:
    return date if isinstance(date, str) and _DATE.fullmatch(date) else ""


def _vector_floats(vector: bytes | None, width: int) -> Any:
    if vector is None:
        return [0.0] * width
    import numpy as np

    return np.frombuffer(vector, dtype="<f4")
