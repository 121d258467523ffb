"""The operations on memories, each over the engine's verb. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorelog.core.document import GLOBAL
from lorelog.core.errors import UsageError
from lorelog.core.memory import (
    AddReply,
    DeleteReply,
    ExpandReply,
    GetReply,
    HealthReply,
    IndexReport,
    ListReply,
    NewMemory,
)
from lorelog.core.options import ListOptions
from lorelog.core.query import Filters, Fusion, Lane, SearchReply, Trusted
from lorelog.engine import Engine
from lorelog.operations import requests
from lorelog.operations.days import day_ahead, day_of, located
from lorelog.operations.operation import Call
from lorelog.services.reach import Named

if TYPE_CHECKING:
    from lorelog.core.transcript import TranscriptReply
    from lorelog.services.evaluate import EvaluateReply
    from lorelog.services.roots import KnownRoot


def search(engine: Engine, request: requests.SearchRequest, call: Call) -> SearchReply:
    """Find what was learned, best first.

    Words and meaning are searched together. Each hit says where it stands, how likely it is relevant, and what it
    would cost to read on, and how far it may be believed.
    """
    chosen: dict[str, Any] = {
        "k": request.k,
        "lane": Lane(request.lane) if request.lane else None,
        "fusion": Fusion(request.fusion) if request.fusion else None,
        "token_budget": request.token_budget,
        "min_relevance": request.min_relevance,
        "include_superseded": request.include_superseded,
        "include_expired": request.include_expired,
        "trust": Trusted(request.trust),
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    options = replace(engine.defaults.search, filters=_filters(request, call), **given)
    return engine.search(request.query, options, all_projects=request.all_projects)


def expand(engine: Engine, request: requests.ExpandRequest, call: Call) -> ExpandReply:
    """Show the whole section around a hit, from its file."""
    return engine.expand(request.id, lines=request.lines)


def get(engine: Engine, request: requests.IdentityRequest, call: Call) -> GetReply:
    """Return one memory by its id, or say that it is deleted or unknown."""
    return engine.get(request.id)


def transcript(engine: Engine, request: requests.TranscriptRequest, call: Call) -> TranscriptReply:
    """Show the conversation that a memory came from, around its turn."""
    if not call.own and "/" in request.place:
        raise UsageError("a conversation is named by the id of its memory here", hint="paths are for a shell or Python")
    directory = call.directory if call.own else None  # a bare name might be a file's, too
    return engine.transcript(request.place, turn=request.turn, context=request.context, directory=directory)


def list_(engine: Engine, request: requests.ListRequest, call: Call) -> ListReply:
    """List memories or documents, newest first."""
    if request.documents and request.due:
        raise UsageError("documents are not looked at again", hint="list memories, without --documents")
    return engine.list(
        _filters(request, call),
        documents=request.documents,
        limit=request.limit,
        all_projects=request.all_projects,
        options=ListOptions(request.include_superseded, request.include_expired, request.due),
    )


def add(engine: Engine, request: requests.AddRequest, call: Call) -> AddReply:
    """Remember something: append it to today's journal, where it can be searched for at once."""
    _check_known(engine, request, call)
    return engine.add([_new(request)], to_global=request.to_global)[0]


def add_batch(engine: Engine, request: requests.AddBatchRequest, call: Call) -> Sequence[AddReply]:
    """Remember several things at once: all of them are written, or none."""
    _check_known(engine, request, call)
    return engine.add([_new(one) for one in request.memories], to_global=request.to_global)


def delete(engine: Engine, request: requests.IdentityRequest, call: Call) -> DeleteReply:
    """Hide a memory from every search and list; its file is not touched.

    It stays hidden when the index is made anew, and `memory.restore` brings it back.
    """
    return engine.delete(request.id)


def restore(engine: Engine, request: requests.IdentityRequest, call: Call) -> DeleteReply:
    """Bring a deleted memory back, as its file has it now."""
    return engine.restore(request.id)


def index(engine: Engine, request: requests.IndexRequest, call: Call) -> IndexReport:
    """Bring the index up to date with Markdown files.

    Only files whose size, time or inode changed are read. A file that cannot be read is in `problems` of the answer and does
    not stop the run.
    """
    if request.rollback or request.forget_old:
        return _tend_vectors(engine, request)
    if request.anyway and not request.reembed:
        raise UsageError("what is to be served anyway?", hint="--anyway goes with --reembed")
    if request.exclude and not request.paths:
        raise UsageError(
            "patterns to leave out need the paths to leave them out of", hint="index.exclude holds for all"
        )
    if request.paths and not call.own:
        raise UsageError(
            "what to read is chosen at a shell or in Python", hint="without paths, known ones are refreshed"
        )
    _check_known(engine, request, call)
    project = GLOBAL if request.to_global else engine.place.project.id if request.project else None
    paths = tuple(located(path, call) for path in request.paths)
    return engine.index(
        Named(paths, project, tuple(request.exclude)) if paths else None,
        force=request.force,
        vectors=request.vectors,
        reembed="anyway" if request.anyway else request.reembed,
        ignore_files=request.ignore_files,
        progress=call.progress,
    )


