"""`Lorelog`: the operations as Python methods with typed replies.

    from lorelog import Lorelog

    with Lorelog(".") as memory:
        memory.index("notes")
        for hit in memory.search("why redis?"):
            print(hit.source, hit.start_line, hit.snippet)

Methods work in the daemon if one runs and may be used, otherwise in this process (`calls.py`). A method whose parameters
are the fields of its operation is declared by the request; the classes and functions here are the parameters of the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from msgspec import Meta

from lorelog.core.errors import UsageError
from lorelog.core.ports import Progress
from lorelog.operations import backup as backup_operations
from lorelog.operations import forget as forget_operations
from lorelog.operations import index as index_operations
from lorelog.operations import lifecycle as lifecycle_operations
from lorelog.operations import measures as measures_operations
from lorelog.operations import memory as memory_operations
from lorelog.operations import search as search_operations
from lorelog.operations import session as session_operations
from lorelog.operations.backup import ExportRequest
from lorelog.operations.index import RemovedRoots
from lorelog.operations.requests import EmptyRequest
from lorelog.operations.search import SearchRequest
from lorelog.surfaces.python.calls import OperationCaller, start_watch
from lorelog.surfaces.python.methods import (
    PROGRESS_HELP,
    Blocking,
    DaemonMode,
    Day,
    Fields,
    ModeT,
    Names,
    OperationMethods,
    PathArgument,
    PathArguments,
    method,
    to_arguments,
)

if TYPE_CHECKING:
    from lorelog.operations.requests import Identity
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python import namespaces
    from lorelog.surfaces.python.calls import FileWatch

_PROJECTS = Meta(description="Only these projects, by directory; the empty text is the global project.")


def index(
    paths: PathArguments = (),
    *,
    to_global: bool = False,
    exclude: Names = (),
    ignore_files: Names = (),
    force: bool = False,
    vectors: bool = True,
    reembed: bool = False,
    progress: Progress | None = None,
) -> Fields:
    """Update the index from files and directories (`!path` excludes one); without paths, from the indexed ones.

    A file that cannot be read is listed in `problems` of the report and does not stop the run. `reembed` recomputes
    all vectors, and serves the new ones when they are complete.
    """
    return locals()


def roll_back() -> Fields:
    """Serve the vectors that were served before the last change of models."""
    return {"rollback": True}


def forget_old_vectors() -> Fields:
    """Delete all vectors that are not served."""
    return {"forget_old": True}


def add_batch(
    texts: Iterable[str | Mapping[str, Any]], *, to_global: bool = False, keep_secrets: bool = False
) -> Fields:
    """Append several memories, all or none: texts, or mappings with text, type, tags, origin, expires and cues."""
    if isinstance(texts, str | Mapping):
        texts = [texts]
    elif not isinstance(texts, Iterable):
        raise UsageError(f"texts must be texts or dictionaries (got {texts!r:.60})")
    memories = [
        to_arguments(memory_operations.MemoryText, text) if isinstance(text, Mapping) else {"text": text}
        for text in texts
    ]
    return {"memories": memories, "to_global": to_global, "keep_secrets": keep_secrets}


def forget(
    *ids: Identity,
    match: str = "",
    session: str = "",
    since: Day | None = None,
    until: Day | None = None,
    all_projects: bool = False,
    dry_run: bool = False,
    confirm: bool = False,
    edit_files: bool = False,
    complete: bool = False,
) -> Fields:
    """Erase text permanently from every file, and verify that it is gone; `confirm` is required, `dry_run` only tells."""
    return locals()


def feedback(query: str, id: Identity, *, relevant: bool) -> Fields:  # noqa: A002
    """Record whether a memory answers a query."""
    return {"query": query, "id": id, "relevance": "relevant" if relevant else "irrelevant"}


def evaluate(
    queries: PathArgument | None = None, qrels: PathArgument | None = None, *, k: int = 10, all_projects: bool = False
) -> Fields:
    """Measure search with judged questions: from two files, or from `feedback` if no files are given."""
    files = {"queries": queries, "qrels": qrels}
    return {**files, "feedback": queries is None and qrels is None, "k": k, "all_projects": all_projects}


class SearchParameters(SearchRequest, frozen=True, kw_only=True):
    """A search, with projects by their directories."""

    project: Annotated[PathArguments | None, _PROJECTS] = None  # type: ignore[assignment]


class ListParameters(memory_operations.ListRequest, frozen=True, kw_only=True):
    """A list, with projects by their directories."""

    project: Annotated[PathArguments | None, _PROJECTS] = None  # type: ignore[assignment]


class CompactParameters(lifecycle_operations.CompactRequest, frozen=True, kw_only=True):
    """What to summarize, and a function that is called during the work."""

    progress: Annotated[Progress | None, Meta(description=PROGRESS_HELP)] = None


class MemoryMethods(OperationMethods[ModeT]):
    """The methods of `Lorelog` and of `AsyncLorelog`."""

    index = method(index, index_operations.index)
    roll_back = method(roll_back, index_operations.index)
    forget_old_vectors = method(forget_old_vectors, index_operations.index)
    roots = method(EmptyRequest, index_operations.list_roots)
    search = method(SearchParameters, search_operations.search)
    expand = method(memory_operations.ExpandRequest, memory_operations.expand)
    transcript = method(memory_operations.TranscriptRequest, memory_operations.transcript)
    get = method(memory_operations.IdentityRequest, memory_operations.get)
    list = method(ListParameters, memory_operations.list_memories)
    add = method(memory_operations.AddRequest, memory_operations.add)
    add_batch = method(add_batch, memory_operations.add_batch)
    delete = method(memory_operations.IdentityRequest, memory_operations.delete)
    restore = method(memory_operations.IdentityRequest, memory_operations.restore)
    forget = method(forget, forget_operations.forget)
    forget_verify = method(forget_operations.VerifyForgetRequest, forget_operations.verify_forget)
    forget_receipts = method(EmptyRequest, forget_operations.list_receipts)
    supersede = method(lifecycle_operations.SupersedeRequest, lifecycle_operations.supersede)
    edit = method(lifecycle_operations.EditRequest, lifecycle_operations.edit)
    set_expiry = method(lifecycle_operations.ExpiryRequest, lifecycle_operations.set_expiry)
    feedback = method(feedback, lifecycle_operations.feedback)
    find_near_duplicates = method(lifecycle_operations.NearDuplicatesRequest, lifecycle_operations.find_near_duplicates)
    compact = method(CompactParameters, lifecycle_operations.compact)
    health = method(index_operations.HealthRequest, index_operations.health)
    check_store = method(index_operations.StoreRequest, index_operations.check_store)
    evaluate = method(evaluate, measures_operations.evaluate)
    recall = method(session_operations.RecallRequest, session_operations.recall_memories)
    error_hints = method(session_operations.WhyHintRequest, session_operations.find_why_hints)
    capture = method(session_operations.CaptureRequest, session_operations.capture_session)
    session_status = method(EmptyRequest, measures_operations.get_session_status)
    timeline = method(session_operations.TimelineRequest, session_operations.list_timeline)
    hosts = method(EmptyRequest, measures_operations.list_hosts)
    handoff = method(session_operations.HandoffRequest, session_operations.hand_over)
    stats = method(measures_operations.StatsRequest, measures_operations.stats)
    cost = method(measures_operations.CostRequest, measures_operations.report_cost)
    export = method(ExportRequest, backup_operations.export)
    reset = method(EmptyRequest, index_operations.reset)

    task: namespaces.TaskNamespace[ModeT]
    artifact: namespaces.ArtifactNamespace[ModeT]
    context: namespaces.ContextNamespace[ModeT]
    sync: namespaces.SyncNamespace[ModeT]
    backup: namespaces.BackupNamespace[ModeT]
    ledger: namespaces.LedgerNamespace[ModeT]
    code: namespaces.CodeNamespace[ModeT]
    debug: namespaces.DebugNamespace[ModeT]
    guard: namespaces.GuardNamespace[ModeT]
    delivery: namespaces.DeliveryNamespace[ModeT]
    review: namespaces.ReviewNamespace[ModeT]
    settings: namespaces.SettingsNamespace[ModeT]

    if not TYPE_CHECKING:  # an unknown name is an error for type checkers

        def __getattr__(self, name: str) -> Any:
            """Open a namespace when it is first used: they load the other operations."""
            from lorelog.surfaces.python import namespaces

            kind = vars(namespaces).get(f"{name.capitalize()}Namespace")
            if kind is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            setattr(self, name, kind(self.run_operation))
            return getattr(self, name)


class Lorelog(MemoryMethods[Blocking]):
    """The memory of a project.

    Args:
        project: a directory of the project; the current directory if not given.
        home: home folder of the index; LORELOG_HOME or ~/.lorelog if not given.
        settings: setting keys and values that override all files and variables, such as
            `{"embedding.provider": "none"}`; see docs/configuration.md.
        daemon: "auto" uses the daemon if one runs, "off" never, "required" starts one; the setting daemon.warm if not
            given. Answers are the same either way.

    Invalid settings raise ConfigError at once. Models and the index are opened by the first method that needs them.
    Threads may share one object. After `close()` every method raises UsageError.

    """

    def __init__(
        self,
        project: PathArgument | None = None,
        *,
        home: PathArgument | None = None,
        settings: Mapping[str, object] | None = None,
        daemon: DaemonMode | None = None,
    ) -> None:
        self._caller = OperationCaller(project, home=home, settings=settings, daemon=daemon)
        self._watches: list[FileWatch] = []
        super().__init__(self._caller.run)

    def __enter__(self) -> Self:
        self._caller.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = self._caller.location
        return f"Lorelog(project={place.project.root!r}, home={str(place.home)!r})"

    def close(self) -> None:
        """Stop watching, and close files and models. May be called twice."""
        while self._watches:
            self._watches.pop().stop()
        self._caller.close()

    def forget_roots(self, paths: PathArguments) -> int:
        """Stop indexing these roots and drop their documents from the index; return the number of documents dropped."""
        removed: RemovedRoots = self.run_operation("roots.remove", {"paths": paths})
        return removed.documents

    def call(self, op: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call any operation by name with JSON arguments and return its JSON, as `lorelog call` does."""
        return self._caller.call(op, arguments or {})

    def watch(self, paths: PathArguments = (), *, on_event: Callable[[WatchPass], object] | None = None) -> FileWatch:
        """Index files as they change, from a thread of this process, until the watch is stopped.

        Given paths are indexed first; without paths, the indexed ones of this project are watched. `on_event` is called
        after each pass with its report or error, in that thread. The daemon, if one runs, watches by itself.
        """
        given = to_arguments(index_operations.IndexRequest, {"paths": paths})["paths"]
        self._caller.check_open()
        watch = start_watch(self._caller, given, on_event)
        self._watches.append(watch)
        return watch
