"""Handlers of `memory.*` and `roots.*`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UnsetType
from msgspec.structs import replace

from lorelog.core.caller import checked_origin
from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import NotFound, UsageError
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
    NewMemory,
    SupersedeReply,
)
from lorelog.core.options import ListOptions
from lorelog.core.query import Filters, Lane
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_future_day, parse_last_day, parse_past_day, read_filters, resolve_path
from lorelog.operations.memory import schema
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import reply_from
from lorelog.operations.requests import EmptyRequest, OperationRequest
from lorelog.services.places.root_selection import IndexTargets

if TYPE_CHECKING:
    from lorelog.core.memory import CompactReply
    from lorelog.core.session import TranscriptReply
    from lorelog.services.evaluation.search_quality import EvaluateReply
    from lorelog.services.places.roots import RootStatus


def expand(engine: Engine, request: schema.ExpandRequest, call: RequestContext) -> ExpandReply:
    """Show the whole section around a hit, read from its file."""
    reply = engine.memories().expand(request.id, lines=request.lines)
    reply = replace(reply, verdict=engine.memories().check_freshness(reply.chunk))
    if request.cues:
        from lorelog.services.standing.memories import list_derived_cues

        reply = replace(reply, derived_cues=tuple(map(str, list_derived_cues(reply.chunk))))
    if not reply.transcript:
        return reply
    from lorelog.services.sessions.transcripts import checked_follow, describe_transcript

    return describe_transcript(reply, checked_follow(engine.transcript_access(call.environment)))


def get(engine: Engine, request: schema.IdentityRequest, call: RequestContext) -> GetReply:
    """Return one memory by its id, or report that it is deleted or unknown."""
    return engine.memories().get(request.id)


def transcript(engine: Engine, request: schema.TranscriptRequest, call: RequestContext) -> TranscriptReply:
    """Show the conversation that a memory was captured from, around its turn. Secrets in it are redacted."""
    if not call.names_files and "/" in request.place:
        raise UsageError(
            "a conversation must be named by the id of its memory", hint="only the shell and Python accept paths"
        )
    from lorelog.services.sessions.transcripts import TranscriptSources, checked_follow, read_transcript

    sources = TranscriptSources(
        engine.store,
        checked_follow(engine.transcript_access(call.environment)),
        call.directory if call.names_files else None,  # a bare name could also be a file
        engine.defaults.capture.patterns,
    )
    return read_transcript(request.place, sources, turn=request.turn, context=request.context)


def list_memories(engine: Engine, request: schema.ListRequest, call: RequestContext) -> ListReply:
    """List memories or documents, newest first."""
    if request.documents and request.due:
        raise UsageError("due applies to memories only", hint="use either documents or due, not both")
    return engine.memories().list(
        read_filters(request, call),
        documents=request.documents,
        limit=request.limit,
        all_projects=request.all_projects,
        options=ListOptions(request.include_superseded, request.include_expired, request.due),
    )


def add(engine: Engine, request: schema.AddRequest, call: RequestContext) -> AddReply:
    """Add a memory: append it to today's journal. It is searchable at once.

    Secrets in it are redacted; `redacted` counts them by kind.
    """
    _check_project_known(engine, request, call)
    _check_keep_secrets(call, [request.origin], keep_secrets=request.keep_secrets)
    return engine.memories().add(
        [_new_memory(request, call)], to_global=request.to_global, keep_secrets=request.keep_secrets
    )[0]


def add_batch(engine: Engine, request: schema.AddBatchRequest, call: RequestContext) -> Sequence[AddReply]:
    """Add several memories at once: all of them are written, or none. Secrets in them are redacted."""
    _check_project_known(engine, request, call)
    _check_keep_secrets(call, [memory.origin for memory in request.memories], keep_secrets=request.keep_secrets)
    memories = [_new_memory(memory, call) for memory in request.memories]
    return engine.memories().add(memories, to_global=request.to_global, keep_secrets=request.keep_secrets)


def delete(engine: Engine, request: schema.IdentityRequest, call: RequestContext) -> DeleteReply:
    """Hide a memory from every search and list; its file is not changed.

    It stays hidden when the index is rebuilt. `memory.restore` shows it again.
    """
    return engine.memories().delete(request.id)


def restore(engine: Engine, request: schema.IdentityRequest, call: RequestContext) -> DeleteReply:
    """Show a deleted memory again, with the current text of its file."""
    return engine.memories().restore(request.id)


def supersede(engine: Engine, request: schema.SupersedeRequest, call: RequestContext) -> SupersedeReply:
    """Replace a memory by a new one and hide the old one.

    Both stay in their files; the new memory's anchor names the old one. Deleting the new memory shows the old one
    again. Secrets in the new text are redacted.
    """
    _check_keep_secrets(call, [request.origin], keep_secrets=request.keep_secrets)
    tags, cues = tuple(dict.fromkeys(request.tags)), _parse_cues(request.cues)
    memory = NewMemory(request.text, request.type, tags, checked_origin(request.origin, call.agent), cues=cues)
    return engine.lifecycle().supersede(request.id, memory, keep_secrets=request.keep_secrets)


def edit(engine: Engine, request: schema.EditRequest, call: RequestContext) -> schema.EditReply:
    """Edit the section of a memory in its file; its id stays.

    `before` is the text that is replaced: if the file says something else by now, nothing is written and the error's code
    is `changed`. Secrets in the new text are redacted.
    """
    if call.agent:
        raise UsageError(
            f"{call.agent} cannot edit a memory", hint="an agent replaces it: 'lorelog supersede' keeps the old text"
        )
    edited = engine.memories().edit(request.id, request.before, request.text, keep_secrets=request.keep_secrets)
    return reply_from(edited, schema.EditReply)


def set_expiry(engine: Engine, request: schema.ExpiryRequest, call: RequestContext) -> ExpiryReply:
    """Set the last day on which a memory is shown, or the day from which it is due for review.

    A field that is not given stays unchanged; null removes it. The memory's file is not changed.
    """
    return engine.lifecycle().set_expiry(
        request.id, _parse_expiry(request.expires), _parse_expiry(request.review_after)
    )


def feedback(engine: Engine, request: schema.FeedbackRequest, call: RequestContext) -> FeedbackReply:
    """Record whether a memory answers a query.

    `lorelog eval --feedback` measures search with these judgements, and a memory marked irrelevant ranks lower when the
    same query is searched again.
    """
    return engine.lifecycle().judge(request.query, request.id, request.relevance)


def find_near_duplicates(
    engine: Engine, request: schema.NearDuplicatesRequest, call: RequestContext
) -> DuplicatesReply:
    """Find memories that say nearly the same, and suggest which one to keep. Changes nothing."""
    from lorelog.services.memories.lifecycle import NearDuplicateOptions

    options = NearDuplicateOptions(Filters(types=tuple(request.types)), request.threshold, request.limit)
    return engine.lifecycle().near_duplicates(options, all_projects=request.all_projects)


def consolidate_episode(engine: Engine, request: schema.EpisodeRequest, call: RequestContext) -> EpisodeReply:
    """Summarize the memories of an episode in one memory, with one sentence of each. Uses no model.

    Repeated calls write the summary of an episode only once.
    """
    return engine.lifecycle().consolidate(
        request.episode_id, limit=request.max_chunks, retain=request.retain_source_chunks
    )


def compact(engine: Engine, request: schema.CompactRequest, call: RequestContext) -> CompactReply:
    """Summarize the project's memories in one memory that cites its sources.

    The sources stay in place and rank below their summary. A source is summarized only once.
    """
    from lorelog.core.memory import CompactOptions

    options = CompactOptions(
        filters=Filters(
            source_prefix=resolve_path(request.source, call) if request.source else "",
            since=parse_past_day(request.since) if request.since else "",
            until=parse_past_day(request.until) if request.until else "",
        ),
        output_dir=resolve_path(request.output_dir, call) if request.output_dir else "",
        llm=request.llm,
        prompt_file=resolve_path(request.prompt_file, call) if request.prompt_file else "",
        dry_run=request.dry_run,
    )
    options = replace(
        options,
        filters=engine.scoped(options.filters, all_projects=True),
        prompt_file=options.prompt_file or engine.defaults.compact_prompt,
    )
    reply = engine.compactor(call.yield_write_slot, options.llm).compact(options, call.progress)
    return replace(reply, notes=(*reply.notes, *engine.defaults.warnings))


def index(engine: Engine, request: schema.IndexRequest, call: RequestContext) -> IndexReport:
    """Update the index from Markdown files.

    Only files whose size, modification time or inode changed are read. A file that cannot be read is listed in
    `problems` and does not stop the run.
    """
    if request.rollback or request.forget_old:
        return _switch_vectors(engine, request)
    if request.anyway and not request.reembed:
        raise UsageError("anyway requires reembed", hint="lorelog index --reembed --anyway")
    if request.exclude and not request.paths:
        raise UsageError("exclude requires paths", hint="to exclude files everywhere, set index.exclude")
    if request.paths and not call.own:
        raise UsageError(
            "only the shell and Python can choose the files to index",
            hint="without paths, the indexed ones are refreshed",
        )
    project = GLOBAL_PROJECT if request.to_global else engine.place.project.id if request.project else None
    if not call.own and request.project and not engine.maintenance().has_indexed_project():
        paths: tuple[str, ...] = (_find_remote_memory(engine, request.project),)
    else:
        paths = tuple(resolve_path(path, call) for path in request.paths)
    if not call.names_files:
        _check_paths_visible(engine, paths)
    _check_paths_exist(engine, paths)
    return engine.maintenance().index(
        IndexTargets(paths, project, tuple(request.exclude)) if paths else None,
        force=request.force,
        vectors=request.vectors,
        reembed="anyway" if request.anyway else request.reembed,
        ignore_files=request.ignore_files,
        progress=call.progress,
    )


def _find_remote_memory(engine: Engine, directory: str) -> str:
    """Return the `memory/` folder of a project that the user never indexed. Raise UsageError unless remote clients may."""
    import os

    from lorelog.core.paths import is_below

    project, folders = engine.place.project.root, engine.place.remote_folders
    if not any(is_below(project, folder) for folder in folders):
        raise UsageError(
            f"{directory} is not a known project",
            hint="index a file of it in a shell first (lorelog index PATH), or allow its directory by index.remote_projects",
        )
    memory = os.path.realpath(os.path.join(project, "memory"))  # noqa: PTH118
    if not os.path.isdir(memory) or not is_below(memory, project):  # noqa: PTH112
        raise UsageError(f"{directory} has no folder memory/", hint="create it, or index other files of it in a shell")
    return memory


def _check_paths_exist(engine: Engine, paths: Sequence[str]) -> None:
    """Raise NotFound if none of the named paths exists, before another run is waited for."""
    import os

    named = [path for path in paths if not path.startswith("!")]
    if named and not any(os.path.lexists(path) for path in named):
        registered = {root.path for root in engine.roots.all()}
        if registered.isdisjoint(map(os.path.realpath, named)):  # for such a root the run says how to forget it
            raise NotFound(f"{named[0]} does not exist", hint="check the path; nothing was indexed")


def _check_paths_visible(engine: Engine, paths: Sequence[str]) -> None:
    """Raise UsageError for a path that leads out of the project and of what the user indexed before."""
    import os

    from lorelog.core.paths import is_below

    folders = [engine.place.project.id, engine.place.project.root, *(root.path for root in engine.roots.all())]
    for path in paths:
        real = os.path.realpath(path.removeprefix("!"))
        if not any(is_below(real, folder) for folder in folders):
            raise UsageError(
                f"{path} is outside the project", hint="only the shell and Python can choose other files to index"
            )


def _switch_vectors(engine: Engine, request: schema.IndexRequest) -> IndexReport:
    allowed = schema.IndexRequest(
        project=request.project, tenant=request.tenant, rollback=request.rollback, forget_old=request.forget_old
    )
    if request != allowed or (request.rollback and request.forget_old):
        raise UsageError(
            "rollback and forget_old cannot be combined with each other or with other options",
            hint="lorelog index --reembed --rollback, or lorelog index --reembed --drop-old",
        )
    from lorelog.services.indexing.reembed import drop_old_vectors, roll_back

    return drop_old_vectors(engine.store) if request.forget_old else roll_back(engine.store)


def stats(engine: Engine, request: EmptyRequest, call: RequestContext) -> schema.StatsReply:
    """Show the size of the index and the tokens of delivered memories: documents, chunks, vectors, bytes, days.

    `project` has the sizes of this project alone, which search and list look into; all else is of all projects.
    """
    sizes, own = engine.store.stats(), engine.place.project.id
    return reply_from(
        sizes,
        schema.StatsReply,
        project=schema.ProjectStats(
            id=own,
            documents=sizes.project_documents.get(own, 0),
            coverage=engine.store.coverage(Filters(projects=(own,))),
        ),
        projects=dict(sizes.projects),
        coverage=engine.store.coverage(Filters()),
        model=engine.model,
        deliveries=_delivery_stats(engine),
    )


def _delivery_stats(engine: Engine) -> schema.DeliveryStats:
    from lorelog.services.usage.history import days_ago, sum_days

    days = sum_days(engine.place.tenant_folder / "deliveries", days_ago(30))
    week = days_ago(7)
    return schema.DeliveryStats(
        tokens_7_days=sum(total.tokens for day, total in days.items() if day >= week),
        tokens_30_days=sum(total.tokens for total in days.values()),
        days=tuple(
            schema.DeliveryDay(day=day, deliveries=total.deliveries, tokens=total.tokens)
            for day, total in reversed(days.items())
        ),
    )


def health(engine: Engine, request: schema.HealthRequest, call: RequestContext) -> HealthReply:
    """Check the index and report what needs attention."""

    def due() -> Sequence[str]:
        return engine.lifecycle_index().due()

    return engine.maintenance().health(engine.tombstones(), due, duplicates=request.duplicates)


def metrics(engine: Engine, request: EmptyRequest, call: RequestContext) -> schema.MetricsReply:
    """Show the counters of this process: calls, failures, durations, caches.

    A command that runs without the daemon has counted nothing yet.
    """
    import os
    import time

    from lorelog.operations.meter import resident_bytes

    return schema.MetricsReply(
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - call.meter.started, 3),
        rss_bytes=resident_bytes(),
        operations=tuple(
            schema.OperationLatency(
                op=count.op,
                count=count.count,
                errors=count.errors,
                p50_ms=round(count.quantile(0.5) * 1000, 3),
                p90_ms=round(count.quantile(0.9) * 1000, 3),
                p99_ms=round(count.quantile(0.99) * 1000, 3),
            )
            for count in call.meter.counts()
        ),
        cache=engine.caches.counters()._asdict(),
    )


def reset(engine: Engine, request: EmptyRequest, call: RequestContext) -> schema.ResetReply:
    """Delete the index. Your files stay, and `memory.index` rebuilds it."""
    engine.store.reset()
    return schema.ResetReply(deleted=str(engine.place.cache_folder))


def evaluate(engine: Engine, request: schema.EvaluateRequest, call: RequestContext) -> EvaluateReply:
    """Measure how well search answers judged questions: by keywords, by vectors, and by both."""
    from pathlib import Path

    from lorelog.services.evaluation import search_quality

    if request.feedback and (request.queries or request.qrels):
        raise UsageError(
            "feedback cannot be combined with files of judgements", hint="use either files or feedback, not both"
        )
    if request.feedback:
        judged = engine.lifecycle().judged_questions()
    elif request.queries and request.qrels:
        judged = search_quality.read_judged_questions(
            Path(resolve_path(request.queries, call)), Path(resolve_path(request.qrels, call))
        )
    else:
        raise UsageError("judged questions are missing", hint="give queries and qrels, or feedback")
    options = search_quality.EvaluationOptions(
        judged=judged,
        options=engine.with_scope(
            replace(engine.defaults.search, filters=read_filters(request, call)), all_projects=request.all_projects
        ),
        k=request.k,
        lane=Lane(request.lane) if request.lane else None,
        has_model=engine.embedder is not None,
        is_hidden=partial(engine.lifecycle_index().hides, options=ListOptions()),
    )
    search = partial(engine.without_feedback().search, all_projects=True)
    return search_quality.evaluate(search, engine.store, options, call.progress)


def list_roots(engine: Engine, request: EmptyRequest, call: RequestContext) -> Sequence[RootStatus]:
    """List the files and directories that are indexed and watched by the daemon."""
    return engine.maintenance().list_roots()


def add_roots(engine: Engine, request: schema.IndexRequest, call: RequestContext) -> IndexReport:
    """Index files and directories, and let the daemon watch them from now on."""
    if not request.paths:
        raise UsageError("paths are missing", hint="name files or directories")
    return index(engine, request, call)


def remove_roots(engine: Engine, request: schema.RootsRequest, call: RequestContext) -> schema.RemovedRoots:
    """Stop indexing roots and the roots inside them, and drop their documents from the index; the files stay."""
    paths = tuple(resolve_path(path, call) for path in request.paths)
    return schema.RemovedRoots(forgotten=paths, documents=engine.maintenance().forget_roots(list(paths)))


def _new_memory(memory: schema.AddRequest | schema.MemoryText, call: RequestContext) -> NewMemory:
    tags = tuple(dict.fromkeys(memory.tags))
    expires = parse_last_day(memory.expires) if memory.expires else ""
    origin = checked_origin(memory.origin, call.agent)
    return NewMemory(memory.text, memory.type, tags, origin, expires=expires, cues=_parse_cues(memory.cues))


def _parse_cues(cues: Sequence[str]) -> tuple[str, ...]:
    if not cues:
        return ()
    from lorelog.services.cues.cue import parse_cues

    return parse_cues(cues)


def _parse_expiry(day: str | UnsetType | None) -> str | None:
    """Return an ISO day, "" to remove the day, or None to keep it. `never` is for clients that cannot send null."""
    if isinstance(day, UnsetType):
        return None
    return "" if day is None or day.strip().lower() == "never" else parse_future_day(day)


def _check_project_known(engine: Engine, request: OperationRequest, call: RequestContext) -> None:
    """Raise UsageError if a remote client names a project that the user never indexed."""
    if not call.own and request.project and not engine.maintenance().has_indexed_project():
        raise UsageError(
            f"{request.project} is not a known project", hint="index a file of the project in a shell first"
        )


def _check_keep_secrets(call: RequestContext, origins: Sequence[str], *, keep_secrets: bool) -> None:
    """Raise UsageError if secrets are to be kept by anyone but a person on this machine, or in text of a program."""
    if not keep_secrets:
        return
    if call.agent or not call.own:
        raise UsageError(
            f"{call.agent or 'a remote client'} cannot keep secrets in a memory",
            hint="leave out keep_secrets; a person can use 'lorelog add --keep-secrets' in a terminal",
        )
    if any(origin != "user" for origin in origins):
        raise UsageError(
            "keep_secrets applies to a person's own text only", hint="text of an agent, a tool or an import is redacted"
        )
