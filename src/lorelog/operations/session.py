"""Operations on agents' sessions: `session.*`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, to_builtins
from msgspec.structs import replace

from lorelog.core.errors import ModelError, NotFound, SourceError, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.memory import ListReply
from lorelog.core.options import ListOptions
from lorelog.core.paths import join_path
from lorelog.core.policy import is_allowed
from lorelog.core.query import Filters
from lorelog.core.serializable import ReplyItems, parse_iso_time
from lorelog.core.session import CaptureReply, HookEvent
from lorelog.engine import Engine
from lorelog.hosts import HOSTS, resolve_host
from lorelog.light.spool import OFF, ON, READ_ONLY, PauseNotes
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import (
    Day,
    FilePath,
    OperationRequest,
    PathText,
    ScopedRequest,
    Since,
    Text,
    Until,
    about,
    parse_past_day,
)
from lorelog.services.sessions.handoff import Handoff, make_handoff, quote_handoff, render_handoff, write_pending
from lorelog.services.sessions.recall import RecalledMemory
from lorelog.services.sessions.timeline import TimelineSession, build_timeline, deliveries_between

OPERATIONS = OperationFamily()
_MAX_HANDOFF_BYTES = 100_000
_PAUSES = {"pause": OFF, "resume": ON}
_HOST = f"The agent: {', '.join(HOSTS)}."


class RecallRequest(OperationRequest, frozen=True):
    """A prompt, and the session in which it was typed."""

    prompt: Annotated[Text, about("The text of the prompt.")]
    host: Annotated[str, about(_HOST, max_length=64)] = ""
    session: Annotated[
        str,
        about(
            "Id of its session. What its log of deliveries has, and what was captured from it, is left out.",
            max_length=500,
        ),
    ] = ""
    k: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        about("Maximum number of hits of the search; session.hits if not given."),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, about("Minimum relevance; session.hits_relevance if not given.")
    ] = None
    token_budget: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)], about("Tokens that the memories may cost together.")
    ] = 400


class CaptureRequest(OperationRequest, frozen=True):
    """An event of an agent's session, as its hook recorded it."""

    host: Annotated[str, about(_HOST, min_length=1, max_length=64)]
    session: Annotated[str, about("The host's id of the session.", min_length=1, max_length=500)]
    transcript: Annotated[
        PathText, about("The file with the conversation; a database holds several.", max_length=4096)
    ] = ""
    moment: Annotated[
        Literal["session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end", "pause", "resume"],
        about("The event; it determines which turns are finished. A person pauses and resumes a session."),
    ] = "turn-end"
    turn: Annotated[str, about("The host's id of the turn, or of its prompt.", max_length=500)] = ""
    at: Annotated[str, about("Time of the event, ISO with a zone; now if not given.", max_length=40)] = ""
    offset: Annotated[int, about("UTC offset of the local time, in minutes.", ge=-1440, le=1440)] = 0
    directory: Annotated[
        PathText, about("Working directory of the session; the caller's if not given.", max_length=4096)
    ] = ""
    branch: Annotated[str, about("The checked-out Git branch.", max_length=500)] = ""
    commit: Annotated[str, about("The checked-out commit.", max_length=64)] = ""
    agent: Annotated[str, about("Which of the host's agents it is.", max_length=200)] = ""
    source: Annotated[
        str,
        about(
            "How the session began (startup, resume, clear, compact, fork), why it ended, or how it pauses (read-only).",
            max_length=64,
        ),
    ] = ""
    answer: Annotated[
        str,
        about(
            "First 16 hex digits of the SHA-256 of the last answer; capture waits until the transcript contains it.",
            max_length=64,
        ),
    ] = ""
    again: Annotated[bool, about("The turn had ended before and was continued.")] = False
    everything: Annotated[bool, about("Capture all turns of the session, for backfilling.")] = False
    since: Annotated[Day, about("With everything: only turns from this day on.", max_length=40)] = ""
    dry_run: Annotated[bool, about("With everything: report the turns to capture, write nothing.")] = False


class RecallReply(ReplyItems[RecalledMemory], OperationReply, frozen=True, kw_only=True):
    """Memories that match a prompt, by a search."""

    hits: tuple[RecalledMemory, ...]


class WhyHintRequest(OperationRequest, frozen=True):
    """The output of a failed tool call, and the session in which it failed."""

    text: Annotated[Text, about("The output of the command; its end is enough.")]
    session: Annotated[
        str, about("Id of the session. Its own errors are left out: it has seen them.", max_length=500)
    ] = ""


class WhyHint(OperationReply, frozen=True, kw_only=True):
    """What made the command of the same error pass in another session."""

    id: str
    date: str
    sessions: int
    files: tuple[str, ...]
    signature: str


