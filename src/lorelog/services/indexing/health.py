"""Check the health of an index: is it complete, does it match the files, and what should the user do?"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from lorelog.core.errors import LorelogError, SourceError, StoreBusy, StoreError, plural
from lorelog.core.memory import FileProblem, HealthCheck, HealthReply
from lorelog.core.ports import REPAIR_NOTE, Embedder, Store, StoreStats
from lorelog.core.query import Filters, VectorCoverage
from lorelog.ingest.files import read_text, scan
from lorelog.services.indexing.run import IndexJob
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.project_folder import FOLDER
from lorelog.services.places.roots import Root

_MAX_FILES_READ = 1_000
_MAX_SHOWN = 10
_MAX_CHUNKS = 50_000
"""Above this, duplicates are not searched: that reads every chunk."""


def check_health(
    store: Store,
    embedder: Embedder | None,
    roots: Sequence[Root],
    tombstones: Tombstones,
    *,
    duplicates: int,
    due: Callable[[], Sequence[str]] = tuple,
) -> HealthReply:
    """Return all checks. A fault of the index is a failed check, not an error."""
    checks: list[HealthCheck] = []
    coverage = VectorCoverage(0, 0)
    try:
        stats = store.stats()
        coverage = store.coverage(Filters())
        checks.append(_check_index(stats, roots))
        checks.append(_check_vectors(store, embedder, coverage))
        checks += _check_reembedding(store)
        checks += _check_repairs(store)
        twice = _find_duplicates(store, duplicates) if duplicates and stats.chunks <= _MAX_CHUNKS else ()
    except LorelogError as error:
        checks.append(HealthCheck("index", ok=False, message=error.message, hint=error.hint))
        twice = ()
    checks += _check_roots(roots)
    try:
        hidden = len(list(tombstones.all()))
        damage = tombstones.damage()
        checks.append(HealthCheck("deletions", ok=not damage, message=damage or f"{hidden:,} in force"))
    except LorelogError as error:
        checks.append(HealthCheck("deletions", ok=False, message=error.message, hint=error.hint))
    checks.append(_check_review(due))
    return HealthReply(all(check.ok for check in checks), tuple(checks), coverage, twice)


def _check_index(stats: StoreStats, roots: Sequence[Root]) -> HealthCheck:
    existing = sum(1 for root in roots if root.exists())
    if not stats.documents and existing:
        paths = "1 path is" if existing == 1 else f"{existing:,} paths are"
        message = f"the index is empty, although {paths} registered: it is new or was deleted"
        return HealthCheck("index", ok=False, message=message, hint="lorelog index")
    return HealthCheck(
        "index", ok=True, message=f"{plural(stats.documents, 'document')}, {plural(stats.chunks, 'chunk')}"
    )


def _check_repairs(store: Store) -> list[HealthCheck]:
    """Return the last repair of damaged files, which needs nothing to be done."""
    at, _, damage = store.get_note(REPAIR_NOTE).partition(" ")
    if not damage:
        return []
    return [HealthCheck("repairs", ok=True, message=f"damaged files were rebuilt on {at[:10]}: {damage}")]


def failed_files(store: Store, job: IndexJob) -> list[FileProblem]:
    """Return the files below a job's roots that are not in the index because they cannot be read or are not text.

    Nothing is remembered between runs: the files are listed again, and those that the index does not know are read.
    """
    options = replace(
        job.scan,
        exclude_paths=(*job.scan.exclude_paths, *(path for root in job.roots for path in root.exclude)),
        exclude_in={root.path: root.patterns for root in job.roots if root.patterns},
        roots_without_ignore_files=job.journals,
    )
    result = scan([root.path for root in job.roots if os.path.realpath(root.path) == root.path], options)
    missing_roots = {root.path for root in job.roots if not root.exists()}
    problems = [problem for problem in result.problems if problem.path not in missing_roots]
    known = {document.source: document.stamp for document in store.documents()}
    for file in [file for file in result.files if known.get(file.path) != file.stamp][:_MAX_FILES_READ]:
        try:
            read_text(file)
        except SourceError as error:
            problems.append(FileProblem(file.path, error.message, error.hint))
    return problems


def check_files(store: Store, job: IndexJob) -> list[HealthCheck]:
    """Return a failed check for each file that could not be indexed, up to a number."""
    try:
        problems = failed_files(store, job)
    except LorelogError as error:
        return [HealthCheck("files", ok=False, message=error.message, hint=error.hint)]
    shown = [HealthCheck("file", ok=False, message=each.message, hint=each.hint) for each in problems[:_MAX_SHOWN]]
    if len(problems) > len(shown):
        message = f"{len(problems) - len(shown):,} more files cannot be indexed"
        shown.append(HealthCheck("file", ok=False, message=message, hint="lorelog index names all of them"))
    return shown


def _check_review(due: Callable[[], Sequence[str]]) -> HealthCheck:
    """Return the number of memories due for review, which is not a fault of the index."""
    try:
        count = len(due())
    except LorelogError as error:
        return HealthCheck("review", ok=False, message=error.message, hint=error.hint)
    if not count:
        return HealthCheck("review", ok=True, message="no memory is due for review")
    subject = "1 memory is" if count == 1 else f"{count:,} memories are"
    return HealthCheck("review", ok=True, message=f"{subject} due for review", hint="lorelog list --due")


def _check_vectors(store: Store, embedder: Embedder | None, coverage: VectorCoverage) -> HealthCheck:
    if embedder is None:
        return HealthCheck("vectors", ok=True, message="no model is configured: keyword search only")
    if not store.serves_model():
        state = store.reembed_state()
        if state.is_outdated:
            return HealthCheck(
                "vectors",
                ok=True,  # an update leaves this, and searches say it
                message=f"{state.own} replaces {state.served}; until its vectors are made, texts are found by keywords only",
                hint="the daemon makes them; 'lorelog index' does it now",
            )
        return HealthCheck(
            "vectors", ok=False, message="the index has vectors of another model", hint="lorelog index --reembed"
        )
    missing = coverage.chunks - coverage.with_vectors
    if missing:
        return HealthCheck(
            "vectors",
            ok=True,  # an interrupted run leaves this, and searches say it
            message=f"{plural(missing, 'chunk')} without a vector so far, found by keywords only",
            hint="the daemon makes the rest; 'lorelog index' does it now",
        )
    return HealthCheck("vectors", ok=True, message="every chunk has a vector")


def _check_reembedding(store: Store) -> list[HealthCheck]:
    """Return the state of an unfinished change of models."""
    state = store.reembed_state()
    if not state.begun or state.declined == state.begun:
        return []
    lacking = (
        f"{plural(state.waiting, 'text')} without a vector of it so far" if state.waiting else "it is not in use yet"
    )
    what = f"the change to {state.begun} is not finished: {lacking}"
    try:
        with store.run(wait_s=0):
            pass
    except StoreBusy:
        return [HealthCheck("change", ok=True, message=f"{what}; an index run is working on it")]
    except StoreError:
        pass  # the store is not writable, so no run is active
    goes_on = "'lorelog index' continues it"
    if state.begun != state.own:
        provider, _, model = state.begun.partition("/")
        goes_on = f"{goes_on} under embedding.provider {provider!r} and embedding.model {model!r}"
    hint = f"{goes_on}, 'lorelog index --reembed --drop-old' discards it"
    return [HealthCheck("change", ok=False, message=what, hint=hint)]


def _check_roots(roots: Sequence[Root]) -> list[HealthCheck]:
    # Journals are registered implicitly; a deleted project is not an error.
    gone = [
        HealthCheck(
            "root",
            ok=f"/{FOLDER}/" in root.path,
            message=f"{root.path} does not exist",
            hint=f"its documents are kept; 'lorelog index --remove {root.path}' removes them",
        )
        for root in roots
        if not root.exists()
    ]
    return gone or [HealthCheck("roots", ok=True, message=f"{len(roots):,} registered, all exist")]


def _find_duplicates(store: Store, limit: int) -> tuple[tuple[str, ...], ...]:
    """Return locations with the same text, also under different headings and in copied files."""
    locations: dict[str, list[str]] = defaultdict(list)
    for document in store.documents():
        for stored in store.chunks_of(document.source):
            chunk = stored.chunk
            locations[chunk.content_hash].append(f"{chunk.source}:{chunk.start_line}-{chunk.end_line}")
    groups = [tuple(group) for group in locations.values() if len(group) > 1]
    return tuple(sorted(groups, key=len, reverse=True)[:limit])
