"""The writer of an index: documents, vectors, re-embedding, and crash recovery.

A document's new version becomes visible in one SQLite transaction, and the lanes must contain it by then. So a put has three
steps: stage the new chunks (in the catalog, not visible), let the lanes follow, switch. A crash before the switch leaves the
old version in force and staged rows that the next writer discards; a crash after it leaves lane entries without a chunk,
which readers skip and the lanes drop when they next follow the log. Chunks whose text did not change keep their row, even on
other lines, and cost nothing in lanes that do not store lines.

Which vectors are served is one fact in the catalog. Changing it, with the marks and ids that depend on it, is one transaction:
a reader sees all of the old state or all of the new one.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import astuple

from lorelog.core.document import Document, chunk_id
from lorelog.core.errors import ModelFault, NotFound, UsageError
from lorelog.core.ports import DocumentUpdate, Vector
from lorelog.core.sqlite_file import placeholders, rewrite_database, transaction
from lorelog.core.vectors import is_finite_vector, needs_numpy
from lorelog.stores.embedded import catalog_reader, change_log, rows, vector_file
from lorelog.stores.embedded.catalog_reader import CatalogReader
from lorelog.stores.embedded.change_log import CatalogLane
from lorelog.stores.embedded.connection import shrink_database, translate_method_errors


class ShadowVectors:
    """The vector spaces of a catalog. The caller has started a transaction."""

    def __init__(self, catalog: CatalogReader) -> None:
        self._catalog = catalog
        self._database = catalog.database

    def begin(self, owner: str, dimension: int) -> None:
        """Choose the space that a model's new vectors are stored in, next to the served ones."""
        shadow, served = self._catalog.fact("beside") or "", self._catalog.fact("space") or ""
        self._catalog.set_fact("declined", "")
        if catalog_reader.space_owner(shadow) == owner:
            if self._fits(shadow, dimension):
                return
            self.drop(shadow)
        names = [*self._catalog.spaces(), served]
        chosen = catalog_reader.newest_space(owner, names)
        if chosen == served or not self._fits(chosen, dimension):
            chosen = catalog_reader.next_space(owner, names)
        self._catalog.set_fact("beside", chosen)

    def shadow_space(self) -> str:
        name = self._catalog.fact("beside")
        if not name:
            raise UsageError("no re-embedding is in progress", hint="lorelog index --reembed")
        return name

    def previous_space(self) -> str:
        """Return the space that was served before the last swap."""
        name = self._catalog.fact("before") or ""
        if name not in self._catalog.spaces():
            raise NotFound("there are no previous vectors to go back to", hint="none were kept, or they were dropped")
        return name

    def store(self, space: str, vectors: Mapping[str, Vector]) -> None:
        """Add vectors to a space; existing ones are kept."""
        stored = vector_file.find_space(self._database, space)
        if stored is None:
            dimension = len(next(iter(vectors.values()))) // 4
            self._database.execute("INSERT INTO spaces (name, dimension) VALUES (?, ?)", (space, dimension))
            stored = vector_file.find_space(self._database, space)
        assert stored is not None
        _check_vectors(catalog_reader.space_owner(space), vectors, stored.dimension)
        vector_file.add_vectors(self._database, stored, vectors)

    def serve(self, space: str, model: str) -> None:
        """Set chunk ids and `embedded` marks for a space. Lanes that store ids are notified of every row."""
        if self._catalog.fact("model") != model:
            # Ids are unique: while they change, a chunk may need one that another still has.
            self._database.execute("UPDATE chunks SET id = '~' || row")
            chunks = self._database.execute(
                "SELECT c.row, d.source, start_line, end_line, content_hash FROM chunks c "
                "JOIN documents d ON d.id = c.document"
            ).fetchall()
            self._database.executemany(
                "UPDATE chunks SET id = ? WHERE row = ?",
                [(chunk_id(source, start, end, digest, model), row) for row, source, start, end, digest in chunks],
            )
            change_log.append_changes(self._database, change_log.MOVE, [row for row, *_ in chunks])
        self._database.execute(
            "UPDATE chunks SET embedded = EXISTS (SELECT 1 FROM vectors v JOIN spaces s ON s.id = v.space "
            "WHERE s.name = ? AND v.key = chunks.vector_key)",
            (space,),
        )
        self._catalog.set_fact("space", space)
        self._catalog.set_fact("model", model)

    def swap(self, space: str) -> None:
        """Serve another space, and remember the one served until now."""
        served = self._catalog.fact("space") or ""
        self.serve(space, catalog_reader.space_model(space))
        self._catalog.set_fact("before", served)
        if self._catalog.fact("beside") == space:
            self._catalog.set_fact("beside", "")

    def drop(self, space: str) -> int:
        own = "(SELECT id FROM spaces WHERE name = ?)"
        dropped = self._database.execute(f"DELETE FROM vectors WHERE space IN {own}", (space,)).rowcount
        self._database.execute("DELETE FROM spaces WHERE name = ?", (space,))
        return dropped

    def drop_others(self) -> int:
        """Delete all vectors that are not served; return their number."""
        served = self._catalog.fact("space")
        dropped = sum(self.drop(name) for name in self._catalog.spaces() if name != served)
        for fact in ("beside", "before", "declined"):
            self._catalog.set_fact(fact, "")
        return dropped

    def _fits(self, space: str, dimension: int) -> bool:
        row = self._database.execute("SELECT dimension FROM spaces WHERE name = ?", (space,)).fetchone()
        return not dimension or row is None or row[0] == dimension