class WhyHintReply(OperationReply, frozen=True, kw_only=True):
    """What is known about the error of a failed tool call, best first."""

    hints: tuple[WhyHint, ...]


class TimelineRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which days and sessions to list."""

    session: Annotated[str, about("Only the session of this id.", max_length=500)] = ""
    since: Since = None
    until: Until = None
    limit: Annotated[int, about("Maximum number of memories to arrange, newest first.", ge=1, le=20_000)] = 500


class TimelineReply(ReplyItems[TimelineSession], OperationReply, frozen=True, kw_only=True):
    """Sessions by day, newest first. `more`: older memories exist, and the last day may be incomplete."""

    sessions: tuple[TimelineSession, ...]
    more: bool


class HandoffRequest(OperationRequest, frozen=True):
    """The session to hand over, and to whom."""

    to: Annotated[str, about("The agent that goes on: claude, codex, opencode, …", max_length=64)] = ""
    session: Annotated[
        str, about("Id of the session, or its beginning; the newest one if not given.", max_length=500)
    ] = ""
    inject: Annotated[
        bool, about("Also show it at the start of the next session of that host in this project, once, until tomorrow.")
    ] = False
    take: Annotated[
        FilePath | None, about("A handoff that another person wrote to a file: take it over, as a quotation.")
    ] = None


class HandoffReply(Handoff, frozen=True, kw_only=True):
    """What the next agent needs of a session."""

    text: str
    """All of it as Markdown, ready to paste."""
    until: str
    """The last day on which a session that starts is shown it; empty without inject."""


@OPERATIONS.declare("session.capture", writes=True, needs="capture")
def capture_session(engine: Engine, request: CaptureRequest, call: RequestContext) -> CaptureReply:
    """Write the finished turns of an agent's session to the journals of their days, each once.

    Used for spooled hook events and for backfilling. The host's transcript is read in place; the journal gets a
    redacted note of each turn, and an entry of its own type for every correction, preference, decision and plan of the
    user. Repeated calls write nothing new. Nothing is captured from a pause of the session to its end, also by a later call.
    """
    from lorelog.services.sessions.capture import Backfill
    from lorelog.services.sessions.capture import capture_session as capture_turns

    if request.at and parse_iso_time(request.at) is None:
        raise UsageError(f"{request.at!r} is not a time", hint="write it as 2026-03-05T14:30:00.000Z")
    fields = msgspec.structs.asdict(request)
    fields["directory"] = request.directory or call.directory
    if request.transcript:
        fields["transcript"] = join_path(call.directory, request.transcript)
    event = HookEvent.from_mapping(fields, datetime.now(UTC))
    if request.moment in _PAUSES:
        call.check("pause", f"{request.moment} a session")
        state = READ_ONLY if request.source == READ_ONLY else _PAUSES[request.moment]
        PauseNotes(str(engine.place.home), request.session).add(state, event.at.timestamp())
        return CaptureReply()
    context = replace(
        engine.capture_context(),
        yield_write_lock=call.yield_write_slot,
        traces=engine.traces,
        is_vouched=is_allowed("capture", call.caller),
    )
    if not request.everything:
        return capture_turns(event, context, progress=call.progress)
    since = parse_past_day(request.since)
    backfill = Backfill(since, dry_run=request.dry_run)
    return capture_turns(event, context, backfill, progress=call.progress)


@OPERATIONS.declare("session.timeline")
def list_timeline(engine: Engine, request: TimelineRequest, call: RequestContext) -> TimelineReply:
    """List sessions by day, newest first: requests, outcomes, and what they were shown.

    Memories that were added without a session are listed by day and project, sections of documents by file.
    """
    from lorelog.services.usage.history import DeliveryFilter

    projects = engine.log_projects(all_projects=request.all_projects)
    since = parse_past_day(request.since)
    until = parse_past_day(request.until)
    filters = Filters(projects=projects, since=since, until=until)
    if request.session:
        found = ListReply((), tuple(engine.store.recent(filters, request.limit, session=request.session)), more=False)
    else:
        options = ListOptions(include_superseded=True, include_expired=True)
        found = engine.memories().list(filters, limit=request.limit, all_projects=projects is None, options=options)
    oldest = min((stored.chunk.date[:10] for stored in found.memories), default="") if found.more else ""
    shown = DeliveryFilter(projects=projects, session=request.session, since=max(since, oldest))
    deliveries = deliveries_between(engine.place.tenant_folder / "deliveries", shown, until)
    sessions = build_timeline(found.memories, found.lifecycles, deliveries)
    return TimelineReply(sessions=tuple(sessions), more=found.more)


@OPERATIONS.declare("session.recall", errors=(ModelError,), warms=True, needs="ask_as_hook")
def recall_memories(engine: Engine, request: RecallRequest, call: RequestContext) -> RecallReply:
    """Return the few memories that name what a prompt names, and that the session was not shown yet.

    For the hook that a host runs on every prompt. Use memory.search for replies that do not depend on the session.
    """
    from lorelog.services.sessions import recall

    prompt = recall.UserPrompt(request.host, request.session, request.prompt)
    session = engine.defaults.session
    options = replace(
        engine.defaults.search,
        k=session.hits if request.k is None else request.k,
        min_relevance=session.hits_relevance if request.min_relevance is None else request.min_relevance,
        token_budget=request.token_budget,
    )
    return RecallReply(hits=recall.recall_memories(prompt, options, engine.recall_sources()))


@OPERATIONS.declare("session.why", errors=(StoreUnwritable, StoreBusy), needs="ask_as_hook")
def find_why_hints(engine: Engine, request: WhyHintRequest, call: RequestContext) -> WhyHintReply:
    """Return what fixed the same error in an earlier session, in a few words.

    For the hook that a host runs after a failed tool call. Use debug.why for the whole history of an error.
    """
    from lorelog.services.traces.error_history import find_error_hints

    text = request.text if request.text.isascii() else request.text.encode("utf-8", "replace").decode()
    hints = find_error_hints(text, engine.error_sources(), request.session)
    return WhyHintReply(
        hints=tuple(
            reply_from(
                hint,
                WhyHint,
                id="" if hint.memory is None else hint.memory.chunk.memory or hint.memory.id,
                date=datetime.fromtimestamp(hint.at / 1000, UTC).astimezone().date().isoformat(),
            )
            for hint in hints
        )
    )


@OPERATIONS.declare(
    "session.handoff",
    ShellCommand("handoff", metavars={"to": "HOST", "take": "FILE"}),
    errors=(NotFound,),
    writes=True,
    once=True,
)
def hand_over(engine: Engine, request: HandoffRequest, call: RequestContext) -> HandoffReply:
    """Return what the next agent needs of a session: goal, state, decisions, files, open questions, failing command.

    It is made from the notes of captured turns, so it works across hosts. No model is called.
    """
    from lorelog.light.delivery_files import DeliveryFiles
    from lorelog.light.session_start import RecentJournals, render_open_tasks
    from lorelog.services.standing.rules import read_standing_rules

    to = resolve_host(request.to)
    if request.inject and request.to and not to:
        raise UsageError(
            f"--inject does not reach {request.to!r}",
            hint=f"it reaches {', '.join(HOSTS)}; without --inject, the text is printed to be pasted",
        )
    place, today = engine.place, datetime.now().astimezone().date()
    if request.take is not None:
        handoff, text = _take_over(engine, request, call)
        return _hand_on(engine, request, handoff, text)
    deletions = str(place.tenant_folder / "tombstones.jsonl")
    files = DeliveryFiles(str(place.tenant_folder), place.project.id)
    journals = RecentJournals(place.project.id, (str(place.journals),), today.isoformat(), deletions, files.own)
    tasks = [line.removeprefix("- [ ] ") for line in render_open_tasks(deletions, place.project.id)]
    handoff = make_handoff(journals, read_standing_rules(place), session=request.session, tasks=tasks)
    text = engine.redact(render_handoff(handoff, request.to))
    if request.inject and not handoff.is_own:
        raise UsageError(
            f"the session {handoff.session} was not captured on this machine", hint="read it, and paste it yourself"
        )
    return _hand_on(engine, request, handoff, text)


def _take_over(engine: Engine, request: HandoffRequest, call: RequestContext) -> tuple[Handoff, str]:
    """Return a handoff from a file. What is in it is not taken apart: all of it is somebody else's text."""
    from lorelog.ingest.transcripts.json_files import open_regular_file

    call.check("approve" if request.inject else "maintain", "take over another person's handoff")
    path = join_path(call.directory, str(request.take))
    try:
        with open_regular_file(path) as file:
            text = file.read(_MAX_HANDOFF_BYTES).decode("utf-8", "replace")
    except (NotFound, SourceError) as error:
        raise NotFound(error.message, hint="name the file that the other person sent") from None
    return Handoff(), engine.redact(quote_handoff(text))


def _hand_on(engine: Engine, request: HandoffRequest, handoff: Handoff, text: str) -> HandoffReply:
    """Return the reply; with `inject`, the text waits for the next session."""
    from lorelog.light.delivery_files import DeliveryFiles

    until = ""
    if request.inject:
        until = (datetime.now().astimezone().date() + timedelta(days=1)).isoformat()
        file = DeliveryFiles(str(engine.place.tenant_folder), engine.place.project.id).handoff
        write_pending(Path(file), handoff, text, to=resolve_host(request.to), until=until)
    return HandoffReply(**to_builtins(handoff), text=text, until=until)
