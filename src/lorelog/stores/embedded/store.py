"""The embedded store, and the base of all stores with a SQLite catalog.

`CatalogStore` opens files on demand and separates readers from the writer. Search lanes, local or remote, follow the
catalog's change log; subclasses implement search. `EmbeddedStore` has a tantivy index and a vector file next to the
catalog.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, RLock, local
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable
from lorelog.core.ports import (
    REPAIR_NOTE,
    Analyser,
    ReembedState,
    StoreComparison,
    StoreStats,
    StoreWriter,
    SummaryLink,
    Supersession,
    Vector,
)
from lorelog.core.query import Candidate, Filters, Term, VectorCoverage
from lorelog.stores.embedded import change_log
from lorelog.stores.embedded.catalog_reader import CatalogReader, space_owner
from lorelog.stores.embedded.change_log import CatalogLane
from lorelog.stores.embedded.connection import (
    find_catalog_damage,
    folder_bytes,
    hold_lock,
    open_reader,
    open_writer,
    set_aside,
    translate_errors,
)
from lorelog.stores.embedded.lexical import LexicalLane
from lorelog.stores.embedded.migrations import SCHEMA_VERSION

if TYPE_CHECKING:
    from lorelog.stores.embedded.catalog_writer import CatalogWriter
    from lorelog.stores.embedded.dense import DenseLane

# Writing and the dense lane are imported when they are used: `status` and a search by words need neither.

Params = ParamSpec("Params")
ReadT = TypeVar("ReadT")

_RESET_WAIT_S, _SWAP_WAIT_S, _MEND_WAIT_S = 2.0, 30.0, 1.0
_OPEN_TRIES, _OPEN_PAUSE_S = 5, 0.02
_MAX_IDLE_READERS = 4
"""Connections that are kept for the next readers; each has a page cache of up to two megabytes."""


def _reads(
    method: Callable[Concatenate[CatalogReader, Params], ReadT], otherwise: Callable[[], ReadT]
) -> Callable[Concatenate[CatalogStore, Params], ReadT]:
    """Return a method of the store that calls a method of its catalog, or `otherwise` without one."""

    def read(self: CatalogStore, /, *args: Params.args, **kwargs: Params.kwargs) -> ReadT:
        with self._open_reader() as catalog:
            return method(catalog, *args, **kwargs) if catalog else otherwise()

    return read


class CatalogStore(ABC):
    """An index in one folder, seen by one model. Reading an index that does not exist returns nothing and creates nothing."""

    _lane_owner = ""
    """The kind of store that maintains the lanes: after its writes, the lanes of another kind are behind."""

    def __init__(self, folder: Path, *, provider: str, model: str) -> None:
        self._folder = folder
        self._location = str(folder)
        self._path = folder / "catalog.db"
        self._lock = folder / "writer.lock"
        self._space = f"{provider}/{model}"
        # A connection is used by one thread at a time. Readers of a WAL do not wait for each other, nor for the writer.
        self._idle_readers: list[CatalogReader] = []
        self._readers_lock = Lock()
        self._thread = local()
        self._inode = 0
        self._runs = 0
        self._read: dict[str, tuple[str, object]] = {}
        self._turn = RLock()
        """Held while files are closed or replaced."""

    # -- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _lanes_of(self, space: str) -> tuple[CatalogLane, CatalogLane]:
        """Return the lexical lane and the dense lane of a vector space."""

    def _finish_lanes(self) -> None:
        """Close the files of lanes that were written. Called at the end of every write, under the writer lock."""
        return

    @abstractmethod
    def _after_writing(self, vectors: CatalogLane, *, thoroughly: bool) -> None:
        """Do the work that can follow an index run, after its writes and without the writer lock."""

    @abstractmethod
    def _drop_lanes(self) -> None:
        """Delete the lanes' data as part of a reset; no writer is active."""

    def _report_repairs(self, writer: CatalogWriter) -> None:
        """Record damage that was found and repaired, as a note of the index. Called at the end of every write."""
        return

    def _bytes_mapped(self) -> int:
        """Return how many bytes of vectors a search maps without loading them."""
        return 0

    def mend(self, *, thoroughly: bool = False) -> str:
        """Return an empty string, unless a subclass can check its lanes."""
        return ""

    # -- catalog -----------------------------------------------------------------------------------------------------

    documents = _reads(CatalogReader.documents, list)
    document = _reads(CatalogReader.document, lambda: None)
    recent = _reads(CatalogReader.recent, list)
    recent_keys = _reads(CatalogReader.recent_keys, lambda: ([], ""))
    tags = _reads(CatalogReader.tags, dict)
    types = _reads(CatalogReader.types, dict)
    authored_chunks = _reads(CatalogReader.authored_chunks, list)
    authored_marks = _reads(CatalogReader.authored_marks, list)
    vectors = _reads(CatalogReader.vectors, dict)
    vector_records = _reads(CatalogReader.vector_records, list)
    chunks_of = _reads(CatalogReader.chunks_of, list)
    resume_point = _reads(CatalogReader.resume_point, str)
    embedded_keys = _reads(CatalogReader.embedded_keys, set)
    pending_of = _reads(CatalogReader.pending_of, list)
    find = _reads(CatalogReader.find, list)
    fetch = _reads(CatalogReader.fetch, dict)
    chunks_by_id = _reads(CatalogReader.chunks_by_id, dict)
    get_note = _reads(CatalogReader.get_note, str)
    chunk_neighbours = _reads(CatalogReader.chunk_neighbours, dict)
    entry_sizes = _reads(CatalogReader.entry_sizes, dict)
    sections = _reads(CatalogReader.sections, dict)
    pending = _reads(CatalogReader.pending, list)
    coverage = _reads(CatalogReader.coverage, lambda: VectorCoverage(0, 0))

    def projects(self) -> dict[str, int]:
        """Return the projects with their chunks; cached until the next write."""
        return dict(self._read_once("projects", CatalogReader.projects) or {})

    def supersessions(self) -> tuple[Supersession, ...]:
        """Return supersessions from anchors, oldest first; cached until the next write."""
        return self._read_once("supersessions", lambda catalog: tuple(catalog.supersessions())) or ()

    def summary_links(self) -> tuple[SummaryLink, ...]:
        """Return summary links from anchors, oldest first; cached until the next write."""
        return self._read_once("summary links", lambda catalog: tuple(catalog.summary_links())) or ()

    def find_remote(self, id_prefix: str) -> list[StoredChunk]:
        """Return nothing, unless a subclass knows other indexes."""
        return []

    def missing_vectors(self, vector_keys: Iterable[str]) -> set[str]:
        with self._open_reader() as catalog:
            return catalog.missing_vectors(vector_keys) if catalog else set(vector_keys)

    def reembed_state(self) -> ReembedState:
        with self._open_reader() as catalog:
            return catalog.reembed_state() if catalog else ReembedState(self._space, "", serves_vectors=False)

    def lane_coverage(self, filters: Filters) -> VectorCoverage:
        """Return the same as `coverage`, unless a subclass searches other indexes too."""
        return self.coverage(filters)

    def stats(self) -> StoreStats:
        with self._open_reader() as catalog:
            projects = catalog.projects() if catalog else {}
            documents = catalog.document_counts() if catalog else {}
            vectors, others = catalog.vector_counts() if catalog else (0, 0)
        return StoreStats(
            documents=sum(documents.values()),
            chunks=sum(projects.values()),
            vectors=vectors,
            other_vectors=others,
            projects=projects,
            bytes_on_disk=folder_bytes(self._folder),
            schema_version=SCHEMA_VERSION,
            location=self._location,
            bytes_mapped=self._bytes_mapped(),
            project_documents=documents,
        )

    def reading(self) -> AbstractContextManager[None]:
        """Return a context that does nothing, unless a subclass has checks to save."""
        return nullcontext()

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process.

        It includes the lanes' states: a vector can be found only after the lane has it, which is later than the catalog.
        """
        with self._open_reader() as catalog:
            if catalog is None:
                return ""
            return f"{catalog.fact('revision')} {self._lane_revisions(catalog.space)}"

    def _lane_revisions(self, space: str) -> str:
        return " ".join(lane.revision() for lane in self._lanes_of(space))

    # -- writing -----------------------------------------------------------------------------------------------------

    def serves_model(self) -> bool:
        with self._open_reader() as catalog:
            return catalog is None or catalog.fact("space") is None or catalog.is_current_space()

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        from lorelog.stores.embedded.catalog_writer import CatalogWriter

        with ExitStack() as stack:
            # Only our own steps are translated: errors that the caller raises inside the block are the caller's.
            with translate_errors(self._path):
                stack.enter_context(hold_lock(self._lock, wait_s=wait_s))
                stack.callback(self._finish_lanes)
                database = stack.enter_context(closing(open_writer(self._path)))
                catalog = CatalogReader(database, self._space)
                if not take_over:
                    catalog.owner = space_owner(catalog.fact("space") or self._space)
            writer = CatalogWriter(self._path, catalog, self._lanes_of, self._space)
            writer.record_lane_owner(self._lane_owner)
            yield writer
            self._report_repairs(writer)
        if writer.swept or self._runs:
            self._after_writing(writer.vectors, thoroughly=writer.swept)

    @contextmanager
    def run(self, *, wait_s: float) -> Iterator[None]:
        with ExitStack() as stack:
            with translate_errors(self._folder):
                stack.enter_context(hold_lock(self._folder / "run.lock", wait_s=wait_s))
            self._runs += 1
            try:
                yield
            finally:
                self._runs -= 1

    def is_running(self) -> bool:
        if self._runs:
            return True
        try:
            with hold_lock(self._folder / "run.lock", wait_s=0.0):
                return False
        except StoreBusy:
            return True
        except OSError:  # a home that is read-only, or not there yet
            return False

    def reset(self) -> None:
        if self._folder.exists():
            with self._close_to_replace():
                for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
                    (self._folder / name).unlink(missing_ok=True)
                self._drop_derived()

    def set_damaged_aside(self) -> str:
        """Rename a damaged catalog, and forget its lanes. The next write begins an empty one."""
        if not self._folder.is_dir():
            return ""
        with self._close_to_replace():
            if not find_catalog_damage(self._path):
                return ""
            aside = set_aside(self._path)
            self._drop_derived()
        return f"{self._path} was damaged and is kept as {aside.name}"

    @contextmanager
    def _close_to_replace(self) -> Iterator[None]:
        """Close all files, and keep other processes from opening them while they are replaced."""
        with (
            translate_errors(self._folder),
            hold_lock(self._folder / "run.lock", wait_s=_RESET_WAIT_S),
            hold_lock(self._lock, wait_s=_RESET_WAIT_S),
            self._turn,
        ):
            self.close()
            yield

    def close(self) -> None:
        self._close_files()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _read_once(self, name: str, read: Callable[[CatalogReader], ReadT]) -> ReadT | None:
        """Return what a function reads from the catalog, cached under a name until the next write; None without a catalog."""
        with self._open_reader() as catalog:
            if catalog is None:
                return None
            revision, (known, value) = catalog.fact("revision") or "", self._read.get(name, ("", None))
            if not revision or known != revision:
                value = read(catalog)
                self._read[name] = (revision, value)
            return cast("ReadT", value)

    def _close_files(self) -> None:
        """Close files: another process may have reset the index and replaced them."""
        with self._readers_lock:
            idle, self._idle_readers, self._inode = self._idle_readers, [], 0
        for catalog in idle:
            catalog.database.close()

    @contextmanager
    def _open_reader(self) -> Iterator[CatalogReader | None]:
        """Yield the catalog, reopened if another process has reset the index, or None if there is none.

        The connection is the thread's own until the end of the block. Blocks inside of it use the same one.
        """
        with translate_errors(self._path):
            current: CatalogReader | None = getattr(self._thread, "catalog", None)
            if current is not None:
                yield current
                return
            catalog = self._take_reader()
            if catalog is None:
                yield None
                return
            self._thread.catalog = catalog
            try:
                catalog.refresh()
                yield catalog if self._has_schema(catalog) else None
            finally:
                self._thread.catalog = None
                with self._readers_lock:
                    is_kept = catalog.inode == self._inode and len(self._idle_readers) < _MAX_IDLE_READERS
                    if is_kept:
                        self._idle_readers.append(catalog)
                if not is_kept:
                    catalog.database.close()

    def _take_reader(self) -> CatalogReader | None:
        """Return a connection that no other thread uses, or None if there is no catalog.

        Another process may be resetting the index, so an error is believed only if it stays.
        """
        for attempt in range(_OPEN_TRIES):
            inode = self._find_inode()
            if not inode:
                return None
            with self._readers_lock:
                if self._idle_readers:
                    return self._idle_readers.pop()
            try:
                catalog = CatalogReader(open_reader(self._path), self._space, inode)
            except StoreError:
                if attempt + 1 == _OPEN_TRIES:
                    raise
                time.sleep(_OPEN_PAUSE_S)
                continue
            if self._find_inode() == inode:
                return catalog
            catalog.database.close()
        return None

    def _find_inode(self) -> int:
        """Return the catalog's inode, or 0 if there is none; connections to a file that was replaced are closed."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            inode = 0
        if inode != self._inode:
            with self._turn:
                self._close_files()
                self._inode = inode
        return inode

    def _drop_derived(self) -> None:
        """Delete lanes and vector files: without the catalog their owners are not known."""
        import shutil

        self._drop_lanes()  # first, because a reader takes a vector file that a lane names and that is gone for damage
        shutil.rmtree(self._folder / "vectors", ignore_errors=True)

    def _has_schema(self, catalog: CatalogReader) -> bool:
        """Return True if the schema exists, brought up to date: a writer may have created the file but not migrated it."""
        if not catalog.has_schema:
            version = catalog.database.execute("PRAGMA user_version").fetchone()[0]
            if 0 < version < SCHEMA_VERSION:
                with hold_lock(self._lock, wait_s=_RESET_WAIT_S):
                    open_writer(self._path).close()
            catalog.has_schema = bool(version)
        return catalog.has_schema

    def _repair(self, catalog: CatalogReader, lane: CatalogLane) -> bool:
        """Rebuild a lane that is missing or was made by another analyser, unless a writer is active or writing is forbidden.

        Return True if there was nothing to do.

        A lane that only lags is used as it is: every chunk visible in the catalog reached the lanes first, and following the
        log is the writer's task. A lane that lags because another kind of store has written follows now. An index that
        serves another model is left alone.
        """
        if not catalog.is_current_space():
            return False
        is_foreign = (catalog.fact("keeper") or "") != self._lane_owner
        if not is_foreign and lane.applied(catalog.database) is not None:
            return True
        if is_foreign or lane is self._lanes_of(self._space)[0] or catalog.vector_counts()[0]:
            with suppress(StoreBusy, StoreUnwritable), self.writer(wait_s=0):
                pass
            catalog.refresh()  # what was read before the write is outdated
        return False


