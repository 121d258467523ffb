"""Check the health of an index: is it complete, does it match the files, and what should the user do?

The place it is kept in is checked, too: disk space, access, the ledger's end, and the files beside the index.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.errors import LorelogError, SourceError, StoreBusy, StoreError, plural
from lorelog.core.memory import FileProblem, HealthCheck, HealthReply
from lorelog.core.ports import REPAIR_NOTE, Embedder, Store
from lorelog.core.query import Filters, VectorCoverage
from lorelog.ingest.files import read_text, scan
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import FOLDER, Workspace

if TYPE_CHECKING:
    from lorelog.services.indexing import IndexJob
    from lorelog.services.records.store import RecordStore

_MAX_FILES_READ = 1_000
_MAX_SHOWN = 10
_MAX_CHUNKS = 50_000
"""Above this, duplicates are not searched: that reads every chunk."""

_passed = partial(HealthCheck, ok=True)
_failed = partial(HealthCheck, ok=False)


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
    coverage = VectorCoverage(0, 0)
    twice: tuple[tuple[str, ...], ...] = ()

    def check_index() -> Iterator[HealthCheck]:
        nonlocal coverage, twice
        stats, coverage = store.stats(), store.coverage(Filters())
        existing = sum(1 for root in roots if root.exists())
        if stats.documents or not existing:
            sizes = f"{plural(stats.documents, 'document')}, {plural(stats.chunks, 'chunk')}"
            yield _passed("index", message=sizes)
        else:
            paths = "1 path is" if existing == 1 else f"{existing:,} paths are"
            message = f"the index is empty, although {paths} registered: it is new or was deleted"
            yield _failed("index", message=message, hint="lorelog index")
        yield _check_vectors(store, embedder, coverage)
        yield from _check_reembedding(store)
        at, _, damage = store.get_note(REPAIR_NOTE).partition(" ")
        if damage:  # repaired: nothing needs to be done
            yield _passed("repairs", message=f"damaged files were rebuilt on {at[:10]}: {damage}")
        twice = _find_duplicates(store, duplicates) if duplicates and stats.chunks <= _MAX_CHUNKS else ()

    def check_deletions() -> Iterator[HealthCheck]:
        hidden, damage = len(list(tombstones.all())), tombstones.damage()
        yield HealthCheck("deletions", ok=not damage, message=damage or f"{hidden:,} in force")

    def check_review() -> Iterator[HealthCheck]:
        count = len(due())  # a memory that is due is not a fault of the index
        subject = "1 memory is" if count == 1 else f"{count:,} memories are" if count else "no memory is"
        yield _passed("review", message=f"{subject} due for review", hint="lorelog list --due" if count else "")

    checks = [
        *_run("index", check_index()),
        *_check_roots(roots),
        *_run("deletions", check_deletions()),
        *_run("review", check_review()),
    ]
    return HealthReply(all(check.ok for check in checks), tuple(checks), coverage, twice)


def _run(name: str, checks: Iterable[HealthCheck]) -> Iterator[HealthCheck]:
    """Yield checks; an error of ours is a failed one."""
    try:
        yield from checks
    except LorelogError as error:
        yield _failed(name, message=error.message, hint=error.hint)


def failed_files(store: Store, job: IndexJob) -> list[FileProblem]:
    """Return the files below a job's roots that are not in the index because they cannot be read or are not text.

    Nothing is remembered between runs: the files are listed again, and those that the index does not know are read.
    """
    paths = [root.path for root in job.roots if os.path.realpath(root.path) == root.path]
    result = scan(paths, job.scan_options())
    missing_roots = {root.path for root in job.roots if not root.exists()}
    problems = [problem for problem in result.problems if problem.path not in missing_roots]
    known = {document.source: document.stamp for document in store.documents()}
    for file in [file for file in result.files if known.get(file.path) != file.stamp][:_MAX_FILES_READ]:
        try:
            read_text(file)
        except SourceError as error:
            problems.append(FileProblem(file.path, error.message, error.hint))
    return problems


def check_files(store: Store, job: IndexJob) -> Iterator[HealthCheck]:
    """Return a failed check for each file that could not be indexed, up to a number."""

    def check() -> Iterator[HealthCheck]:
        problems = failed_files(store, job)
        for problem in problems[:_MAX_SHOWN]:
            yield _failed("file", message=problem.message, hint=problem.hint)
        if len(problems) > _MAX_SHOWN:
            message = f"{len(problems) - _MAX_SHOWN:,} more files cannot be indexed"
            yield _failed("file", message=message, hint="lorelog index names all of them")

    return _run("files", check())


def _check_vectors(store: Store, embedder: Embedder | None, coverage: VectorCoverage) -> HealthCheck:
    if embedder is None:
        return _passed("vectors", message="no model is configured: keyword search only")
    if not store.serves_model():
        state = store.reembed_state()
        if state.is_outdated:  # an update leaves this, and searches say it
            return _passed(
                "vectors",
                message=f"{state.own} replaces {state.served}; until its vectors are made, texts are found by keywords only",
                hint="the daemon makes them; 'lorelog index' does it now",
            )
        return _failed("vectors", message="the index has vectors of another model", hint="lorelog index --reembed")
    missing = coverage.chunks - coverage.with_vectors
    if missing:  # an interrupted run leaves this, and searches say it
        return _passed(
            "vectors",
            message=f"{plural(missing, 'chunk')} without a vector so far, found by keywords only",
            hint="the daemon makes the rest; 'lorelog index' does it now",
        )
    return _passed("vectors", message="every chunk has a vector")


def _check_reembedding(store: Store) -> Iterator[HealthCheck]:
    """Yield the state of an unfinished change of models."""
    state = store.reembed_state()
    if not state.begun:
        return
    lacking = (
        f"{plural(state.waiting, 'text')} without a vector of it so far" if state.waiting else "it is not in use yet"
    )
    what = f"the change to {state.begun} is not finished: {lacking}"
    try:
        with store.run(wait_s=0):
            pass
    except StoreBusy:
        yield _passed("change", message=f"{what}; an index run is working on it")
        return
    except StoreError:
        pass  # the store is not writable, so no run is active
    goes_on = "'lorelog index' continues it"
    if state.begun != state.own:
        provider, _, model = state.begun.partition("/")
        goes_on = f"{goes_on} under embedding.provider {provider!r} and embedding.model {model!r}"
    yield _failed("change", message=what, hint=f"{goes_on}, 'lorelog index --reembed --drop-old' discards it")


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
    return gone or [_passed("roots", message=f"{len(roots):,} registered, all exist")]


def _find_duplicates(store: Store, limit: int) -> tuple[tuple[str, ...], ...]:
    """Return locations with the same text, also under different headings and in copied files."""
    locations: dict[str, list[str]] = defaultdict(list)
    for document in store.documents():
        for stored in store.chunks_of(document.source):
            chunk = stored.chunk
            locations[chunk.content_hash].append(f"{chunk.source}:{chunk.start_line}-{chunk.end_line}")
    groups = [tuple(group) for group in locations.values() if len(group) > 1]
    return tuple(sorted(groups, key=len, reverse=True)[:limit])


MIN_FREE_BYTES = 200_000_000
"""Below this, the next index run or a captured session may fail."""
_MAX_FILES = 5_000
_MAX_LOG_BYTES = 50_000_000
_MAX_NAMED_LINES = 5
_REQUIRED_FIELDS = {
    "feedback.jsonl": ("query", "key", "relevance"),
    "lifecycle.jsonl": ("memory",),
    "tombstones.jsonl": ("key", "memory", "source", "ids", "at", "deleted"),
    "authored.jsonl": ("memory", "text", "whole", "kind"),
    "guards.jsonl": ("event", "id"),
    "review.jsonl": ("at", "statement", "label", "judge", "outcome"),
    "receipts.jsonl": ("day", "id", "outcome"),
}
"""Fields without which a line of these files cannot be read."""


def check_home(workspace: Workspace, roots: Roots, open_records: Callable[[], RecordStore]) -> Iterator[HealthCheck]:
    """Yield the checks of a tenant's files. The modules of records are loaded only if there is a file of a ledger."""
    names = _list_names(workspace.tenant_folder)

    def check_ledger() -> Iterator[HealthCheck]:
        if not any(name.startswith("ledger") for name in names):
            return
        records = open_records()
        missing = records.ledger.missing_end()
        if missing:
            hint = "restore it from a backup; 'lorelog ledger check' names what is missing"
            yield _failed("ledger", message=missing, hint=hint)
        elif records.exists():
            yield _passed("ledger", message="ends with the last record written")

    def check_roots_file() -> Iterator[HealthCheck]:
        if damage := roots.damage():
            yield _failed("roots", message=damage, hint="'lorelog index' keeps it aside and writes it again")
        for name in (name for name in names if "roots.json.bad-" in name):
            message = f"{workspace.tenant_folder / name} is malformed; the list was written again from the index, without exclusions"
            yield _passed("roots", message=message, hint="delete it once 'lorelog index --list' is right")

    if not workspace.home.exists():
        yield _passed("home", message=f"{workspace.home} does not exist yet")
        return
    yield _check_disk(workspace.home)
    yield _check_access(workspace)
    if workspace.home.stat().st_mode & 0o077:  # a home that only its owner can enter protects all of it
        yield _check_privacy(workspace.home)
    yield from _run("ledger", check_ledger())
    yield from _run("roots", check_roots_file())
    # Lines that cannot be read are skipped by whatever reads the file.
    paths = [
        workspace.tenant_folder / name for name in names if name.endswith(".jsonl") and not name.startswith("ledger")
    ]
    deliveries = workspace.tenant_folder / "deliveries"
    paths += [deliveries / name for name in _list_names(deliveries) if name.endswith(".jsonl")][:_MAX_FILES]
    for path in (*paths, workspace.cache_folder / "open-tasks.jsonl"):
        if bad := _find_bad_lines(path):
            hint = "correct or delete it: each line is one JSON object"
            yield _failed("file", message=f"{path} has {bad}", hint=hint)


