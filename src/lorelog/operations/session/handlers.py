"""Handlers of `session.*`. A docstring is the help text of its operation on every surface."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from lorelog.core.errors import UsageError
from lorelog.core.memory import ListReply
from lorelog.core.options import ListOptions
from lorelog.core.query import Filters
from lorelog.core.session import CaptureReply, HookEvent, SessionStatus, parse_iso_time
from lorelog.engine import Engine
from lorelog.operations.arguments import parse_past_day
from lorelog.operations.operation import RequestContext
from lorelog.operations.replies import freshness_json, grounding_ref, reply_from, verification_hint
from lorelog.operations.requests import EmptyRequest
from lorelog.operations.session import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorelog.core.document import StoredChunk
    from lorelog.core.query import SearchReply
    from lorelog.services.install.status import HostStatus
    from lorelog.services.sessions.recall import RecalledMemory
    from lorelog.services.sessions.timeline import TimelineSession
    from lorelog.services.traces.error_history import ErrorHint

_MAX_HINT_CHARS = 300


def capture_session(engine: Engine, request: schema.CaptureRequest, call: RequestContext) -> CaptureReply:
    """Write the finished turns of an agent's session to the journals of their days, each once.

    Used for spooled hook events and for backfilling. The host's transcript is read in place; the journal gets a
    redacted note of each turn, and an entry of its own type for every correction, preference, decision and plan of the
    user. Repeated calls write nothing new.
    """
    from lorelog.services.sessions.capture import Backfill
    from lorelog.services.sessions.capture import capture_session as capture_turns

    if not call.own:
        raise UsageError("only clients on this machine can choose a conversation", hint="lorelog backfill")
    if request.at and parse_iso_time(request.at) is None:
        raise UsageError(f"{request.at!r} is not a time", hint="write it as 2026-03-05T14:30:00.000Z")
    fields = msgspec.structs.asdict(request)
    fields["directory"] = request.directory or call.directory
    if request.transcript:
        fields["transcript"] = os.path.join(call.directory, os.path.expanduser(request.transcript))  # noqa: PTH111, PTH118
    event = HookEvent.from_mapping(fields, datetime.now(UTC))
    context = replace(engine.capture_context(), yield_write_lock=call.yield_write_slot, traces=engine.traces)
    if not request.everything:
        return capture_turns(event, context, progress=call.progress)
    since = parse_past_day(request.since) if request.since else ""
    backfill = Backfill(since, dry_run=request.dry_run, upgrade=request.upgrade)
    return capture_turns(event, context, backfill, progress=call.progress)


def get_session_status(engine: Engine, request: EmptyRequest, call: RequestContext) -> SessionStatus:
    """Show the last capture of each host, the number of turns captured today, and the events still waiting."""
    from lorelog.services.sessions.capture_context import session_status

    return session_status(engine.place)


def list_timeline(engine: Engine, request: schema.TimelineRequest, call: RequestContext) -> schema.TimelineReply:
    """List sessions by day, newest first: what was asked in them, what came of it, and what they were shown.

    Memories that were added without a session are listed by day and project, sections of documents by file.
    """
    from lorelog.services.places.project import visible_projects
    from lorelog.services.sessions.timeline import build_timeline, deliveries_between
    from lorelog.services.usage.history import DeliveryFilter

    everywhere = request.all_projects or engine.defaults.all_projects
    projects = None if everywhere else visible_projects(engine.place.project, ())
    since = parse_past_day(request.since) if request.since else ""
    until = parse_past_day(request.until) if request.until else ""
    filters = Filters(projects=projects, since=since, until=until)
    if request.session:
        found = ListReply((), tuple(engine.store.session_chunks(request.session, filters, request.limit)), more=False)
    else:
        options = ListOptions(include_superseded=True, include_expired=True)
        found = engine.memories().list(filters, limit=request.limit, all_projects=everywhere, options=options)
    oldest = min((stored.chunk.date[:10] for stored in found.memories), default="") if found.more else ""
    shown = DeliveryFilter(projects=projects, session=request.session, since=max(since, oldest))
    deliveries = deliveries_between(engine.place.tenant_folder / "deliveries", shown, until)
    sessions = build_timeline(found.memories, found.lifecycles, deliveries)
    return schema.TimelineReply(sessions=tuple(map(_session_day, sessions)), more=found.more)


def _session_day(found: TimelineSession) -> schema.SessionDay:
    return reply_from(
        found,
        schema.SessionDay,
        turns=tuple(reply_from(turn, schema.TurnInfo) for turn in found.turns),
        notes=tuple(reply_from(note, schema.TimelineNoteInfo) for note in found.notes),
    )


def list_hosts(engine: Engine, request: EmptyRequest, call: RequestContext) -> schema.HostsReply:
    """Show the agents' hosts on this machine: whether lorelog is installed, what is left to approve, the last capture."""
    from lorelog.hosts import HOSTS
    from lorelog.services.install.manifests import resolve_command
    from lorelog.services.install.plan import InstallContext
    from lorelog.services.install.status import HostCaptureStats, host_status
    from lorelog.services.sessions.capture_context import session_status

    user_home = Path(call.environment.get("HOME") or Path.home())
    context = InstallContext(user_home, engine.place.home, resolve_command(call.environment), call.environment)
    captures = {
        host.host: HostCaptureStats(_parse_time(host.last_event), _parse_time(host.last_capture), host.today)
        for host in session_status(engine.place).hosts
    }
    statuses = [host_status(host, context, captures.get(host, HostCaptureStats())) for host in HOSTS]
    return schema.HostsReply(hosts=tuple(map(_host_info, statuses)))


