"""Locate a transcript by path, memory id or OpenClaw URL, and read the turns around the one that a memory comes from.

Only files that the caller names are read, and those that `TranscriptAccess` lets the anchor of an indexed memory name: an anchor is text in
somebody's notes and may name any file. Secrets are redacted in what is shown.

A conversation is read from its beginning, record by record, and only the turns to be shown are kept: the size of a transcript costs
time, not memory. Long texts are truncated; a note in the reply then states the limits.

`find_host_sessions` lists the conversations that a host keeps on this machine, for backfilling. It skips unreadable files: capturing them reports
the reason.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core import VERSION
from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import Anchor
from lorelog.core.errors import LorelogError, NotFound, SourceError, UsageError
from lorelog.core.memory import ExpandReply
from lorelog.core.paths import join_path
from lorelog.core.ports import Store
from lorelog.core.session import TranscriptReply, TranscriptTurn
from lorelog.hosts import TRANSCRIPT_FILES, host_data_folder
from lorelog.ingest.files import printable_path
from lorelog.ingest.redaction.redact import RedactText, known_value_redactor, redact
from lorelog.ingest.transcripts.conversation import Conversation, open_conversation, read_conversation_head
from lorelog.ingest.transcripts.json_files import open_database, open_regular_file, table_columns
from lorelog.ingest.transcripts.turn_note import turn_redactor
from lorelog.ingest.transcripts.turns import (
    MAX_INPUT_CHARS,
    MAX_RESULT_CHARS,
    MAX_TEXT_CHARS,
    MAX_TOOL_CALLS,
    ParsedTurn,
    TranscriptStats,
)
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.memories.listing import expand
from lorelog.services.memories.transcript_access import TranscriptAccess
from lorelog.services.sessions.capture_db import OPEN_TURN_S

_OPENCLAW = "openclaw-session"
_DATABASE = Path("agent") / "openclaw-agent.sqlite"
_PLAIN_NAME = re.compile(r"[\w.:@-]+")
"""Sessions and agents become part of a path: without a slash they cannot lead elsewhere."""
_MAX_SESSION_LIST_BYTES = 64 * 1024 * 1024
_BYTES_PER_TOKEN = 2.7
"""Of a transcript, mostly JSON: 2.5 to 2.9 on eight of Claude Code and OpenCode, with Claude 2's tokenizer."""
_ENTRY_SPAN = timedelta(minutes=1)
"""An entry's heading has minute precision; its turn may have begun within that minute."""


class TranscriptLocation(Struct, frozen=True):
    """A transcript file, and the session and turn in it."""

    path: str
    session: str = ""
    turn: str = ""
    written_at: str = ""
    """When the memory was written, in UTC, for anchors without a turn."""


FollowAnchor = Callable[[ExpandReply], TranscriptLocation | None]
"""Returns the transcript that a memory's anchor names; None if it may not be read."""


class TranscriptSources(Struct, frozen=True):
    """Where transcripts are looked up for a caller."""

    store: Store
    follow: FollowAnchor
    directory: str | None = None
    """Base of the caller's relative paths. None if the caller may not name files: then only ids are accepted."""
    patterns: Sequence[str] = ()
    """The user's own patterns of secrets."""


def locate_transcript(place: str, sources: TranscriptSources) -> TranscriptLocation:
    """Return the transcript at a path or URL, or of a chunk or memory id."""
    store, directory, follow = sources.store, sources.directory, sources.follow
    place = place.strip()
    if not place:
        raise UsageError("a transcript's path or a memory's id is needed", hint="'lorelog search' shows ids")
    if "\0" in place:
        raise UsageError("a path must not contain NUL bytes")
    if directory is None:
        return _locate_memory(place, store, follow)
    if "://" in place:
        return _locate_address(place, "")
    if place.startswith(("~", ".")) or "/" in place or os.sep in place:
        return _locate_path(place, directory)
    try:
        return _locate_memory(place, store, follow)
    except NotFound as error:
        if os.path.lexists(Path(directory, place.rpartition("#")[0] or place)):
            return _locate_path(place, directory)
        raise NotFound(
            f"{printable_path(place)} is neither the id of a chunk or memory nor a file in {printable_path(directory)}",
            hint=error.hint,
        ) from error


