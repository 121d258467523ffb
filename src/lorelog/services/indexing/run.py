"""One index run: bring the index up to date with the files.

Text is indexed first: a document that is new, or only grew, is searchable by keywords at once, and its vectors follow. A document
whose text was replaced waits for its new vectors, because until then the old version is more useful than half of the new one; if
the model fails, the old version stays and the file is reported. Files with known stamps are not read, and texts with known
vectors are not embedded.

A model that fails is not called again in the same run; the vectors it made are kept. A single text that the model refuses does not
stop the run: it is found by keywords, and its file is reported.

The vectors of another model are made beside the old ones, which keep answering, and replace them all at once. The previous vectors
are kept for a rollback.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from lorelog.core.document import Document, FileStamp, SourceFile
from lorelog.core.errors import ModelError, ModelFault, SourceError, StoreBusy, StoreError, UsageError, plural
from lorelog.core.memory import FileProblem, IndexReport, ReembedReport, count_failed
from lorelog.core.paths import is_below
from lorelog.core.ports import (
    DocumentUpdate,
    Embedder,
    PendingText,
    Progress,
    ReembedState,
    Store,
    StoreWriter,
    Vector,
    batches_of,
)
from lorelog.core.query import Filters
from lorelog.core.serializable import utc_now
from lorelog.ingest.embed import BatchSizer, embed_texts
from lorelog.ingest.files import ScanResult, read_text, scan
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.documents import Continuation, DocumentBuilder, read_continuation
from lorelog.services.memory_state.tombstones import apply_missed_deletions, is_in_sync
from lorelog.services.places.roots import Root, find_innermost_root


class IndexCounters(Struct):
    """Counts of a run so far."""

    files: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    truncated: int = 0
    problems: list[FileProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reembedding: ReembedReport | None = None

    def report(self, started: float, waiting: int) -> IndexReport:
        """Return the report of a run that began at `started` (of `time.monotonic`); `waiting` chunks have no vector."""
        lists = {"problems": tuple(self.problems), "notes": tuple(self.notes), "failed": count_failed(self.problems)}
        seconds = round(time.monotonic() - started, 3)
        return replace(IndexReport(waiting=waiting, seconds=seconds), **(asdict(self) | lists))


class VectorMaker:
    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        open_writer: Callable[[], AbstractContextManager[StoreWriter]],
        counters: IndexCounters,
        progress: Progress,
        batch_size: int,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._open_writer = open_writer
        self._counters = counters
        self._progress = progress
        self._sizer = BatchSizer(batch_size)
        self._refused: set[str] = set()
        self.error: ModelError | None = None  # set once the model has failed

    def embed(self, texts: Sequence[PendingText], sources: Sequence[str], *, beside: bool = False) -> bool:
        """Embed texts; return False if the model fails, and then report `sources` as lacking vectors."""
        pending = {text.vector_key: text.text for text in texts if text.vector_key not in self._refused}
        if not pending:
            return True
        if self.error is None:
            try:
                refused = self._embed(pending, beside=beside)
            except ModelError as error:
                self.error = error
            else:
                self._refused |= refused.keys()
                self._counters.problems += [
                    FileProblem(
                        text.source,
                        f"no vector for one of its texts: {refused[text.vector_key]}",
                        "it is found by keywords; another embedding.model may accept it",
                    )
                    for text in texts
                    if text.vector_key in refused
                ]
                return True
        message = f"no vectors: {self.error.message}"
        self._counters.problems += [FileProblem(source, message, self.error.hint) for source in sources]
        return False

    def pending(self, limit: int, *, shadow: bool = False) -> list[PendingText]:
        """Return up to `limit` texts without a vector that were not refused."""
        texts = self._store.pending(limit + len(self._refused), shadow=shadow)
        return [text for text in texts if text.vector_key not in self._refused]

    def count_missing(self) -> int:
        """Return the number of chunks without a vector."""
        coverage = self._store.coverage(Filters())
        return coverage.chunks - coverage.with_vectors

    def _embed(self, texts: Mapping[str, str], *, beside: bool) -> Mapping[str, str]:
        """Embed and store texts by key; return the refused ones with the reason."""
        if self._embedder is None:
            return {}
        done_before = self._counters.embedded
        # Slightly too high if chunks share a text; it is used for the progress bar only.
        waiting = self._store.reembed_state().waiting if beside else self.count_missing()
        total = done_before + max(len(texts), waiting)
        self._progress("vectors", done_before, total)

        def keep(vectors: Mapping[str, Vector]) -> None:
            with self._open_writer() as writer:
                writer.put_vectors(vectors, shadow=beside)
            self._counters.embedded += len(vectors)
            self._progress("vectors", self._counters.embedded, total)

        report = embed_texts(self._embedder, texts, keep, sizer=self._sizer)
        self._counters.truncated += report.truncated
        if self._counters.embedded - done_before + len(report.refused) != len(texts):
            raise ModelFault("the model left texts without vectors")
        return report.refused


_CHUNKS_PER_PUT = 2_000
_TEXTS_PER_ROUND = 2_000
_WAIT_FOR_RUN_S = 3600.0
_WAIT_TO_WRITE_S = 120.0
_SHORT_WAIT_S = 0.5
_WAIT_STEP_S = 0.5
"""How often a waiting run reports what it waits for, and notices that it was cancelled."""


class IndexRun:
    """One run over one store. Without an `embedder` nothing waits for vectors."""

    def __init__(
        self, store: Store, embedder: Embedder | None, job: IndexJob, progress: Progress | None = None
    ) -> None:
        self._store = store
        self._embedder = None if job.words_only else embedder
        self._has_model = embedder is not None
        self._job = job
        self._progress = progress or (lambda stage, done, total: None)
        self._builder = DocumentBuilder(job.chunking, job.tombstones)
        self._counters = IndexCounters()
        self._vectors = VectorMaker(
            store,
            self._embedder,
            open_writer=self._writer,
            counters=self._counters,
            progress=self._progress,
            batch_size=job.batch_size,
        )
        self._is_reembedding = False
        self.bad_roots: frozenset[str] = frozenset()
        """Roots that could not be read themselves, or were named and have no files; a faulty file or model does not count."""

    def over_roots(self) -> IndexReport:
        """Scan the job's roots and bring all of them up to date."""
        started = time.monotonic()
        dimension = 0
        if self._job.reembed:  # fails before anything is begun if the model does not answer
            if self._embedder is None:
                raise UsageError("--reembed requires an embedding model", hint="set embedding.provider")
            dimension = len(self._embedder.embed_query("lorelog")) // 4
        with self._exclusive_run():
            self._is_reembedding = self._should_reembed()
            # Takes over an index without vectors, and repairs the leftovers of a crash.
            without_vectors = not self._store.reembed_state().serves_vectors
            with self._writer(take_over=self._embedder is not None and without_vectors) as writer:
                if self._is_reembedding:
                    writer.begin_shadow_vectors(dimension)
                if self._job.tombstones is not None:
                    apply_missed_deletions(self._store, writer, self._job.tombstones)
            documents, result = self._scan_roots()
            self.bad_roots = frozenset(problem.path for problem in result.problems) | self._empty_roots(result)
            missing = {root.path for root in self._job.known_roots if not root.exists()}
            hint = "its documents are kept; 'lorelog index --remove {}' removes them"
            self._counters.problems += [
                replace(problem, hint=hint.format(problem.path)) if problem.path in missing else problem
                for problem in result.problems
            ]
            if result.outside_links:
                more = f" and {len(result.outside_links) - 1} more" if len(result.outside_links) > 1 else ""
                self._counters.notes.append(
                    f"links that lead out of the indexed paths were not followed: {result.outside_links[0]}{more}"
                )
            if result.passed_over and self._job.named:
                counts = ", ".join(plural(count, f"{suffix} file") for suffix, count in result.passed_over.items())
                wanted = json.dumps(sorted({*self._job.scan.extensions, *result.passed_over}))
                self._counters.notes.append(
                    f"passed over: {counts}; to index them: lorelog config set index.extensions {wanted!r}, and index again"
                )
            self._index_words(result.files, documents)
            self._remove(self._vanished(documents, result))
            if self._embedder is not None and self._is_reembedding:
                self._reembed()
            self._embed_pending()
            if self._counters.changed or self._counters.removed or self._counters.embedded:
                with self._writer() as writer:
                    writer.sweep()
        return self._counters.report(started, self._waiting())

    def over_files(self, files: Sequence[SourceFile], gone: Sequence[str] = ()) -> IndexReport:
        """Bring some files up to date and remove others, without waiting for a longer run."""
        started = time.monotonic()
        documents = [self._store.document(file.path) for file in files]
        self._index_words(files, {document.source: document for document in documents if document is not None})
        self._remove(gone)
        # An index with another model's vectors keeps them: one entry must not replace all the others.
        if self._embedder is not None and self._store.serves_model():
            texts = [text for file in files for text in self._store.pending_of(file.path)]
            self._vectors.embed(texts, [file.path for file in files])
        return self._counters.report(started, self._waiting())

    def would_change(self) -> bool:
        """Return whether a run over the roots has anything to do, by file stamps alone. Reads and locks nothing."""
        tombstones = self._job.tombstones
        # With another model the index cannot record the generation, and would seem to change forever.
        if tombstones is not None and self._store.serves_model() and not is_in_sync(self._store, tombstones):
            return True
        documents, result = self._scan_roots()
        if any((old := documents.get(file.path)) is None or not self._is_known(old, file) for file in result.files):
            return True
        waiting = self._embedder is not None and self._waiting() > 0
        return waiting or bool(self._vanished(documents, result))

    def _scan_roots(self) -> tuple[dict[str, Document], ScanResult]:
        """Return the known documents and the scan result; it includes deleted files that were roots."""
        # Read the documents first: a journal that is written and indexed during the scan is then not taken for deleted.
        documents = {document.source: document for document in self._store.documents()}
        # Single-file roots that have been deleted; a missing file that was named just now is an error.
        gone = {root.path for root in self._job.roots if root.is_gone_file()} if not self._job.named else set()
        links = _find_links(self._job.roots)
        paths = [root.path for root in self._job.roots if root.path not in gone and root.path not in links]
        result = scan(paths, self._job.scan_options())
        problems = (*result.problems, *links.values())
        return documents, replace(result, roots=(*result.roots, *gone), problems=problems)

    def _vanished(self, documents: Mapping[str, Document], result: ScanResult) -> list[str]:
        scanned, roots = {file.path for file in result.files}, set(result.roots)
        return [
            source
            for source, document in documents.items()
            if document.root in roots and source not in scanned and not result.may_exist(source)
        ]

    def _remove(self, sources: Sequence[str]) -> None:
        if sources:
            with self._writer() as writer:
                self._counters.removed += writer.remove(sources)

    # -- words -------------------------------------------------------------------------------------------------------

    def _index_words(self, files: Sequence[SourceFile], documents: Mapping[str, Document]) -> None:
        self._counters.files = len(files)
        ready: list[DocumentUpdate] = []
        replacing: list[tuple[SourceFile, Document | None, DocumentUpdate | None]] = []
        touched: list[Document] = []
        waiting_chunks = replacing_chunks = 0
        for done, file in enumerate(files, 1):
            old = documents.get(file.path)
            if old is not None and not self._job.force and self._is_known(old, file):
                self._counters.unchanged += 1
                continue
            update = self._read(file, self._owner(file), old, touched)
            if update is not None and self._replaces_text(update, old):
                replacing_chunks += len(update.chunks)
                replacing.append((file, old, update if replacing_chunks <= _CHUNKS_PER_PUT else None))
            elif update is not None:
                ready.append(update)
                waiting_chunks += 1 + len(update.chunks)
            if waiting_chunks >= _CHUNKS_PER_PUT:
                self._put(ready)
                ready, waiting_chunks = [], 0
            self._progress("words", done, len(files))
        self._put(ready)
        if files:
            self._progress("words", len(files), len(files))
        if touched:
            with self._writer() as writer:
                writer.touch(touched)
            self._counters.touched += len(touched)
        self._put_with_vectors(replacing)

    def _is_known(self, old: Document, file: SourceFile) -> bool:
        root = self._owner(file)
        filed = old.root == root.path and old.project == root.project
        return old.stamp == file.stamp and filed and self._builder.is_current(old)

    def _read(
        self, file: SourceFile, root: Root, old: Document | None, touched: list[Document]
    ) -> DocumentUpdate | None:
        try:
            continued = self._continuation(file, root, old)
            content = read_text(file, (continued.size, continued.document.file_hash) if continued else None)
            same = old is not None and (old.file_hash, old.project) == (content.digest, root.project)
            if same and old is not None and not self._job.force and self._builder.is_current(old):
                touched.append(replace(old, root=root.path, stamp=file.stamp, indexed_at=utc_now()))
                return None
            update = self._builder.build(file, root, content, continued)
        except SourceError as error:
            self._counters.problems.append(FileProblem(file.path, error.message, error.hint))
            return None
        notes = (content.note, *self._builder.notes)
        self._counters.notes += [note for note in notes if note and note not in self._counters.notes]
        return update

    def _continuation(self, file: SourceFile, root: Root, old: Document | None) -> Continuation | None:
        """Return how a file that may only have grown continues its indexed version; None if it must be parsed as a whole."""
        if old is None or self._job.force or file.stamp.size <= old.stamp.size or old.project != root.project:
            return None
        if not self._builder.is_current(old) or not (stored := self._store.resume_point(old.source)):
            return None
        # Chunks that stay are not compared with deletions, so the index must reflect all of them.
        if self._job.tombstones is not None and not is_in_sync(self._store, self._job.tombstones):
            return None
        return read_continuation(old, stored)

    def _replaces_text(self, update: DocumentUpdate, old: Document | None) -> bool:
        """Return whether the update removes embedded text that the new version does not contain."""
        if old is None or self._embedder is None or self._is_reembedding:
            return False
        kept = {chunk.vector_key for chunk in update.chunks}
        return not self._store.embedded_keys(old.source, update.first_line) <= kept

    def _put(self, updates: Sequence[DocumentUpdate]) -> None:
        if not updates:
            return
        with self._writer() as writer:
            current = [update for update in map(self._current, updates) if update is not None]
            writer.put(current)
        self._counters.changed += len(current)
        for update in current:
            continued = self._store.document(update.document.source) if update.base is not None else None
            self._counters.chunks += continued.chunk_count if continued else len(update.chunks)

    def _current(self, update: DocumentUpdate) -> DocumentUpdate | None:
        """Return the update as of now, under the writer's lock.

        It is built again if the file has changed since or a part of it was restored; parts deleted since are removed. None if
        it continues a version that the index no longer has, and the file cannot be read.
        """
        document = update.document
        try:
            stamp = FileStamp.from_stat(Path(document.source).stat())
        except OSError:
            stamp = document.stamp
        # Another process may have indexed another version of the file, or deleted a memory of this one.
        is_continued = update.base is None or self._store.document(document.source) == update.base
        if stamp != document.stamp or not is_continued or not self._builder.is_current(document):
            root = Root(document.root, document.project)
            again = self._read(SourceFile(document.source, document.root, stamp), root, None, [])
            if again is None and not is_continued:
                return None
            update = again or update
        return self._builder.remove_deleted(update)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def _put_with_vectors(self, files: Sequence[tuple[SourceFile, Document | None, DocumentUpdate | None]]) -> None:
        """Put documents whose text was replaced, each group once its vectors exist.

        Those without an update are read a second time instead of being held in memory: a branch switch may have replaced thousands.
        """
        kept = 0
        updates = (update or self._read(file, self._owner(file), old, []) for file, old, update in files)
        read = (update for update in updates if update is not None)
        for group in batches_of(read, lambda update: 1 + len(update.chunks), _CHUNKS_PER_PUT, _CHUNKS_PER_PUT):
            chunks = {chunk.vector_key: chunk for update in group for chunk in update.chunks}
            missing = self._store.missing_vectors(list(chunks))
            pending = [
                PendingText(key, chunk.embedded_text, chunk.source) for key, chunk in chunks.items() if key in missing
            ]
            if self._vectors.embed(pending, [update.document.source for update in group]):
                self._put(group)
            else:
                kept += len(group)
        if kept:
            which = "1 changed file keeps its" if kept == 1 else f"{kept:,} changed files keep their"
            self._counters.notes.append(f"{which} old version in the index until the model answers again")

    def _embed_pending(self) -> None:
        if self._embedder is None:
            return
        while self._vectors.error is None:
            pending = self._vectors.pending(_TEXTS_PER_ROUND)
            if not pending:
                return
            if not self._vectors.embed(pending, [pending[0].source]):
                left = self._waiting()
                self._counters.notes.append(f"{left} chunks are found by keywords only until the model answers again")

    def _should_reembed(self) -> bool:
        """Return whether this run makes vectors beside the current ones; add a note if the model was rolled back."""
        if self._embedder is None:
            return False
        state = self._store.reembed_state()
        if not self._job.reembed:
            self._counters.notes += filter(None, [explain_kept_vectors(state)])
        return is_reembed_due(state, requested=self._job.reembed, patient=self._job.patient)

    def _reembed(self) -> None:
        """Make the missing new vectors, and switch to them."""
        state = self._store.reembed_state()
        self._counters.reembedding = ReembedReport(state.served, state.begun)
        while pending := self._vectors.pending(_TEXTS_PER_ROUND, shadow=True):
            if not self._vectors.embed(pending, [pending[0].source], beside=True):
                self._counters.notes.append(
                    f"searches keep using the vectors of {state.served}; the next 'lorelog index' continues from here"
                )
                return
        with self._writer() as writer:
            writer.swap_vectors()
        self._counters.reembedding = ReembedReport(state.served, state.begun, swapped=True)

    # -- helpers -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _exclusive_run(self) -> Iterator[None]:
        """Hold the run lock. While another run holds it, wait if the job allows it, and report what is waited for."""
        started, is_held, wait_s = time.monotonic(), False, 0.0
        with ExitStack() as stack:
            while not is_held:
                try:
                    stack.enter_context(self._store.run(wait_s=wait_s))
                    is_held = True
                except StoreBusy as busy:
                    waited_s = time.monotonic() - started
                    if not self._job.patient or waited_s > _WAIT_FOR_RUN_S:
                        raise
                    self._counters.notes += [] if wait_s else [f"waited: {busy.message}"]
                    wait_s = _WAIT_STEP_S
                    self._progress(f"waiting for the index run of {busy.holder or 'another process'}", int(waited_s), 0)
            yield

    def _empty_roots(self, result: ScanResult) -> frozenset[str]:
        """Return directories that were named for the first time and have no files to read, with a note for each."""
        if not self._job.named or self._job.keep_empty:
            return frozenset()
        known = {root.path for root in self._job.known_roots}
        paths = [*(file.path for file in result.files), *result.unreadable, *result.unreadable_directories]
        excluded = [path for root in self._job.roots for path in root.exclude]
        empty = [
            root.path
            for root in self._job.roots
            if root.path in result.roots
            and root.path not in known
            and not any(is_below(path, root.path) for path in paths)
            and not any(is_below(root.path, path) for path in excluded)
        ]
        self._counters.notes += [f"no Markdown below {path}; it is not remembered" for path in empty]
        return frozenset(empty)

    def _owner(self, file: SourceFile) -> Root:
        root = find_innermost_root(file.path, (*self._job.known_roots, *self._job.roots))
        if root is None:  # scans only return files inside a root
            raise UsageError(f"{file.path} is outside {file.root}")
        return root

    def _writer(self, *, take_over: bool = False) -> AbstractContextManager[StoreWriter]:
        wait_s = _WAIT_TO_WRITE_S if self._job.patient else _SHORT_WAIT_S
        return self._store.writer(wait_s=wait_s, take_over=take_over)

    def _waiting(self) -> int:
        return self._vectors.count_missing() if self._has_model else 0


