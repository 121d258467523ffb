"""`Lorelog`: the operations as Python methods with typed replies.

    from lorelog import Lorelog

    with Lorelog(".") as memory:
        memory.index("notes")
        for hit in memory.search("why redis?"):
            print(hit.source, hit.start_line, hit.snippet)

Methods work in the daemon if one runs and may be used, otherwise in this process (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from msgspec import UNSET, UnsetType

from lorelog.core.errors import UsageError
from lorelog.core.memory import (
    AddReply,
    DeleteReply,
    DuplicatesReply,
    EpisodeReply,
    ExpandReply,
    ExpiryReply,
    FeedbackReply,
    GetReply,
    HealthReply,
    IndexReport,
    ListReply,
    SupersedeReply,
)
from lorelog.core.ports import Progress, StoreComparison, StoreStats
from lorelog.core.query import Fusion, Lane, SearchReply, TrustFilter
from lorelog.engine import Engine
from lorelog.operations.forget import handlers as forget_handlers
from lorelog.operations.memory import handlers
from lorelog.operations.memory.schema import EditReply, IndexRequest, MemoryText
from lorelog.operations.operation import RequestContext
from lorelog.operations.search import handlers as search_handlers
from lorelog.operations.session import handlers as session_handlers
from lorelog.operations.store import handlers as store_handlers
from lorelog.surfaces.python.calls import OperationCaller
from lorelog.surfaces.python.values import (
    DaemonMode,
    Day,
    FilterArgument,
    Identity,
    Names,
    PathArgument,
    PathArguments,
    filter_arguments,
    id_of,
    to_arguments,
)

if TYPE_CHECKING:
    from lorelog.core.memory import CompactReply
    from lorelog.core.session import CaptureReply, SessionStatus, TranscriptReply
    from lorelog.operations.backup.schema import ExportFormat, ExportReply
    from lorelog.operations.session.schema import HandoffReply, HostsReply, TimelineReply, WhyHintReply
    from lorelog.operations.store.handlers import CostGroup, GrowthReply
    from lorelog.services.evaluation.search_quality import EvaluateReply
    from lorelog.services.forget.forget_plan import Receipt
    from lorelog.services.forget.forgetter import ForgetReply
    from lorelog.services.forget.residues import ResidueReport
    from lorelog.services.llm.receipts import CostReply
    from lorelog.services.places.roots import RootStatus
    from lorelog.services.sessions.recall import RecalledMemory
    from lorelog.services.watch.watcher import WatchPass
    from lorelog.surfaces.python import namespaces
    from lorelog.surfaces.python.namespaces import Blocking
    from lorelog.surfaces.python.watch import FileWatch

OriginName = Literal["user", "agent", "tool", "import"]
LaneName = Lane | Literal["hybrid", "lexical", "dense"]
FusionName = Fusion | Literal["convex", "rrf"]
TrustName = TrustFilter | Literal["any", "canonical", "verified"]
ValueT = TypeVar("ValueT")


class Lorelog:
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

    def __enter__(self) -> Self:
        self._caller.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        place = self._caller.location
        return f"Lorelog(project={place.project.root!r}, home={str(place.home)!r})"

    def close(self) -> None:
        """Stop watching, and close files and models. May be called twice."""
        while self._watches:
            self._watches.pop().stop()
        self._caller.close()

    @cached_property
    def task(self) -> namespaces.TaskNamespace[Blocking]:
        """Operations on tasks."""
        from lorelog.surfaces.python.namespaces import TaskNamespace

        return TaskNamespace(self._caller.run_named)

    @cached_property
    def artifact(self) -> namespaces.ArtifactNamespace[Blocking]:
        """Operations on artifacts, which are records."""
        from lorelog.surfaces.python.namespaces import ArtifactNamespace

        return ArtifactNamespace(self._caller.run_named)

    @cached_property
    def context(self) -> namespaces.ContextNamespace[Blocking]:
        """Operations that collect context for an agent."""
        from lorelog.surfaces.python.namespaces import ContextNamespace

        return ContextNamespace(self._caller.run_named)

    @cached_property
    def sync(self) -> namespaces.SyncNamespace[Blocking]:
        """Operations on exchanges with other machines."""
        from lorelog.surfaces.python.namespaces import SyncNamespace

        return SyncNamespace(self._caller.run_named)

    @cached_property
    def backup(self) -> namespaces.BackupNamespace[Blocking]:
        """Operations on backups of the home."""
        from lorelog.surfaces.python.namespaces import BackupNamespace

        return BackupNamespace(self._caller.run_named)

    @cached_property
    def ledger(self) -> namespaces.LedgerNamespace[Blocking]:
        """Operations on the ledger."""
        from lorelog.surfaces.python.namespaces import LedgerNamespace

        return LedgerNamespace(self._caller.run_named)

    @cached_property
    def code(self) -> namespaces.CodeNamespace[Blocking]:
        """Operations on indexed code."""
        from lorelog.surfaces.python.namespaces import CodeNamespace

        return CodeNamespace(self._caller.run_named)

    @cached_property
    def debug(self) -> namespaces.DebugNamespace[Blocking]:
        """Operations on traced calls and errors."""
        from lorelog.surfaces.python.namespaces import DebugNamespace

        return DebugNamespace(self._caller.run_named)

    @cached_property
    def guard(self) -> namespaces.GuardNamespace[Blocking]:
        """Operations on guards, which check agents' tool calls."""
        from lorelog.surfaces.python.namespaces import GuardNamespace

        return GuardNamespace(self._caller.run_named)

    @cached_property
    def delivery(self) -> namespaces.DeliveryNamespace[Blocking]:
        """Operations on the memories that agents were shown."""
        from lorelog.surfaces.python.namespaces import DeliveryNamespace

        return DeliveryNamespace(self._caller.run_named)

    @cached_property
    def settings(self) -> namespaces.SettingsNamespace[Blocking]:
        """Operations on settings files."""
        from lorelog.surfaces.python.namespaces import SettingsNamespace

        return SettingsNamespace(self._caller.run_named)

    def index(
        self,
        paths: PathArguments = (),
        *,
        to_global: bool = False,
        exclude: Names = (),
        ignore_files: Names = (),
        force: bool = False,
        vectors: bool = True,
        reembed: bool | Literal["anyway"] = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Update the index from files and directories (`!path` excludes one); without paths, from the indexed ones.

        A file that cannot be read is listed in `problems` of the report and does not stop the run. `reembed` recomputes
        all vectors and serves the new ones unless they are clearly worse ("anyway": even then).
        """
        return self._run(
            handlers.index,
            progress,
            paths=paths,
            to_global=to_global,
            exclude=exclude,
            ignore_files=ignore_files,
            force=force,
            vectors=vectors,
            reembed=bool(reembed),
            anyway=reembed == "anyway",
        )

    def roll_back(self) -> IndexReport:
        """Serve the vectors that were served before the last change of models."""
        return self._run(handlers.index, rollback=True)

    def forget_old_vectors(self) -> IndexReport:
        """Delete all vectors that are not served."""
        return self._run(handlers.index, forget_old=True)

    def forget_roots(self, paths: PathArguments) -> int:
        """Stop indexing these roots and drop their documents from the index; return the number of documents dropped."""
        return self._run(handlers.remove_roots, paths=paths).documents

    def roots(self) -> Sequence[RootStatus]:
        """List the indexed files and directories."""
        return self._run(handlers.list_roots)

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        lane: LaneName | None = None,
        fusion: FusionName | None = None,
        types: Names = (),
        tags: Names = (),
        since: Day | None = None,
        until: Day | None = None,
        source: PathArgument | None = None,
        project: PathArguments | None = None,
        filters: FilterArgument | None = None,
        all_projects: bool = False,
        token_budget: int | None = None,
        min_relevance: float | None = None,
        include_superseded: bool | None = None,
        include_expired: bool | None = None,
        trust: TrustName | None = None,
        one_per_memory: bool = False,
    ) -> SearchReply:
        """Search this project and the global memories, or all projects, best hit first.

        A hit has one of the `types`, all of the `tags`, and lies between the days `since` and `until`, at or below the
        path `source`, and in one of the projects of the directories `project`. `filters` has the same as one value.

        Options that are not given come from the settings. With a token budget `hits` are those that fit, each with the
        text to show in `packed`.
        """
        return self._run(
            search_handlers.search,
            query=query,
            k=k,
            lane=lane,
            fusion=fusion,
            all_projects=all_projects,
            token_budget=token_budget,
            min_relevance=min_relevance,
            include_superseded=include_superseded,
            include_expired=include_expired,
            trust=trust,
            one_per_memory=one_per_memory,
            **filter_arguments(
                filters, types=types, tags=tags, since=since, until=until, source=source, project=project
            ),
        )

    def expand(self, identity: Identity, *, lines: int | None = None, cues: bool = False) -> ExpandReply:
        """Return the whole section around a hit, named by itself or its id, or `lines` lines before and after it.

        With `cues`, the reply has the cues that are derived from its text.
        """
        return self._run(handlers.expand, id=id_of(identity), lines=lines, cues=cues)

    def transcript(self, place: Identity, *, turn: str = "", context: int = 3) -> TranscriptReply:
        """Return the conversation that a memory was captured from, around its turn."""
        return self._run(handlers.transcript, place=id_of(place, "place"), turn=turn, context=context)

    def get(self, identity: Identity) -> GetReply:
        """Return one memory by its id, or report that it is deleted or unknown."""
        return self._run(handlers.get, id=id_of(identity))

    def list(
        self,
        filters: FilterArgument | None = None,
        *,
        types: Names = (),
        tags: Names = (),
        since: Day | None = None,
        until: Day | None = None,
        source: PathArgument | None = None,
        project: PathArguments | None = None,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
        include_superseded: bool = False,
        include_expired: bool = False,
        due: bool = False,
    ) -> ListReply:
        """List memories or documents, newest first; with `due`, memories due for review. Filters are those of `search`."""
        return self._run(
            handlers.list_memories,
            documents=documents,
            limit=limit,
            all_projects=all_projects,
            include_superseded=include_superseded,
            include_expired=include_expired,
            due=due,
            **filter_arguments(
                filters, types=types, tags=tags, since=since, until=until, source=source, project=project
            ),
        )

    def add(
        self,
        text: str,
        *,
        type: str = "",  # noqa: A002
        tags: Names = (),
        origin: OriginName = "user",
        to_global: bool = False,
        expires: Day = "",
        cues: Names = (),
        keep_secrets: bool = False,
    ) -> AddReply:
        """Append a memory to today's journal. It is searchable when this returns, until the day it `expires`.

        `cues` say when an agent is shown it: `path=src/db/**`, `command=npm *`; see docs/delivery.md. Secrets in the
        text are redacted, and `redacted` of the reply counts them; `keep_secrets` keeps those of a person's own text.
        """
        return self._run(
            handlers.add,
            text=text,
            type=type,
            tags=tags,
            origin=origin,
            to_global=to_global,
            expires=expires,
            cues=cues,
            keep_secrets=keep_secrets,
        )

    def add_batch(
        self, texts: Iterable[str | Mapping[str, Any]], *, to_global: bool = False, keep_secrets: bool = False
    ) -> Sequence[AddReply]:
        """Append several memories, all or none: texts, or mappings with text, type, tags, origin, expires and cues."""
        if isinstance(texts, str | Mapping):
            texts = [texts]
        elif not isinstance(texts, Iterable):
            raise UsageError(f"texts must be texts or dictionaries (got {texts!r:.60})")
        memories = [to_arguments(MemoryText, text) if isinstance(text, Mapping) else {"text": text} for text in texts]
        return self._run(handlers.add_batch, memories=memories, to_global=to_global, keep_secrets=keep_secrets)

    def delete(self, identity: Identity) -> DeleteReply:
        """Hide a memory from every search and list; its file is not changed."""
        return self._run(handlers.delete, id=id_of(identity))

    def forget(
        self,
        *identities: Identity,
        match: str = "",
        session: str = "",
        since: Day | None = None,
        until: Day | None = None,
        all_projects: bool = False,
        dry_run: bool = False,
        confirm: bool = False,
        edit_files: bool = False,
        complete: bool = False,
    ) -> ForgetReply:
        """Take text out of every file, for good, and prove it; `confirm` is required, `dry_run` only tells."""
        return self._run(
            forget_handlers.forget,
            ids=[id_of(identity) for identity in identities],
            match=match,
            session=session,
            since=since,
            until=until,
            all_projects=all_projects,
            dry_run=dry_run,
            confirm=confirm,
            edit_files=edit_files,
            complete=complete,
        )

    def forget_verify(self, receipt: str = "last") -> tuple[Receipt, ResidueReport]:
        """Search again for what was forgotten, by its receipt; return the receipt and what was found."""
        return self._run(forget_handlers.verify_forget, receipt=receipt)

    def forget_receipts(self) -> Sequence[Receipt]:
        """Return the receipts of forgotten text, newest first."""
        return self._run(forget_handlers.list_receipts)

    def restore(self, identity: Identity) -> DeleteReply:
        """Show a deleted memory again."""
        return self._run(handlers.restore, id=id_of(identity))

    def supersede(
        self,
        identity: Identity,
        text: str,
        *,
        type: str = "",  # noqa: A002
        tags: Names = (),
        origin: OriginName = "user",
        cues: Names = (),
        keep_secrets: bool = False,
    ) -> SupersedeReply:
        """Replace a memory by a new one and hide the old one. Secrets in the text are redacted, as in `add`."""
        return self._run(
            handlers.supersede,
            id=id_of(identity),
            text=text,
            type=type,
            tags=tags,
            origin=origin,
            cues=cues,
            keep_secrets=keep_secrets,
        )

    def edit(self, identity: Identity, before: str, text: str, *, keep_secrets: bool = False) -> EditReply:
        """Edit a memory's section in its file. `before` is the text that `expand` returned, which is replaced."""
        return self._run(handlers.edit, id=id_of(identity), before=before, text=text, keep_secrets=keep_secrets)

    def set_expiry(
        self,
        identity: Identity,
        *,
        expires: Day | UnsetType | None = UNSET,
        review_after: Day | UnsetType | None = UNSET,
    ) -> ExpiryReply:
        """Set the last day a memory is shown, or the day it is due for review; None removes a day."""
        return self._run(handlers.set_expiry, id=id_of(identity), expires=expires, review_after=review_after)

    def feedback(self, query: str, identity: Identity, *, relevant: bool) -> FeedbackReply:
        """Record whether a memory answers a query."""
        relevance = "relevant" if relevant else "irrelevant"
        return self._run(handlers.feedback, query=query, id=id_of(identity), relevance=relevance)

    def find_near_duplicates(
        self, *, threshold: float | None = None, limit: int = 20, types: Names = (), all_projects: bool = False
    ) -> DuplicatesReply:
        """Find memories that say nearly the same, and which one to keep."""
        return self._run(
            handlers.find_near_duplicates, threshold=threshold, limit=limit, types=types, all_projects=all_projects
        )

    def consolidate_episode(
        self, episode_id: str, *, max_chunks: int = 50, retain_source_chunks: bool = True
    ) -> EpisodeReply:
        """Summarize the memories of an episode in one memory."""
        return self._run(
            handlers.consolidate_episode,
            episode_id=episode_id,
            max_chunks=max_chunks,
            retain_source_chunks=retain_source_chunks,
        )

    def compact(
        self,
        *,
        source: PathArgument | None = None,
        since: Day | None = None,
        until: Day | None = None,
        output_dir: PathArgument | None = None,
        llm: str | None = None,
        prompt_file: PathArgument | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CompactReply:
        """Summarize the project's memories in one memory that cites its sources; `llm="none"` extracts sentences.

        Rejected lines are in `dropped` of the reply. If the model fails or today's limit is reached, nothing is written.
        """
        return self._run(
            handlers.compact,
            progress,
            source=source,
            since=since,
            until=until,
            output_dir=output_dir,
            llm=llm,
            prompt_file=prompt_file,
            dry_run=dry_run,
        )

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Check the index and report what needs attention."""
        return self._run(handlers.health, duplicates=duplicates)

    def check_store(self, *, repair: bool = False) -> StoreComparison:
        """Compare the catalog with the search index, in Milvus or local files; repair differences if `repair`."""
        return self._run(store_handlers.check_store, repair=repair)

    def evaluate(
        self,
        queries: PathArgument | None = None,
        qrels: PathArgument | None = None,
        *,
        k: int = 10,
        all_projects: bool = False,
    ) -> EvaluateReply:
        """Measure search with judged questions: from two files, or from `feedback` if no files are given."""
        return self._run(
            handlers.evaluate,
            queries=queries,
            qrels=qrels,
            feedback=queries is None and qrels is None,
            k=k,
            all_projects=all_projects,
        )

    def recall(
        self,
        prompt: str,
        *,
        host: str = "",
        session: str = "",
        k: int | None = None,
        min_relevance: float | None = None,
    ) -> Sequence[RecalledMemory]:
        """Return the few memories that match a prompt, each at most once per session: for hooks of agents."""
        return self._run(
            session_handlers.recall_memories,
            prompt=prompt,
            host=host,
            session=session,
            k=k,
            min_relevance=min_relevance,
        )

    def error_hints(self, text: str, *, session: str = "") -> WhyHintReply:
        """Return what fixed the error of a failed command in an earlier session: for hooks of agents."""
        return self._run(session_handlers.find_why_hints, text=text, session=session)

    def capture(
        self,
        host: str,
        session: str,
        transcript: PathArgument,
        *,
        moment: str = "turn-end",
        turn: str = "",
        at: str = "",
        offset: int = 0,
        directory: PathArgument = "",
        branch: str = "",
        commit: str = "",
        agent: str = "",
        source: str = "",
        answer: str = "",
        again: bool = False,
        everything: bool = False,
        since: Day = "",
        dry_run: bool = False,
        upgrade: bool = False,
    ) -> CaptureReply:
        """Write the finished turns of an agent's session to journals, each once. See session.capture for the fields."""
        return self._run(
            session_handlers.capture_session,
            host=host,
            session=session,
            transcript=transcript,
            moment=moment,
            turn=turn,
            at=at,
            offset=offset,
            directory=directory,
            branch=branch,
            commit=commit,
            agent=agent,
            source=source,
            answer=answer,
            again=again,
            everything=everything,
            since=since,
            dry_run=dry_run,
            upgrade=upgrade,
        )

    def session_status(self) -> SessionStatus:
        """Show the last capture of each host, and the events still waiting."""
        return self._run(session_handlers.get_session_status)

    def timeline(
        self,
        *,
        session: str = "",
        since: str | None = None,
        until: str | None = None,
        all_projects: bool = False,
        limit: int = 500,
    ) -> TimelineReply:
        """List sessions by day, newest first: what was asked in them, what came of it, and what they were shown."""
        scope = {"session": session, "all_projects": all_projects, "limit": limit}
        return self._run(session_handlers.list_timeline, since=since, until=until, **scope)

    def hosts(self) -> HostsReply:
        """Show the agents' hosts on this machine: whether lorelog is installed, what is left to approve, the last capture."""
        return self._run(session_handlers.list_hosts)

    def handoff(self, to: str = "", *, session: str = "", inject: bool = False) -> HandoffReply:
        """Return what the next agent needs of a session; the newest one by default."""
        return self._run(session_handlers.hand_over, to=to, session=session, inject=inject)

    def stats(self) -> StoreStats:
        """Return the sizes of the index."""
        self._caller.check_open()
        return self._caller.engine.store.stats()

    def cost(self, since: Day = "7d", *, by: CostGroup | Iterable[CostGroup] = ()) -> CostReply:
        """Show the cost of models in tokens since a day, and what is left of today's limits."""
        return self._run(store_handlers.report_cost, since=since, by=by)

    def growth(self, since: Day = "1y", *, all_projects: bool = False) -> GrowthReply:
        """Show how the index and the journals grew: documents, chunks and bytes of Markdown by day."""
        return self._run(store_handlers.report_growth, since=since, all_projects=all_projects)

    def export(
        self,
        out: PathArgument | None = None,
        *,
        format: ExportFormat = "markdown",  # noqa: A002
        all_projects: bool = False,
        with_global: bool = False,
        since: Day | None = None,
    ) -> ExportReply:
        """Export memories as Markdown, or memories and records as JSON Lines: to a file, or into the reply."""
        from lorelog.operations.backup import handlers as backup_handlers

        return self._run(
            backup_handlers.export,
            out=out,
            format=format,
            all_projects=all_projects,
            with_global=with_global,
            since=since,
        )

    def reset(self) -> None:
        """Delete the index; the files it was made from stay."""
        self._run(handlers.reset)

    def call(self, op: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call any operation by name with JSON arguments and return its JSON, as `lorelog call` does."""
        return self._caller.call(op, arguments or {})

    def watch(self, paths: PathArguments = (), *, on_event: Callable[[WatchPass], object] | None = None) -> FileWatch:
        """Index files as they change, from a thread of this process, until the watch is stopped.

        Given paths are indexed first; without paths, the indexed ones of this project are watched. `on_event` is called
        after each pass with its report or error, in that thread. The daemon, if one runs, watches by itself.
        """
        from lorelog.surfaces.python.watch import start_watch

        given = to_arguments(IndexRequest, {"paths": paths})["paths"]
        self._caller.check_open()
        watch = start_watch(self._caller, given, on_event)
        self._watches.append(watch)
        return watch

    def _run(
        self,
        handler: Callable[[Engine, Any, RequestContext], ValueT],
        progress: Progress | None = None,
        /,
        **values: Any,
    ) -> ValueT:
        """Run the operation of a handler. Values that are None or UNSET count as not given."""
        value: ValueT = self._caller.run(handler, values, progress)
        return value
