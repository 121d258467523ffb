"""Python asks: the same verbs as the shell, with typed results.

from recollect import Recollect

with Recollect(project=".") as memory:
    memory.index(["notes/"])
    for hit in memory.search("why redis?").hits:
        print(hit.score, hit.source, hit.start_line)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from recollect.core.errors import UsageError
from recollect.core.memory import AddReply, DeleteReply, ExpandReply, GetReply, HealthReply, IndexReport, ListReply
from recollect.core.ports import Progress, StoreStats
from recollect.core.query import Filters, Fusion, Lane, SearchReply
from recollect.operations import memory, recall, requests
from recollect.operations import session as session_operations
from recollect.operations.dispatch import Caller, Dispatcher
from recollect.operations.operation import Call
from recollect.wiring import open_engine, standpoint, working_directory

if TYPE_CHECKING:
    from recollect.core.session import CaptureReply, SessionStatus
    from recollect.core.transcript import TranscriptReply
    from recollect.services.evaluate import EvaluateReply
    from recollect.services.roots import KnownRoot
    from recollect.services.session.recall import Recalled

Path = str | os.PathLike[str]
Choice = TypeVar("Choice", Lane, Fusion)


class SearchChoices(TypedDict, total=False):
    """What a search may be told; None is as good as nothing."""

    k: int | None
    lane: Lane | str | None
    fusion: Fusion | str | None
    filters: Filters | None
    token_budget: int | None
    min_relevance: float | None


class Recollect:
    """A memory, seen from a project.

    Args:
        project: a directory of the project; the current directory if not given.
        home: where the index lives; RECOLLECT_HOME or ~/.recollect if not given.
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
        reembed: bool = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Bring the index up to date with files and directories (`!path` leaves one out).

        A file that cannot be read is in `problems` of the report and does not stop the run.
        """
        request = requests.IndexRequest(
            paths=[os.fspath(path) for path in paths],
            to_global=to_global,
            force=force,
            vectors=vectors,
            reembed=reembed,
        )
        return memory.index(self._engine, request, self._call(progress))

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
    ) -> ListReply:
        """List memories, or documents, newest first."""
        request = requests.ListRequest(documents=documents, limit=limit, all_projects=all_projects, **_filters(filters))
        return memory.list_(self._engine, request, self._call())

    def add(self, text: str, *, type: str = "", tags: Iterable[str] = (), to_global: bool = False) -> AddReply:  # noqa: A002
        """Append a memory to today's journal; it can be searched for when this returns."""
        request = requests.AddRequest(text=text, type=type, tags=[*tags], to_global=to_global)
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

    def health(self, *, duplicates: int = 10) -> HealthReply:
        """Look the index over and say what a person should do about it."""
        return memory.health(self._engine, requests.HealthRequest(duplicates=duplicates), self._call())

    def evaluate(self, queries: Path, qrels: Path, *, k: int = 10, all_projects: bool = False) -> EvaluateReply:
        """Measure how well judged questions are answered."""
        request = requests.EvaluateRequest(
            queries=os.fspath(queries), qrels=os.fspath(qrels), k=k, all_projects=all_projects
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
        """Carry out any operation by name, JSON-like values in and out, as `recollect call` does."""
        caller = Caller(working_directory(), dict(os.environ), self._home)
        given = {"project": self._project, **(arguments or {})}
        return self._dispatcher.call(op, given, caller)

    def stats(self) -> StoreStats:
        """Return the sizes of the index."""
        return memory.stats(self._engine, requests.Nothing(), self._call()).stats()

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
