"""A store over a catalog: what is known is in SQLite, and the lanes of whoever keeps them follow its change log.

It opens what is needed when it is needed, and keeps readers apart from the writer. How things are found is left to the
stores made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import RLock

from lorelog.core.document import Document, Key, StoredChunk
from lorelog.core.errors import StoreBusy, StoreError, StoreUnwritable
from lorelog.core.ports import (
    Changeover,
    Covering,
    PendingText,
    StoreStats,
    StoreWriter,
    Supersession,
    Surroundings,
    Twofold,
    Vector,
)
from lorelog.core.query import Coverage, Filters
from lorelog.stores.embedded.connection import open_reader, open_writer
from lorelog.stores.embedded.faults import translating
from lorelog.stores.embedded.lanes import FollowingLane
from lorelog.stores.embedded.lock import hold
from lorelog.stores.embedded.migrations import SCHEMA_VERSION
from lorelog.stores.embedded.reading import CatalogReader
from lorelog.stores.embedded.spaces import owner_of
from lorelog.stores.embedded.writing import EmbeddedWriter

_WAIT_TO_RESET_S = 2.0


class CatalogStore(ABC):
    """An index in one folder, seen under one model. Reading an index that is not there finds nothing and creates nothing."""

    def __init__(self, folder: Path, *, provider: str, model: str) -> None:
        self._folder = folder
        self._path = folder / "catalog.db"
        self._lock = folder / "writer.lock"
        self._space = f"{provider}/{model}"
        self._catalog: CatalogReader | None = None
        self._inode = 0
        self._founded = False
        self._runs = 0
        self._superseding: tuple[str, tuple[Supersession, ...]] = ("", ())
        self._covering: tuple[str, tuple[Covering, ...]] = ("", ())
        # Readers of one process take turns: a connection must not be closed while another thread reads from it.
        self._turn = RLock()

    # -- what a store made of this brings -----------------------------------------------------------------------------

    @abstractmethod
    def _lanes_of(self, space: str) -> tuple[FollowingLane, FollowingLane]:
        """Return the lane of words and that of a model's vectors."""

    def _keeper(self) -> str:
        """Return who keeps the lanes: those of another keeper are behind since this one has written."""
        return ""

    @abstractmethod
    def _after_writing(self, vectors: FollowingLane, *, thoroughly: bool) -> None:
        """Do what an index run has time for, after its writes and without the writer's lock."""

    @abstractmethod
    def _forget_lanes(self) -> None:
        """Drop what the lanes keep, as part of a reset: nobody writes meanwhile."""

    def _bytes_mapped(self) -> int:
        """Return how many bytes of vectors a search maps and does not load."""
        return 0

    def _location(self) -> str:
        """Return where the index is, for people."""
        return str(self._folder)

    # -- catalog -----------------------------------------------------------------------------------------------------

    def documents(self) -> list[Document]:
        """Return all documents, by source."""
        with self._reading() as catalog:
            return catalog.documents() if catalog else []

    def projects(self) -> dict[str, int]:
        """Return the number of chunks by project."""
        with self._reading() as catalog:
            return catalog.projects() if catalog else {}

    def document(self, source: str) -> Document | None:
        """Return one document, or None when it is unknown."""
        with self._reading() as catalog:
            return catalog.document(source) if catalog else None

    def recent(self, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section, newest first, at most `limit`."""
        with self._reading() as catalog:
            return catalog.recent(filters, limit) if catalog else []

    def tags(self, prefix: str, filters: Filters) -> dict[str, int]:
        """Return how many admitted sections bear each tag that begins so, by tag."""
        with self._reading() as catalog:
            return catalog.tags(prefix, filters) if catalog else {}

    def of_session(self, session: str, filters: Filters, limit: int) -> list[StoredChunk]:
        """Return the admitted chunks that begin a section and whose anchor names this session, newest first."""
        with self._reading() as catalog:
            return catalog.of_session(session, filters, limit) if catalog and session else []

    def supersessions(self) -> tuple[Supersession, ...]:
        """Return what anchors say to be superseded, oldest word first; kept until the next write."""
        with self._reading() as catalog:
            if catalog is None:
                return ()
            revision = catalog.fact("revision") or ""
            if not revision or self._superseding[0] != revision:
                self._superseding = (revision, tuple(catalog.supersessions()))
            return self._superseding[1]

    def coverings(self) -> tuple[Covering, ...]:
        """Return what anchors say to be summed up, oldest word first; kept until the next write."""
        with self._reading() as catalog:
            if catalog is None:
                return ()
            revision = catalog.fact("revision") or ""
            if not revision or self._covering[0] != revision:
                self._covering = (revision, tuple(catalog.coverings()))
            return self._covering[1]

    def vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Return the vectors of the current model that these chunks have."""
        with self._reading() as catalog:
            return catalog.vectors(keys) if catalog else {}

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty when it is unknown."""
        with self._reading() as catalog:
            return catalog.chunks_of(source) if catalog else []

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, or else whose content's hash starts so; at most 10, by id."""
        with self._reading() as catalog:
            return catalog.find(id_prefix) if catalog and id_prefix else []

    def find_elsewhere(self, id_prefix: str) -> list[StoredChunk]:
        """Return nothing: what is here is all there is, unless a store knows of others."""
        return []

    def fetch(self, keys: Sequence[Key]) -> dict[Key, StoredChunk]:
        """Return the chunks still there under these keys."""
        with self._reading() as catalog:
            return catalog.fetch(keys) if catalog else {}

    def sample(self, count: int) -> list[StoredChunk]:
        """Return chunks with vectors, from all over the index."""
        with self._reading() as catalog:
            return [] if catalog is None else catalog.sample(count)

    def remark(self, name: str) -> str:
        """Return what a writer noted under this name and the current model."""
        with self._reading() as catalog:
            return "" if catalog is None else catalog.remark(name)

    def surroundings(self, keys: Sequence[Key], longest: int) -> dict[Key, Surroundings]:
        """Return what stands around the short ones among these chunks."""
        with self._reading() as catalog:
            return {} if catalog is None else catalog.surroundings(keys, longest)

    def entry_sizes(self, keys: Sequence[Key], most: int) -> dict[Key, int]:
        """Return of how many chunks the entry of each of these chunks is made, counting no further than `most`."""
        with self._reading() as catalog:
            return {} if catalog is None else catalog.entry_sizes(keys, most)

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        """Return those vector keys for which the current model has no vector."""
        with self._reading() as catalog:
            return catalog.missing_vectors(vector_keys) if catalog else set(vector_keys)

    def pending(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector of the current model yet, each vector key once."""
        with self._reading() as catalog:
            return catalog.pending(limit) if catalog else []

    def changeover(self) -> Changeover:
        """Return whose vectors are served, and whose are made beside."""
        with self._reading() as catalog:
            return catalog.changeover() if catalog else Changeover(self._space, "", serves_vectors=False)

    def pending_beside(self, limit: int) -> list[PendingText]:
        """Return texts that have no vector beside yet, each vector key once."""
        with self._reading() as catalog:
            return catalog.pending_beside(limit) if catalog else []

    def twofold(self, count: int) -> list[Twofold]:
        """Return chunks that have both vectors, from all over the index."""
        with self._reading() as catalog:
            return catalog.twofold(count) if catalog else []

    def coverage(self, filters: Filters) -> Coverage:
        """Return how many of the admitted chunks have vectors."""
        with self._reading() as catalog:
            return catalog.coverage(filters) if catalog else Coverage(0, 0)

    def reach(self, filters: Filters) -> Coverage:
        """Return how many chunks the lanes find, and how many by meaning: those that are here."""
        return self.coverage(filters)

    def stats(self) -> StoreStats:
        """Return the sizes of this index."""
        with self._reading() as catalog:
            projects = catalog.projects() if catalog else {}
            documents = len(catalog.documents()) if catalog else 0
            vectors, others = catalog.vector_counts() if catalog else (0, 0)
        return StoreStats(
            documents=documents,
            chunks=sum(projects.values()),
            vectors=vectors,
            other_vectors=others,
            projects=projects,
            bytes_on_disk=_bytes_below(self._folder),
            schema_version=SCHEMA_VERSION,
            location=self._location(),
            bytes_mapped=self._bytes_mapped(),
        )

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process.

        The lanes' states are part of it: a vector is found from when the lane has it, which is after the catalog has.
        """
        with self._reading() as catalog:
            if catalog is None:
                return ""
            words, vectors = self._lanes_of(catalog.space)
            return f"{catalog.fact('revision')} {words.revision()} {vectors.revision()}"

    # -- writing -----------------------------------------------------------------------------------------------------

    def serves_model(self) -> bool:
        """Say whether the ids and vectors of the index are this model's."""
        with self._reading() as catalog:
            return catalog is None or catalog.fact("space") is None or catalog.is_current_space()

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Become the one writer. Raise StoreBusy when another stays it longer than `wait_s`."""
        with ExitStack() as held:
            # Only our own steps are translated: what the caller raises inside the block is the caller's.
            with translating(self._path):
                held.enter_context(hold(self._lock, wait_s=wait_s))
                database = held.enter_context(closing(open_writer(self._path)))
                catalog = CatalogReader(database, self._space)
                if not take_over:
                    catalog.owner = owner_of(catalog.fact("space") or self._space)
            writer = EmbeddedWriter(self._path, catalog, self._lanes_of, self._space)
            writer.sign(self._keeper())
            yield writer
        if writer.swept or self._runs:
            self._after_writing(writer.vectors, thoroughly=writer.swept)

    @contextmanager
    def run(self, *, wait_s: float) -> Iterator[None]:
        """Hold the right to a long run of many writes."""
        with ExitStack() as held:
            with translating(self._folder):
                held.enter_context(hold(self._folder / "run.lock", wait_s=wait_s))
            self._runs += 1
            held.callback(self._end_run)
            yield

    def reset(self) -> None:
        """Delete the whole index. What it was derived from is not touched."""
        if not self._folder.exists():
            return
        with (
            translating(self._folder),
            hold(self._folder / "run.lock", wait_s=_WAIT_TO_RESET_S),
            hold(self._lock, wait_s=_WAIT_TO_RESET_S),
            self._turn,
        ):
            self.close()
            for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
                (self._folder / name).unlink(missing_ok=True)
            self._forget_lanes()

    def close(self) -> None:
        """Let go of everything. May be called twice."""
        self._let_go()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        """Let go of files: another process may have reset the index, and others stand in their place."""
        with self._turn:
            if self._catalog is not None:
                self._catalog.database.close()
                self._catalog = None

    @contextmanager
    def _reading(self) -> Iterator[CatalogReader | None]:
        """Give the catalog, opened anew when another process has reset the index, or None when there is none."""
        with self._turn, translating(self._path):
            try:
                inode = self._path.stat().st_ino
            except FileNotFoundError:
                self._let_go()
                yield None
                return
            if self._catalog is None or inode != self._inode:
                self._let_go()
                self._catalog = self._open_catalog()
                self._inode = inode
                self._founded = False
            yield self._catalog if self._catalog and self._is_founded(self._catalog) else None

    def _end_run(self) -> None:
        self._runs -= 1

    def _open_catalog(self) -> CatalogReader | None:
        """Open the catalog; where it cannot be opened because another process has just deleted it, there is none."""
        try:
            return CatalogReader(open_reader(self._path), self._space)
        except StoreError:
            if self._path.exists():
                raise
            return None

    def _is_founded(self, catalog: CatalogReader) -> bool:
        """Say whether the schema is there: a writer may have created the file and not yet migrated it."""
        if not self._founded:  # once it is there it stays, as long as the file is the same one
            self._founded = bool(catalog.database.execute("PRAGMA user_version").fetchone()[0])
        return self._founded

    def _repair(self, catalog: CatalogReader, lane: FollowingLane) -> None:
        """Build a lane anew that is missing or was made by another analyser, unless a writer is at work or none may be.

        A lane that only lags is used as it is: what is visible in the catalog reached it first, and following the log
        is the writer's work. One that lags because another store has written follows now. An index that serves another
        model is left alone.
        """
        if not catalog.is_current_space():
            return
        elsewhere = (catalog.fact("keeper") or "") != self._keeper()
        if not elsewhere and lane.applied(catalog.database) is not None:
            return
        if elsewhere or lane is self._lanes_of(self._space)[0] or catalog.vector_counts()[0]:
            with suppress(StoreBusy, StoreUnwritable), self.writer(wait_s=0):
                pass


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*") if folder.exists() else ():
        with suppress(OSError):  # a lane may be swapped while we look
            total += path.stat().st_size if path.is_file() else 0
    return total
