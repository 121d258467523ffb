"""Operations on the index and its roots: `memory.index`, `memory.health`, `memory.check_store`, `memory.reset` and `roots.*`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import NotFound, StoreBusy, StoreUnreachable, StoreUnwritable, UsageError, plural
from lorelog.core.memory import HealthCheck, HealthReply, IndexReport
from lorelog.core.paths import is_below
from lorelog.core.ports import StoreComparison
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand
from lorelog.operations.requests import EmptyRequest, FilePaths, OperationRequest, Words, about, resolve_path
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.places.roots import RootStatus

OPERATIONS = OperationFamily()


class IndexRequest(OperationRequest, frozen=True, kw_only=True):
    """Files to index, and how."""

    paths: Annotated[
        FilePaths,
        about("Files and directories, '!PATH' to exclude one; the project's indexed paths if none are given."),
    ] = []
    to_global: Annotated[bool, about("Make them visible in every project.")] = False
    exclude: Annotated[Words, about("gitignore-style patterns to exclude from the paths; stored with them.")] = []
    ignore_files: Annotated[Words, about("Names of ignore files to honour besides the configured ones.")] = []
    force: Annotated[bool, about("Read and chunk every file again.")] = False
    vectors: Annotated[bool, about("Compute vectors in this run.")] = True
    reembed: Annotated[
        bool, about("Embed everything again with the current model; the old vectors are used until that is done.")
    ] = False
    rollback: Annotated[bool, about("Index nothing; use the vectors from before the last reembed again.")] = False
    forget_old: Annotated[
        bool, about("Index nothing; delete the vectors that are not in use; rollback is not possible afterwards.")
    ] = False


class RootsRequest(OperationRequest, frozen=True):
    """Roots by their paths."""

    paths: Annotated[FilePaths, about("Files and directories.", min_length=1)]


class HealthRequest(OperationRequest, frozen=True, kw_only=True):
    """Options of a health check."""

    duplicates: Annotated[int, about("Maximum number of duplicated texts to list.", ge=0, le=1000)] = 10


class RootsReply(ReplyItems[RootStatus], OperationReply, frozen=True, kw_only=True):
    """The indexed files and directories."""

    roots: tuple[RootStatus, ...]


class RemovedRoots(OperationReply, frozen=True, kw_only=True):
    """Roots that are no longer indexed, and the number of documents dropped."""

    forgotten: tuple[str, ...]
    documents: int


class ResetReply(OperationReply, frozen=True, kw_only=True):
    """The deleted index folder."""

    deleted: str


@OPERATIONS.declare(
    "memory.index",
    ShellCommand(
        "index",
        ("paths",),
        {"vectors": "/--words-only", "forget_old": "--drop-old"},
        metavars={"paths": "PATH", "exclude": "PATTERN"},
        helps={"vectors": "do not embed anything in this run"},
    ),
    errors=(NotFound, StoreUnwritable, StoreBusy),
    warms=True,
    needs="write",
)
def index(engine: Engine, request: IndexRequest, call: RequestContext) -> IndexReport:
    """Update the index from Markdown files.

    Only files whose size, modification time or inode changed are read. A file that cannot be read is listed in
    `problems` and does not stop the run.
    """
    if request.rollback or request.forget_old:
        return _switch_vectors(engine, request)
    if request.exclude and not request.paths:
        raise UsageError("exclude requires paths", hint="to exclude files everywhere, set index.exclude")
    if request.paths and not call.own:
        raise UsageError(
            "only the shell and Python can choose the files to index",
            hint="without paths, the indexed ones are refreshed",
        )
    project = GLOBAL_PROJECT if request.to_global else engine.place.project.id if request.project else None
    if not call.own and request.project and not engine.maintenance().has_indexed_project():
        paths: tuple[str, ...] = (_find_remote_memory(engine, str(request.project)),)
    else:
        paths = tuple(resolve_path(path, call.directory) for path in request.paths)
    if not call.names_files:
        _check_paths_visible(engine, paths)
    _check_paths_exist(engine, paths)
    return engine.maintenance().index(
        IndexTargets(paths, project, tuple(request.exclude)) if paths else None,
        force=request.force,
        vectors=request.vectors,
        reembed=request.reembed,
        ignore_files=tuple(request.ignore_files),
        progress=call.progress,
    )


def _find_remote_memory(engine: Engine, directory: str) -> str:
    """Return the `memory/` folder of a project that the user never indexed. Raise UsageError unless remote clients may."""
    project, folders = engine.place.project.root, engine.place.remote_folders
    channels = os.path.realpath(Path("~/.loop").expanduser())  # Loop's own folder of a channel without a directory
    is_channels = is_below(project, channels) and os.path.relpath(project, channels).split("/")[1:] == ["work"]
    if not is_channels and not any(is_below(project, folder) for folder in folders):
        raise UsageError(
            f"{directory} is not a known project",
            hint="index a file of it in a shell first (lorelog index PATH), or allow its directory by index.remote_projects",
        )
    memory = os.path.realpath(f"{project}/memory")
    if not Path(memory).is_dir() or not is_below(memory, project):
        raise UsageError(f"{directory} has no folder memory/", hint="create it, or index other files of it in a shell")
    return memory


def _check_paths_exist(engine: Engine, paths: Sequence[str]) -> None:
    """Raise NotFound if none of the named paths exists, before another run is waited for."""
    named = [path for path in paths if not path.startswith("!")]
    if named and not any(os.path.lexists(path) for path in named):
        registered = {root.path for root in engine.roots.all()}
        if registered.isdisjoint(map(os.path.realpath, named)):  # for such a root the run says how to forget it
            raise NotFound(f"{named[0]} does not exist", hint="check the path; nothing was indexed")


def _check_paths_visible(engine: Engine, paths: Sequence[str]) -> None:
    """Raise UsageError for a path that leads out of the project and of what the user indexed before."""
    folders = [engine.place.project.id, engine.place.project.root, *(root.path for root in engine.roots.all())]
    for path in paths:
        real = os.path.realpath(path.removeprefix("!"))
        if not any(is_below(real, folder) for folder in folders):
            raise UsageError(
                f"{path} is outside the project", hint="only the shell and Python can choose other files to index"
            )


def _switch_vectors(engine: Engine, request: IndexRequest) -> IndexReport:
    allowed = IndexRequest(
        project=request.project, tenant=request.tenant, rollback=request.rollback, forget_old=request.forget_old
    )
    if request != allowed or (request.rollback and request.forget_old):
        raise UsageError(
            "rollback and forget_old cannot be combined with each other or with other options",
            hint="lorelog index --reembed --rollback, or lorelog index --reembed --drop-old",
        )
    from lorelog.services.indexing.run import drop_old_vectors, roll_back

    return drop_old_vectors(engine.store) if request.forget_old else roll_back(engine.store)


@OPERATIONS.declare("memory.health")
def health(engine: Engine, request: HealthRequest, call: RequestContext) -> HealthReply:
    """Check the index and report what needs attention."""
    from lorelog.services.maintenance.health import check_files, check_health, check_home

    def due() -> Sequence[str]:
        return engine.lifecycle_index().due()

    store, job = engine.store, engine.job(())
    reply = check_health(
        store, engine.embedder, job.known_roots, engine.tombstones(), duplicates=request.duplicates, due=due
    )
    files = check_files(store, replace(job, roots=job.known_roots))
    home = check_home(engine.place, engine.roots, engine.record_pages.open_records)
    reply = replace(reply, checks=(*reply.checks, *files, *home))
    if engine.defaults.review_judge == "none":
        return reply
    state = engine.judge_state(call.environment, engine.log_projects())
    waiting = f"{plural(state.open, 'statement')} {'waits' if state.open == 1 else 'wait'} for {state.judge}"
    message = f"{state.problem}; {waiting}" if state.problem else waiting
    hint = "'lorelog review run' tries it now; 'lorelog review' lets you file it yourself" if state.problem else ""
    return replace(reply, checks=(*reply.checks, HealthCheck("judge", ok=True, message=message, hint=hint)))


@OPERATIONS.declare("memory.reset", ShellCommand("reset"), writes=True, needs="maintain")
def reset(engine: Engine, request: EmptyRequest, call: RequestContext) -> ResetReply:
    """Delete the index. Your files stay, and `memory.index` rebuilds it."""
    engine.store.reset()
    return ResetReply(deleted=str(engine.place.cache_folder))


@OPERATIONS.declare("roots.list")
def list_roots(engine: Engine, request: EmptyRequest, call: RequestContext) -> RootsReply:
    """List the files and directories that are indexed and watched by the daemon."""
    return RootsReply(roots=tuple(engine.maintenance().list_roots()))


@OPERATIONS.declare("roots.remove", errors=(NotFound,), writes=True, needs="maintain")
def remove_roots(engine: Engine, request: RootsRequest, call: RequestContext) -> RemovedRoots:
    """Stop indexing roots and the roots inside them, and drop their documents from the index; the files stay."""
    paths = tuple(resolve_path(path, call.directory) for path in request.paths)
    journals = map(os.path.realpath, (engine.place.journals, engine.place.global_journals))
    if any(is_below(folder, path) for folder in journals for path in paths):
        call.check("approve", "take the journals out of the index")
    return RemovedRoots(forgotten=paths, documents=engine.maintenance().forget_roots(list(paths)))


class StoreRequest(OperationRequest, frozen=True, kw_only=True):
    """Whether to repair differences."""

    repair: Annotated[
        bool, about("Repair differences from the catalog, and embed the texts whose vectors are lost.")
    ] = False


@OPERATIONS.declare("memory.check_store", errors=(StoreUnreachable,), writes=True, needs="maintain")
def check_store(engine: Engine, request: StoreRequest, call: RequestContext) -> StoreComparison:
    """Compare the catalog with the search index: the rows in Milvus, or the local index files.

    Reads every row. `repair` adds missing rows, deletes surplus ones and makes lost vectors again.
    """
    from lorelog.services.indexing.run import IndexRun

    found = engine.store.compare(repair=request.repair)
    if request.repair and engine.embedder is not None and engine.store.serves_model():
        lost = IndexRun(engine.store, engine.embedder, engine.job(())).over_roots().waiting
        return replace(found, repaired=not lost)
    return found
