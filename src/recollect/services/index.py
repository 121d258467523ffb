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
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from recollect.core.document import Document, SourceFile, Stamp
from recollect.core.errors import ModelError, ModelFault, SourceError, StoreBusy, UsageError
from recollect.core.memory import IndexReport, Problem
from recollect.core.options import ChunkOptions, ScanOptions
from recollect.core.ports import DocumentUpdate, Embedder, Progress, Store, StoreWriter, Vector
from recollect.core.query import Filters
from recollect.ingest.embed import embed_texts
from recollect.ingest.markdown import chunk_markdown
from recollect.ingest.scan import read_text, scan
from recollect.services.probe import keep_fresh
from recollect.services.roots import Root, owner

_CHUNKS_A_PUT = 2_000
_TEXTS_A_ROUND = 2_000
_WAIT_FOR_RUN_S = 3600.0
_WAIT_TO_WRITE_S = 120.0


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
    named: bool = False
    """Whether someone named these roots just now, and must be told when one is not there."""
    journals: frozenset[str] = frozenset()
    """Roots that hold journals."""


@dataclass(slots=True)
class _Tally:
    files: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    truncated: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
        self._tally = _Tally()
        self._model_error: ModelError | None = None

    def over_roots(self) -> IndexReport:
        """Scan the job's roots and bring all of them up to date."""
        started = time.monotonic()
        if self._job.reembed:
            self._try_model()
        with self._alone():
            # Takes over an index made under another model, and repairs what a crash left.
            with self._writer(take_over=self._embedder is not None) as writer:
                if self._job.reembed:
                    writer.drop_vectors()
            # What is known is asked first: a journal that is written and indexed while we scan is then not missed.
            known = {document.source: document for document in self._store.documents()}
            gone = self._gone_files()
            found = scan([root.path for root in self._job.roots if root.path not in gone], self._scan_options())
            self._tally.problems += map(self._with_way_out, found.problems)
            if found.outside:
                more = f" and {len(found.outside) - 1} more" if len(found.outside) > 1 else ""
                self._tally.notes.append(
                    f"left alone, because it leads out of the indexed paths: {found.outside[0]}{more}"
                )
            self._take(found.files, known)
            taken = {file.path for file in found.files}
            vanished = [
                source
                for source, document in known.items()
                if document.root in {*found.roots, *gone} and source not in taken and not found.keeps(source)
            ]
            if vanished:
                with self._writer() as writer:
                    self._tally.removed = writer.remove(vanished)
            self._embed_pending()
            if self._tally.changed or self._tally.removed or self._tally.embedded:
                with self._writer() as writer:
                    writer.sweep()
            if self._embedder is not None and self._model_error is None:
                keep_fresh(self._store, self._embedder)
        return self._report(started)

    def over_file(self, file: SourceFile) -> IndexReport:
        """Bring one file up to date, without waiting for a longer run."""
        started = time.monotonic()
        known = self._store.document(file.path)
        self._take([file], {} if known is None else {file.path: known})
        stored = self._store.chunks_of(file.path)
        texts = {one.chunk.vector_key: one.chunk.embedded_text for one in stored if not one.has_vector}
        # An index that serves another model keeps serving it: one entry must not turn over all the others.
        if self._embedder is not None and texts and self._store.serves_model():
            self._embed_or_report(texts, [file.path])
        return self._report(started)

    # -- words -------------------------------------------------------------------------------------------------------

    def _take(self, files: Sequence[SourceFile], known: Mapping[str, Document]) -> None:
        self._tally.files = len(files)
        ready: list[DocumentUpdate] = []
        waiting: list[SourceFile] = []
        touched: list[Document] = []
        waiting_chunks = 0
        for done, file in enumerate(files, 1):
            old = known.get(file.path)
            root = self._owner(file)
            if old is not None and not self._job.force and self._is_known(old, file, root):
                self._tally.unchanged += 1
                continue
            update = self._read(file, root, old, touched)
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

    def _is_known(self, old: Document, file: SourceFile, root: Root) -> bool:
        filed = old.root == root.path and old.project == root.project
        return old.stamp == file.stamp and filed and old.recipe == self._job.chunking.recipe

    def _read(
        self, file: SourceFile, root: Root, old: Document | None, touched: list[Document]
    ) -> DocumentUpdate | None:
        try:
            text, digest = read_text(file)
        except SourceError as error:
            self._tally.problems.append(Problem(file.path, error.message, error.hint))
            return None
        now = datetime.now(UTC).isoformat(timespec="seconds")
        recipe = self._job.chunking.recipe
        same = old is not None and (old.file_hash, old.project, old.recipe) == (digest, root.project, recipe)
        if same and old is not None and not self._job.force:
            touched.append(replace(old, root=root.path, stamp=file.stamp, indexed_at=now))
            return None
        parsed = chunk_markdown(text, file.path, self._job.chunking, fallback_date=_day(file.stamp.mtime_ns))
        date = max((chunk.date[:10] for chunk in parsed.chunks), default=parsed.date)
        document = Document(
            source=file.path,
            root=root.path,
            project=root.project,
            stamp=file.stamp,
            file_hash=digest,
            title=parsed.title,
            date=date,
            indexed_at=now,
            recipe=recipe,
        )
        return DocumentUpdate(document, parsed.chunks)

    def _replaces_text(self, update: DocumentUpdate, old: Document | None) -> bool:
        """Say whether the update takes embedded text away that is not in the new version."""
        if old is None or self._embedder is None:
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
        """Return the update, made anew if the file changed since: whoever holds the writer's lock has the last word."""
        document = update.document
        try:
            status = os.stat(document.source)  # noqa: PTH116  (a plain call for every file)
        except OSError:
            return update
        stamp = Stamp.of(status)
        if stamp == document.stamp:
            return update
        root = Root(document.root, document.project)
        return self._read(SourceFile(document.source, document.root, stamp), root, None, []) or update

    # -- vectors -----------------------------------------------------------------------------------------------------

    def _put_with_vectors(self, files: Sequence[SourceFile]) -> None:
        """Put documents whose text was replaced, each group once its vectors are there.

        They are read a second time rather than held: a branch switch may have replaced thousands.
        """
        updates = (self._read(file, self._owner(file), None, []) for file in files)
        for group in _grouped(update for update in updates if update is not None):
            texts = {chunk.vector_key: chunk.embedded_text for update in group for chunk in update.chunks}
            missing = self._store.missing_vectors(texts)
            wanted = {key: text for key, text in texts.items() if key in missing}
            sources = [update.document.source for update in group]
            if self._embed_or_report(wanted, sources):
                self._put(group)

    def _embed_pending(self) -> None:
        if self._embedder is None:
            return
        while self._model_error is None:
            pending = self._store.pending(_TEXTS_A_ROUND)
            if not pending:
                return
            texts = {one.vector_key: one.text for one in pending}
            if not self._embed_or_report(texts, [pending[0].source]):
                left = self._waiting()
                self._tally.notes.append(f"{left} chunks are found by words only until the model answers again")

    def _embed(self, texts: Mapping[str, str]) -> None:
        if not texts or self._embedder is None:
            return
        done_before = self._tally.embedded
        # Chunks that share a text make this a little too many; it is a promise to a progress bar only.
        total = done_before + max(len(texts), self._waiting())
        self._progress("vectors", done_before, total)

        def keep(vectors: Mapping[str, Vector]) -> None:
            with self._writer() as writer:
                writer.put_vectors(vectors)
            self._tally.embedded += len(vectors)
            self._progress("vectors", self._tally.embedded, total)

        report = embed_texts(self._embedder, texts, keep, batch_size=self._job.batch_size)
        self._tally.truncated += report.truncated
        if self._tally.embedded - done_before != len(texts):
            raise ModelFault("the model left texts without vectors")

    def _embed_or_report(self, texts: Mapping[str, str], sources: Sequence[str]) -> bool:
        """Embed; when the model fails, name the files that now lack vectors and do not ask it again in this run."""
        if self._model_error is None:
            try:
                self._embed(texts)
            except ModelError as error:
                self._model_error = error
            else:
                return True
        cause = self._model_error
        message = f"no vectors: {cause.message}"
        self._tally.problems += [Problem(source, message, cause.hint) for source in sources]
        return False

    def _try_model(self) -> None:
        """Ask the model something: vectors are not to be dropped for one that does not answer."""
        if self._embedder is None:
            raise UsageError("there is no model to make vectors with", hint="--reembed needs one: embedding.provider")
        self._embedder.embed_query("recollect")

    # -- inside ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as held:
            try:
                held.enter_context(self._store.run(wait_s=0))
            except StoreBusy as busy:
                self._tally.notes.append(f"waited: {busy.message}")
                self._progress("waiting", 0, 0)
                held.enter_context(self._store.run(wait_s=_WAIT_FOR_RUN_S))
            yield

    def _with_way_out(self, problem: Problem) -> Problem:
        """Return a problem, with what to do about it when it is a known root that is no longer there."""
        if not any(root.path == problem.path and not root.exists() for root in self._job.known_roots):
            return problem
        way_out = f"what was indexed from it is kept; 'recollect index --forget {problem.path}' drops it"
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
        return self._store.writer(wait_s=_WAIT_TO_WRITE_S, take_over=take_over)

    def _waiting(self) -> int:
        coverage = self._store.coverage(Filters())
        return coverage.chunks - coverage.with_vectors if self._has_model else 0

    def _report(self, started: float) -> IndexReport:
        tally = self._tally
        return IndexReport(
            files=tally.files,
            changed=tally.changed,
            unchanged=tally.unchanged,
            touched=tally.touched,
            removed=tally.removed,
            chunks=tally.chunks,
            embedded=tally.embedded,
            truncated=tally.truncated,
            waiting=self._waiting(),
            problems=tuple(tally.problems),
            notes=tuple(tally.notes),
            seconds=round(time.monotonic() - started, 3),
        )


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


def _day(mtime_ns: int) -> str:
    """Return the local day of a time stamp; none when it lies beyond what a calendar can say."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC).astimezone().date().isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