def _locate_path(name: str, directory: str) -> TranscriptLocation:
    expanded = join_path("", name)
    path = os.path.normpath(Path(directory, expanded))
    base, mark, session = path.rpartition("#")
    if mark and base and not os.path.lexists(path):
        return TranscriptLocation(base, session)
    return TranscriptLocation(path)


def _locate_memory(identity: str, store: Store, follow: FollowAnchor) -> TranscriptLocation:
    reply = expand(identity, store, lines=0)
    if reply.chunk.chunk.anchor is None or not reply.transcript:
        raise SourceError(
            f"{reply.chunk.id[:8]} was not captured from a conversation",
            hint=f"'lorelog show {reply.chunk.id[:8]}' shows the memory itself",
        )
    location = follow(reply)
    if location is None:  # the same error for a file that exists and one that does not
        raise SourceError(
            f"the conversation of {reply.chunk.id} cannot be shown: its anchor names neither a conversation that was captured "
            "on this machine nor one that a host keeps for this project",
            hint="a person can name the file in a shell: lorelog transcript PATH",
        )
    return location


def checked_follow(access: TranscriptAccess) -> FollowAnchor:
    """Return a function that follows the anchors which `access` allows."""

    def follow(reply: ExpandReply) -> TranscriptLocation | None:
        try:
            location = locate_anchor(reply)
        except LorelogError:
            return None
        path = access.resolve(reply.chunk, location.path, location.session)
        return replace(location, path=path) if path else None

    return follow


def describe_transcript(reply: ExpandReply, follow: FollowAnchor) -> ExpandReply:
    """Return an expanded section with the size of its conversation, if that may be read."""
    location = follow(reply) if reply.transcript else None
    try:
        status = Path(location.path).stat() if location else None
    except (OSError, ValueError):
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        return reply
    return replace(reply, transcript_exists=True, transcript_tokens=round(status.st_size / _BYTES_PER_TOKEN))


def locate_anchor(reply: ExpandReply) -> TranscriptLocation:
    """Return the transcript that a memory's anchor names, whether it may be read or not."""
    chunk = reply.chunk.chunk
    anchor = chunk.anchor or Anchor()
    written_at = ""
    if not anchor.turn and "T" in chunk.date:  # its heading has the local time
        with suppress(ValueError, OverflowError, OSError):
            written = datetime.fromisoformat(chunk.date) + _ENTRY_SPAN
            written_at = written.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if "://" in reply.transcript:
        location = _locate_address(reply.transcript, anchor.session)
        return replace(location, turn=anchor.turn, written_at=written_at)
    return TranscriptLocation(os.path.normpath(reply.transcript), anchor.session, anchor.turn, written_at)


def _locate_address(address: str, session: str) -> TranscriptLocation:
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise SourceError(f"{printable_path(address)} is not a valid URL: {error}") from error
    if parts.scheme == "file":
        return TranscriptLocation(os.path.normpath(unquote(parts.path)), session or parts.fragment)
    if parts.scheme != _OPENCLAW:
        raise SourceError(
            f"{printable_path(address)} has an unknown scheme", hint=f"use a path, file:// or {_OPENCLAW}://"
        )
    query = parse_qs(parts.query)
    key = query.get("sessionKey", [""])[0]
    agent = unquote(parts.netloc)
    path_session = unquote(parts.path).strip("/")
    agent = agent if _PLAIN_NAME.fullmatch(agent) else "main"
    if key.startswith("agent:") and agent == "agent":  # then both are placeholders, not names
        agent = key.split(":")[1]
    session = session or (path_session if path_session != "session" else "")
    store = query.get("store", [""])[0] or os.environ.get("OPENCLAW_STATE_DIR", "") or "~/.openclaw"
    base = Path(join_path("", store))
    tried: list[str] = []
    for path, matched_session in _openclaw_candidates(base, agent, session, key):
        if path.is_file():
            return TranscriptLocation(str(path), matched_session)
        tried.append(str(path))
    raise NotFound(
        f"the conversation {printable_path(address)} does not exist",
        hint=f"looked for {', '.join(map(printable_path, tried[:4]))}" if tried else "its URL names no session",
    )