def _tend_vectors(engine: Engine, request: requests.IndexRequest) -> IndexReport:
    plain = requests.IndexRequest(
        project=request.project, tenant=request.tenant, rollback=request.rollback, forget_old=request.forget_old
    )
    if request != plain or (request.rollback and request.forget_old):
        raise UsageError(
            "going back to old vectors and forgetting them are done one at a time, and nothing else with them",
            hint="lorelog index --rollback, or lorelog index --forget-old",
        )
    return engine.leave_vectors(forget=request.forget_old)


def stats(engine: Engine, request: requests.Nothing, call: Call) -> Engine:
    """Show what the index holds: documents, chunks, vectors, projects, size on disk."""
    return engine


def health(engine: Engine, request: requests.HealthRequest, call: Call) -> HealthReply:
    """Look the index over and say what a person should do about it."""
    return engine.health(duplicates=request.duplicates)


def metrics(engine: Engine, request: requests.Nothing, call: Call) -> tuple[Engine, Call]:
    """Tell what this process has counted: calls, failures, durations, caches.

    A command that works on its own has counted nothing yet; the daemon has.
    """
    return engine, call


def reset(engine: Engine, request: requests.Nothing, call: Call) -> str:
    """Delete the index. Your files stay, and `memory.index` makes it anew."""
    engine.reset()
    return str(engine.place.tenant_folder / "index")


def evaluate(engine: Engine, request: requests.EvaluateRequest, call: Call) -> EvaluateReply:
    """Measure how well judged questions are answered: by words, by vectors, and by both."""
    from pathlib import Path

    from lorelog.services.evaluate import EvaluateRequest, read_judged

    if request.feedback and (request.queries or request.qrels):
        raise UsageError("both files and feedback are given", hint="leave one of both out")
    if request.feedback:
        judged = engine.lifecycle().judged()
    elif request.queries and request.qrels:
        judged = read_judged(Path(located(request.queries, call)), Path(located(request.qrels, call)))
    else:
        raise UsageError("which questions, judged how?", hint="give queries and qrels, or feedback")
    asked = EvaluateRequest(
        judged=judged,
        options=replace(engine.defaults.search, filters=_filters(request, call)),
        k=request.k,
        lane=Lane(request.lane) if request.lane else None,
    )
    return engine.evaluate(asked, all_projects=request.all_projects, progress=call.progress)


def list_roots(engine: Engine, request: requests.Nothing, call: Call) -> Sequence[KnownRoot]:
    """List the files and directories that are indexed, and watched by the daemon."""
    return engine.roots()


def add_roots(engine: Engine, request: requests.IndexRequest, call: Call) -> IndexReport:
    """Index files and directories, and have the daemon watch them from now on."""
    if not request.paths:
        raise UsageError("which paths?", hint="name files or directories")
    return index(engine, request, call)


def remove_roots(engine: Engine, request: requests.RootsRequest, call: Call) -> tuple[list[str], int]:
    """Stop indexing roots, and those inside them, and drop what was indexed from them; the files stay."""
    paths = [located(path, call) for path in request.paths]
    return paths, engine.forget_roots(paths)


def _new(given: requests.AddRequest | requests.MemoryText) -> NewMemory:
    tags = tuple(dict.fromkeys(given.tags))
    expires = day_ahead(given.expires) if given.expires else ""
    return NewMemory(given.text, given.type, tags, given.origin, expires=expires)


def _check_known(engine: Engine, request: requests.Request, call: Call) -> None:
    """Raise UsageError where a stranger names a directory that nobody here has chosen: it would be written to, or read."""
    if not call.own and request.project and not engine.knows_project():
        raise UsageError(
            f"{request.project} is not a project that is known here", hint="index something of it at a shell first"
        )


def _filters(request: requests.Filtered, call: Call) -> Filters:
    return Filters(
        projects=None if request.projects is None else tuple(request.projects),
        source_prefix=located(request.source, call) if request.source else "",
        since=day_of(request.since) if request.since else "",
        until=day_of(request.until) if request.until else "",
        types=tuple(request.types),
        tags=tuple(request.tags),
    )
