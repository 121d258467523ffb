"""Requests and replies of `session.*`. docs/json.md explains the reply fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from lorelog.core.query import ValueChange
from lorelog.core.record import Trust
from lorelog.core.serializable import ReplyItems
from lorelog.hosts import HOSTS
from lorelog.operations.replies import FreshnessJson, GroundingRef, OperationReply, VerificationHint
from lorelog.operations.requests import OperationRequest, Since, Text, Until
from lorelog.services.sessions.handoff import Handoff

_HOST = f"The agent: {', '.join(HOSTS)}."


class RecallRequest(OperationRequest, frozen=True, kw_only=True):
    """A prompt, and the session in which it was typed."""

    prompt: Annotated[Text, Meta(description="The text of the prompt.")]
    host: Annotated[str, Meta(max_length=64, description=_HOST)] = ""
    session: Annotated[
        str,
        Meta(
            max_length=500,
            description="Id of its session. A session is shown each memory once, and none that was captured from it.",
        ),
    ] = ""
    k: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        Meta(description="Maximum number of hits of the search; session.hits if not given."),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Minimum relevance; session.hits_relevance if not given."),
    ] = None


class CaptureRequest(OperationRequest, frozen=True, kw_only=True):
    """An event of an agent's session, as its hook recorded it."""

    host: Annotated[str, Meta(min_length=1, max_length=64, description=_HOST)]
    session: Annotated[str, Meta(min_length=1, max_length=500, description="The host's id of the session.")]
    transcript: Annotated[
        str, Meta(max_length=4096, description="The file with the conversation; a database holds several.")
    ] = ""
    moment: Annotated[
        Literal["session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end"],
        Meta(description="The event; it determines which turns are finished."),
    ] = "turn-end"
    turn: Annotated[str, Meta(max_length=500, description="The host's id of the turn, or of its prompt.")] = ""
    at: Annotated[str, Meta(max_length=40, description="Time of the event, ISO with a zone; now if not given.")] = ""
    offset: Annotated[int, Meta(ge=-1440, le=1440, description="UTC offset of the local time, in minutes.")] = 0
    directory: Annotated[
        str, Meta(max_length=4096, description="Working directory of the session; the caller's if not given.")
    ] = ""
    branch: Annotated[str, Meta(max_length=500, description="The checked-out Git branch.")] = ""
    commit: Annotated[str, Meta(max_length=64, description="The checked-out commit.")] = ""
    agent: Annotated[str, Meta(max_length=200, description="Which of the host's agents it is.")] = ""
    source: Annotated[
        str,
        Meta(
            max_length=64, description="How the session began (startup, resume, clear, compact, fork) or why it ended."
        ),
    ] = ""
    answer: Annotated[
        str,
        Meta(
            max_length=64,
            description="First 16 hex digits of the SHA-256 of the last answer; capture waits until the transcript "
            "contains it.",
        ),
    ] = ""
    again: Annotated[bool, Meta(description="The turn had ended before and was continued.")] = False
    everything: Annotated[bool, Meta(description="Capture all turns of the session, for backfilling.")] = False
    since: Annotated[str, Meta(max_length=40, description="With everything: only turns from this day on.")] = ""
    dry_run: Annotated[bool, Meta(description="With everything: report the turns to capture, write nothing.")] = False
    upgrade: Annotated[
        bool, Meta(description="With everything: replace notes of an older version that nobody edited.")
    ] = False


class RecalledMemoryJson(OperationReply, frozen=True, kw_only=True):
    """A memory that matches a prompt."""

    id: str
    memory: str
    text: str
    source: str
    date: str
    relevance: float
    origin: str
    trust: Trust
    grounding_refs: tuple[GroundingRef, ...]
    verification_hint: VerificationHint
    freshness: FreshnessJson
    now_was: tuple[ValueChange, ...]
    cue: str


class RecallJson(OperationReply, frozen=True, kw_only=True):
    """Memories that match a prompt: first those with a topic that it is about, then the hits of a search."""

    hits: tuple[RecalledMemoryJson, ...]