class EmbeddedStore(CatalogStore):
    """An index in one folder, including its lanes."""

    def __init__(
        self, folder: Path, analyser: Analyser, *, provider: str, model: str, exact_up_to: int | None = None
    ) -> None:
        super().__init__(folder, provider=provider, model=model)
        self._lexical = LexicalLane(folder / "lexical", analyser)
        self._dense_options = {} if exact_up_to is None else {"exact_up_to": exact_up_to}
        self._dense_lanes: dict[str, DenseLane] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Check catalog and lanes once."""
        with self._open_reader() as catalog:
            if catalog is None or catalog.is_checked:
                yield
                return
            catalog.is_checked = True
            try:
                yield
            finally:
                catalog.is_checked = False
                catalog.checked_lanes.clear()

    # -- lanes -------------------------------------------------------------------------------------------------------

    def propose(
        self, terms: Sequence[Term], vector: Vector | None, filters: Filters, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates of both lanes. In sequence: each takes less time than starting a thread would save."""
        with self._open_reader() as catalog:
            if catalog is None:
                return [], []
            near: list[Candidate] = []
            if vector is not None:
                lane = self._dense_lane(catalog.space)
                self._repair(catalog, lane)
                admission = catalog.admission(filters)
                near = self._search_mended(lane, lambda: lane.search(vector, admission, limit))
            return (self._search_words(catalog, terms, filters, limit) if terms else []), near

    def _search_words(
        self, catalog: CatalogReader, terms: Sequence[Term], filters: Filters, limit: int
    ) -> list[Candidate]:
        self._repair(catalog, self._lexical)
        if catalog.admits_all(filters):
            filters = Filters()  # a filter that names every project costs as much as one that selects
        try:
            return self._lexical.search(catalog, terms, filters, limit)
        except StoreDamaged:
            # The lane is derived data: rebuild it from the catalog and search again.
            catalog.checked_lanes.discard(self._lexical)
            catalog.usable_lanes.pop(self._lexical, None)
            with self.writer(wait_s=1.0):
                self._lexical.forget()
            self._repair(catalog, self._lexical)
            return self._lexical.search(catalog, terms, filters, limit)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        with self._open_reader() as catalog:
            if catalog is None:
                return dict.fromkeys(words, 0.0)
            self._repair(catalog, self._lexical)
            return self._lexical.rarity(catalog, words)

    def similarities(self, vector: Vector, keys: Sequence[ChunkKey]) -> dict[ChunkKey, float]:
        with self._open_reader() as catalog:
            if catalog is None:
                return {}
            lane = self._dense_lane(catalog.space)
            return self._search_mended(lane, lambda: lane.similarities(vector, keys))

    def compare(self, *, repair: bool = False) -> StoreComparison:
        """Compare every vector with the catalog, and check the files by their checksums; `repair` rebuilds both lanes."""
        with self._open_reader() as catalog:
            if catalog is None:
                return StoreComparison("", 0, 0, repaired=repair)
            chunks = catalog.coverage(Filters()).chunks
            followed = self._lexical.applied(catalog.database)
            indexed = 0 if followed is None else chunks
            lane = self._dense_lane(catalog.space)
            damage = ", ".join(filter(None, [find_catalog_damage(self._path), lane.damage()]))
            missing, surplus, unlike = lane.compare(catalog.database)
            from lorelog.stores.embedded import vector_file

            space = vector_file.find_space(catalog.database, catalog.space)
            unlike += len(vector_file.find_damage(catalog.database, space))
        if repair:
            with self.writer() as writer:
                cast("CatalogWriter", writer).mend_vectors()
                self._lexical.forget()
                self._dense.forget()
            with self.writer():
                pass
        return StoreComparison(
            "",
            chunks,
            indexed,
            missing=chunks - indexed,
            unlike=unlike + missing,
            surplus=surplus,
            repaired=repair,
            damage=damage,
        )

    def mend(self, *, thoroughly: bool = False) -> str:
        """Check the vector files by their checksums and rebuild damaged ones; return what was damaged."""
        with self._open_reader() as catalog:
            if catalog is None or not catalog.is_current_space():
                return ""
            lane = self._dense_lane(catalog.space)
            if not thoroughly and not lane.is_check_due():
                return ""
        with self.writer(wait_s=_MEND_WAIT_S) as opened:
            writer = cast("CatalogWriter", opened)
            writer.mend_vectors()
            found = [writer.mended, lane.mend(writer.catalog.database) or lane.mended]  # or what opening has mended
            return ", ".join(filter(None, found))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _repair(self, catalog: CatalogReader, lane: CatalogLane) -> bool:
        if lane in catalog.checked_lanes:
            return True
        # A lane that was usable and has not changed, like the catalog, is usable.
        revision = lane.revision()
        is_usable = catalog.usable_lanes.get(lane) == revision or super()._repair(catalog, lane)
        if is_usable:
            catalog.usable_lanes[lane] = revision
        if catalog.is_checked:
            catalog.checked_lanes.add(lane)
        return is_usable

    def _lanes_of(self, space: str) -> tuple[LexicalLane, DenseLane]:
        return self._lexical, self._dense_lane(space)

    def _lane_revisions(self, space: str) -> str:
        return f"{self._lexical.revision()} {change_log.state_token(self._dense_state(space))}"

    def _dense_state(self, space: str) -> Path:
        return change_log.space_folder(self._folder / "dense", space) / "current.json"

    def _dense_lane(self, space: str) -> DenseLane:
        if space not in self._dense_lanes:
            from lorelog.stores.embedded.dense import DenseLane

            self._dense_lanes[space] = DenseLane(self._folder / "dense", space, **self._dense_options)
        return self._dense_lanes[space]

    @property
    def _dense(self) -> DenseLane:
        """The lane of this model's current vector space."""
        with self._open_reader() as catalog:
            return self._dense_lane(self._space if catalog is None else catalog.space)

    def _search_mended(self, lane: DenseLane, search: Callable[[], ReadT]) -> ReadT:
        """Search a lane; if it is damaged, rebuild it from the catalog first, unless the index is locked or read-only."""
        try:
            return search()
        except StoreDamaged as error:
            try:
                with self.writer(wait_s=_MEND_WAIT_S) as opened:
                    writer = cast("CatalogWriter", opened)
                    writer.mend_vectors()
                    lane.mend(writer.catalog.database)
            except (StoreBusy, StoreUnwritable):
                raise error from None
            return search()

    def _finish_lanes(self) -> None:
        self._lexical.finish()

    def _report_repairs(self, writer: CatalogWriter) -> None:
        lanes = list(self._dense_lanes.values())
        mended = ", ".join(filter(None, [writer.mended, *(lane.mended for lane in lanes)]))
        if mended:
            at = datetime.now(UTC).isoformat(timespec="seconds")
            writer.set_note(REPAIR_NOTE, f"{at} {mended}")
        for lane in lanes:
            lane.mended = ""

    def _close_files(self) -> None:
        with self._turn:
            self._lexical.close()
            for lane in list(self._dense_lanes.values()):
                lane.close()
            super()._close_files()

    def _drop_lanes(self) -> None:
        import shutil

        for lane in ("lexical", "dense"):
            gone = self._folder / f"{lane}.deleted"
            shutil.rmtree(gone, ignore_errors=True)  # of a process that was killed here
            if (self._folder / lane).exists():
                (self._folder / lane).rename(gone)  # at once, so that no reader meets a part of it
                shutil.rmtree(gone)

    def _bytes_mapped(self) -> int:
        with self._open_reader() as catalog:
            space = self._space if catalog is None else catalog.space
            return self._dense_lane(space).mapped_bytes() if self._dense_state(space).exists() else 0

    def _after_writing(self, vectors: CatalogLane, *, thoroughly: bool) -> None:
        """Build codes for a dense lane that has grown. Others may read and write meanwhile; only the swap needs the lock.

        This is for index runs: adding one entry should not wait for it. The write before it is complete, so a failure here
        only leaves searches slower.
        """
        dense = cast("DenseLane", vectors)
        with suppress(StoreError), translate_errors(self._folder):
            if not dense.needs_codes(thoroughly=thoroughly):
                return
            with hold_lock(self._folder / "codes.lock", wait_s=0):
                new_state = dense.make_codes()
                if new_state is not None:
                    with hold_lock(self._lock, wait_s=_SWAP_WAIT_S):
                        dense.adopt_codes(new_state)
