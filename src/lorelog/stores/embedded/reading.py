"""The catalog's answers: what is in the index, read from SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lorelog.core.document import Document, Key, StoredChunk, embedded_text
from lorelog.core.ports import Changeover, Covering, PendingText, Supersession, Surroundings, Twofold, Vector
from lorelog.core.query import Coverage, Filters
from lorelog.stores.embedded import rows, spaces
from lorelog.stores.embedded.filters import sql_conditions
from lorelog.stores.embedded.matrix import Admission
from lorelog.stores.embedded.migrations import TAGGED_SINCE, TALLIES_SINCE

_A_TIME = 500
_LACKING = (
    "NOT EXISTS (SELECT 1 FROM vectors v WHERE v.space = (SELECT id FROM spaces WHERE name = ?) AND v.key = vector_key)"
)
_CHUNKS = f"SELECT {rows.CHUNK_COLUMNS} FROM chunks c JOIN documents d ON d.id = c.document"


class CatalogReader:
    """Reads one catalog as one model (`provider/model`) sees it. Also serves the writer, on the writer's connection."""

    def __init__(self, database: sqlite3.Connection, owner: str) -> None:
        self.database = database
        self.owner = owner

    @property
    def space(self) -> str:
        """Return the name of this model's vectors: of those that the index serves, or else of the last it made.

        It is asked for each time: another process may have made them anew and put them in the place of the others.
        """
        served = self.fact("space")
        if served is not None and spaces.owner_of(served) == self.owner:
            return served
        return spaces.newest(self.owner, self.spaces())

    def spaces(self) -> list[str]:
        """Return the names of all vectors there are."""
        return [name for (name,) in self.database.execute("SELECT name FROM spaces")]

    def documents(self) -> list[Document]:
        """Return all documents, by source."""
        found = self.database.execute(f"SELECT {rows.DOCUMENT_COLUMNS} FROM documents WHERE live ORDER BY source")
        return [rows.read_document(row) for row in found]

    def document(self, source: str) -> Document | None:
        """Return one document, or None."""
        found = self.database.execute(
            f"SELECT {rows.DOCUMENT_COLUMNS} FROM documents WHERE live AND source = ?", (source,)
        ).fetchone()
        return None if found is None else rows.read_document(found)

    def recent(self, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section, newest first."""
        where, values = sql_conditions(filters, tagged=self._has_tagged())
        order = "c.date DESC, d.source DESC, c.start_line DESC"
        return self._chunks(f"{_CHUNKS} WHERE c.piece = 0 AND {where} ORDER BY {order} LIMIT ?", (*values, limit))

    def projects(self) -> dict[str, int]:
        """Return the number of chunks by project."""
        return dict(
            self.database.execute("SELECT project, sum(chunk_count) FROM documents WHERE live GROUP BY project")
        )

    def tags(self, prefix: str, filters: Filters) -> dict[str, int]:
        """Return how many admitted sections bear each tag that begins so; a range, so that no character is a wildcard."""
        clauses, values = ["t.tag >= ?", "t.tag < ?", "t.piece = 0"], [prefix, prefix + "\U0010ffff"]
        if filters.projects is not None:
            clauses.append(f"t.project IN ({_marks(filters.projects)})")
            values += filters.projects
        if self._has_tagged():
            table = "tagged t"
            clauses += ["t.row IN (SELECT row FROM tagged WHERE tag = ?)"] * len(filters.tags)
        else:
            table = "(SELECT DISTINCT value AS tag, row, project, piece, tags FROM chunks c, json_each(c.tags) WHERE c.live) t"
            clauses += ["EXISTS (SELECT 1 FROM json_each(t.tags) WHERE value = ?)"] * len(filters.tags)
        found = self.database.execute(
            f"SELECT t.tag, count(*) FROM {table} WHERE {' AND '.join(clauses)} GROUP BY t.tag ORDER BY t.tag",
            (*values, *filters.tags),
        )
        return dict(found.fetchall())

    def of_session(self, session: str, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section of this session, newest first."""
        where, values = sql_conditions(filters, tagged=self._has_tagged())
        named = "c.piece = 0 AND c.anchor IS NOT NULL AND json_extract(c.anchor, '$.session') = ?"
        order = "c.date DESC, d.source DESC, c.start_line DESC"
        return self._chunks(f"{_CHUNKS} WHERE {named} AND {where} ORDER BY {order} LIMIT ?", (session, *values, limit))

    def supersessions(self) -> list[Supersession]:
        """Return what anchors say to be superseded, oldest word first."""
        named = "c.live AND c.piece = 0 AND json_extract(c.anchor, '$.supersedes') IS NOT NULL"
        return [
            Supersession(old, one.chunk.anchor.memory or one.id, one.project)
            for one in self._chunks(f"{_CHUNKS} WHERE {named} ORDER BY c.date, d.source, c.start_line", ())
            if one.chunk.anchor is not None
            for old in one.chunk.anchor.superseded
        ]

    def coverings(self) -> list[Covering]:
        """Return what anchors say to be summed up, oldest word first."""
        named = "c.live AND c.piece = 0 AND json_extract(c.anchor, '$.covers') IS NOT NULL"
        return [
            Covering(one.chunk.anchor.memory or one.id, one.project, one.chunk.anchor.covers)
            for one in self._chunks(f"{_CHUNKS} WHERE {named} ORDER BY c.date, d.source, c.start_line", ())
            if one.chunk.anchor is not None
        ]

    def vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Return the vectors of this space that these rows have."""
        return self._vectors(self.space, keys)

    def _vectors(self, space: str, keys: Sequence[Key]) -> dict[Key, Vector]:
        found: dict[Key, Vector] = {}
        for part in _parts(list(keys)):
            found.update(
                self.database.execute(
                    # CROSS JOIN: the few rows that were named come first, then the one vector that each key names.
                    "SELECT c.row, v.vector FROM spaces s CROSS JOIN chunks c CROSS JOIN vectors v "
                    "ON v.space = s.id AND v.key = c.vector_key "
                    f"WHERE s.name = ? AND c.row IN ({_marks(part)}) AND c.live",
                    (space, *part),
                ).fetchall()
            )
        return found

    def _has_tagged(self) -> bool:
        """Say whether there is a table of tags: the catalog of an older version has none until it is written to."""
        return int(self.database.execute("PRAGMA user_version").fetchone()[0]) >= TAGGED_SINCE

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order."""
        return self._chunks(f"{_CHUNKS} WHERE c.live AND d.source = ? ORDER BY c.ordinal", (source,))

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id or memory id starts so, or else whose content's hash does; no character is a wildcard."""
        end = id_prefix + "\U0010ffff"
        named = self._chunks(
            f"{_CHUNKS} WHERE c.live AND c.row IN ("
            "SELECT row FROM chunks WHERE live AND id >= ? AND id < ? UNION "
            "SELECT row FROM chunks WHERE memory <> '' AND memory >= ? AND memory < ?) ORDER BY c.id LIMIT 10",
            (id_prefix, end, id_prefix, end),
        )
        said = f"{_CHUNKS} WHERE c.live AND c.content_hash >= ? AND c.content_hash < ? ORDER BY c.id LIMIT 10"
        return named or self._chunks(said, (id_prefix, end))

    def fetch(self, keys: Sequence[Key]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these rows."""
        found: dict[Key, StoredChunk] = {}
        for part in _parts(list(keys)):
            for chunk in self._chunks(f"{_CHUNKS} WHERE c.live AND c.row IN ({_marks(part)})", part):
                found[chunk.key] = chunk
        return found

    def contents(self, hashes: Sequence[str], filters: Filters) -> set[str]:
        """Return those of these hashes of contents that a chunk of the admitted projects has."""
        found: set[str] = set()
        only, projects = "", filters.projects or ()
        if filters.projects is not None:
            only = f" AND project IN ({_marks(projects)})"
        for part in _parts(list(dict.fromkeys(hashes))):
            asked = f"SELECT content_hash FROM chunks WHERE live AND content_hash IN ({_marks(part)}){only}"
            found.update(one for (one,) in self.database.execute(asked, (*part, *projects)))
        return found

    def admission(self, filters: Filters) -> Admission | None:
        """Return what filters admit, or None when they admit all. Rows are looked up only when they are asked for."""
        if filters == Filters(projects=filters.projects):
            if filters.projects is None or self.tallies().keys() <= set(filters.projects):
                return None
            return Admission(filters, filters.projects)
        # What is live may change while the lanes stay, so rows are worth keeping for one revision only.
        return Admission((self.fact("revision"), filters), rows=lambda: self._admitted(filters))

    def _admitted(self, filters: Filters) -> list[int]:
        where, values = sql_conditions(filters, tagged=self._has_tagged())
        joined = "JOIN documents d ON d.id = c.document" if filters.source_prefix else ""
        found = self.database.execute(f"SELECT c.row FROM chunks c {joined} WHERE {where}", values)
        return [row for (row,) in found]

    def tallies(self) -> dict[str, tuple[int, int]]:
        """Return, by project, how many live chunks there are and how many of them wait for a vector."""
        try:
            found = self.database.execute("SELECT project, chunks, waiting FROM tallies WHERE chunks").fetchall()
        except sqlite3.OperationalError:
            if self.database.execute("PRAGMA user_version").fetchone()[0] >= TALLIES_SINCE:
                raise
            # The catalog of an older version that nobody has written to yet: counted, then.
            found = self.database.execute(
                "SELECT project, count(*), count(*) - sum(embedded) FROM chunks WHERE live GROUP BY project"
            ).fetchall()
        return {project: (chunks, waiting) for project, chunks, waiting in found}

    def sample(self, count: int) -> list[StoredChunk]:
        """Return chunks with vectors, from all over the index: the next one at so many places of the numbering."""
        first, last = self.database.execute("SELECT min(row), max(row) FROM chunks").fetchone()
        if first is None or count < 1 or not self.is_current_space():
            return []
        found = {
            row
            for place in range(count)
            for (row,) in self.database.execute(
                "SELECT row FROM chunks WHERE row >= ? AND live AND embedded ORDER BY row LIMIT 1",
                (first + (last - first) * place // count,),
            )
        }
        chunks = self.fetch(sorted(found))
        return [chunks[row] for row in sorted(chunks, key=int)]

    def remark(self, name: str) -> str:
        """Return what was noted of the index under this model."""
        return self.fact(_remark(name, self.space)) or ""

    def state_remark(self, name: str, value: str) -> None:
        """Note something of the index under this model."""
        self.state_fact(_remark(name, self.space), value)

    def surroundings(self, keys: Sequence[Key], longest: int) -> dict[Key, Surroundings]:
        """Return what stands around the short ones among these rows."""
        lengths: dict[int, int] = {}
        near: dict[int, list[Key]] = {}
        far: dict[int, list[Key]] = {}
        for part in _parts(list(keys)):
            # CROSS JOIN: the few rows that were named come first, then what the index of documents gives for each.
            for row, length, neighbour, distance in self.database.execute(
                "SELECT c.row, length(coalesce(c.text, c.content)), n.row, abs(n.ordinal - c.ordinal) "
                "FROM chunks c CROSS JOIN chunks n "
                "ON n.document = c.document AND n.ordinal BETWEEN c.ordinal - 2 AND c.ordinal + 2 "
                f"WHERE c.row IN ({_marks(part)}) AND c.live AND length(coalesce(c.text, c.content)) <= ? AND n.live "
                "ORDER BY c.row, n.ordinal",
                (*part, longest),
            ):
                lengths[row] = length
                if distance:
                    (near if distance == 1 else far).setdefault(row, []).append(neighbour)
        return {
            row: Surroundings(length, tuple(near.get(row, ())), tuple(far.get(row, ())))
            for row, length in lengths.items()
        }

    def entry_sizes(self, keys: Sequence[Key], most: int) -> dict[Key, int]:
        """Return of how many chunks the entry of each of these rows is made, counting no further than `most`."""
        around: dict[Key, dict[int, bool]] = {}
        for part in _parts(list(keys)):
            for row, place, begins, path in self.database.execute(
                "SELECT c.row, n.ordinal - c.ordinal, n.piece = 0, n.heading_path "
                "FROM chunks c CROSS JOIN chunks n "
                "ON n.document = c.document AND n.ordinal BETWEEN c.ordinal - ? AND c.ordinal + ? "
                f"WHERE c.row IN ({_marks(part)}) AND c.live AND n.live",
                (most - 1, most - 1, *part),
            ):
                around.setdefault(row, {})[place] = bool(begins) and rows.names_entry(path)
        return {row: min(_entry_size(places), most) for row, places in around.items()}

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        """Return those keys that have no vector in this space."""
        missing, space = set(vector_keys), self.space
        for part in _parts(list(missing)):
            missing.difference_update(
                key
                for (key,) in self.database.execute(
                    "SELECT v.key FROM vectors v JOIN spaces s ON s.id = v.space "
                    f"WHERE s.name = ? AND v.key IN ({_marks(part)})",
                    (space, *part),
                )
            )
        return missing

    def rows_waiting_for(self, vector_keys: Sequence[str]) -> list[int]:
        """Return the rows, staged ones included, that have been waiting for one of these vectors."""
        waiting: list[int] = []
        for part in _parts(list(vector_keys)):
            found = self.database.execute(
                f"SELECT row FROM chunks WHERE vector_key IN ({_marks(part)}) AND NOT embedded", part
            )
            waiting += [row for (row,) in found]
        return waiting

    def pending(self, limit: int) -> list[PendingText]:
        """Return texts without a vector in this space."""
        if not self.is_current_space():
            return []
        return self._texts("NOT embedded", (limit,))

    def _texts(self, condition: str, values: Sequence[object]) -> list[PendingText]:
        """Return the texts of live chunks for which a condition holds, each vector key once; the last value is the limit."""
        found = self.database.execute(
            "SELECT c.vector_key, c.context, coalesce(c.text, c.content), d.source FROM chunks c "
            "JOIN documents d ON d.id = c.document WHERE c.row IN ("
            f"SELECT min(row) FROM chunks WHERE live AND {condition} GROUP BY vector_key LIMIT ?) ORDER BY c.row",
            values,
        )
        return [PendingText(key, embedded_text(context, text), source) for key, context, text, source in found]

    # -- beside ------------------------------------------------------------------------------------------------------

    def changeover(self) -> Changeover:
        """Return whose vectors are served, and whose are made beside."""
        served, begun = self.fact("space") or "", self.fact("beside") or ""
        waiting = 0
        if begun:
            waiting = self.database.execute(
                f"SELECT count(DISTINCT vector_key) FROM chunks WHERE live AND {_LACKING}", (begun,)
            ).fetchone()[0]
        return Changeover(
            self.owner,
            spaces.owner_of(served),
            serves_vectors=self._has_vectors(served),
            begun=spaces.owner_of(begun),
            waiting=waiting,
            declined=spaces.owner_of(self.fact("declined") or ""),
        )

    def pending_beside(self, limit: int) -> list[PendingText]:
        """Return texts without a vector beside."""
        begun = self.fact("beside")
        return self._texts(_LACKING, (begun, limit)) if begun else []

    def twofold(self, count: int) -> list[Twofold]:
        """Return chunks that have both vectors, from all over the index."""
        served, begun = self.fact("space"), self.fact("beside")
        first, last = self.database.execute("SELECT min(row), max(row) FROM chunks").fetchone()
        if first is None or served is None or not begun:
            return []
        rows: dict[str, int] = {}
        for place in range(count):
            for key, row in self.database.execute(
                f"SELECT vector_key, row FROM chunks WHERE row >= ? AND live AND embedded AND NOT {_LACKING} "
                "ORDER BY row LIMIT 1",
                (first + (last + 1 - first) * place // count, begun),
            ):
                rows.setdefault(key, row)
        chosen = sorted(rows.values())
        chunks, old, new = self.fetch(chosen), self._vectors(served, chosen), self._vectors(begun, chosen)
        return [
            Twofold(chunks[row], old[row], new[row]) for row in chosen if row in chunks.keys() & old.keys() & new.keys()
        ]

    def _has_vectors(self, space: str) -> bool:
        asked = "SELECT EXISTS (SELECT 1 FROM vectors WHERE space IN (SELECT id FROM spaces WHERE name = ?))"
        return bool(self.database.execute(asked, (space,)).fetchone()[0])

    def coverage(self, filters: Filters) -> Coverage:
        """Return how many chunks of the admitted projects have vectors."""
        tallies = [
            tally
            for project, tally in self.tallies().items()
            if filters.projects is None or project in filters.projects
        ]
        chunks = sum(count for count, _ in tallies)
        waiting = sum(count for _, count in tallies) if self.is_current_space() else chunks
        return Coverage(chunks, chunks - waiting)

    def vector_counts(self) -> tuple[int, int]:
        """Return the number of vectors of this space and of all others."""
        found = dict(
            self.database.execute(
                "SELECT s.name = ?, count(*) FROM vectors v JOIN spaces s ON s.id = v.space GROUP BY 1", (self.space,)
            )
        )
        return found.get(1, 0), found.get(0, 0)

    def fact(self, name: str) -> str | None:
        """Return one of the catalog's facts about itself."""
        found = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def state_fact(self, name: str, value: str) -> None:
        """Write one of the catalog's facts about itself."""
        self.database.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))

    def drop_fact(self, name: str) -> None:
        """Forget one of the catalog's facts about itself."""
        self.database.execute("DELETE FROM facts WHERE name = ?", (name,))

    def is_current_space(self) -> bool:
        """Say whether the marks on chunks speak of this model: another model may have indexed last."""
        return spaces.owner_of(self.fact("space") or "") == self.owner

    def _chunks(self, statement: str, values: Sequence[object]) -> list[StoredChunk]:
        current = self.is_current_space()
        return [rows.read_chunk(row, current_space=current) for row in self.database.execute(statement, values)]


def _remark(name: str, space: str) -> str:
    return f"remark {name} {space}"


def _entry_size(begins: Mapping[int, bool]) -> int:
    """Return how many chunks an entry has, by which of the places around one of them begin an entry."""
    first = 0
    while not begins[first] and first - 1 in begins:
        first -= 1
    last = 0
    while begins.get(last + 1) is False:
        last += 1
    return last - first + 1


def _parts(values: list[Key] | list[str]) -> Iterator[Sequence[Key]]:
    for start in range(0, len(values), _A_TIME):
        yield values[start : start + _A_TIME]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
