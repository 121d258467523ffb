"""Between the catalog's rows and those in Milvus: what is sent, and how much of it at a time."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorelog.core.document import Anchor, Chunk, StoredChunk, chunk_id
from lorelog.core.ports import SHORT
from lorelog.stores.embedded.spaces import model_of
from lorelog.stores.milvus.filters import day_number
from lorelog.stores.milvus.lexicon import Lexicon
from lorelog.stores.milvus.schema import MOST_PATH, MOST_TAG, MOST_TAGS, MOST_TEXT, MOST_TYPE, cut, fitted
from lorelog.stores.milvus.tokens import written

Row = dict[str, Any]

_ID = re.compile(r"[0-9a-f]{16}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?")

_A_TIME = 500
_MOST_BYTES = 4_000_000
"""Of one call; servers take 64 MB, and many rows at once make them wait."""
_COLUMNS = (
    "c.row, c.content_hash, d.source, c.project, c.heading, c.heading_level, c.start_line, c.end_line, c.content, c.date, c.type, "
    "c.tags, v.vector, c.text, c.context, c.heading_path, c.anchor, c.piece, c.memory"
)
READ = (
    "key", "chunk_hash", "content_hash", "home", "shared", "source", "heading", "heading_level", "start_line", "end_line", "text", "type", "tags",
    "has_vector", "about",
)  # fmt: skip
"""What a chunk of another machine is put together from."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rows are sent, and under which model."""

    home: str
    space: str
    width: int
    shared_name: Callable[[str, str], str]
    """What all machines call the project of a file, by project and source; empty for what is nobody else's business."""


def rows_of(database: sqlite3.Connection, lexicon: Lexicon, wanted: Sequence[int], owner: Owner) -> Iterator[list[Row]]:
    """Yield the rows to send, as many as one call takes, each of one project; rows that are gone are left out."""
    for start in range(0, len(wanted), _A_TIME):
        part = wanted[start : start + _A_TIME]
        marks = ", ".join("?" * len(part))
        # CROSS JOIN: the few rows that were named come first, then the one vector that each key names.
        found = database.execute(
            f"SELECT {_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "
            "LEFT JOIN vectors v ON v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = c.vector_key "
            f"WHERE c.row IN ({marks}) ORDER BY c.project, c.row",
            (owner.space, *part),
        ).fetchall()
        bags = lexicon.bags(part)
        batch: list[Row] = []
        size = 0
        for values in found:
            row = _row(values, bags.get(values[0], ([], 0)), owner.home, owner.width)
            row["shared"] = fitted(owner.shared_name(values[3], values[2]), MOST_PATH)
            # Rows are pushed before their model is served, and bear the ids that it gives them.
            row["chunk_hash"] = chunk_id(
                values[2], row["start_line"], row["end_line"], row["chunk_hash"], model_of(owner.space)
            )
            if batch and (size > _MOST_BYTES or batch[-1]["project"] != row["project"]):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += 4 * owner.width + len(row["content"]) + 2 * (len(row["text"]) + len(row["about"])) + 500
        if batch:
            yield batch


def mark_row(home: str, mark: str, width: int) -> Row:
    """Return the row that says whose rows these are; neither words nor vectors find it."""
    return text_row(home, 0, mark, width)


def text_row(home: str, number: int, text: str, width: int) -> Row:
    """Return a row that says something of an index and is none of its chunks; it has no words and no vector."""
    empty = ("", "", "", "", 0, 0, 0, text, "", "", "[]", None, None, "", "[]", None, 0, "")
    return _row((number, *empty), ([], SHORT), home, width)


def key_of(home: str, row: int) -> str:
    """Return the key of a row."""
    return f"{home}:{row}"


def _row(values: tuple[Any, ...], words: tuple[list[tuple[str, int]], int], home: str, width: int) -> Row:
    number, identity, source, project, heading, level, first, last, content, date, kind, tags, vector, *more = values
    bag, length = words
    return {
        "key": key_of(home, number),
        "chunk_hash": identity,
        "content_hash": identity,
        "dense_vector": _numbers(vector, width),
        "has_vector": vector is not None,
        "content": written(bag, SHORT - length),
        "text": cut(content, MOST_TEXT),
        "source": cut(source, MOST_PATH),
        "heading": cut(heading, MOST_PATH),
        "project": fitted(project, MOST_PATH),
        "heading_level": level,
        "start_line": first,
        "end_line": last,
        "day": day_number(date),
        "row": number,
        "type": fitted(kind, MOST_TYPE),
        "tags": [fitted(tag, MOST_TAG) for tag in json.loads(tags)[:MOST_TAGS]],
        "home": home,
        "shared": "",
        "memory": cut(more[-1], 1000),
        "about": _about(date, *more[:-1]),
    }


def _about(date: str, text: str | None, context: str, path: str, anchor: str | None, piece: int) -> str:
    """Return what else a reader on another machine must know of a chunk, as JSON; as much of it as a field takes."""
    known = {"date": date, "context": context, "heading_path": json.loads(path), "piece": piece}
    if anchor is not None:
        # What it sums up is known to its own machine only: there can be thousands.
        known["anchor"] = {name: value for name, value in json.loads(anchor).items() if name != "covers"}
    for told in ({**known, "text": text}, known, {"date": date, "piece": piece}):
        written = json.dumps({name: value for name, value in told.items() if value is not None}, ensure_ascii=False)
        if len(written.encode("utf-8", "replace")) <= MOST_TEXT:
            return cut(written, MOST_TEXT)
    return "{}"


def read_row(row: Mapping[str, Any], machine: str, project: str) -> StoredChunk | None:
    """Return the chunk of another machine's row, whose file is said to be there; None for one that nobody of us wrote.

    Everything in it is somebody else's text: what does not fit is passed over, and no path of it is taken for one of ours.
    """
    if not _ID.fullmatch(str(row["chunk_hash"])):
        return None
    try:
        told = json.loads(row["about"])
        content = str(row["text"])
        chunk = Chunk(
            source=f"{machine}:{str(row['source']).replace(chr(0), '?')}",
            heading=str(row["heading"]),
            heading_level=max(0, int(row["heading_level"])),
            heading_path=tuple(map(str, told.get("heading_path", ()))),
            start_line=max(1, int(row["start_line"])),
            end_line=max(1, int(row["end_line"])),
            content=content,
            text=str(told.get("text", content)),
            context=str(told.get("context", "")),
            date=_day(told.get("date", "")),
            type=str(row["type"]),
            tags=tuple(map(str, row["tags"])),
            anchor=_anchor(told.get("anchor") or {}),
            piece=int(told.get("piece", 0)),
            content_hash=str(row["content_hash"]),
        )
        return StoredChunk(row["key"], row["chunk_hash"], chunk, project, bool(row["has_vector"]), machine)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _anchor(told: Mapping[str, Any]) -> Anchor:
    """Return an anchor without the conversation's address, which is a file of that machine.

    Whoever wrote it there, here it is text that came in, as with every import: it says so, and is quoted as such to agents.
    """
    texts = [name for name in Anchor.__slots__ if name not in ("tags", "covers", "transcript", "origin")]
    known: dict[str, Any] = {name: str(told.get(name, "")) for name in texts}
    return Anchor(**known, origin="import", tags=tuple(map(str, told.get("tags", ()))))


def _day(told: Any) -> str:
    return told if isinstance(told, str) and _DATE.fullmatch(told) else ""


def _numbers(vector: bytes | None, width: int) -> Any:
    if vector is None:
        return [0.0] * width
    import numpy as np

    return np.frombuffer(vector, dtype="<f4")