def _check_vectors(owner: str, vectors: Mapping[str, Vector], dimension: int) -> None:
    for vector in vectors.values():
        if len(vector) != 4 * dimension:
            raise ModelFault(
                f"{owner} returned a vector of {len(vector) // 4} dimensions; the index has {dimension}",
                hint="the model behind this name has changed: 'lorelog index --reembed' embeds everything again",
            )
    if needs_numpy(len(vectors)):
        import numpy as np

        numbers = np.frombuffer(b"".join(vectors.values()), dtype="<f4").reshape(len(vectors), dimension)
        finite = np.isfinite(numbers).all(axis=1).tolist()
    else:
        finite = list(map(is_finite_vector, vectors.values()))
    if not all(finite):
        key = list(vectors)[finite.index(False)]
        raise ModelFault(f"{owner} returned a vector with NaN or infinity (for {key})")


_OldRow = tuple[int, str, tuple[Any, ...]]
"""A row, the hash of its content, and its values of `_COMPARED_COLUMNS`."""

LanesOf = Callable[[str], tuple[CatalogLane, CatalogLane]]
"""Returns the lexical lane and the dense lane of a vector space."""

_UNUSED_VECTOR_TTL_S = 24 * 3600
_SWEEP_INTERVAL_S = 24 * 3600
_MAX_LOG_ROWS = 1000


_COMPARED_COLUMNS = (
    *("id", "ordinal", "heading", "heading_level", "start_line", "end_line", "anchor", "piece", "date_source"),
)
"""Columns that may differ between two chunks with the same lane key. The content is part of the id."""
_COMPARED = [rows.WRITTEN_COLUMNS.split(", ").index(column) for column in _COMPARED_COLUMNS]
_PLACE_COLUMNS = ("ordinal", "id", "start_line", "end_line")
_PLACE = [rows.WRITTEN_COLUMNS.split(", ").index(column) for column in _PLACE_COLUMNS]
_CONTENT_HASH = rows.WRITTEN_COLUMNS.split(", ").index("content_hash")


class _DocumentPlan(Struct):
    """Changes to one document. Rows of chunks that did not change at all are in no list."""

    update: DocumentUpdate
    document: int
    first_ordinal: int = 0
    """Number of chunks before the update's first line, which are not even read."""
    moved: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    """Rows of chunks on other lines."""
    changed: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    """Rows of chunks that differ in something else that the lanes do not store."""
    renamed: list[int] = field(default_factory=list)
    """Those of both with another id."""
    fresh: list[tuple[Any, ...]] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)