def _find_links(roots: Iterable[Root]) -> dict[str, FileProblem]:
    """Return the roots that lead elsewhere now. A root has a real path, so someone put a link in its place or above it."""
    links: dict[str, FileProblem] = {}
    for root in roots:
        real = os.path.realpath(root.path)
        if real != root.path and root.exists():
            links[root.path] = FileProblem(
                root.path,
                f"{root.path} is now a link to {real} and was not followed",
                "its documents are kept; to index the files behind it, name them: lorelog index PATH",
            )
    return links


def index_written(paths: Iterable[Path], job: IndexJob, store: Store, embedder: Embedder | None) -> tuple[str, ...]:
    """Index files in the root of a job that were just written. Errors become notes, because the text is safe."""
    (root,) = job.roots
    try:
        files = [SourceFile(str(path), root.path, FileStamp.from_stat(path.lstat())) for path in paths if path.exists()]
        report = IndexRun(store, embedder, job).over_files(files)
        return (*report.notes, *(problem.message for problem in report.problems))
    except StoreError as error:
        return (f"saved, but not searchable yet: {error.message}; 'lorelog index' completes it, or says what to do",)


_WAIT_FOR_RUN_S = 2.0


def is_reembed_due(state: ReembedState, *, requested: bool, patient: bool) -> bool:
    """Return whether a run makes its vectors beside those of the index.

    Not if the index has no vectors to lose. Without an explicit request only a patient run does: for another model than the index's, or
    to continue what was begun, unless that was rolled back. If nobody chose the other model, because an update replaced the built-in
    one, every run over roots does, the daemon's too.
    """
    if requested or not state.serves_vectors:
        return state.serves_vectors
    return (
        (patient or state.is_outdated)
        and state.declined != state.own
        and (state.served != state.own or state.begun == state.own)
    )