class WhyHintRequest(OperationRequest, frozen=True, kw_only=True):
    """The output of a failed tool call, and the session in which it failed."""

    text: Annotated[Text, Meta(description="The output of the command; its end is enough.")]
    session: Annotated[
        str, Meta(max_length=500, description="Id of the session. Its own errors are left out: it has seen them.")
    ] = ""


class WhyHint(OperationReply, frozen=True, kw_only=True):
    """An earlier occurrence of the same error."""

    id: str
    text: str
    date: str
    files: tuple[str, ...]
    signature: str


class WhyHintReply(OperationReply, frozen=True, kw_only=True):
    """What is known about the error of a failed tool call, best first."""

    hints: tuple[WhyHint, ...]


class TimelineRequest(OperationRequest, frozen=True, kw_only=True):
    """Which days and sessions to list."""

    session: Annotated[str, Meta(max_length=500, description="Only the session of this id.")] = ""
    since: Since = None
    until: Until = None
    all_projects: Annotated[bool, Meta(description="Include all projects of the tenant.")] = False
    limit: Annotated[int, Meta(ge=1, le=20_000, description="Maximum number of memories to arrange, newest first.")] = (
        500
    )


class TurnInfo(OperationReply, frozen=True, kw_only=True):
    """A captured turn: what was asked, and what came of it."""

    memory: str
    at: str
    asked: str
    outcome: str
    files: tuple[str, ...]
    commands: tuple[str, ...]
    errors: tuple[str, ...]
    ended: str


class TimelineNoteInfo(OperationReply, frozen=True, kw_only=True):
    """A statement of the user, a memory that was added, or the sections of a document."""

    memory: str
    at: str
    type: str
    text: str
    origin: str
    source: str
    sections: int
    superseded: bool


class SessionDay(OperationReply, frozen=True, kw_only=True):
    """One day of a session; without a session, what was added that day in a project."""

    day: str
    session: str
    host: str
    project: str
    branch: str
    started: str
    ended: str
    turns: tuple[TurnInfo, ...]
    notes: tuple[TimelineNoteInfo, ...]
    deliveries: int
    tokens: int


class TimelineReply(ReplyItems[SessionDay], OperationReply, frozen=True, kw_only=True):
    """Sessions by day, newest first. `more`: older memories exist, and the last day may be incomplete."""

    items_field = "sessions"

    sessions: tuple[SessionDay, ...]
    more: bool


class HostInfo(OperationReply, frozen=True, kw_only=True):
    """An agent's host: whether lorelog is installed in it, and when it last captured. Times are ISO, UTC; empty: never."""

    host: str
    title: str
    found: bool
    installed: str
    """current, stale, missing, or native (by the host's own installer)."""
    approve: tuple[str, ...]
    """What the user must still do in the host."""
    warnings: tuple[str, ...]
    last_event: str
    last_capture: str
    newest_session: str
    today: int


class HostsReply(ReplyItems[HostInfo], OperationReply, frozen=True, kw_only=True):
    """All hosts that lorelog can be installed in."""

    items_field = "hosts"

    hosts: tuple[HostInfo, ...]


class HandoffRequest(OperationRequest, frozen=True, kw_only=True):
    """The session to hand over, and to whom."""

    to: Annotated[str, Meta(max_length=64, description="The agent that goes on: claude, codex, opencode, …")] = ""
    session: Annotated[
        str, Meta(max_length=500, description="Id of the session, or its beginning; the newest one if not given.")
    ] = ""
    inject: Annotated[
        bool,
        Meta(
            description="Also show it at the start of the next session of that host in this project, once, until tomorrow."
        ),
    ] = False


class HandoffReply(Handoff, frozen=True, kw_only=True):
    """What the next agent needs of a session."""

    text: str
    """All of it as Markdown, ready to paste."""
    until: str
    """The last day on which a session that starts is shown it; empty without inject."""