def _list_names(folder: Path) -> list[str]:
    """Return the names in a folder; none if it cannot be read. `glob` would compile an expression for each pattern."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _check_disk(home: Path) -> HealthCheck:
    try:
        disk = os.statvfs(home)
        free = disk.f_bavail * disk.f_frsize
    except OSError as error:
        return _failed("disk", message=f"{home} cannot be examined: {error.strerror}")
    amount = f"{free / 1e6:,.0f} MB" if free < 1e10 else f"{free / 1e9:,.0f} GB"
    if free >= MIN_FREE_BYTES:
        return _passed("disk", message=f"{amount} free")
    needed = f"{MIN_FREE_BYTES / 1e6:,.0f} MB are needed to work safely"
    hint = "free some space, or set LORELOG_HOME to another disk"
    return _failed("disk", message=f"only {amount} are free on the disk of {home}; {needed}", hint=hint)


def _check_access(workspace: Workspace) -> HealthCheck:
    for folder in (workspace.home, workspace.tenant_folder, workspace.cache_folder):
        if folder.exists() and not folder.is_dir():
            return _failed("home", message=f"{folder} is a file, not a directory", hint="move it away")
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
            message = f"{folder} is read-only: searches work, and nothing new is remembered"
            return _failed("home", message=message, hint="make it writable, or set LORELOG_HOME to another folder")
    return _passed("home", message=f"{workspace.home} is writable")


def _check_privacy(home: Path) -> HealthCheck:
    files_in_home = (Path(folder, name) for folder, _, names in os.walk(home) for name in names)
    exposed = []
    for path in islice(files_in_home, _MAX_FILES):
        with suppress(OSError):
            exposed += [path] if path.lstat().st_mode & 0o044 else []
    files = f"; {len(exposed):,} files in it can be read by them, such as {exposed[0]}" if exposed else ""
    return _passed("privacy", message=f"other users can enter {home}{files}", hint=f"chmod 700 {home}")


def _find_bad_lines(path: Path) -> str:
    """Return which lines of a file cannot be read, or an empty string. A torn last line is not an error."""
    required = set(_REQUIRED_FIELDS.get(path.name, ()))
    try:
        if not path.exists() or path.stat().st_size > _MAX_LOG_BYTES:
            return ""
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        return f"no readable content: {error.strerror}"
    bad = []
    for number, line in enumerate(lines, 1):
        entry: object = None
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
        if line.strip() and not (isinstance(entry, dict) and entry.keys() >= required):
            bad.append(number)
    if not bad:
        return ""
    more = f" and {len(bad) - _MAX_NAMED_LINES:,} more" if len(bad) > _MAX_NAMED_LINES else ""
    named = ", ".join(map(str, bad[:_MAX_NAMED_LINES]))
    return f"a line that cannot be read: {named}" if len(bad) == 1 else f"lines that cannot be read: {named}{more}"