def _host_info(status: HostStatus) -> schema.HostInfo:
    times = {name: _format_time(getattr(status, name)) for name in ("last_event", "last_capture", "newest_session")}
    return reply_from(status, schema.HostInfo, **times)


def _parse_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""


def recall_memories(engine: Engine, request: schema.RecallRequest, call: RequestContext) -> Sequence[RecalledMemory]:
    """Return the few memories that match a prompt, each at most once per session.

    For the hook that a host runs on every prompt. Use memory.search for replies that do not depend on the session.
    """
    from lorelog.services.sessions import recall

    def check_cancelled() -> None:
        if call.progress is not None:
            call.progress("recall", 0, 0)

    prompt = recall.UserPrompt(request.host, request.session, request.prompt)
    session = engine.defaults.session
    options = replace(
        engine.defaults.search,
        k=session.hits if request.k is None else request.k,
        min_relevance=session.hits_relevance if request.min_relevance is None else request.min_relevance,
    )
    return recall.recall_memories(prompt, options, engine.recall_sources(), check_cancelled)


def recall_json(memories: Sequence[RecalledMemory], _: object = None) -> schema.RecallJson:
    """Return recalled memories under their JSON names."""
    return schema.RecallJson(
        hits=tuple(
            reply_from(
                memory,
                schema.RecalledMemoryJson,
                grounding_refs=tuple(map(grounding_ref, memory.grounding)),
                verification_hint=verification_hint(memory.trust),
                freshness=freshness_json(memory.verdict),
            )
            for memory in memories
        )
    )


def find_why_hints(engine: Engine, request: schema.WhyHintRequest, call: RequestContext) -> schema.WhyHintReply:
    """Return what fixed the same error in an earlier session, in a few words.

    For the hook that a host runs after a failed tool call. Use debug.why for the whole history of an error.
    """
    from lorelog.ingest.redaction.redact import redact
    from lorelog.services.places.project import visible_projects
    from lorelog.services.traces.error_history import ErrorHistorySources, find_error_hints

    projects = None if engine.defaults.all_projects else visible_projects(engine.place.project, ())

    def get(memory: str) -> StoredChunk | None:
        return engine.memories().get(memory).memory

    def search(query: str, k: int) -> SearchReply:
        return engine.search(query, replace(engine.defaults.search, k=k))

    sources = ErrorHistorySources(engine.traces().tables(), search, get, projects)
    text = request.text if request.text.isascii() else request.text.encode("utf-8", "replace").decode()
    patterns = engine.defaults.capture.patterns
    hints = find_error_hints(text, sources, lambda line: redact(line, patterns).text, request.session)
    return schema.WhyHintReply(hints=tuple(map(_why_hint, hints)))


def _why_hint(hint: ErrorHint) -> schema.WhyHint:
    chunk = hint.memory.chunk if hint.memory is not None else None
    memory = chunk.anchor.memory if chunk is not None and chunk.anchor is not None else ""
    lines = [line for line in (chunk.text if chunk is not None else "").splitlines() if line.startswith("- ")]
    return schema.WhyHint(
        id=memory or (hint.memory.id if hint.memory is not None else ""),
        text=" ".join(lines)[:_MAX_HINT_CHARS],
        date=datetime.fromtimestamp(hint.at / 1000, UTC).astimezone().date().isoformat(),
        files=hint.files,
        signature=hint.signature,
    )


def hand_over(engine: Engine, request: schema.HandoffRequest, call: RequestContext) -> schema.HandoffReply:
    """Return what the next agent needs of a session: goal, state, decisions, files, open questions, failing command.

    It is made from the notes of captured turns, so it works across hosts. No model is called.
    """
    from datetime import timedelta
    from pathlib import Path

    from msgspec import to_builtins

    from lorelog.hosts import HOSTS, resolve_host
    from lorelog.ingest.redaction.redact import redact
    from lorelog.services.delivery.files import DeliveryFiles
    from lorelog.services.sessions.handoff import make_handoff, render_handoff, write_pending
    from lorelog.services.sessions.recent import RecentJournals, render_open_tasks

    to = resolve_host(request.to)
    if request.inject and request.to and not to:
        raise UsageError(
            f"--inject does not reach {request.to!r}",
            hint=f"it reaches {', '.join(HOSTS)}; without --inject, the text is printed to be pasted",
        )
    place = engine.place
    deletions = str(place.tenant_folder / "tombstones.jsonl")
    today = datetime.now().astimezone().date()
    files = DeliveryFiles(str(place.tenant_folder), place.project.id)
    journals = RecentJournals(place.project.id, (str(place.journals),), today.isoformat(), deletions, files.own)
    tasks = [line.removeprefix("- [ ] ") for line in render_open_tasks(deletions, place.project.id)]
    handoff = make_handoff(journals, session=request.session, tasks=tasks)
    text = redact(render_handoff(handoff, request.to), engine.defaults.capture.patterns).text
    if request.inject and not handoff.is_own:
        raise UsageError(
            f"the session {handoff.session} was not captured on this machine", hint="read it, and paste it yourself"
        )
    until = ""
    if request.inject:
        until = (today + timedelta(days=1)).isoformat()
        write_pending(Path(files.handoff), handoff, text, to=to, until=until)
    return schema.HandoffReply(**to_builtins(handoff), text=text, until=until)
