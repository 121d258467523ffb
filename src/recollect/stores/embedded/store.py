"""The embedded store itself: opens what is needed when it is needed, and keeps readers apart from the writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock

from recollect.core.document import Document, Key, StoredChunk
from recollect.core.errors import StoreBusy, StoreDamaged, StoreError, StoreUnwritable
from recollect.core.ports import Analyser, PendingText, StoreStats, StoreWriter, Surroundings, Vector
from recollect.core.query import Candidate, Coverage, Filters, Term
from recollect.stores.embedded.connection import open_reader, open_writer
from recollect.stores.embedded.dense import EXACT_UP_TO, DenseLane
from recollect.stores.embedded.faults import translating
from recollect.stores.embedded.lexical import LexicalLane
from recollect.stores.embedded.lock import hold
from recollect.stores.embedded.migrations import SCHEMA_VERSION
from recollect.stores.embedded.reading import CatalogReader
from recollect.stores.embedded.writing import EmbeddedWriter

_WAIT_TO_RESET_S = 2.0
_WAIT_TO_SWAP_S = 30.0


class EmbeddedStore:
    """An index in one folder, seen under one model. Reading an index that is not there finds nothing and creates nothing."""

    def __init__(
        self, folder: Path, analyser: Analyser, *, provider: str, model: str, exact_up_to: int = EXACT_UP_TO
    ) -> None:
        self._folder = folder
        self._path = folder / "catalog.db"
        self._lock = folder / "writer.lock"
        self._space = f"{provider}/{model}"
        self._model = model
        self._lexical = LexicalLane(folder / "lexical", analyser)
        self._dense_lane = partial(DenseLane, folder / "dense", exact_up_to=exact_up_to)
        self._dense = self._dense_lane(self._space)
        self._catalog: CatalogReader | None = None
        self._inode = 0
        self._founded = False
        self._runs = 0
        # Readers of one process take turns: a connection must not be closed while another thread reads from it.
        self._turn = RLock()

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

    def chunks_of(self, source: str) -> list[StoredChunk]:
        """Return a document's chunks in file order; empty when it is unknown."""
        with self._reading() as catalog:
            return catalog.chunks_of(source) if catalog else []

    def find(self, id_prefix: str) -> list[StoredChunk]:
        """Return chunks whose id, or whose anchor's memory id, starts so; at most 10, by id."""
        with self._reading() as catalog:
            return catalog.find(id_prefix) if catalog and id_prefix else []

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

    def coverage(self, filters: Filters) -> Coverage:
        """Return how many of the admitted chunks have vectors."""
        with self._reading() as catalog:
            return catalog.coverage(filters) if catalog else Coverage(0, 0)

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
            location=str(self._folder),
            bytes_mapped=self._dense.mapped_bytes(),
        )

    def revision(self) -> str:
        """Return a token that changes with every completed write of any process.

        The lanes' states are part of it: a vector is found from when the lane has it, which is after the catalog has.
        """
        with self._reading() as catalog:
            if catalog is None:
                return ""
            return f"{catalog.fact('revision')} {self._lexical.revision()} {self._dense.revision()}"

    # -- lanes -------------------------------------------------------------------------------------------------------

    def lexical(self, terms: Sequence[Term], filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks that contain any of the terms, best BM25 first, at most `limit`."""
        with self._reading() as catalog:
            if catalog is None:
                return []
            self._repair(catalog, self._lexical)
            if catalog.admission(filters) is None:
                filters = Filters()  # naming every project costs as much as choosing among them
            try:
                return self._lexical.search(terms, filters, limit)
            except StoreDamaged:
                # The lane is derived: made anew from the catalog, it answers.
                with self.writer(wait_s=1.0):
                    self._lexical.forget()
                self._repair(catalog, self._lexical)
                return self._lexical.search(terms, filters, limit)

    def dense(self, vector: Vector, filters: Filters, limit: int) -> list[Candidate]:
        """Return chunks by cosine with a unit vector, best first, at most `limit`."""
        with self._reading() as catalog:
            if catalog is None:
                return []
            self._repair(catalog, self._dense)
            return self._dense.search(vector, catalog.admission(filters), limit)

    def rarity(self, words: Sequence[str]) -> dict[str, float]:
        """Return BM25's weight of each word."""
        with self._reading() as catalog:
            if catalog is None:
                return dict.fromkeys(words, 0.0)
            self._repair(catalog, self._lexical)
            return self._lexical.rarity(words)

    def similarities(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        """Return the cosine of each of these chunks that has a vector."""
        with self._reading() as catalog:
            if catalog is None:
                return {}
            return self._dense.similarities(vector, keys)

    # -- writing -----------------------------------------------------------------------------------------------------

    def serves_model(self) -> bool:
        """Say whether the ids and vectors of the index are this model's."""
        with self._reading() as catalog:
            return catalog is None or catalog.fact("space") in (None, self._space)

    @contextmanager
    def writer(self, *, wait_s: float = 10.0, take_over: bool = False) -> Iterator[StoreWriter]:
        """Become the one writer. Raise StoreBusy when another stays it longer than `wait_s`."""
        with ExitStack() as held:
            # Only our own steps are translated: what the caller raises inside the block is the caller's.
            with translating(self._path):
                held.enter_context(hold(self._lock, wait_s=wait_s))
                database = held.enter_context(closing(open_writer(self._path)))
                space, model = self._space, self._model
                if not take_over:
                    known = CatalogReader(database, space)
                    space, model = known.fact("space") or space, known.fact("model") or model
            dense = self._dense if space == self._space else self._dense_lane(space)
            writer = EmbeddedWriter(self._path, CatalogReader(database, space), self._lexical, dense, model)
            yield writer
        if writer.swept or self._runs:
            self._refine(dense, thoroughly=writer.swept)

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
        import shutil

        with (
            translating(self._folder),
            hold(self._folder / "run.lock", wait_s=_WAIT_TO_RESET_S),
            hold(self._lock, wait_s=_WAIT_TO_RESET_S),
            self._turn,
        ):
            self.close()
            for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
                (self._folder / name).unlink(missing_ok=True)
            for lane in ("lexical", "dense"):
                if (self._folder / lane).exists():
                    shutil.rmtree(self._folder / lane)

    def close(self) -> None:
        """Let go of files. May be called twice."""
        with self._turn:
            self._lexical.close()
            self._dense.close()
            if self._catalog is not None:
                self._catalog.database.close()
                self._catalog = None

    # -- inside ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[CatalogReader | None]:
        """Give the catalog, opened anew when another process has reset the index, or None when there is none."""
        with self._turn, translating(self._path):
            try:
                inode = self._path.stat().st_ino
            except FileNotFoundError:
                self.close()
                yield None
                return
            if self._catalog is None or inode != self._inode:
                self.close()
                self._catalog = self._open_catalog()
                self._inode = inode
                self._founded = False
            yield self._catalog if self._catalog and self._is_founded(self._catalog) else None

    def _refine(self, dense: DenseLane, *, thoroughly: bool) -> None:
        """Make codes of a dense lane that has grown. Others may read and write meanwhile; only the swap needs the lock.

        This is work for an index run: whoever adds one entry should not wait for it. The write that came before is done and safe: whatever goes wrong here only leaves searches slower.
        """
        with suppress(StoreError), translating(self._folder):
            if not dense.wants_codes(thoroughly=thoroughly):
                return
            with hold(self._folder / "codes.lock", wait_s=0):
                made = dense.make_codes()
                if made is not None:
                    with hold(self._lock, wait_s=_WAIT_TO_SWAP_S):
                        dense.take_codes(made)

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

    def _repair(self, catalog: CatalogReader, lane: LexicalLane | DenseLane) -> None:
        """Build a lane anew that is missing or was made by another analyser, unless a writer is at work or none may be.

        A lane that only lags is used as it is: what is visible in the catalog reached it first, and following the log
        is the writer's work. An index that serves another model is left alone.
        """
        if not catalog.is_current_space() or lane.applied(catalog.database) is not None:
            return
        if lane is self._lexical or catalog.vector_counts()[0]:
            with suppress(StoreBusy, StoreUnwritable), self.writer(wait_s=0):
                pass


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*") if folder.exists() else ():
        with suppress(OSError):  # a lane may be swapped while we look
            total += path.stat().st_size if path.is_file() else 0
    return total
