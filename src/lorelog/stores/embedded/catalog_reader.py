"""Queries over the SQLite catalog, and the names of vector spaces.

A vector space is named `provider/model`, with a number appended if a model embeds everything again: vectors of two names are
never compared, so the previous ones stay in service until the swap and can be restored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from lorelog.core.document import (
    TURN_TYPE,
    Anchor,
    ChunkKey,
    Document,
    FileStamp,
    StoredChunk,
    embedded_text,
    join_chunks,
)
from lorelog.core.ports import (
    MAX_SECTION_CHARS,
    ChunkNeighbours,
    IndexedSection,
    PendingText,
    ReembedState,
    SummaryLink,
    Supersession,
    Vector,
)
from lorelog.core.query import Filters, VectorCoverage
from lorelog.core.sqlite_file import batches, placeholders
from lorelog.stores.embedded import rows
from lorelog.stores.embedded.rows import sql_conditions

if TYPE_CHECKING:
    from lorelog.stores.embedded.dense import RowFilter

_NUMBER_SEPARATOR = "\n"
"""Between a model's name and the number; model names cannot contain it."""


def space_owner(space: str) -> str:
    """Return the provider and model of a vector space."""
    return space.partition(_NUMBER_SEPARATOR)[0]


def space_model(space: str) -> str:
    """Return the model without its provider; it is part of every chunk's id."""
    return space_owner(space).partition("/")[2]


def newest_space(owner: str, names: Iterable[str]) -> str:
    """Return the last space of a model, or its plain name if it has none."""
    return max((name for name in names if space_owner(name) == owner), key=_space_number, default=owner)


def next_space(owner: str, names: Iterable[str]) -> str:
    own = [name for name in names if space_owner(name) == owner]
    return f"{owner}{_NUMBER_SEPARATOR}{1 + max(map(_space_number, own))}" if own else owner


def _space_number(space: str) -> int:
    return int(space.partition(_NUMBER_SEPARATOR)[2] or 0)


_PADDED_KEYS = 20
_FEW_WAITING = 1_000
"""Chunks without a vector up to which all of them are read to find those of one document."""
_WITHOUT_VECTOR = (
    "NOT EXISTS (SELECT 1 FROM vectors v WHERE v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = vector_key)"
)
_HAS_VECTORS = "SELECT EXISTS (SELECT 1 FROM vectors WHERE space IN (SELECT id FROM spaces WHERE name = ?))"
_TEXT = "content, text, cut_start, cut_end"
_SELECT_CHUNKS = f"SELECT {rows.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document"
_ENTRY_SIZES = """
    SELECT row, CASE WHEN ordinal + 1 - first >= {reach:d} THEN {reach:d} ELSE min({reach:d}, coalesce(
        (SELECT ordinal FROM places n WHERE n.document = p.document AND n.ordinal > p.ordinal
            AND n.ordinal < p.ordinal + {reach:d} AND n.starts ORDER BY n.ordinal LIMIT 1),
        (SELECT max(n.ordinal) + 1 FROM places n WHERE n.document = p.document AND n.ordinal < p.ordinal + {reach:d})
    ) - first) END FROM (
        SELECT row, document, ordinal, CASE WHEN starts THEN ordinal ELSE coalesce(
            (SELECT ordinal FROM places n WHERE n.document = p.document AND n.ordinal > p.ordinal - {reach:d}
                AND n.ordinal < p.ordinal AND n.starts ORDER BY n.ordinal DESC LIMIT 1),
            max(0, ordinal + 1 - {reach:d})) END AS first
        FROM places p WHERE row IN ({}) LIMIT -1 OFFSET 0) p"""
"""From the chunk that begins an entry to the next one that begins one, or to the end of the document. Chunks further away than
`reach` do not matter. OFFSET keeps SQLite from flattening the subquery, which would compute `first` four times."""
_NEWEST_FIRST = "c.date DESC, d.source DESC, c.start_line DESC"
_MEMORIES_NEWEST_FIRST = f"+{_NEWEST_FIRST}"
"""Not by the index of dates (`+`), which would read every chunk to find the few memories."""
_OLDEST_FIRST = "c.date, d.source, c.start_line"


