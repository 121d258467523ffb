"""Python asks: the same verbs as the shell, with typed results.

from recollect import Recollect

with Recollect(project=".") as memory:
    memory.index(["notes/"])
    for hit in memory.search("why redis?").hits:
        print(hit.score, hit.source, hit.start_line)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

from recollect.core.document import GLOBAL
from recollect.core.errors import UsageError
from recollect.core.memory import AddReply, ExpandReply, IndexReport, ListReply, NewMemory
from recollect.core.ports import Progress, StoreStats
from recollect.core.query import Filters, Fusion, Lane, SearchReply
from recollect.services.reach import Named
from recollect.wiring import open_engine, standpoint

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
        given = tuple(os.fspath(path) for path in paths)
        named = Named(given, GLOBAL if to_global else None) if given else None
        return self._engine.index(named, force=force, vectors=vectors, reembed=reembed, progress=progress)

    def forget_roots(self, paths: Iterable[Path]) -> int:
        """Drop what was indexed from these roots and stop indexing them; return the number of documents dropped."""
        return self._engine.forget_roots([os.fspath(path) for path in paths])

    def search(self, query: str, *, all_projects: bool = False, **choices: Unpack[SearchChoices]) -> SearchReply:
        """Find what was learned, best first: in this project and the global memories, or in all projects.

        What is not chosen comes from the settings. Under a token budget `hits` are those that fit, each with what to show
        of it in `packed`.
        """
        options = self._engine.defaults.search
        chosen: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
        unknown = sorted(set(chosen) - SearchChoices.__annotations__.keys())
        if unknown:
            raise TypeError(f"search() has no choice {unknown[0]!r}")
        if "lane" in chosen:
            chosen["lane"] = _one_of(Lane, chosen["lane"])
        if "fusion" in chosen:
            chosen["fusion"] = _one_of(Fusion, chosen["fusion"])
        return self._engine.search(query, replace(options, **chosen), all_projects=all_projects)

    def expand(self, identity: str, *, lines: int | None = None) -> ExpandReply:
        """Show the whole section around a hit, or `lines` lines around it."""
        return self._engine.expand(identity, lines=lines)

    def list(
        self,
        filters: Filters | None = None,
        *,
        documents: bool = False,
        limit: int = 20,
        all_projects: bool = False,
    ) -> ListReply:
        """List memories, or documents, newest first."""
        return self._engine.list(filters, documents=documents, limit=limit, all_projects=all_projects)

    def add(self, text: str, *, type: str = "", tags: Iterable[str] = (), to_global: bool = False) -> AddReply:  # noqa: A002
        """Append a memory to today's journal; it can be searched for when this returns."""
        return self._engine.add(NewMemory(text, type, tuple(tags)), to_global=to_global)

    def stats(self) -> StoreStats:
        """Return the sizes of the index."""
        return self._engine.stats()

    def reset(self) -> None:
        """Delete the index; the files it was made from stay."""
        self._engine.reset()


def _one_of(kind: type[Choice], given: str) -> Choice:
    try:
        return kind(given)
    except ValueError:
        raise UsageError(f"{given!r} is not one of {', '.join(kind)}") from None
