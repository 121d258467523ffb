"""Python asks: the same verbs as the shell, with typed results.

from lorelog import Lorelog

with Lorelog(project=".") as memory:
    memory.index(["notes/"])
    for hit in memory.search("why redis?").hits:
        print(hit.score, hit.source, hit.start_line)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack

from lorelog.core.errors import UsageError
from lorelog.core.memory import (
    AddReply,
    DeleteReply,
    EpisodeReply,
    ExpandReply,
    ExpiryReply,
    FeedbackReply,
    GetReply,
    HealthReply,
    IndexReport,
    ListReply,
    SupersedeReply,
    TwinsReply,
)
from lorelog.core.ports import Comparison, Progress, StoreStats
from lorelog.core.query import Filters, Fusion, Lane, SearchReply, Trusted
from lorelog.operations import compact, cost, lifecycle, memory, recall, requests, store
from lorelog.operations import lifecycle_requests as asked
from lorelog.operations import session as session_operations
from lorelog.operations.dispatch import Caller, Dispatcher
from lorelog.operations.operation import Call
from lorelog.surfaces.python_code import CodeVerbs
from lorelog.surfaces.python_debug import DebugVerbs
from lorelog.surfaces.python_records import ArtifactVerbs, ContextVerbs, LedgerVerbs, TaskVerbs
from lorelog.wiring import open_engine, standpoint, working_directory

if TYPE_CHECKING:
    from lorelog.core.compact import CompactReply
    from lorelog.core.session import CaptureReply, SessionStatus
    from lorelog.core.transcript import TranscriptReply
    from lorelog.services.cost import CostReply
    from lorelog.services.evaluate import EvaluateReply
    from lorelog.services.roots import KnownRoot
    from lorelog.services.session.recall import Recalled

Path = str | os.PathLike[str]
Origin = Literal["user", "agent", "tool", "import"]
Choice = TypeVar("Choice", Lane, Fusion, Trusted)


class SearchChoices(TypedDict, total=False):
    """What a search may be told; None is as good as nothing."""

    k: int | None
    lane: Lane | str | None
    fusion: Fusion | str | None
    filters: Filters | None
    token_budget: int | None
    min_relevance: float | None
    include_superseded: bool | None
    include_expired: bool | None
    trust: Trusted | str | None


class CompactChoices(TypedDict, total=False):
    """What is summed up, by whom, and where the summary goes; None is as good as nothing."""

    source: Path | None
    since: str | None
    until: str | None
    output_dir: Path | None
    llm: str | None
    prompt_file: Path | None
    dry_run: bool


class DayChoices(TypedDict, total=False):
    """The days of a memory; what is not given stays."""

    expires: str | None
    review_after: str | None


class ListChoices(TypedDict, total=False):
    """Which memories a list shows beyond the usual, or `due` alone."""

    include_superseded: bool
    include_expired: bool
    due: bool


class Lorelog:
    """A memory, seen from a project.

    Args:
        project: a directory of the project; the current directory if not given.
        home: where the index lives; LORELOG_HOME or ~/.lorelog if not given.
        settings: setting keys and values that go above every file and variable, such as
            `{"embedding.provider": "none"}`; see docs/configuration.md.

    Wrong settings raise ConfigError at once; a model or an index is first opened by the verb that needs it.

    """

    def __init__(
        self, *, project: Path | None = None, home: Path | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        self._engine = open_engine(standpoint(home=home, project=project), settings)
        self._dispatcher = Dispatcher(lambda here, flags: open_engine(here, {**(settings or {}), **flags}))
        self._home = None if home is None else os.fspath(home)
        self._project = None if project is None else os.fspath(project)
        self.task = TaskVerbs(self.call)
        self.artifact = ArtifactVerbs(self.call)
        self.context = ContextVerbs(self.call)
        self.ledger = LedgerVerbs(self.call)
        self.code = CodeVerbs(self.call)
        self.debug = DebugVerbs(self.call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of files and model. May be called twice."""
        self._engine.close()

    def index(
        self,
        paths: Iterable[Path] = (),
        *,
        to_global: bool = False,
        force: bool = False,
        vectors: bool = True,
        reembed: bool | Literal["anyway"] = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Bring the index up to date with files and directories (`!path` leaves one out).

        A file that cannot be read is in `problems` of the report and does not stop the run. With `reembed` all vectors are
        made anew beside the old ones, and take their place unless they are clearly worse ("anyway": also then).
        """
        request = requests.IndexRequest(
            paths=[os.fspath(path) for path in paths],
            to_global=to_global,
            force=force,
            vectors=vectors,
            reembed=bool(reembed),
            anyway=reembed == "anyway",
        )
        return memory.index(self._engine, request, self._call(progress))

    def roll_back(self) -> IndexReport:
        """Serve the vectors again that were served before the last change of models."""
        return memory.index(self._engine, requests.IndexRequest(rollback=True), self._call())

    def forget_old_vectors(self) -> IndexReport:
        """Drop all vectors but those that answer."""
        return memory.index(self._engine, requests.IndexRequest(forget_old=True), self._call())

    def forget_roots(self, paths: Iterable[Path]) -> int:
        """Drop what was indexed from these roots and stop indexing them; return the number of documents dropped."""
        request = requests.RootsRequest(paths=[os.fspath(path) for path in paths])
        return memory.remove_roots(self._engine, request, self._call())[1]

    def roots(self) -> Sequence[KnownRoot]:
        """List the files and directories that are indexed."""
        return memory.list_roots(self._engine, requests.Nothing(), self._call())

    def search(self, query: str, *, all_projects: bool = False, **choices: Unpack[SearchChoices]) -> SearchReply:
        """Find what was learned, best first: in this project and the global memories, or in all projects.

        What is not chosen comes from the settings. Under a token budget `hits` are those that fit, each with what to show
        of it in `packed`.
        """
        chosen: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
        unknown = sorted(set(chosen) - SearchChoices.__annotations__.keys())
        if unknown:
            raise TypeError(f"search() has no choice {unknown[0]!r}")
        if "lane" in chosen:
            chosen["lane"] = str(_one_of(Lane, chosen["lane"]))
        if "fusion" in chosen:
            chosen["fusion"] = str(_one_of(Fusion, chosen["fusion"]))
        if "trust" in chosen:
            chosen["trust"] = str(_one_of(Trusted, chosen["trust"]))
        filters = _filters(chosen.pop("filters", None))
        request = requests.SearchRequest(query=query, all_projects=all_projects, **filters, **chosen)
        return memory.search(self._engine, request, self._call())

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Show the whole section around a hit, or `lines` lines around it."""
        return memory.expand(self._engine, requests.ExpandRequest(id=identity, lines=lines), self._call())

    def transcript(self, place: str, *, turn: str = "", context: int = 3) -> TranscriptReply:
        """Show the conversation that a memory came from, around its turn."""
        request = requests.TranscriptRequest(place=place, turn=turn, context=context)
        return memory.transcript(self._engine, request, self._call())

    def get(self, identity: str) -> GetReply:
        """Return one memory by its id, or say that it is deleted or unknown."""
        return memory.get(self._engine, requests.IdentityRequest(id=identity), self._call())

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
        **choices: Unpack[ListChoices],
    ) -> ListReply:
        """List memories, or documents, newest first; superseded and expired ones, or only those due, where that is chosen."""
        given = {**choices, **_filters(filters)}
        request = requests.ListRequest(documents=documents, limit=limit, all_projects=all_projects, **given)
        return memory.list_(self._engine, request, self._call())

    def add(
        self,
        text: str,
        *,
        type: str = "",  # noqa: A002
        tags: Iterable[str] = (),
        to_global: bool = False,
        expires: str = "",
    ) -> AddReply:
        """Append a memory to today's journal; it can be searched for when this returns, until the day it `expires`."""
        request = requests.AddRequest(text=text, type=type, tags=[*tags], to_global=to_global, expires=expires)
        return memory.add(self._engine, request, self._call())

    def add_batch(self, texts: Iterable[str | Mapping[str, Any]], *, to_global: bool = False) -> Sequence[AddReply]:
        """Append several memories, all or none: texts, or mappings with text, type, tags and origin."""
        given = [{"text": one} if isinstance(one, str) else dict(one) for one in texts]
        request = requests.AddBatchRequest(memories=[requests.MemoryText(**one) for one in given], to_global=to_global)
        return memory.add_batch(self._engine, request, self._call())

    def delete(self, identity: str) -> DeleteReply:
        """Hide a memory from every search and list; its file is not touched."""
        return memory.delete(self._engine, requests.IdentityRequest(id=identity), self._call())

    def restore(self, identity: str) -> DeleteReply:
        """Bring a deleted memory back."""
        return memory.restore(self._engine, requests.IdentityRequest(id=identity), self._call())

    def supersede(
        self,
        identity: str,
        text: str,
        *,
        type: str = "",  # noqa: A002
        tags: Iterable[str] = (),
        origin: Origin = "user",
    ) -> SupersedeReply:
        """Put a new memory in the place of an old one, which is hidden from then on."""
        request = asked.SupersedeRequest(id=identity, text=text, type=type, tags=[*tags], origin=origin)
        return lifecycle.supersede(self._engine, request, self._call())

    def set_expiry(self, identity: str, **days: Unpack[DayChoices]) -> ExpiryReply:
        """Say until when a memory is shown (`expires`), or when to look at it again (`review_after`); None takes it back."""
        return lifecycle.set_expiry(self._engine, asked.ExpiryRequest(id=identity, **days), self._call())

    def feedback(self, query: str, identity: str, *, relevant: bool) -> FeedbackReply:
        """Say whether a memory answers a question."""
        request = asked.FeedbackRequest(query=query, id=identity, relevance="relevant" if relevant else "irrelevant")
        return lifecycle.feedback(self._engine, request, self._call())

    def find_near_duplicates(
        self,
        *,
        threshold: float | None = None,
        limit: int = 20,
        types: Iterable[str] = (),
        all_projects: bool = False,
    ) -> TwinsReply:
        """Find memories that say nearly the same, and which of them to keep."""
        request = asked.NearRequest(threshold=threshold, limit=limit, types=[*types], all_projects=all_projects)
        return lifecycle.find_near_duplicates(self._engine, request, self._call())

    def consolidate_episode(
        self, episode_id: str, *, max_chunks: int = 50, retain_source_chunks: bool = True
    ) -> EpisodeReply:
        """Sum the memories of an episode up in one."""
        request = asked.EpisodeRequest(
            episode_id=episode_id, max_chunks=max_chunks, retain_source_chunks=retain_source_chunks
        )
        return lifecycle.consolidate_episode(self._engine, request, self._call())

    def compact(self, *, progress: Progress | None = None, **choices: Unpack[CompactChoices]) -> CompactReply:
        """Sum up what the project remembers in one memory that cites its sources; `llm="none"` takes sentences out.

        Lines that do not hold are in `dropped` of the reply. When a model fails, or may cost no more today, nothing is written.
        """
        given: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
        for name in ("source", "output_dir", "prompt_file"):
            if name in given:
                given[name] = os.fspath(given[name])
        return compact.compact(self._engine, compact.CompactRequest(**given), self._call(progress))

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Look the index over and say what a person should do about it."""
        return memory.health(self._engine, requests.HealthRequest(duplicates=duplicates), self._call())

    def check_store(self, *, repair: bool = False) -> Comparison:
        """Compare the catalog with what finds its chunks, in Milvus or beside it, and mend what differs when asked."""
        return store.check_store(self._engine, store.StoreRequest(repair=repair), self._call())

    def evaluate(
        self, queries: Path | None = None, qrels: Path | None = None, *, k: int = 10, all_projects: bool = False
    ) -> EvaluateReply:
        """Measure how well judged questions are answered: those of two files, or what was said with `feedback`."""
        request = requests.EvaluateRequest(
            queries=None if queries is None else os.fspath(queries),
            qrels=None if qrels is None else os.fspath(qrels),
            feedback=queries is None and qrels is None,
            k=k,
            all_projects=all_projects,
        )
        return memory.evaluate(self._engine, request, self._call())

    def recall(
        self,
        prompt: str,
        *,
        host: str = "",
        session: str = "",
        k: int | None = None,
        min_relevance: float | None = None,
    ) -> Sequence[Recalled]:
        """Return the few memories that fit a prompt, none of them twice in a session: for hooks of agents."""
        request = requests.RecallRequest(prompt=prompt, host=host, session=session, k=k, min_relevance=min_relevance)
        return recall.recall(self._engine, request, self._call())

    def capture(self, host: str, session: str, transcript: Path, **told: Any) -> CaptureReply:
        """Write the finished turns of an agent's session to journals, each once; `told` is as session.capture takes it."""
        request = requests.CaptureRequest(host=host, session=session, transcript=os.fspath(transcript), **told)
        return session_operations.capture(self._engine, request, self._call())

    def session_status(self) -> SessionStatus:
        """Tell when something was last captured of each host, and what still waits."""
        return session_operations.status(self._engine, requests.Nothing(), self._call())

    def call(self, op: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Carry out any operation by name, JSON-like values in and out, as `lorelog call` does."""
        caller = Caller(working_directory(), dict(os.environ), self._home)
        given = {"project": self._project, **(arguments or {})}
        return self._dispatcher.call(op, given, caller)

    def stats(self) -> StoreStats:
        """Return the sizes of the index."""
        return memory.stats(self._engine, requests.Nothing(), self._call()).stats()

    def cost(self, since: str = "7d", *, by: Sequence[cost.Key] = ()) -> CostReply:
        """Tell what models have cost in tokens since a day, and what is left of today's limits."""
        return cost.cost(self._engine, cost.CostRequest(since=since, by=list(by)), self._call())

    def reset(self) -> None:
        """Delete the index; the files it was made from stay."""
        memory.reset(self._engine, requests.Nothing(), self._call())

    def _call(self, progress: Progress | None = None) -> Call:
        return Call(working_directory(), progress=progress, meter=self._dispatcher.meter)


def _filters(filters: Filters | None) -> dict[str, Any]:
    """Return filters as the operations name them."""
    if filters is None:
        return {}
    return {
        "projects": None if filters.projects is None else [*filters.projects],
        "source": filters.source_prefix or None,
        "since": filters.since or None,
        "until": filters.until or None,
        "types": [*filters.types],
        "tags": [*filters.tags],
    }


def _one_of(kind: type[Choice], given: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        raise UsageError(f"{given!r} is not one of {', '.join(kind)}") from None
