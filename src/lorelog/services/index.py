"""Bringing the index up to date with the files.

Order matters more than speed here. Words first: a document that is new, or only grew, is put at once and its
vectors arrive later. A document whose text was replaced waits for its new vectors, because until they are there the
old version is worth more than half of the new one; if the model fails, the old version stays and the file is
reported. Nothing is read that its stamp says we know, nothing is embedded whose vector we have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

from lorelog.core.document import Chunk, Document, SourceFile, Stamp
from lorelog.core.errors import ModelError, SourceError, StoreBusy, UsageError
from lorelog.core.memory import IndexReport, Problem, Reembedding
from lorelog.core.options import ChunkOptions, ScanOptions
from lorelog.core.ports import DocumentUpdate, Embedder, PendingText, Progress, Store, StoreWriter
from lorelog.ingest.scan import ScanResult, read_text, scan
from lorelog.services.changeover import Former, is_due, settle, why_kept
from lorelog.services.embedding import Embedding
from lorelog.services.hiding import hide_missed, is_in_step
from lorelog.services.probe import keep_fresh
from lorelog.services.reading import Reading, now
from lorelog.services.roots import Root, owner
from lorelog.services.tally import Tally
from lorelog.services.tombstones import Tombstones

_CHUNKS_A_PUT = 2_000
_TEXTS_A_ROUND = 2_000
_WAIT_FOR_RUN_S = 3600.0
_WAIT_TO_WRITE_S = 120.0
_PATIENCE_S = 0.5


@dataclass(frozen=True, slots=True)
class IndexJob:
    """What to index and how."""

    roots: tuple[Root, ...]
    known_roots: tuple[Root, ...]
    """Every root of the tenant: a file belongs to the innermost one that holds it."""
    scan: ScanOptions
    chunking: ChunkOptions
    force: bool = False
    """Read and chunk every file again, whatever its stamp says."""
    batch_size: int = 32
    """How many texts go to the model at once."""
    words_only: bool = False
    """Leave the vectors to a later run."""
    reembed: bool = False
    """Make all vectors of the index anew, whatever is known of the files."""
    anyway: bool = False
    """Serve them also when they find less than the old ones."""
    former: Former = lambda _: None
    """Gives the model that made the vectors that the index serves, for as long as it can be asked."""
    patient: bool = True
    """Wait for another run and other writers; otherwise raise StoreBusy, for whoever comes again by themselves."""
    named: bool = False
    """Whether someone named these roots just now, and must be told when one is not there."""
    journals: frozenset[str] = frozenset()
    """Roots that hold journals."""
    tombstones: Tombstones | None = None
    """What is deleted, and left out of what a file is cut into."""


def _quiet(stage: str, done: int, total: int) -> None:
    """Progress for whoever does not watch."""


class IndexRun:
    """One run over one store. `embedder` is None where there is no model and nothing ever waits for one."""

    def __init__(
        self, store: Store, embedder: Embedder | None, job: IndexJob, progress: Progress | None = None
    ) -> None:
        self._store = store
        self._embedder = None if job.words_only else embedder
        self._has_model = embedder is not None
        self._job = job
        self._progress = progress or _quiet
        self._reading = Reading(job.chunking, job.tombstones)
        self._tally = Tally()
        self._vectors = Embedding(store, self._embedder, self._writer, self._tally, self._progress, job.batch_size)
        self._changing = False
        self.bad_roots: frozenset[str] = frozenset()
        """Roots that could not be looked at themselves; a file in one, or a model that is down, is no fault of a root."""

    def over_roots(self) -> IndexReport:
        """Scan the job's roots and bring all of them up to date."""
        started = time.monotonic()
        dimension = self._try_model() if self._job.reembed else 0
        with self._alone():
            self._changing = self._is_changing()
            # Takes over an index that has no vectors yet, and repairs what a crash left.
            bare = not self._store.changeover().serves_vectors
            with self._writer(take_over=self._embedder is not None and bare) as writer:
                if self._changing:
                    writer.begin_beside(dimension)
                if self._job.tombstones is not None:
                    hide_missed(self._store, writer, self._job.tombstones)
            known, found = self._look()
            self.bad_roots = frozenset(problem.path for problem in found.problems)
            self._tally.problems += map(self._with_way_out, found.problems)
            if found.outside:
                more = f" and {len(found.outside) - 1} more" if len(found.outside) > 1 else ""
                self._tally.notes.append(
                    f"left alone, because it leads out of the indexed paths: {found.outside[0]}{more}"
                )
            self._take(found.files, known)
            self._remove(self._vanished(known, found))
            if self._embedder is not None and self._changing:
                self._change_vectors(self._embedder)
            self._embed_pending()
            if self._tally.changed or self._tally.removed or self._tally.embedded:
                with self._writer() as writer:
                    writer.sweep()
            if self._embedder is not None and self._vectors.error is None:
                keep_fresh(self._store, self._embedder)
        return self._tally.report(started, self._waiting())

    def over_file(self, file: SourceFile) -> IndexReport:
        """Bring one file up to date, without waiting for a longer run."""
        return self.over_files([file])

    def over_files(self, files: Sequence[SourceFile], gone: Sequence[str] = ()) -> IndexReport:
        """Bring some files up to date, and let some others go, without waiting for a longer run."""
        started = time.monotonic()
        known = [self._store.document(file.path) for file in files]
        self._take(files, {one.source: one for one in known if one is not None})
        self._remove(gone)
        stored = [one for file in files for one in self._store.chunks_of(file.path)]
        texts = _texts_of(one.chunk for one in stored if not one.has_vector)
        # An index that serves another model keeps serving it: one entry must not turn over all the others.
        if self._embedder is not None and texts and self._store.serves_model():
            self._vectors.make(texts, [file.path for file in files])
        return self._tally.report(started, self._waiting())

    def would_change(self) -> bool:
        """Say whether a run over the roots has anything to do, by stamps alone: nothing is read, nothing locked."""
        stones = self._job.tombstones
        # Another model's index cannot tell, and would seem to change for ever.
        if stones is not None and self._store.serves_model() and not is_in_step(self._store, stones):
            return True
        known, found = self._look()
        if any((old := known.get(file.path)) is None or not self._is_known(old, file) for file in found.files):
            return True
        waiting = self._embedder is not None and self._waiting() > 0
        return waiting or bool(self._vanished(known, found))

    def _look(self) -> tuple[dict[str, Document], ScanResult]:
        """Return what is known and what is there, deleted files that were roots among it."""
        # What is known is asked first: a journal that is written and indexed while we scan is then not missed.
        known = {document.source: document for document in self._store.documents()}
        gone = self._gone_files()
        found = scan([root.path for root in self._job.roots if root.path not in gone], self._scan_options())
        return known, replace(found, roots=(*found.roots, *gone))

    def _vanished(self, known: Mapping[str, Document], found: ScanResult) -> list[str]:
        taken, roots = {file.path for file in found.files}, set(found.roots)
        return [
            source
            for source, document in known.items()
            if document.root in roots and source not in taken and not found.keeps(source)
        ]

    def _remove(self, sources: Sequence[str]) -> None:
        if sources:
            with self._writer() as writer:
                self._tally.removed += writer.remove(sources)

    # -- words -------------------------------------------------------------------------------------------------------

    def _take(self, files: Sequence[SourceFile], known: Mapping[str, Document]) -> None:
        self._tally.files = len(files)
        ready: list[DocumentUpdate] = []
        waiting: list[SourceFile] = []
        touched: list[Document] = []
        waiting_chunks = 0
        for done, file in enumerate(files, 1):
            old = known.get(file.path)
            if old is not None and not self._job.force and self._is_known(old, file):
                self._tally.unchanged += 1
                continue
            update = self._read(file, self._owner(file), old, touched)
            if update is not None and self._replaces_text(update, old):
                waiting.append(file)
            elif update is not None:
                ready.append(update)
                waiting_chunks += 1 + len(update.chunks)
            if waiting_chunks >= _CHUNKS_A_PUT:
                self._put(ready)
                ready, waiting_chunks = [], 0
            self._progress("words", done, len(files))
        self._put(ready)
        if touched:
            with self._writer() as writer:
                writer.touch(touched)
            self._tally.touched += len(touched)
        self._put_with_vectors(waiting)

    def _is_known(self, old: Document, file: SourceFile) -> bool:
        root = self._owner(file)
        filed = old.root == root.path and old.project == root.project
        return old.stamp == file.stamp and filed and self._reading.is_current(old)

    def _read(
        self, file: SourceFile, root: Root, old: Document | None, touched: list[Document]
    ) -> DocumentUpdate | None:
        try:
            text, digest = read_text(file)
        except SourceError as error:
            self._tally.problems.append(Problem(file.path, error.message, error.hint))
            return None
        same = old is not None and (old.file_hash, old.project) == (digest, root.project)
        if same and old is not None and not self._job.force and self._reading.is_current(old):
            touched.append(replace(old, root=root.path, stamp=file.stamp, indexed_at=now()))
            return None
        return self._reading.cut(file, root, text, digest)

    def _replaces_text(self, update: DocumentUpdate, old: Document | None) -> bool:
        """Say whether the update takes embedded text away that is not in the new version."""
        if old is None or self._embedder is None or self._changing:
            return False
        stays = {chunk.vector_key for chunk in update.chunks}
        return any(one.has_vector and one.chunk.vector_key not in stays for one in self._store.chunks_of(old.source))

    def _put(self, updates: Sequence[DocumentUpdate]) -> None:
        if not updates:
            return
        with self._writer() as writer:
            current = [self._current(update) for update in updates]
            writer.put(current)
        self._tally.changed += len(current)
        self._tally.chunks += sum(len(update.chunks) for update in current)

    def _current(self, update: DocumentUpdate) -> DocumentUpdate:
        """Return the update as it is right now: whoever holds the writer's lock has the last word.

        It is made anew if the file changed since, or something of it was brought back; what was deleted since is left out.
        """
        document = update.document
        try:
            stamp = Stamp.of(os.stat(document.source))  # noqa: PTH116  (a plain call for every file)
        except OSError:
            return self._reading.without_deleted(update)
        if stamp != document.stamp or not self._reading.is_current(document):
            root = Root(document.root, document.project)
            update = self._read(SourceFile(document.source, document.root, stamp), root, None, []) or update
        return self._reading.without_deleted(update)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def _put_with_vectors(self, files: Sequence[SourceFile]) -> None:
        """Put documents whose text was replaced, each group once its vectors are there.

        They are read a second time rather than held: a branch switch may have replaced thousands.
        """
        kept = 0
        updates = (self._read(file, self._owner(file), None, []) for file in files)
        for group in _grouped(update for update in updates if update is not None):
            texts = _texts_of(chunk for update in group for chunk in update.chunks)
            missing = self._store.missing_vectors([one.vector_key for one in texts])
            wanted = [one for one in texts if one.vector_key in missing]
            if self._vectors.make(wanted, [update.document.source for update in group]):
                self._put(group)
            else:
                kept += len(group)
        if kept:
            which = "1 changed file is" if kept == 1 else f"{kept:,} changed files are"
            self._tally.notes.append(f"{which} found as before, until the model answers again")

    def _embed_pending(self) -> None:
        if self._embedder is None:
            return
        while self._vectors.error is None:
            pending = self._vectors.left(self._store.pending, _TEXTS_A_ROUND)
            if not pending:
                return
            if not self._vectors.make(pending, [pending[0].source]):
                left = self._waiting()
                self._tally.notes.append(f"{left} chunks are found by words only until the model answers again")

    def _try_model(self) -> int:
        """Return how many dimensions the model's vectors have: nothing is begun for one that does not answer."""
        if self._embedder is None:
            raise UsageError("there is no model to make vectors with", hint="--reembed needs one: embedding.provider")
        return len(self._embedder.embed_query("lorelog")) // 4

    # -- other vectors -----------------------------------------------------------------------------------------------

    def _is_changing(self) -> bool:
        """Say whether this run makes vectors beside those that the index serves; note where it is kept from that."""
        if self._embedder is None:
            return False
        known = self._store.changeover()
        if not self._job.reembed:
            self._tally.notes += filter(None, [why_kept(known)])
        return is_due(known, asked=self._job.reembed, patient=self._job.patient)

    def _change_vectors(self, embedder: Embedder) -> None:
        """Make what is missing beside, compare, and serve the new vectors unless they are clearly worse."""
        known = self._store.changeover()
        self._tally.reembedding = Reembedding(known.served, known.begun, 0)
        while pending := self._vectors.left(self._store.pending_beside, _TEXTS_A_ROUND):
            if not self._vectors.make(pending, [pending[0].source], beside=True):
                self._tally.notes.append(
                    f"searches go on with the vectors of {known.served}; the next 'lorelog index' goes on from here"
                )
                return
        try:
            self._tally.reembedding = settle(
                self._store, embedder, self._job.former, self._writer, anyway=self._job.anyway
            )
        except ModelError as error:
            self._vectors.error = error
            self._tally.problems.append(Problem(known.begun, f"not compared: {error.message}", error.hint))

    # -- inside ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                held.enter_context(self._store.run(wait_s=0))
            except StoreBusy as busy:
                if not self._job.patient:
                    raise
                self._tally.notes.append(f"waited: {busy.message}")
                self._progress("waiting", 0, 0)
                held.enter_context(self._store.run(wait_s=_WAIT_FOR_RUN_S))
            yield

    def _with_way_out(self, problem: Problem) -> Problem:
        """Return a problem, with what to do about it when it is a known root that is no longer there."""
        if not any(root.path == problem.path and not root.exists() for root in self._job.known_roots):
            return problem
        way_out = f"what was indexed from it is kept; 'lorelog index --forget {problem.path}' drops it"
        return replace(problem, hint=way_out)

    def _scan_options(self) -> ScanOptions:
        roots = self._job.roots
        return replace(
            self._job.scan,
            exclude_paths=(*self._job.scan.exclude_paths, *(path for root in roots for path in root.exclude)),
            exclude_in={root.path: root.patterns for root in roots if root.patterns},
            unruled=frozenset(root.path for root in roots if root.path in self._job.journals),
        )

    def _owner(self, file: SourceFile) -> Root:
        found = owner(file.path, (*self._job.known_roots, *self._job.roots))
        if found is None:  # a scan only finds what lies in a root, and whoever names a file names its root
            raise UsageError(f"{file.path} lies outside {file.root}")
        return found

    def _gone_files(self) -> frozenset[str]:
        """Return the single files indexed before that have been deleted. One that was named just now is a mistake."""
        return (
            frozenset() if self._job.named else frozenset(root.path for root in self._job.roots if root.is_gone_file())
        )

    def _writer(self, *, take_over: bool = False) -> AbstractContextManager[StoreWriter]:
        wait_s = _WAIT_TO_WRITE_S if self._job.patient else _PATIENCE_S
        return self._store.writer(wait_s=wait_s, take_over=take_over)

    def _waiting(self) -> int:
        return self._vectors.waiting() if self._has_model else 0


def _texts_of(chunks: Iterable[Chunk]) -> list[PendingText]:
    """Return the texts of chunks, each vector key once."""
    found = {one.vector_key: PendingText(one.vector_key, one.embedded_text, one.source) for one in chunks}
    return list(found.values())


def _grouped(updates: Iterable[DocumentUpdate]) -> Iterator[list[DocumentUpdate]]:
    group: list[DocumentUpdate] = []
    chunks = 0
    for update in updates:
        group.append(update)
        chunks += 1 + len(update.chunks)
        if chunks >= _CHUNKS_A_PUT:
            yield group
            group, chunks = [], 0
    if group:
        yield group