def explain_kept_vectors(state: ReembedState) -> str:
    """Return why an index keeps serving another model's vectors; empty if it does not."""
    if not state.serves_vectors or state.served == state.own or state.declined != state.own:
        return ""
    again = "'lorelog index --reembed' tries again"
    return f"the index keeps the vectors of {state.served}: {state.own} was rolled back ({again})"


def roll_back(store: Store) -> IndexReport:
    """Serve the vectors from before the last change. Raise NotFound if there are none."""
    with store.run(wait_s=_WAIT_FOR_RUN_S):
        left = store.reembed_state().served
        with store.writer() as writer:
            writer.roll_back()
    now = store.reembed_state().served
    note = f"searches use the vectors of {now} again"
    if not store.serves_model():
        provider, _, model = now.partition("/")
        chosen = f"{model!r} or a folder with its files" if provider == "builtin" else repr(model)
        note += (
            f"; set embedding.provider to {provider!r} and embedding.model to {chosen}, or searches use keywords only"
        )
        if "@" in model or "+" in model:
            note += " ('@' begins what was embedding.dimensions, '+' stands for a prefix of your own)"
    return IndexReport(notes=(note,), reembedding=ReembedReport(left, now, swapped=True))


def drop_old_vectors(store: Store) -> IndexReport:
    """Delete all vectors but the current ones."""
    with store.run(wait_s=_WAIT_FOR_RUN_S), store.writer() as writer:
        dropped = writer.drop_other_vectors()
    note = f"dropped {dropped:,} vectors; those of {store.reembed_state().served or 'no model'} are left"
    return IndexReport(notes=(note,))
