"""Between the catalog's rows and those in Milvus: what is sent, and how much of it at a time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from recollect.core.document import chunk_id
from recollect.core.ports import SHORT
from recollect.stores.embedded.spaces import model_of
from recollect.stores.milvus.filters import day_number
from recollect.stores.milvus.lexicon import Lexicon
from recollect.stores.milvus.schema import MOST_TAGS, MOST_TEXT, cut
from recollect.stores.milvus.tokens import written

Row = dict[str, Any]

_A_TIME = 500
_MOST_BYTES = 4_000_000
"""Of one call; servers take 64 MB, and many rows at once make them wait."""
_COLUMNS = (
    "c.row, c.content_hash, d.source, c.project, c.heading, c.heading_level, c.start_line, c.end_line, c.content, c.date, c.type, "
    "c.tags, v.vector"
)


def rows_of(
    database: sqlite3.Connection, lexicon: Lexicon, wanted: Sequence[int], *, space: str, home: str, width: int
) -> Iterator[list[Row]]:
    """Yield the rows to send, as many as one call takes, each of one project; rows that are gone are left out."""
    for start in range(0, len(wanted), _A_TIME):
        part = wanted[start : start + _A_TIME]
        marks = ", ".join("?" * len(part))
        # CROSS JOIN: the few rows that were named come first, then the one vector that each key names.
        found = database.execute(
            f"SELECT {_COLUMNS} FROM chunks c CROSS JOIN documents d ON d.id = c.document "
            "LEFT JOIN vectors v ON v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = c.vector_key "
            f"WHERE c.row IN ({marks}) ORDER BY c.project, c.row",
            (space, *part),
        ).fetchall()
        bags = lexicon.bags(part)
        batch: list[Row] = []
        size = 0
        for values in found:
            row = _row(values, bags.get(values[0], ([], 0)), home, width)
            # Rows are pushed before their model is served, and bear the ids that it gives them.
            row["chunk_hash"] = chunk_id(
                row["source"], row["start_line"], row["end_line"], row["chunk_hash"], model_of(space)
            )
            if batch and (size > _MOST_BYTES or batch[-1]["project"] != row["project"]):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += 4 * width + len(row["content"]) + 2 * len(row["text"]) + 500
        if batch:
            yield batch


def mark_row(home: str, mark: str, width: int) -> Row:
    """Return the row that says whose rows these are; neither words nor vectors find it."""
    empty = ("", "", "", "", 0, 0, 0, mark, "", "", "[]", None)
    return _row((0, *empty), ([], SHORT), home, width)


def key_of(home: str, row: int) -> str:
    """Return the key of a row."""
    return f"{home}:{row}"


def _row(values: tuple[Any, ...], words: tuple[list[tuple[str, int]], int], home: str, width: int) -> Row:
    number, identity, source, project, heading, level, first, last, content, date, kind, tags, vector = values
    bag, length = words
    return {
        "key": key_of(home, number),
        "chunk_hash": identity,
        "dense_vector": _numbers(vector, width),
        "has_vector": vector is not None,
        "content": written(bag, SHORT - length),
        "text": cut(content, MOST_TEXT),
        "source": cut(source, 8000),
        "heading": cut(heading, 8000),
        "project": cut(project, 8000),
        "heading_level": level,
        "start_line": first,
        "end_line": last,
        "day": day_number(date),
        "row": number,
        "type": cut(kind, 1000),
        "tags": [cut(tag, 2000) for tag in json.loads(tags)[:MOST_TAGS]],
        "home": home,
    }


def _numbers(vector: bytes | None, width: int) -> Any:
    if vector is None:
        return [0.0] * width
    import numpy as np

    return np.frombuffer(vector, dtype="<f4")
