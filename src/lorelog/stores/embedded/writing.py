"""The one writer of an index.

A document's new version becomes visible in one SQLite transaction, and the lanes must know it by then. So a put has
three steps: stage the new chunks (in the catalog, not visible), let the lanes follow, switch. A crash before the
switch leaves the old version in force and staged rows that the next writer discards; a crash after it leaves entries
in the lanes that name no chunk, which readers pass over and the lanes drop when they next follow the log.
Chunks whose text did not change keep their row, whatever lines they moved to, and cost lanes that know no lines nothing.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorelog.core.document import Document
from lorelog.core.ports import DocumentUpdate, Vector
from lorelog.stores.embedded import log, rows, spaces
from lorelog.stores.embedded.beside import BesideTable
from lorelog.stores.embedded.connection import transaction
from lorelog.stores.embedded.faults import translated
from lorelog.stores.embedded.lanes import FollowingLane
from lorelog.stores.embedded.reading import CatalogReader

LanesOf = Callable[[str], tuple[FollowingLane, FollowingLane]]
"""Gives the lane of words, and that of the vectors of a name."""

_KEEP_UNUSED_VECTORS_S = 24 * 3600
_SWEEP_EVERY_S = 24 * 3600
_LONG_LOG = 1000
_ID = rows.WRITTEN_COLUMNS.split(", ").index("id")


@dataclass(slots=True)
class _Plan:
    """How one document changes: which rows stay, which of those on other lines, which come, which go."""

    update: DocumentUpdate
    document: int
    kept: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    fresh: list[tuple[Any, ...]] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)


class EmbeddedWriter:
    """Writes a catalog and its lanes. Made by the store, which holds the lock."""

    def __init__(self, path: Path, catalog: CatalogReader, lanes_of: LanesOf, asked_by: str) -> None:
        """Write as the catalog's owner; `asked_by` is the model of whoever writes, and may be another."""
        self.path = path
        self._catalog = catalog
        self._database = catalog.database
        self._beside = BesideTable(catalog)
        self._lanes_of = lanes_of
        self._space = catalog.space
        self._model = spaces.model_of(self._space)
        self._lexical, self._dense = lanes_of(self._space)
        self._asked_by = asked_by
        self._vectors_freed = False
        self.swept = False
        self._repair()

    @property
    def vectors(self) -> FollowingLane:
        """Return the lane of the vectors that are served now."""
        return self._dense

    @property
    def catalog(self) -> CatalogReader:
        """Return the catalog as the writer sees it."""
        return self._catalog

    @translated
    def put(self, updates: Sequence[DocumentUpdate]) -> None:
        """Store documents: staged, followed by the lanes, then switched in one transaction."""
        plans: list[_Plan] = []
        try:
            with self._change():
                first = self._next_row()
                plans += [self._plan(update) for update in updates]
                self._stage(plans, first)
            if any(plan.fresh for plan in plans):
                self._follow()
            with self._change():
                for plan in plans:
                    self._switch(plan)
                self._database.execute("UPDATE chunks SET live = 1 WHERE row >= ? AND NOT live", (first,))
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk: the next writer discards it, and this error is the one to tell
                self._discard_staged()
            raise
        self._vectors_freed |= any(plan.stale for plan in plans)

    @translated
    def touch(self, documents: Sequence[Document]) -> None:
        """Record new stamps and roots of documents whose text did not change."""
        with self._change():
            self._database.executemany(
                "UPDATE documents SET root = ?, size = ?, mtime_ns = ?, inode = ?, indexed_at = ? WHERE source = ? AND live",
                [
                    (one.root, one.stamp.size, one.stamp.mtime_ns, one.stamp.inode, one.indexed_at, one.source)
                    for one in documents
                ],
            )

    @translated
    def remove(self, sources: Iterable[str]) -> int:
        """Remove documents and their chunks; return how many were there."""
        removed = 0
        with self._change():
            for source in sources:
                found = self._database.execute("SELECT id FROM documents WHERE source = ?", (source,)).fetchone()
                if found is None:
                    continue
                gone = [row for (row,) in self._database.execute("SELECT row FROM chunks WHERE document = ?", found)]
                self._delete(gone)
                self._database.execute("DELETE FROM documents WHERE id = ?", found)
                removed += 1
        self._vectors_freed |= removed > 0
        return removed

    @translated
    def put_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors, mark the chunks that have waited for them, and let the dense lane follow."""
        if not vectors:
            return
        with self._change():
            self._beside.store(self._space, vectors)
            waiting = self._catalog.rows_waiting_for(list(vectors))
            self._database.executemany("UPDATE chunks SET embedded = 1 WHERE row = ?", [(row,) for row in waiting])
            log.record(self._database, log.VECTOR, waiting)
        self._dense.catch_up(self._database)

    @translated
    def begin_beside(self, dimension: int) -> None:
        """Begin to make vectors beside those served, or go on with what was begun."""
        with self._change():
            self._beside.begin(self._asked_by, dimension)

    @translated
    def put_beside(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors beside those served."""
        if vectors:
            with self._change():
                self._beside.store(self._beside.begun(), vectors)

    @translated
    def swap(self) -> None:
        """Serve the vectors beside in one transaction."""
        self._serve(self._beside.begun(), declined="")

    @translated
    def decline(self) -> None:
        """Note that the vectors beside are not to be served."""
        with self._change():
            self._catalog.state_fact("declined", self._beside.begun())

    @translated
    def roll_back(self) -> None:
        """Serve what was served before the last swap, in one transaction."""
        self._serve(self._beside.before(), declined=self._space)

    @translated
    def forget_others(self) -> int:
        """Drop all vectors but those served, and what lanes keep of them."""
        with self._change():
            dropped = self._beside.drop_others()
        self._dense.forget_others()
        return dropped

    @translated
    def remark(self, name: str, value: str) -> None:
        """Note something of the index under this model."""
        with self._change():
            self._catalog.state_remark(name, value)

    @translated
    def sweep(self) -> None:
        """Drop vectors long unused, let the lanes follow to the end, and forget the log they have followed."""
        self.swept = True
        self._sweep_vectors()
        followed = self._follow()
        with transaction(self._database):
            log.trim(self._database, followed)
        self._database.execute("PRAGMA optimize")
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @translated
    def sign(self, keeper: str) -> None:
        """Note whose lanes have followed; the other stores' are behind from now on."""
        if (self._catalog.fact("keeper") or "") != keeper:
            with self._change():
                self._catalog.state_fact("keeper", keeper)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Run a block in one transaction that readers can tell from every other by the catalog's revision."""
        with transaction(self._database):
            yield
            self._catalog.state_fact("revision", os.urandom(8).hex())

    # -- one document ------------------------------------------------------------------------------------------------

    def _plan(self, update: DocumentUpdate) -> _Plan:
        document = update.document
        found = self._database.execute("SELECT id FROM documents WHERE source = ?", (document.source,)).fetchone()
        if found is None:
            values = (*rows.document_values(document, 0), 0)
            marks = ", ".join("?" * len(values))
            inserted = self._database.execute(
                f"INSERT INTO documents ({rows.DOCUMENT_COLUMNS}, live) VALUES ({marks})",
                values,
            )
            plan = _Plan(update, int(inserted.lastrowid or 0))
            old: dict[str, deque[tuple[int, str]]] = {}
        else:
            plan = _Plan(update, found[0])
            old = self._rows_by_lane_key(found[0])
        for ordinal, chunk in enumerate(update.chunks):
            values = rows.chunk_values(chunk, document.project, ordinal, self._model)
            same = old.get(values[-1])
            if same:
                row, known_as = same.popleft()
                plan.kept.append((row, values))
                if known_as != values[_ID]:
                    plan.moved.append(row)
            else:
                plan.fresh.append(values)
        plan.stale += [row for left in old.values() for row, _ in left]
        return plan

    def _rows_by_lane_key(self, document: int) -> dict[str, deque[tuple[int, str]]]:
        old: dict[str, deque[tuple[int, str]]] = defaultdict(deque)
        for row, known_as, key in self._database.execute(
            "SELECT row, id, lane_key FROM chunks WHERE document = ? AND live ORDER BY ordinal", (document,)
        ):
            old[key].append((row, known_as))
        return old

    def _stage(self, plans: Sequence[_Plan], first: int) -> None:
        fresh = [(plan.document, values) for plan in plans for values in plan.fresh]
        missing = self._catalog.missing_vectors({values[-2] for _, values in fresh})
        self._database.executemany(
            f"INSERT INTO chunks (row, document, live, embedded, {rows.WRITTEN_COLUMNS}) "
            f"VALUES (?, ?, 0, ?{', ?' * len(rows.WRITTEN_COLUMNS.split(','))})",
            [
                (first + place, document, values[-2] not in missing, *values)
                for place, (document, values) in enumerate(fresh)
            ],
        )
        log.record(self._database, log.ADD, list(range(first, first + len(fresh))))

    def _switch(self, plan: _Plan) -> None:
        self._delete(plan.stale)
        # Ids name lines: while chunks change places one may need an id that another still has.
        self._database.executemany("UPDATE chunks SET id = '~' || row WHERE row = ?", [(row,) for row, _ in plan.kept])
        assignments = ", ".join(f"{column.strip()} = ?" for column in rows.WRITTEN_COLUMNS.split(","))
        self._database.executemany(
            f"UPDATE chunks SET {assignments} WHERE row = ?",
            [(*values, row) for row, values in plan.kept],
        )
        log.record(self._database, log.MOVE, plan.moved)
        columns = ", ".join(f"{column.strip()} = ?" for column in rows.DOCUMENT_COLUMNS.split(","))
        self._database.execute(
            f"UPDATE documents SET live = 1, {columns} WHERE id = ?",
            (*rows.document_values(plan.update.document, len(plan.update.chunks)), plan.document),
        )

    def _delete(self, gone: Sequence[int]) -> None:
        self._database.executemany("DELETE FROM chunks WHERE row = ?", [(row,) for row in gone])
        log.record(self._database, log.REMOVE, list(gone))

    def _next_row(self) -> int:
        found = self._database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        return int(found[0]) + 1 if found else 1

    # -- vectors -----------------------------------------------------------------------------------------------------

    def _sweep_vectors(self) -> None:
        now = int(time.time())
        swept = int(self._catalog.fact("swept_at") or 0)
        if not self._vectors_freed and now - swept < _SWEEP_EVERY_S:
            return
        used = "EXISTS (SELECT 1 FROM chunks WHERE vector_key = key)"
        with self._change():
            execute = self._database.execute
            execute(f"UPDATE vectors SET released_at = NULL WHERE released_at IS NOT NULL AND {used}")
            execute(f"UPDATE vectors SET released_at = ? WHERE released_at IS NULL AND NOT {used}", (now,))
            execute("DELETE FROM vectors WHERE released_at < ?", (now - _KEEP_UNUSED_VECTORS_S,))
            self._catalog.state_fact("swept_at", str(now))

    # -- repair ------------------------------------------------------------------------------------------------------

    @translated
    def _repair(self) -> None:
        """Mend what a crash left: discard what was staged, take the model, let the lanes catch up, keep the log short."""
        self._discard_staged()
        self._adopt_model()
        followed = self._follow()
        first = self._database.execute("SELECT min(seq) FROM changes").fetchone()[0]
        if first is not None and followed - first > _LONG_LOG:
            with transaction(self._database):
                log.trim(self._database, followed)

    def _follow(self) -> int:
        followed = (self._lexical.catch_up(self._database), self._dense.catch_up(self._database))
        return min(one for one in (*followed, log.head(self._database)) if one is not None)

    def _discard_staged(self) -> None:
        if not self._database.execute("SELECT EXISTS (SELECT 1 FROM chunks WHERE NOT live)").fetchone()[0]:
            unseen = self._database.execute("SELECT EXISTS (SELECT 1 FROM documents WHERE NOT live)").fetchone()[0]
            if not unseen:
                return
        with self._change():
            self._delete([row for (row,) in self._database.execute("SELECT row FROM chunks WHERE NOT live")])
            self._database.execute("DELETE FROM documents WHERE NOT live")

    def _adopt_model(self) -> None:
        """Make ids and vector marks those of the configured model."""
        if self._catalog.fact("space") == self._space and self._catalog.fact("model") == self._model:
            return
        # The log of another model's vectors means nothing to this model's lane.
        self._dense.forget()
        with self._change():
            self._beside.serve(self._space, self._model)

    def _serve(self, space: str, *, declined: str) -> None:
        """Serve other vectors. Their lane is built before anyone is told of it: no search comes upon one that is missing."""
        words, vectors = self._lanes_of(space)
        vectors.forget()
        vectors.catch_up(self._database)
        with self._change():
            self._beside.exchange(space)
            self._catalog.state_fact("declined", declined)
        self._lexical, self._dense = words, vectors
        self._space, self._model = space, spaces.model_of(space)
        # From here on the writer reads and writes as the model whose vectors are served.
        self._catalog.owner = spaces.owner_of(space)
        self._follow()