def _openclaw_candidates(base: Path, agent: str, session: str, key: str) -> Iterator[tuple[Path, str]]:
    """Yield possible locations of a session, below a store that is a database, a session list or a directory."""
    if base.suffix == ".json":
        listed, file = _find_listed_session(base, key)
        session = session or listed
        if file:
            yield file, session
        folders = [base.parent, base.parent.parent]
    elif base.suffix and not base.is_dir():
        yield base, session
        folders = [base.parent]
    else:
        folders = [base, base / "agents" / agent, base / agent]
    for folder in folders:
        if _PLAIN_NAME.fullmatch(session):
            yield folder / f"{session}.jsonl", session
            yield folder / "sessions" / f"{session}.jsonl", session
        yield folder / _DATABASE, session
        yield folder / _DATABASE.name, session


def _find_listed_session(path: Path, key: str) -> tuple[str, Path | None]:
    """Return the session, and its file if known, that a session list has for a key."""
    try:
        with open_regular_file(str(path)) as opened:
            entry = json.loads(opened.read(_MAX_SESSION_LIST_BYTES))[key]
        session, file = entry.get("sessionId"), entry.get("sessionFile")
    except (LorelogError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        return "", None
    is_known = isinstance(file, str) and "\0" not in file and file
    return (session if isinstance(session, str) else "", path.parent / file if is_known else None)


MAX_CONTEXT = 100
MAX_REPLY_CHARS = 120_000
"""Of all turns of a reply together; turns far from the focus are left out first."""
_MIN_PREFIX_CHARS = 4
_RANK_ID, _RANK_NAME, _RANK_ID_PREFIX, _RANK_NAME_PREFIX = 4, 3, 2, 1
_MAX_IDS_KEPT = 10_000
"""Ids to suggest for a wrong one."""


def read_transcript(place: str, sources: TranscriptSources, *, turn: str = "", context: int = 3) -> TranscriptReply:
    """Return a turn and `context` turns before and after it; without a turn, the last turns.

    `place` is a path, absolute or relative to the caller's directory, or the id of a chunk or memory, whose anchor names the conversation and its turn.
    Without a directory only an id is accepted: the caller may not name files. A session in a database is named as `FILE#SESSION`. A turn
    may be named by a prefix of its id, or by any name that the host has for something in it. Secrets are redacted.
    """
    if not 0 <= context <= MAX_CONTEXT:
        raise UsageError(f"--context must be 0 to {MAX_CONTEXT}: {context}")
    turn = turn.strip()
    location = locate_transcript(place, sources)
    if turn:
        location = replace(location, turn=turn, written_at="")
    conversation = open_conversation(location.path, location.session, location.turn)
    window, stats = _TurnWindow(location, context), TranscriptStats()
    clean, secrets = partial(_redact, patterns=sources.patterns), dict[str, str]()
    for parsed in conversation.turns(stats):
        window.add(parsed)
        turn_redactor(parsed.digest, clean, secrets)
    notes: list[str] = []
    if not window.total and conversation.format == "sqlite":
        raise NotFound(
            f"{printable_path(conversation.path)} holds no session {conversation.session!r} with any messages",
            hint="without '#SESSION' the newest one is shown",
        )
    if location.turn and not window.focus:
        if turn:
            near = difflib.get_close_matches(turn, window.ids, 3, 0.5)
            hint = f"similar: {', '.join(near)}" if near else f"its last turns are {', '.join([*window.ids][-3:])}"
            hint = hint if window.ids else "it has no messages yet"
            raise NotFound(f"{printable_path(conversation.address)} has no turn {turn!r}", hint=hint)
        notes.append(f"turn {location.turn}, named by the anchor, is not in the transcript; showing the last turns")
    if location.written_at and window.focus:
        notes.append("the anchor names no turn; showing the one that was active when the entry was written")
    if len(window.ambiguous) > 1:
        raise UsageError(
            f"{len(window.ambiguous)} turns have a name that starts with {location.turn!r}: {', '.join(window.ambiguous[:5])}",
            hint="give more of the id",
        )
    turns = _redact_turns(_fit_turns(window.turns, window.focus), clean, secrets)
    if len(turns) < len(window.turns):
        notes.append(
            f"{len(window.turns) - len(turns)} turns are left out: the limit is {MAX_REPLY_CHARS:,} characters"
        )
    return TranscriptReply(
        address=conversation.address,
        host=conversation.host,
        format=conversation.format,
        session=stats.session or conversation.session,
        turns=turns,
        total=window.total,
        focus=window.focus,
        skipped=stats.skipped,
        broken=stats.broken,
        notes=(*notes, *_format_notes(conversation, stats, turns)),
        tokens=sum(estimate_tokens("\n".join(_turn_texts(turn))) for turn in turns),
    )


class _TurnWindow:
    """Keeps the turns around the requested one while the conversation is read."""

    def __init__(self, location: TranscriptLocation, context: int) -> None:
        self._location = location
        self._context = context
        self._best = 0
        self._left = 0
        self._before: deque[TranscriptTurn] = deque(maxlen=context)
        self._last: deque[TranscriptTurn] = deque(maxlen=2 * context + 1)
        self._around: list[TranscriptTurn] = []
        self.ids: deque[str] = deque(maxlen=_MAX_IDS_KEPT)
        self.ambiguous: list[str] = []
        """Turns that match the requested prefix equally well."""
        self.total = 0
        self.focus = ""

    @property
    def turns(self) -> tuple[TranscriptTurn, ...]:
        return tuple(self._around if self.focus else self._last)

    def add(self, parsed: ParsedTurn) -> None:
        turn, rank = parsed.turn, self._rank(parsed)
        self.total += 1
        if rank > self._best or (rank and self._location.written_at):
            self._best, self.focus, self._left = rank, turn.id, self._context
            self._around = [*self._before, turn]
            self.ambiguous = [turn.id]
        else:
            if rank and rank == self._best and rank in {_RANK_ID_PREFIX, _RANK_NAME_PREFIX}:
                self.ambiguous.append(turn.id)
            if self._left:
                self._around.append(turn)
                self._left -= 1
        self._before.append(turn)
        self._last.append(turn)
        self.ids.append(turn.id)

    def _rank(self, parsed: ParsedTurn) -> int:
        """Return how well a turn matches: its own id before aliases, a whole name before a prefix."""
        name = self._location.turn
        if not name:
            return int(bool(self._location.written_at and "" < parsed.turn.time <= self._location.written_at))
        if parsed.turn.id == name:
            return _RANK_ID
        if name in parsed.aliases:
            return _RANK_NAME
        if len(name) < _MIN_PREFIX_CHARS:
            return 0
        if parsed.turn.id.startswith(name):
            return _RANK_ID_PREFIX
        return _RANK_NAME_PREFIX if any(alias.startswith(name) for alias in parsed.aliases) else 0


def _fit_turns(turns: tuple[TranscriptTurn, ...], focus: str) -> tuple[TranscriptTurn, ...]:
    """Return the turns around the focus, or else the last ones, that fit into a reply; the first one always does."""
    if not turns:
        return turns
    at = next((index for index, turn in enumerate(turns) if turn.id == focus), len(turns) - 1)
    order = sorted(range(len(turns)), key=lambda index: (abs(index - at), index))
    lengths = accumulate(sum(map(len, _turn_texts(turns[index]))) for index in order)
    taken = [at, *(index for index, length in list(zip(order, lengths, strict=True))[1:] if length <= MAX_REPLY_CHARS)]
    return tuple(turns[index] for index in sorted(taken))


def _redact(text: str, patterns: Sequence[str]) -> str:
    return redact(text, patterns).text


def _redact_turns(
    turns: tuple[TranscriptTurn, ...], redact_text: RedactText, secrets: dict[str, str]
) -> tuple[TranscriptTurn, ...]:
    """Return turns without secrets; one that is recognised in one place, or was before, is removed everywhere."""
    clean = known_value_redactor((text for turn in turns for text in _turn_texts(turn)), redact_text, secrets)
    return tuple(
        replace(
            turn,
            user=clean(turn.user),
            assistant=clean(turn.assistant),
            tools=tuple(
                replace(tool, name=clean(tool.name), input=clean(tool.input), result=clean(tool.result))
                for tool in turn.tools
            ),
        )
        for turn in turns
    )


def _format_notes(conversation: Conversation, stats: TranscriptStats, turns: tuple[TranscriptTurn, ...]) -> list[str]:
    notes = [conversation.note] if conversation.note else []
    notes += [text if times == 1 else f"{text} ({times} times)" for text, times in stats.notes.items()]
    if stats.broken:
        notes.append(f"{stats.broken} of its lines are malformed")
    if not turns:
        notes.append("it has no messages yet")
    if any(turn.truncated for turn in turns):
        notes.append(
            f"long texts are truncated: messages at {MAX_TEXT_CHARS:,} characters, tool calls at {MAX_INPUT_CHARS}, results at"
            f" {MAX_RESULT_CHARS}; only the first {MAX_TOOL_CALLS} calls of a turn are kept"
        )
    return notes


def _turn_texts(turn: TranscriptTurn) -> list[str]:
    tools = [text for tool in turn.tools for text in (tool.name, tool.input, tool.result)]
    return [turn.id, turn.time, turn.user, turn.assistant, *tools]


# -- conversations of a host -------------------------------------------------------------------------------------------


class HostSession(Struct, frozen=True, kw_only=True):
    """A conversation kept by a host."""

    host: str
    session: str
    transcript: str
    directory: str
    branch: str = ""
    agent: str = ""
    changed: float = 0.0
    """Modification time of its file, or of its row in a database; seconds since 1970."""


_HOST_FILES = {host: (files,) for host, files in TRANSCRIPT_FILES.items()} | {
    "codex": ("sessions/**/*.jsonl*", "archived_sessions/**/*.jsonl*")
}
_HOST_DATABASES = {
    "opencode": ("opencode*.db",),
    "openclaw": ("agents/*/agent/openclaw-agent.sqlite",),
    "kilo": ("kilo*.db",),
}
_FORMS = {"droid": "openclaw", "pi": "openclaw", "omp": "openclaw", "kilo": "opencode"}
"""Hosts whose conversations have the form of another's."""
"""Conversations below a host's folder; Codex has more of them than `TRANSCRIPT_FILES` names for a running session."""


class SeenTranscript(Struct):
    """What backfills know of the file of a conversation."""

    stamp: str
    """Its size, time and number, and the version that read it."""
    session: HostSession | None = None
    """None if it is not a main conversation."""
    captured: dict[str, tuple[str, int]] = {}
    """By database of captures: from which day on all turns are captured, and the number of turns."""


class SeenTranscripts:
    """Derived file that spares a backfill from reading transcripts that have not changed."""

    def __init__(self, home: Path) -> None:
        self._path = home / "cache" / ".transcripts.json"
        self.files: dict[str, SeenTranscript] = {}
        with suppress(OSError, msgspec.DecodeError):
            self.files = msgspec.json.decode(self._path.read_bytes(), type=dict[str, SeenTranscript])

    def session(self, path: Path, read: Callable[[], HostSession | None]) -> HostSession | None:
        """Return the main conversation of a file, which is read if it has changed."""
        status = path.stat()
        stamp = f"{VERSION} {status.st_size} {status.st_mtime_ns} {status.st_ino}"
        known = self.files.get(str(path))
        if known is not None and known.stamp == stamp:
            return known.session
        session = read()
        if session is None or session.directory:  # a directory may be recorded elsewhere, later
            self.files[str(path)] = SeenTranscript(stamp, session)
        return session

    def turns(self, session: HostSession, captures: str, since: str) -> int | None:
        """Return the number of turns if all since a day are in a database of captures, else None."""
        known = self.files.get(session.transcript)
        first, turns = known.captured.get(captures, ("~", 0)) if known else ("~", 0)
        return turns if first <= since else None

    def add(self, session: HostSession, captures: str, since: str, turns: int) -> None:
        """Note that all turns since a day were captured. A turn of the last day may go on, and a database is not a file of one session."""
        known = self.files.get(session.transcript)
        if captures and known is not None and session.changed < time.time() - OPEN_TURN_S:
            known.captured[captures] = (since, turns)

    def save(self) -> None:
        """Save what is known of files that still exist."""
        self.files = {path: known for path, known in self.files.items() if Path(path).exists()}
        write_atomic(self._path, msgspec.json.encode(self.files), durable=False)


def find_host_sessions(host: str, environment: Mapping[str, str], seen: SeenTranscripts) -> Iterator[HostSession]:
    """Yield the main conversations of a host, without those of subagents. A conversation comes before its forks."""
    base = Path(host_data_folder(host, environment))
    for pattern in (*_HOST_FILES.get(host, ()), *_HOST_DATABASES.get(host, ())):
        files = [path for path in base.glob(pattern) if path.is_file() and not path.name.startswith(".")]
        for path in sorted(files, key=lambda path: (_modified_at(path), path)):
            if pattern in _HOST_DATABASES.get(host, ()):
                reads = [partial(_read_session, host, path, *row) for row in _database_rows(host, str(path))]
            else:
                reads = [partial(seen.session, path, partial(_read_session, host, path))]
            for read in reads:
                with suppress(LorelogError, OSError):
                    if (found := read()) is not None:
                        yield found


def _read_session(host: str, path: Path, session: str = "", changed: float = 0.0) -> HostSession | None:
    """Read the head of a conversation; None if it is not a main one of the host."""
    conversation = open_conversation(str(path), session)
    head = read_conversation_head(conversation)
    if conversation.host != _FORMS.get(host, host) or head.is_sidechain:
        return None
    return HostSession(
        host=host,
        session=head.session or conversation.session or path.name.partition(".jsonl")[0],
        transcript=conversation.path,
        directory=head.directory,
        branch=head.branch,
        agent=path.parent.parent.name if host == "openclaw" else "",
        changed=changed or _modified_at(path),
    )


def _database_rows(host: str, path: str) -> list[tuple[str, float]]:
    with suppress(LorelogError), open_database(path) as connection:
        if host == "openclaw":
            query = "SELECT session_id, 0 FROM transcript_events GROUP BY session_id ORDER BY min(rowid)"
        else:
            columns = table_columns(connection).get("session", frozenset())
            clock = "time_updated" if "time_updated" in columns else "0"
            order = "time_created" if "time_created" in columns else "rowid"
            query = f"SELECT id, {clock} FROM session WHERE parent_id IS NULL ORDER BY {order}"  # noqa: S608
        return [(str(session), (changed or 0) / 1000) for session, changed in connection.execute(query)]
    return []


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
