"""The timeline of memories: sessions by day, with their requests and outcomes.

A captured turn is a note with labelled bullets (`ingest.transcripts.turn_note`), a statement of the user is an entry of its own. Both
name their session. What was added without a session is one group per day and project, and sections of documents are counted by
file. A session that was shown memories is listed even if none of its turns is captured yet: it is running.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import StoredChunk
from lorelog.core.query import LifecycleState
from lorelog.core.serializable import Serializable, parse_iso_time
from lorelog.light.delivery_files import shorten_line
from lorelog.light.session_start import parse_note
from lorelog.services.standing.memories import read_words, text_line
from lorelog.services.usage.history import Delivery, DeliveryFilter, list_deliveries, local_day

MAX_TEXT_CHARS = 600
_HOST = re.compile(r"<!--[^>]*?\bhost:([\w.-]+)")


class TimelineTurn(Serializable, Struct, frozen=True, kw_only=True):
    """A captured turn: the request, and the result."""

    memory: str
    at: str
    asked: str
    outcome: str
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    ended: str = ""
    """How it ended, unless by itself: interrupted, failed."""


class TimelineNote(Serializable, Struct, frozen=True, kw_only=True):
    """A statement of the user, a memory that was added, or the sections of a document."""

    memory: str
    at: str
    type: str
    text: str
    origin: str
    source: str
    sections: int = 1
    superseded: bool = False


class TimelineSession(Serializable, Struct, kw_only=True):
    """One day of a session, or what was added that day in a project without a session."""

    day: str
    session: str
    host: str
    project: str
    branch: str = ""
    started: str = ""
    ended: str = ""
    turns: list[TimelineTurn] = field(default_factory=list)
    notes: list[TimelineNote] = field(default_factory=list)
    deliveries: int = 0
    tokens: int = 0
    """Of the memories it was shown."""

    def spans(self, at: str) -> None:
        """Extend the session to a time."""
        self.started = min(filter(None, (self.started, at)), default="")
        self.ended = max(self.ended, at)


def deliveries_between(folder: Path, filters: DeliveryFilter, until: str = "") -> list[Delivery]:
    """Return the deliveries that pass the filters, up to and including a local day."""
    return [each for each in list_deliveries(folder, filters) if not until or local_day(each.at) <= until]


def build_timeline(
    memories: Sequence[StoredChunk], lifecycles: Mapping[str, LifecycleState], deliveries: Iterable[Delivery]
) -> list[TimelineSession]:
    """Return the sessions, newest first; those of one day by their last time. Turns are in order of time.

    The memories are given newest first.
    """
    found: dict[tuple[str, str, str], TimelineSession] = {}
    for stored in reversed(memories):
        _add_memory(found, stored, lifecycles)
    for delivery in deliveries:
        day, moment = local_day(delivery.at), parse_iso_time(delivery.at)
        if day and moment is not None and delivery.session:
            empty = TimelineSession(day=day, session=delivery.session, host=delivery.host, project=delivery.project)
            session = found.setdefault((day, delivery.project, delivery.session), empty)
            session.host = session.host or delivery.host
            session.spans(moment.astimezone().isoformat(timespec="minutes")[:16])
            session.deliveries += 1
            session.tokens += delivery.tokens
    for session in found.values():
        session.turns.sort(key=lambda turn: turn.at)
        session.notes.sort(key=lambda note: note.at)
    return sorted(found.values(), key=lambda session: (session.day, session.ended), reverse=True)


def _add_memory(
    found: dict[tuple[str, str, str], TimelineSession], stored: StoredChunk, lifecycles: Mapping[str, LifecycleState]
) -> None:
    chunk, anchor = stored.chunk, stored.chunk.anchor
    day, identity = chunk.date[:10], anchor.session if anchor else ""
    if not day:
        return
    session = found.setdefault(
        (day, stored.project, identity), TimelineSession(day=day, session=identity, host="", project=stored.project)
    )
    at = chunk.date if "T" in chunk.date else ""
    if anchor is None or not (anchor.memory or anchor.session):
        _add_section(session, stored, at)
        return
    host = _HOST.search(chunk.content)
    session.host = session.host or (host[1] if host and identity else "")
    session.branch = session.branch or (anchor.branch if identity else "")
    session.spans(at)
    if chunk.type == "turn" or (identity and not chunk.type):
        session.turns.append(read_turn(stored, at))
        return
    state = lifecycles.get(stored.id)
    session.notes.append(
        TimelineNote(
            memory=anchor.memory or stored.id,
            at=at,
            type=chunk.type,
            text=shorten_line(text_line(read_words(chunk)[0]), MAX_TEXT_CHARS),
            origin=anchor.origin,
            source=chunk.source,
            superseded=state is not None and bool(state.superseded_by),
        )
    )


def _add_section(session: TimelineSession, stored: StoredChunk, at: str) -> None:
    """Count a section of a document: one note for each file."""
    chunk = stored.chunk
    for index, note in enumerate(session.notes):
        if note.source == chunk.source and not note.type:
            session.notes[index] = replace(note, sections=note.sections + 1)
            return
    title = (chunk.heading_path[0] if chunk.heading_path else chunk.heading)[:MAX_TEXT_CHARS]
    session.notes.append(TimelineNote(memory=stored.id, at=at, type="", text=title, origin="", source=chunk.source))


def read_turn(stored: StoredChunk, at: str) -> TimelineTurn:
    """Return a turn from its note. A note that a model worded has no labels: its first line is what was asked."""
    parts = parse_note([line for line in stored.chunk.text.splitlines() if not line.startswith("#")])
    anchor = stored.chunk.anchor
    asked, outcome, worded = " ".join(parts["request"]), " ".join(parts["outcome"]), parts["text"]
    if not asked and worded:
        asked, worded = worded[0], worded[1:]
    return TimelineTurn(
        memory=(anchor.memory if anchor else "") or stored.id,
        at=at,
        asked=shorten_line(asked, MAX_TEXT_CHARS),
        outcome=shorten_line(outcome or " ".join(worded), MAX_TEXT_CHARS),
        files=tuple(", ".join(parts["files"]).split(", ")) if parts["files"] else (),
        commands=tuple(line.strip("`") for line in parts["commands"]),
        errors=tuple(parts["errors"]),
        ended=" ".join(parts["ended"]),
    )