def _without_place(compared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of `_COMPARED_COLUMNS` without those of `_PLACE_COLUMNS`."""
    pairs = zip(_COMPARED_COLUMNS, compared, strict=True)
    return tuple([value for column, value in pairs if column not in _PLACE_COLUMNS])


def _assignments(columns: Iterable[str]) -> str:
    return ", ".join(f"{column} = ?" for column in columns)


class CatalogWriter:
    """Writes a catalog and its lanes. Created by the store, which holds the lock."""

    def __init__(self, path: Path, catalog: CatalogReader, lanes_of: LanesOf, caller_model: str) -> None:
        """Write as the catalog's owner; `caller_model` is the caller's model, which may be another."""
        self.path = path
        self.catalog = catalog
        """The catalog on the writer's connection."""
        self._database = catalog.database
        self._shadow = ShadowVectors(catalog)
        self._lanes_of = lanes_of
        self._space = catalog.space
        self._model = catalog_reader.space_model(self._space)
        self._lexical, self.vectors = lanes_of(self._space)
        self._caller_model = caller_model
        self._vectors_freed = False
        self.swept = False
        self.mended = ""
        """What was damaged in the vector files and is made again; the store reports it."""
        self._repair()

    @translate_method_errors
    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Stage documents, let the lanes follow, then switch in one transaction."""
        plans: list[_DocumentPlan] = []
        try:
            with self._write_transaction():
                last = self._database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
                first = int(last[0]) + 1 if last else 1
                plans += [self._plan(update) for update in updates]
                self._stage(plans, first)
            if any(plan.fresh for plan in plans):
                self._update_lanes()
            with self._write_transaction():
                for plan in plans:
                    self._delete(plan.stale)
                    self._move(plan)
                    count = plan.first_ordinal + len(plan.update.chunks)
                    self._database.execute(
                        f"UPDATE documents SET live = 1, {_assignments(rows.DOCUMENT_COLUMNS.split(', '))} WHERE id = ?",
                        (*rows.document_values(plan.update.document, count), plan.document),
                    )
                    self.catalog.set_fact(f"resume {plan.document}", plan.update.resume)
                self._database.execute("UPDATE chunks SET live = 1 WHERE row >= ? AND NOT live", (first,))
        except BaseException:
            with suppress(sqlite3.Error):  # disk full: the next writer discards the rows; the first error is reported
                self._discard_staged()
            raise
        self._vectors_freed |= any(plan.stale for plan in plans)

    @translate_method_errors
    def touch(self, documents: Sequence[Document]) -> None:
        with self._write_transaction():
            self._database.executemany(
                "UPDATE documents SET root = ?, size = ?, mtime_ns = ?, inode = ?, indexed_at = ? WHERE source = ? AND live",
                [
                    (document.root, *astuple(document.stamp), document.indexed_at, document.source)
                    for document in documents
                ],
            )

    @translate_method_errors
    def remove(self, sources: Iterable[str]) -> int:
        removed = 0
        with self._write_transaction():
            for source in sources:
                document = self._database.execute("SELECT id FROM documents WHERE source = ?", (source,)).fetchone()
                if document is None:
                    continue
                self._delete(
                    [row for (row,) in self._database.execute("SELECT row FROM chunks WHERE document = ?", document)]
                )
                self._database.execute("DELETE FROM documents WHERE id = ?", document)
                self.catalog.set_fact(f"resume {document[0]}", "")
                removed += 1
        self._vectors_freed |= removed > 0
        return removed

    @translate_method_errors
    def put_vectors(self, vectors: Mapping[str, Vector], *, shadow: bool = False) -> None:
        """Store vectors; unless they are `shadow` ones, mark the chunks that needed them, and let the dense lane follow."""
        if not vectors:
            return
        with self._write_transaction():
            self._shadow.store(self._shadow.shadow_space() if shadow else self._space, vectors)
            if shadow:
                return
            waiting = self.catalog.rows_waiting_for(list(vectors))
            self._database.executemany("UPDATE chunks SET embedded = 1 WHERE row = ?", [(row,) for row in waiting])
            change_log.append_changes(self._database, change_log.VECTOR, waiting)
        self.vectors.catch_up(self._database)

    @translate_method_errors
    def begin_shadow_vectors(self, dimension: int) -> None:
        with self._write_transaction():
            self._shadow.begin(self._caller_model, dimension)

    @translate_method_errors
    def swap_vectors(self) -> None:
        self._serve(self._shadow.shadow_space(), declined="")

    @translate_method_errors
    def roll_back(self) -> None:
        self._serve(self._shadow.previous_space(), declined=self._space)

    @translate_method_errors
    def drop_other_vectors(self) -> int:
        with self._write_transaction():
            dropped = self._shadow.drop_others()
        self.vectors.forget_others()
        vector_file.delete_unused_files(self._database)
        return dropped

    @translate_method_errors
    def set_note(self, name: str, value: str) -> None:
        with self._write_transaction():
            self.catalog.set_fact(f"remark {name} {self.catalog.space}", value)

    @translate_method_errors
    def sweep(self) -> None:
        """Delete long unused vectors, let the lanes follow to the end, and trim the log."""
        self.swept = True
        now = int(time.time())
        if self._vectors_freed or now - int(self.catalog.fact("swept_at") or 0) >= _SWEEP_INTERVAL_S:
            used = "EXISTS (SELECT 1 FROM chunks WHERE vector_key = key)"
            with self._write_transaction():
                execute = self._database.execute
                execute(f"UPDATE vectors SET released_at = NULL WHERE released_at IS NOT NULL AND {used}")
                execute(f"UPDATE vectors SET released_at = ? WHERE released_at IS NULL AND NOT {used}", (now,))
                vector_file.remove_vectors(self._database, "released_at < ?", (now - _UNUSED_VECTOR_TTL_S,))
                self.catalog.set_fact("swept_at", str(now))
                vector_file.compact(self._database, vector_file.find_space(self._database, self._space))
        followed = self._update_lanes()
        vector_file.delete_unused_files(self._database)
        with transaction(self._database):
            change_log.trim(self._database, followed)
        self._database.execute("PRAGMA optimize")
        with suppress(sqlite3.OperationalError):  # the disk is full, or a reader holds on: the next sweep does it
            shrink_database(self._database)
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @translate_method_errors
    def purge(self, vector_keys: Iterable[str]) -> None:
        """Delete unused vectors, rewrite the lanes and the catalog, and empty the write-ahead log."""
        followed = self._update_lanes()
        with self._write_transaction():
            for key in vector_keys:
                vector_file.remove_vectors(
                    self._database,
                    # With `space`, since that is the first column of the index.
                    "space IN (SELECT id FROM spaces) AND key = ? "
                    "AND NOT EXISTS (SELECT 1 FROM chunks WHERE vector_key = key)",
                    (key,),
                )
        for lane in dict.fromkeys((self._lexical, self.vectors)):
            lane.purge(self._database)
        self.vectors.forget_others()
        vector_file.delete_unused_files(self._database)
        with transaction(self._database):
            change_log.trim(self._database, followed)
        rewrite_database(self._database)
        self.swept = True  # the codes of a large lane are built after the write

    @translate_method_errors
    def record_lane_owner(self, keeper: str) -> None:
        """Record which kind of store maintains the lanes; lanes of another kind are behind from now on."""
        if (self.catalog.fact("keeper") or "") != keeper:
            with self._write_transaction():
                self.catalog.set_fact("keeper", keeper)

    @contextmanager
    def _write_transaction(self) -> Iterator[None]:
        """Run a block in one transaction that changes the catalog's revision."""
        with transaction(self._database):
            yield
            self.catalog.set_fact("revision", os.urandom(8).hex())

    # -- one document ------------------------------------------------------------------------------------------------

    def _plan(self, update: DocumentUpdate) -> _DocumentPlan:
        document = update.document
        row = self._database.execute("SELECT id FROM documents WHERE source = ?", (document.source,)).fetchone()
        if row is None:
            document_values = (*rows.document_values(document, 0), 0)
            inserted = self._database.execute(
                f"INSERT INTO documents ({rows.DOCUMENT_COLUMNS}, live) VALUES ({placeholders(document_values)})",
                document_values,
            )
            plan = _DocumentPlan(update, int(inserted.lastrowid or 0))
            old: dict[str, deque[_OldRow]] = {}
        else:
            kept = self.catalog.kept_chunks(row[0], update.first_line) if update.first_line > 1 else 0
            plan = _DocumentPlan(update, row[0], kept)
            old = defaultdict(deque)
            for number, key, content_hash, *compared in self._database.execute(
                f"SELECT row, lane_key, content_hash, {', '.join(_COMPARED_COLUMNS)} FROM chunks "
                "WHERE document = ? AND ordinal >= ? AND live ORDER BY ordinal",
                (row[0], kept),
            ):
                old[key].append((number, content_hash, tuple(compared)))
        for ordinal, chunk in enumerate(update.chunks, plan.first_ordinal):
            values = rows.chunk_values(chunk, document.project, ordinal, self._model)
            same = old.get(values[-1])
            if not same:
                plan.fresh.append(values)
                continue
            kept_row, content_hash, before = same.popleft()
            after = tuple([values[index] for index in _COMPARED])
            if before == after:
                continue
            is_moved = _without_place(before) == _without_place(after) and content_hash == values[_CONTENT_HASH]
            (plan.moved if is_moved else plan.changed).append((kept_row, values))
            if before[0] != after[0]:
                plan.renamed.append(kept_row)
        plan.stale += [stale_row for remaining in old.values() for stale_row, *_ in remaining]
        return plan

    def _stage(self, plans: Sequence[_DocumentPlan], first: int) -> None:
        fresh = [(plan.document, values) for plan in plans for values in plan.fresh]
        missing = self.catalog.missing_vectors({values[-2] for _, values in fresh})
        self._database.executemany(
            f"INSERT INTO chunks (row, document, live, embedded, {rows.WRITTEN_COLUMNS}) "
            f"VALUES (?, ?, 0, ?{', ?' * len(rows.WRITTEN_COLUMNS.split(','))})",
            [
                (first + offset, document, values[-2] not in missing, *values)
                for offset, (document, values) in enumerate(fresh)
            ],
        )
        change_log.append_changes(self._database, change_log.ADD, list(range(first, first + len(fresh))))

    def _move(self, plan: _DocumentPlan) -> None:
        """Update the rows of chunks that are on other lines, or differ in what only the catalog stores."""
        # Ids depend on lines: while chunks move, a chunk may need an id that another still has.
        self._database.executemany("UPDATE chunks SET id = '~' || row WHERE row = ?", [(row,) for row in plan.renamed])
        # SQLite rewrites the index entries of every column that is named, even if its value is the same.
        self._database.executemany(
            f"UPDATE chunks SET {_assignments(_PLACE_COLUMNS)} WHERE row = ?",
            [(*(values[index] for index in _PLACE), row) for row, values in plan.moved],
        )
        self._database.executemany(
            f"UPDATE chunks SET {_assignments(rows.WRITTEN_COLUMNS.split(', '))} WHERE row = ?",
            [(*values, row) for row, values in plan.changed],
        )
        change_log.append_changes(self._database, change_log.MOVE, plan.renamed)

    def _delete(self, chunk_rows: Sequence[int]) -> None:
        self._database.executemany("DELETE FROM chunks WHERE row = ?", [(row,) for row in chunk_rows])
        change_log.append_changes(self._database, change_log.REMOVE, list(chunk_rows))

    # -- repair ------------------------------------------------------------------------------------------------------

    @translate_method_errors
    def _repair(self) -> None:
        """Recover from a crash: discard staged rows, adopt the model, let the lanes catch up, and keep the log short."""
        self._discard_staged()
        if (self.catalog.fact("space"), self.catalog.fact("model")) != (self._space, self._model):
            # The log of another model's vectors does not apply to this model's lane.
            self.vectors.forget()
            with self._write_transaction():
                self._shadow.serve(self._space, self._model)
        space = vector_file.find_space(self._database, self._space)
        is_checked = int(self.catalog.fact("checked_at") or 0) > change_log.boot_time()
        if space is not None and not (is_checked and vector_file.is_as_written(self._database, space)):
            self.mend_vectors()
        if not is_checked:
            self.catalog.set_fact("checked_at", str(int(time.time())))
        followed = self._update_lanes()
        first = self._database.execute("SELECT min(seq) FROM changes").fetchone()[0]
        if first is not None and followed - first > _MAX_LOG_ROWS:
            with transaction(self._database):
                change_log.trim(self._database, followed)

    @translate_method_errors
    def mend_vectors(self) -> None:
        """Check every vector and remove damaged ones; the next index run makes them again."""
        space = vector_file.find_space(self._database, self._space)
        if space is None:
            return
        with self._write_transaction():
            dropped = vector_file.drop_damaged(self._database, space)
        if dropped:
            self.mended = f"{dropped:,} vectors of {space.file}, which the next index run makes again"
            self.vectors.forget()
            self._update_lanes()

    def _update_lanes(self) -> int:
        positions = (self._lexical.catch_up(self._database), self.vectors.catch_up(self._database))
        last = change_log.last_sequence(self._database)
        return min(position for position in (*positions, last) if position is not None)

    def _discard_staged(self) -> None:
        execute = self._database.execute
        has_staged = execute("SELECT EXISTS (SELECT 1 FROM chunks WHERE NOT live)").fetchone()[0]
        if not has_staged and not execute("SELECT EXISTS (SELECT 1 FROM documents WHERE NOT live)").fetchone()[0]:
            return
        with self._write_transaction():
            self._delete([row for (row,) in self._database.execute("SELECT row FROM chunks WHERE NOT live")])
            self._database.execute("DELETE FROM documents WHERE NOT live")

    def _serve(self, space: str, *, declined: str) -> None:
        """Serve another space. Its lane is built first, so that no search meets a missing lane."""
        lexical, dense = self._lanes_of(space)
        dense.forget()
        dense.catch_up(self._database)
        with self._write_transaction():
            self._shadow.swap(space)
            self.catalog.set_fact("declined", declined)
        self._lexical, self.vectors = lexical, dense
        self._space, self._model = space, catalog_reader.space_model(space)
        # From here on the writer acts for the model whose vectors are served.
        self.catalog.owner = catalog_reader.space_owner(space)
        self._update_lanes()
