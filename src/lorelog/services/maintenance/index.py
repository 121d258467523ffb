"""Index runs over a workspace's roots and records, incremental updates, and background work.

Records are embedded in the background, so that neither writing nor searching waits for a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from lorelog.core.document import SourceFile
from lorelog.core.errors import StoreBusy, StoreDamaged, StoreUnwritable, UsageError
from lorelog.core.memory import FileProblem, IndexReport, count_failed
from lorelog.core.ports import REPAIR_NOTE, Embedder, Progress, Store
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.incremental import FileChanges, IncrementalIndexer
from lorelog.services.indexing.run import IndexRun
from lorelog.services.places import root_selection
from lorelog.services.places.roots import Root, Roots, RootStatus
from lorelog.services.places.workspace import Workspace
from lorelog.services.records.pages import RecordPages

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables
    from lorelog.services.records.projection import RecordProjection


_MAX_PENDING = 2_000
_MAX_NEWEST_PAGES = 200
_BATCH_SIZE = 8
"""Pages embedded between two checks of `should_continue`."""


def embed_records(
    pages: RecordProjection, store: Store, embedder: Embedder | None, job: IndexJob, should_continue: Callable[[], bool]
) -> None:
    """Update the pages and embed those without vectors. An index of another model is left alone."""
    pages.catch_up()
    if embedder is None or not store.serves_model():
        return
    waiting = store.pending(_MAX_PENDING)
    sources = dict.fromkeys(chunk.source for chunk in waiting if pages.holds(chunk.source))
    if len(waiting) == _MAX_PENDING:  # a long queue of other chunks must not keep new records waiting
        documents = [document for document in store.documents() if pages.holds(document.source)]
        newest = sorted(documents, key=lambda document: document.indexed_at, reverse=True)[:_MAX_NEWEST_PAGES]
        sources |= dict.fromkeys(document.source for document in newest)
    found = (store.document(source) for source in sources if Path(source).exists())
    pending = [document for document in found if document is not None]
    for first in range(0, len(pending), _BATCH_SIZE):
        if not should_continue():
            return
        batch = pending[first : first + _BATCH_SIZE]
        roots = tuple({page.root: Root(page.root, page.project) for page in batch}.values())
        files = [SourceFile(page.source, page.root, page.stamp) for page in batch]
        IndexRun(store, embedder, replace(job, roots=roots, patient=False)).over_files(files)


class IndexMaintenance(Struct, frozen=True, kw_only=True):
    """The index of one workspace, and its sources."""

    store: Store
    embedder: Embedder | None
    workspace: Workspace
    roots: Roots
    records: RecordPages
    job: Callable[[tuple[Root, ...]], IndexJob]
    refresh: Callable[[], None]
    """Called after the index has changed."""

    def index(
        self,
        targets: root_selection.IndexTargets | None = None,
        *,
        force: bool = False,
        vectors: bool = True,
        reembed: bool = False,
        ignore_files: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index the named targets, or the known roots of the project, and bring the records up to date.

        Without `vectors` the run ends when the lexical lane is up to date. With `reembed` all vectors are made again
        as shadow vectors, which then replace the old ones.
        `ignore_files` apply in addition to the configured ones.
        """
        if reembed and not vectors:
            raise UsageError("--reembed cannot be combined with --words-only", hint="use one of them")
        job = self.job(())
        scan = replace(job.scan, ignore_files=(*job.scan.ignore_files, *ignore_files))
        job = replace(job, force=force, words_only=not vectors, reembed=reembed, scan=scan)
        report = self._index(job, targets, progress)
        self.refresh()
        return report

    def _index(
        self, job: IndexJob, targets: root_selection.IndexTargets | None, progress: Progress | None
    ) -> IndexReport:
        """Run a job. Damage of derived files is repaired and reported.

        A damaged catalog is set aside, and all roots are read again.
        """
        notes = [self.roots.heal(), job.tombstones.damage() if job.tombstones else ""]
        try:
            before = self.store.get_note(REPAIR_NOTE)
            report = self._run(job, targets, progress, everywhere=False)
            with suppress(StoreBusy, StoreUnwritable):
                self.store.mend()
            repaired = self.store.get_note(REPAIR_NOTE)
            if repaired != before:
                notes.append(f"the vector index was damaged ({repaired.partition(' ')[2]}) and was rebuilt")
        except StoreDamaged:
            aside = self.store.set_damaged_aside()
            if not aside:
                raise
            notes.append(f"{aside}; the index was rebuilt from your files")
            report = self._run(job, targets, progress, everywhere=True)
        return replace(report, notes=(*report.notes, *filter(None, notes)))

    def _run(
        self, job: IndexJob, targets: root_selection.IndexTargets | None, progress: Progress | None, *, everywhere: bool
    ) -> IndexReport:
        """Run a job; with `everywhere` over all registered roots, too."""
        if targets is None:
            self._drop_unwanted_roots()
        registered = self.roots.all()
        roots = (
            root_selection.select_named_roots(targets, self.workspace, registered)
            if targets
            else root_selection.select_default_roots(
                self.workspace, registered, required=self.records.projection() is None
            )
        )
        if everywhere:
            own = {root.path for root in roots}
            roots = (*roots, *(root for root in registered if root.path not in own and root.exists()))
        self.workspace.create()
        job = replace(
            job,
            roots=roots,
            known_roots=registered,
            named=targets is not None,
            keep_empty=targets is not None and targets.keep_empty,
        )
        run = IndexRun(self.store, self.embedder, job, progress)
        registry = root_selection.RunRootRegistry(roots, self.roots, self.store)
        self.records.catch_up()  # text only: the run makes all missing vectors
        with registry.registered():
            report = run.over_roots()
        note = self.records.catch_up()  # a model that has just taken over records its own progress
        removed = registry.finish(run.bad_roots, named=targets is not None)
        if removed:  # another process removed a root while it was read
            root_selection.drop_roots(removed, self.roots, self.store)
        notes = (*report.notes, *registry.format_replaced_exclusions(), *filter(None, [note]))
        links = [
            FileProblem(
                path,
                f"{path} is a link to {target}, out of the project, and was not followed",
                "replace it with a directory; to index the files behind it, name them: lorelog index PATH",
            )
            for path, target in root_selection.find_outside_links(self.workspace).items()
        ]
        problems = (*report.problems, *links)
        return replace(report, notes=notes, problems=problems, failed=count_failed(problems))

    def watch_set(self) -> root_selection.WatchScope:
        self._drop_unwanted_roots()
        roots = root_selection.select_project_roots(self.workspace, self.roots.all())
        return root_selection.WatchScope(
            roots, root_selection.list_awaited_paths(self.workspace), self.job(()).scan.ignore_files
        )

    def follow(self, changes: FileChanges, progress: Progress | None = None) -> IndexReport | None:
        """Index changes below the watched roots; return None if there were none.

        Raise StoreBusy instead of waiting for another run. An index that serves another model keeps serving it,
        unless that is a former built-in model, which an update replaced.
        """
        before = {root.path for root in self.roots.all()}
        self.workspace.create()
        job = self.job(root_selection.select_project_roots(self.workspace, self.roots.all()))
        serves_model = self.store.serves_model()
        is_outdated = not serves_model and self.store.reembed_state().is_outdated
        if is_outdated:  # an update replaced the built-in model: only a run over roots makes all vectors anew
            changes = FileChanges(roots={root.path for root in job.roots})
        job = replace(job, words_only=not (serves_model or is_outdated))
        report = IncrementalIndexer(self.store, self.embedder, job, progress).apply(changes)
        if report is not None:
            self.roots.remember(root for root in job.roots if root.path not in before and root.exists())
            left = before - {root.path for root in self.roots.all()}
            if left:  # another process removed a root while it was read
                root_selection.drop_roots(left, self.roots, self.store)
            self.refresh()
        return report

    def list_roots(self) -> Sequence[RootStatus]:
        documents = Counter(document.root for document in self.store.documents())
        return [
            RootStatus(**asdict(root), exists=root.exists(), documents=documents[root.path])
            for root in self.roots.all()
        ]

    def forget_roots(self, paths: Sequence[str]) -> int:
        """Stop indexing roots and drop their documents from the index; return how many. The files are not touched.

        Raise NotFound if a path contains no root, before anything is dropped.
        """
        count = root_selection.forget_roots(paths, self.roots, self.store, self.records.holds)
        self.refresh()
        return count

    def has_indexed_project(self) -> bool:
        """Return True if something was indexed for the current project."""
        return any(root.project == self.workspace.project.id for root in self.roots.all())

    def _drop_unwanted_roots(self) -> None:
        """Drop discovered roots once discovery is turned off."""
        unwanted = {root.path for root in self.roots.all() if root.origin}
        if unwanted and self.workspace.claude is None:
            root_selection.drop_roots(unwanted, self.roots, self.store)


def run_background_work(
    records: RecordPages, embedder: Embedder | None, job: IndexJob, tables: CodeTables, go_on: Callable[[], bool]
) -> None:
    """Make records searchable, check the code that recent memories name, and delete old logs, while `go_on` holds."""
    from lorelog.services.freshness.checker import FreshnessChecker, check_recent
    from lorelog.services.usage.history import delete_old_logs

    pages, store = records.projection(), records.store
    if pages is not None:
        embed_records(pages, store, embedder, job, go_on)
    checker = FreshnessChecker(records.workspace, tables).without_time_limit()
    check_recent(store, checker, records.workspace.project.id, go_on)
    if go_on():
        with suppress(StoreUnwritable):
            store.mend()
    if go_on():
        delete_old_logs(records.workspace.tenant_folder / "deliveries")