class CatalogReader:
    """Reads a catalog on behalf of one model (`provider/model`). The writer uses it too, on its own connection."""

    def __init__(self, database: sqlite3.Connection, owner: str, inode: int = 0) -> None:
        """Read a catalog; `inode` is that of its file, for the store's readers."""
        self.database = database
        self.owner = owner
        self.inode = inode
        self.has_schema = False
        self._version: int | None = None
        self._facts: dict[str, str | None] | None = None
        self._project_counts: dict[str, tuple[int, int]] | None = None
        self.usable_lanes: dict[object, str] = {}
        """Lanes found usable, with their revisions."""
        self.is_checked = False
        """True while several reads in a row need no further checks."""
        self.checked_lanes: set[object] = set()
        """Lanes found usable during these reads."""

    def refresh(self) -> None:
        """Forget what was read if the catalog has changed since; until the next call, read each fact and the counts once.

        For readers only: SQLite's number of the version counts the commits of other connections.
        """
        version = self.database.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:
            self._version, self._facts, self._project_counts = version, {}, None
            self.usable_lanes.clear()
            self.checked_lanes.clear()

    @property
    def space(self) -> str:
        """The model's vector space: the served one if it is the model's, or else its newest.

        Read each time, because another process may have swapped it.
        """
        served = self.fact("space")
        if served is not None and space_owner(served) == self.owner:
            return served
        return newest_space(self.owner, self.spaces())

    def spaces(self) -> list[str]:
        return [name for (name,) in self.database.execute("SELECT name FROM spaces")]

    def documents(self) -> list[Document]:
        documents = self.database.execute(f"SELECT {rows.DOCUMENT_COLUMNS} FROM documents WHERE live ORDER BY source")
        return [rows.read_document(row) for row in documents]

    def document(self, source: str) -> Document | None:
        row = self.database.execute(
            f"SELECT {rows.DOCUMENT_COLUMNS} FROM documents WHERE live AND source = ?", (source,)
        ).fetchone()
        return None if row is None else rows.read_document(row)

    def recent(self, filters: Filters, limit: int, *, session: str | None = None) -> list[StoredChunk]:
        where, values = sql_conditions(filters)
        if session is not None:
            where += " AND c.anchor IS NOT NULL AND json_extract(c.anchor, '$.session') = ?"
            values.append(session)
        return self._chunks(
            f"{_SELECT_CHUNKS} WHERE c.piece = 0 AND {where} ORDER BY {_NEWEST_FIRST} LIMIT ?", (*values, limit)
        )

    def recent_keys(self, filters: Filters, limit: int, *, mark: str = "") -> tuple[list[ChunkKey], str]:
        # Rows are never reused. Staged ones are not visible yet, so they are not passed by.
        (last,) = self.database.execute(
            "SELECT min(coalesce((SELECT min(row) - 1 FROM chunks WHERE NOT live), last), last)"
            " FROM (SELECT coalesce(max(row), 0) AS last FROM chunks)"
        ).fetchone()
        made, _, seen = mark.partition(" ")
        where, values = sql_conditions(filters)
        newest = self.database.execute(
            "SELECT c.row FROM chunks c JOIN documents d ON d.id = c.document"
            f" WHERE c.piece = 0 AND c.row > ? AND {where} ORDER BY {_NEWEST_FIRST} LIMIT ?",
            (int(seen) if made == str(self.inode) else 0, *values, limit),
        ).fetchall()
        return [row for (row,) in newest], f"{self.inode} {last}"

    def projects(self) -> dict[str, int]:
        counts = "(SELECT chunks FROM tallies t WHERE t.project = d.project)"
        return dict(
            self.database.execute(f"SELECT project, coalesce({counts}, 0) FROM document_counts d WHERE documents")
        )

    def document_counts(self) -> dict[str, int]:
        return dict(self.database.execute("SELECT project, documents FROM document_counts WHERE documents"))

    def tags(self, prefix: str, filters: Filters) -> dict[str, int]:
        # The prefix is a range, so that no character is a wildcard.
        in_projects, projects = _in_projects(filters)
        has_tags = " AND t.row IN (SELECT row FROM tagged WHERE tag = ?)" * len(filters.tags)
        counts = self.database.execute(
            f"SELECT tag, count(*) FROM tagged t WHERE tag >= ? AND tag < ? AND piece = 0{in_projects}{has_tags} "
            "GROUP BY tag ORDER BY tag",
            (prefix, prefix + "\U0010ffff", *projects, *filters.tags),
        )
        return dict(counts.fetchall())

    def types(self, filters: Filters) -> dict[str, int]:
        in_projects, projects = _in_projects(filters)
        statement = (
            f"SELECT type, count(*) FROM chunks WHERE live AND type <> ''{in_projects} GROUP BY type ORDER BY type"
        )
        return dict(self.database.execute(statement, projects).fetchall())

    def authored_chunks(self, filters: Filters, limit: int, *, outside: str = "") -> list[StoredChunk]:
        where, values = self._authored(filters, outside)
        return self._chunks(
            f"{_SELECT_CHUNKS} WHERE {where} ORDER BY {_MEMORIES_NEWEST_FIRST} LIMIT ?", (*values, limit)
        )

    def authored_marks(self, limit: int, *, outside: str = "") -> list[tuple[ChunkKey, str]]:
        where, values = self._authored(Filters(), outside)
        return self.database.execute(
            # The id stands for the content and its place, the lane key for everything that is derived from the headings above.
            "SELECT c.row, c.id || ' ' || c.lane_key || ' ' || coalesce(c.anchor, '') FROM chunks c "
            f"JOIN documents d ON d.id = c.document WHERE {where} ORDER BY {_MEMORIES_NEWEST_FIRST} LIMIT ?",
            (*values, limit),
        ).fetchall()

    def _authored(self, filters: Filters, outside: str) -> tuple[str, list[Any]]:
        """Return the condition of chunks that begin a memory and are not notes of turns, and its values."""
        where, values = sql_conditions(filters)
        prefix = outside.rstrip("/")
        inside = "d.source >= ? AND d.source < ?" if outside else "FALSE"  # as in sql_conditions
        between = (prefix + "/", prefix + "0") if outside else ()
        condition = f"c.memory <> '' AND c.piece = 0 AND c.type <> ? AND NOT ({inside}) AND {where}"
        return condition, [TURN_TYPE, *between, *values]

    def supersessions(self) -> list[Supersession]:
        return [
            Supersession(old, anchor.memory or chunk.id, chunk.project, origin=anchor.origin, source=chunk.chunk.source)
            for chunk, anchor in self._anchored("supersedes")
            for old in anchor.superseded_ids
        ]

    def summary_links(self) -> list[SummaryLink]:
        return [
            SummaryLink(anchor.memory or chunk.id, chunk.project, anchor.covers)
            for chunk, anchor in self._anchored("covers")
        ]

    def _anchored(self, field: str) -> list[tuple[StoredChunk, Anchor]]:
        """Return the chunks whose anchor has a field, oldest first."""
        condition = f"c.live AND c.piece = 0 AND json_extract(c.anchor, '$.{field}') IS NOT NULL"
        chunks = self._chunks(f"{_SELECT_CHUNKS} WHERE {condition} ORDER BY {_OLDEST_FIRST}", ())
        return [(chunk, chunk.chunk.anchor) for chunk in chunks if chunk.chunk.anchor is not None]

    def vectors(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Vector]:
        space = self.space
        slots = self._slots(space, keys)
        from lorelog.stores.embedded import vector_file

        found = vector_file.find_space(self.database, space)
        vectors = vector_file.read_vectors(self.database, found, list(slots.values()))
        return {row: vector for row, vector in zip(slots, vectors, strict=True) if vector is not None}

    def vector_records(self, keys: Sequence[ChunkKey]) -> list[bytes]:
        space = self.space
        from lorelog.stores.embedded import vector_file

        file = vector_file.open_file(self.database, vector_file.find_space(self.database, space))
        return [] if file is None else file.stored_bytes(list(self._slots(space, keys).values()))

    def _slots(self, space: str, keys: Sequence[ChunkKey]) -> dict[ChunkKey, int]:
        # CROSS JOIN fixes the order: the few given rows first, then the one vector of each key.
        statement = (
            "SELECT c.row, v.slot FROM spaces s CROSS JOIN chunks c CROSS JOIN vectors v "
            "ON v.space = s.id AND v.key = c.vector_key WHERE s.name = ? AND c.row IN ({}) AND c.live"
        )
        parts = (self.database.execute(statement.format(placeholders(part)), (space, *part)) for part in batches(keys))
        return dict(chain.from_iterable(parts))

    def chunks_of(self, source: str) -> list[StoredChunk]:
        return self._chunks(f"{_SELECT_CHUNKS} WHERE c.live AND d.source = ? ORDER BY c.ordinal", (source,))

    def resume_point(self, source: str) -> str:
        row = self.database.execute(
            "SELECT value FROM facts WHERE name = (SELECT 'resume ' || id FROM documents WHERE live AND source = ?)",
            (source,),
        ).fetchone()
        return "" if row is None else str(row[0])

    def kept_chunks(self, document: int, first_line: int) -> int:
        """Return how many chunks of a document begin before a line. Reads only those after them."""
        row = self.database.execute(
            "SELECT ordinal FROM chunks WHERE document = ? AND live AND start_line < ? ORDER BY ordinal DESC LIMIT 1",
            (document, first_line),
        ).fetchone()
        return 0 if row is None else int(row[0]) + 1

    def embedded_keys(self, source: str, first_line: int = 1) -> set[str]:
        document = self.database.execute("SELECT id FROM documents WHERE live AND source = ?", (source,)).fetchone()
        if document is None or not self.is_current_space():
            return set()
        keys = self.database.execute(
            "SELECT vector_key FROM chunks WHERE document = ? AND ordinal >= ? AND live AND embedded",
            (document[0], self.kept_chunks(document[0], first_line)),
        )
        return {key for (key,) in keys}

    def pending_of(self, source: str) -> list[PendingText]:
        document = self.database.execute("SELECT id FROM documents WHERE live AND source = ?", (source,)).fetchone()
        if document is None or not self.is_current_space():
            return []
        waiting = sum(waiting for _, waiting in self.project_counts().values())
        if not waiting:
            return []
        # Usually few chunks of the index wait, and all of this document's chunks need not be read to find its own.
        index = "chunks_unembedded" if waiting <= _FEW_WAITING else "chunks_document"
        texts = self.database.execute(
            f"SELECT vector_key, context, {_TEXT} FROM chunks INDEXED BY {index} "
            "WHERE live AND NOT embedded AND document = ? ORDER BY ordinal",
            document,
        )
        unique = {
            key: PendingText(key, embedded_text(context, rows.read_text(*text)), source)
            for key, context, *text in texts
        }
        return list(unique.values())

    def find(self, id_prefix: str) -> list[StoredChunk]:
        if not id_prefix:
            return []
        # Ranges, so that no character is a wildcard.
        end = id_prefix + "\U0010ffff"
        by_id = self._chunks(
            f"{_SELECT_CHUNKS} WHERE c.live AND c.row IN ("
            "SELECT row FROM chunks WHERE live AND id >= ? AND id < ? UNION "
            "SELECT row FROM chunks WHERE memory <> '' AND memory >= ? AND memory < ?) ORDER BY c.id LIMIT 10",
            (id_prefix, end, id_prefix, end),
        )
        by_hash = f"{_SELECT_CHUNKS} WHERE c.live AND c.content_hash >= ? AND c.content_hash < ? ORDER BY c.id LIMIT 10"
        return by_id or self._chunks(by_hash, (id_prefix, end))

    def fetch(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, StoredChunk]:
        return {chunk.key: chunk for chunk in self._live_chunks("row", keys)}

    def chunks_by_id(self, ids: Sequence[str]) -> dict[str, StoredChunk]:
        return {chunk.id: chunk for chunk in self._live_chunks("id", ids)}

    def _live_chunks(self, column: str, values: Sequence[ChunkKey] | Sequence[str]) -> Iterator[StoredChunk]:
        for marks, part in _padded_batches(values):
            yield from self._chunks(f"{_SELECT_CHUNKS} WHERE c.live AND c.{column} IN ({marks})", part)

    def contents(self, hashes: Sequence[str], filters: Filters) -> set[str]:
        """Return those content hashes that a chunk of the admitted projects has."""
        existing: set[str] = set()
        in_projects, projects = _in_projects(filters)
        for part in batches(dict.fromkeys(hashes)):
            marks = placeholders(part)
            statement = f"SELECT content_hash FROM chunks WHERE live AND content_hash IN ({marks}){in_projects}"
            existing.update(digest for (digest,) in self.database.execute(statement, (*part, *projects)))
        return existing

    def admits_all(self, filters: Filters) -> bool:
        """Return whether every chunk passes a filter."""
        projects = filters.projects
        is_plain = filters == Filters(projects=projects)
        return is_plain and (projects is None or self.project_counts().keys() <= set(projects))

    def admission(self, filters: Filters) -> RowFilter | None:
        """Return the filter as rows for the dense lane, or None if it admits everything. Rows are queried on demand."""
        from lorelog.stores.embedded.dense import RowFilter

        if self.admits_all(filters):
            return None
        if filters.projects is not None and filters == Filters(projects=filters.projects):
            return RowFilter(filters, filters.projects)
        # Live rows may change while the lanes do not, so the rows are valid for one revision only.
        return RowFilter((self.fact("revision"), filters), rows=lambda: self._admitted(filters))

    def _admitted(self, filters: Filters) -> list[int]:
        where, values = sql_conditions(filters)
        joined = "JOIN documents d ON d.id = c.document" if filters.source_prefix else ""
        return [row for (row,) in self.database.execute(f"SELECT c.row FROM chunks c {joined} WHERE {where}", values)]

    def project_counts(self) -> dict[str, tuple[int, int]]:
        """Return, by project, the number of live chunks and how many of them have no vector yet."""
        if self._project_counts is not None:
            return self._project_counts
        rows = self.database.execute("SELECT project, chunks, waiting FROM tallies WHERE chunks").fetchall()
        counts = {project: (chunks, waiting) for project, chunks, waiting in rows}
        if self._facts is not None:  # refreshed
            self._project_counts = counts
        return counts

    def get_note(self, name: str) -> str:
        return self.fact(f"remark {name} {self.space}") or ""

    def chunk_neighbours(self, keys: Sequence[ChunkKey], max_chars: int) -> dict[ChunkKey, ChunkNeighbours]:
        lengths: dict[int, int] = {}
        near: dict[int, list[ChunkKey]] = {}
        far: dict[int, list[ChunkKey]] = {}
        for marks, part in _padded_batches(keys):
            # CASE gives NULL for a long chunk, for which SQLite does not look into the index.
            for row, length, neighbour, distance in self.database.execute(
                "SELECT p.row, p.length, n.row, abs(n.ordinal - p.ordinal) FROM places p LEFT JOIN places n "
                "ON n.document = CASE WHEN p.length <= ? THEN p.document END "
                "AND n.ordinal BETWEEN p.ordinal - 2 AND p.ordinal + 2 "
                f"WHERE p.row IN ({marks}) ORDER BY p.row, n.ordinal",
                (max_chars, *part),
            ):
                lengths[row] = length
                if distance:
                    (near if distance == 1 else far).setdefault(row, []).append(neighbour)
        return {
            row: ChunkNeighbours(length, tuple(near.get(row, ())), tuple(far.get(row, ())))
            for row, length in lengths.items()
        }

    def entry_sizes(self, keys: Sequence[ChunkKey], limit: int) -> dict[ChunkKey, int]:
        sizes: dict[ChunkKey, int] = {}
        for marks, part in _padded_batches(keys):
            sizes.update(self.database.execute(_ENTRY_SIZES.format(marks, reach=limit), part))
        return sizes

    def sections(self, ids: Sequence[str]) -> dict[str, IndexedSection]:
        sections: dict[str, IndexedSection] = {}
        for marks, part in _padded_batches(ids):
            for identity, document, first, level, *stamp in self.database.execute(
                "SELECT c.id, c.document, c.ordinal - c.piece, c.heading_level, d.size, d.mtime_ns, d.inode "
                f"FROM chunks c JOIN documents d ON d.id = c.document WHERE c.live AND c.id IN ({marks})",
                part,
            ).fetchall():
                sections[identity] = IndexedSection(FileStamp(*stamp), self._section_text(document, first, level))
        return sections

    def _section_text(self, document: int, first: int, level: int) -> str:
        """Return the text of a section: chunks from the first to the next one under a heading as high."""
        parts: list[tuple[int, int, str]] = []
        length = 0
        for ordinal, piece, below, start_line, end_line, content in self.database.execute(
            "SELECT ordinal, piece, heading_level, start_line, end_line, content FROM chunks "
            "WHERE document = ? AND ordinal >= ? AND live ORDER BY ordinal",
            (document, first),
        ):
            if length > MAX_SECTION_CHARS or (ordinal > first and not piece and below <= (level or 6)):
                break
            parts.append((start_line, end_line, content))
            length += len(content)
        return join_chunks(parts)

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        missing, space = set(vector_keys), self.space
        for part in batches(list(missing)):
            found = self.database.execute(
                "SELECT v.key FROM vectors v JOIN spaces s ON s.id = v.space "
                f"WHERE s.name = ? AND v.key IN ({placeholders(part)})",
                (space, *part),
            )
            missing.difference_update(key for (key,) in found)
        return missing

    def rows_waiting_for(self, vector_keys: Sequence[str]) -> list[int]:
        """Return the rows, staged ones included, that need one of these vectors."""
        statement = "SELECT row FROM chunks WHERE vector_key IN ({}) AND NOT embedded"
        return [
            row
            for part in batches(vector_keys)
            for (row,) in self.database.execute(statement.format(placeholders(part)), part)
        ]

    def pending(self, limit: int, *, shadow: bool = False) -> list[PendingText]:
        space = self.fact("beside") if shadow else self.is_current_space()
        if not space:
            return []
        condition, values = (_WITHOUT_VECTOR, (space, limit)) if shadow else ("NOT embedded", (limit,))
        texts = self.database.execute(
            f"SELECT vector_key, d.source, context, {_TEXT} FROM chunks c "
            "JOIN documents d ON d.id = c.document WHERE c.row IN ("
            f"SELECT min(row) FROM chunks WHERE live AND {condition} GROUP BY vector_key LIMIT ?) ORDER BY c.row",
            values,
        )
        return [
            PendingText(key, embedded_text(context, rows.read_text(*text)), source)
            for key, source, context, *text in texts
        ]

    # -- re-embedding ------------------------------------------------------------------------------------------------

    def reembed_state(self) -> ReembedState:
        served, shadow = self.fact("space") or "", self.fact("beside") or ""
        waiting = 0
        if shadow:
            waiting = self.database.execute(
                f"SELECT count(DISTINCT vector_key) FROM chunks WHERE live AND {_WITHOUT_VECTOR}", (shadow,)
            ).fetchone()[0]
        return ReembedState(
            self.owner,
            space_owner(served),
            serves_vectors=bool(self.database.execute(_HAS_VECTORS, (served,)).fetchone()[0]),
            begun=space_owner(shadow),
            waiting=waiting,
            declined=space_owner(self.fact("declined") or ""),
        )

    def coverage(self, filters: Filters) -> VectorCoverage:
        counts = [
            count
            for project, count in self.project_counts().items()
            if filters.projects is None or project in filters.projects
        ]
        chunks = sum(count for count, _ in counts)
        waiting = sum(count for _, count in counts) if self.is_current_space() else chunks
        return VectorCoverage(chunks, chunks - waiting)

    def vector_counts(self) -> tuple[int, int]:
        """Return the number of vectors in this space and in all others."""
        counts = dict(self.database.execute("SELECT name, vectors FROM spaces"))
        own = counts.pop(self.space, 0)
        return own, sum(counts.values())

    def fact(self, name: str) -> str | None:
        """Return a value from the catalog's own metadata."""
        facts = self._facts
        if facts is not None and name in facts:
            return facts[name]
        row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        value = None if row is None else str(row[0])
        if facts is not None:
            facts[name] = value
        return value

    def set_fact(self, name: str, value: str) -> None:
        """Set a value; an empty one deletes it."""
        if value:
            self.database.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))
        else:
            self.database.execute("DELETE FROM facts WHERE name = ?", (name,))

    def is_current_space(self) -> bool:
        """Return True if the `embedded` marks refer to this model: another model may have indexed last."""
        return space_owner(self.fact("space") or "") == self.owner

    def _chunks(self, statement: str, values: Sequence[object]) -> list[StoredChunk]:
        current = self.is_current_space()
        return [rows.read_chunk(row, current_space=current) for row in self.database.execute(statement, values)]


def _padded_batches(keys: Sequence[ChunkKey] | Sequence[str]) -> Iterator[tuple[str, list[ChunkKey | None]]]:
    """Yield keys with their placeholders, padded with NULL to few lengths: SQLite compiles each length once."""
    for keys_part in batches(keys):
        part = [*keys_part, *[None] * (-len(keys_part) % _PADDED_KEYS)]
        yield placeholders(part), part


def _in_projects(filters: Filters) -> tuple[str, tuple[str, ...]]:
    """Return a condition that admits the projects, empty if all are admitted, and its values."""
    projects = filters.projects
    return ("", ()) if projects is None else (f" AND project IN ({placeholders(projects)})", tuple(projects))
