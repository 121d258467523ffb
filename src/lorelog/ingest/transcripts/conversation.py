"""Detect the format of a transcript, open it, and read its metadata: directory, start time, parent session.

A file is recognised by its content: names and locations of transcripts differ between machines, contents do not.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import IO

from msgspec import Struct

from lorelog.core.errors import LorelogError, NotFound, SourceError
from lorelog.ingest.files import printable_path
from lorelog.ingest.transcripts import agent_formats, claude, codex, copilot, gemini, kimi, openclaw, opencode
from lorelog.ingest.transcripts.agent_formats import ReadRecords
from lorelog.ingest.transcripts.json_files import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    SQLITE_MAGIC,
    DatabaseFormat,
    is_compressed,
    open_regular_file,
    open_sessions,
    parse_object,
    read_file_head,
    read_members,
    read_records,
)
from lorelog.ingest.transcripts.turns import (
    JsonObject,
    ParsedTurn,
    TranscriptStats,
    TurnBuilder,
    TurnNumbering,
    TurnReader,
    as_object,
    number_turns,
    object_type,
    read_turns,
    timestamp,
    to_text,
)

SUPPORTED_FORMATS = "'lorelog docs transcripts' lists the agents whose sessions are read, and their files"
_MAX_LINES_CHECKED, _MIN_KNOWN_LINES = 2000, 20
"""Lines that are checked for a known format, and known lines after which the format is certain."""
_NewReader = Callable[[TranscriptStats], TurnReader]
_DATABASES = (openclaw.DATABASE, opencode.DATABASE, *agent_formats.DATABASES)


class ConversationHead(Struct, frozen=True, kw_only=True):
    """Metadata of a conversation; empty where unknown."""

    session: str = ""
    directory: str = ""
    created: float | None = None
    """Seconds since 1970. Earlier messages belong to the conversation that this one was forked from."""
    parent: str = ""
    branch: str = ""
    is_sidechain: bool = False
    """True for a conversation of a subagent."""


_LINE_FORMATS: tuple[tuple[str, Callable[[JsonObject], bool], _NewReader], ...] = (
    ("qwen", gemini.is_qwen, gemini.QwenReader),  # its lines look like those of Claude Code
    ("claude", claude.is_claude, claude.ClaudeReader),
    ("openclaw", openclaw.is_openclaw, openclaw.OpenClawReader),
    ("gemini", gemini.is_gemini, gemini.GeminiReader),
    ("copilot", copilot.is_copilot, copilot.CopilotReader),
    ("kimi", kimi.is_kimi, kimi.KimiReader),
    ("codex", codex.is_codex, codex.CodexReader),
    # A session without messages has only its first line.
    ("openclaw", openclaw.is_session_header, openclaw.OpenClawReader),
)


class Conversation(Struct, frozen=True, kw_only=True):
    """A conversation that can be read any number of times."""

    path: str
    host: str
    format: str
    session: str
    """The session to read if the file contains several."""
    read: Callable[[TranscriptStats], Iterator[TurnBuilder]]
    note: str = ""
    new_reader: _NewReader | None = None
    """Makes a reader of the records; only for files of lines."""
    records: ReadRecords | None = None
    """Reads the records of a file whose format is translated."""

    @property
    def address(self) -> str:
        """The path, with the session id for a database."""
        return f"{self.path}#{self.session}" if self.format == "sqlite" else self.path

    def turns(self, stats: TranscriptStats) -> Iterator[ParsedTurn]:
        """Yield all turns; skipped and broken records are counted in `stats`."""
        return number_turns(self.read(stats))


def open_conversation(path: str, session: str = "", turn: str = "") -> Conversation:
    """Detect a file's format. In a database select `session`, or the session of `turn`, or the newest one.

    Raise NotFound if the file or session does not exist, SourceError if it cannot be read or is not a transcript.
    """
    head = read_file_head(path)
    if head.startswith(SQLITE_MAGIC):
        return _open_database(path, session, turn)
    for agent, form, beginning, records, reader in _WHOLE_FILES:
        if re.match(rb"(?:\xef\xbb\xbf)?\s*" + beginning, head, re.DOTALL):
            read = partial(_read_whole, path, records, reader)
            return Conversation(path=path, host=agent, format=form, session=session, read=read, records=records)
    host, new_reader = _detect_line_format(path, is_empty=not head.strip())

    def read_lines(stats: TranscriptStats) -> Iterator[TurnBuilder]:
        return read_turns(new_reader(stats), read_records(path, stats))

    return Conversation(path=path, host=host, format="jsonl", session=session, read=read_lines, new_reader=new_reader)


def _detect_line_format(path: str, *, is_empty: bool) -> tuple[str, _NewReader]:
    if is_empty:
        raise SourceError(
            f"{printable_path(path)} is empty", hint="a host that has just started may not have written to it yet"
        )
    records = read_records(path, TranscriptStats(), _MAX_LINES_CHECKED)
    formats = (
        next((n for n, (_, matches, _) in enumerate(_LINE_FORMATS) if matches(record)), None) for record in records
    )
    counts = Counter(islice((index for index in formats if index is not None), _MIN_KNOWN_LINES))
    if not counts:
        raise SourceError(f"{printable_path(path)} is not a transcript in a known format", hint=SUPPORTED_FORMATS)
    # A single line in another format (a quoted record, a stray import) must not decide.
    last = len(_LINE_FORMATS) - 1
    host, _, new_reader = _LINE_FORMATS[max(counts, key=lambda index: (index != last, counts[index], -index))]
    return host, new_reader


def _open_database(path: str, session: str, turn: str) -> Conversation:
    count = 1
    with open_sessions(path) as database:
        form = next((form for form in _DATABASES if form.matches(database.columns)), None)
        if form is None:
            raise SourceError(
                f"{printable_path(path)} is a database without a transcript in a known format", hint=SUPPORTED_FORMATS
            )
        if not session and form.select:
            session, count = form.select(database, turn)
        elif not session:
            heads = list(form.heads(database, ""))
            newest = max(heads, key=lambda head: head["changed"], default={})
            session, count = to_text(newest.get("id")), len(heads)
    if not session:
        raise NotFound(f"{printable_path(path)} does not contain a conversation yet")
    note = "" if count == 1 else f"showing the newest of {count} sessions; select another one with FILE#SESSION"
    read = partial(_read_database, path, form, session)
    return Conversation(path=path, host=form.agent, format="sqlite", session=session, read=read, note=note)


def _read_database(path: str, form: DatabaseFormat, session: str, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    stats.session = session
    with open_sessions(path) as database:
        yield from read_turns(form.reader(stats), form.records(database, session, stats))


def _read_whole(path: str, records: ReadRecords, reader: _NewReader, stats: TranscriptStats) -> Iterator[TurnBuilder]:
    return read_turns(reader(stats), _with_time(path, records(path, stats)))


def _with_time(path: str, records: Iterator[JsonObject]) -> Iterator[JsonObject]:
    """Yield the records; a translated session without a time has that of its file's last change."""
    for header in islice(records, 1):
        is_timed = object_type(header) != "session" or header.get("timestamp")
        yield header if is_timed else {**header, "timestamp": Path(path).stat().st_mtime}
    yield from records


def _read_document(path: str, stats: TranscriptStats) -> Iterator[JsonObject]:
    """Yield the members of a document, and the elements of `messages` as they are."""
    for name, value in read_members(path, frozenset({"messages"}), stats):
        yield as_object(value) if name == "messages" else {name: value}


_WHOLE_FILES: tuple[tuple[str, str, bytes, ReadRecords, _NewReader], ...] = (
    ("opencode", "json", rb'\{\s*"(?:info|messages)"\s*:\s*[{\["]', _read_document, opencode.OpencodeReader),
    # In lines it begins like a document, but on one line.
    ("gemini", "json", rb'\{\s*\n\s*"sessionId"\s*:', _read_document, gemini.GeminiReader),
    *((*form, openclaw.OpenClawReader) for form in agent_formats.FILES),
)
"""Formats of files that are no lines: the agent, the format, how such a file begins, its records, and their reader."""
_MAX_KEPT_TURNS = 32
"""Finished turns that a tail keeps after they were released: an event may refer to one of the last."""
_KNOWN_BYTES = 1024
"""Bytes before the end of what was read, by which a rewritten file is recognised."""


class TranscriptTail:
    """The turns of a transcript of lines, which a host appends to: only what was appended is read again.

    The reader goes on where it stopped, so the turns are the same as those of the whole file. Only the last ones are kept
    once they are released. A file that was replaced, rewritten or cut off must be opened anew. Thread-safe.
    """

    def __init__(self, conversation: Conversation) -> None:
        assert conversation.new_reader is not None
        self.conversation = conversation
        self._stats = TranscriptStats()
        self._reader = conversation.new_reader(self._stats)
        self._numbering = TurnNumbering()
        self._offset = 0
        self.secrets: dict[str, str] = {}
        """Recognised in these turns, with their markers: never written to disk."""
        self.searched: dict[str, tuple[int, ...]] = {}
        """How much of each finished turn was searched for secrets: a long session is not searched anew with each turn."""
        self._inode: tuple[int, int] | None = None
        self._known = b""
        self._finished: list[ParsedTurn] = []
        self._released: set[int] = set()
        self._released_count = 0
        self._head = ConversationHead()
        self._lock = Lock()

    def head(self) -> ConversationHead:
        """Return the conversation's metadata. Its first lines are read until they are complete, or many others follow."""
        if not self._head.session or not (self._head.directory or self._offset > _LONG_TRANSCRIPT_BYTES):
            self._head = read_conversation_head(self.conversation)
        return self._head

    def read_on(self) -> bool:
        """Read what was appended. Return False if the file is not the one that was read before, or cannot be followed."""
        with self._lock, open_regular_file(self.conversation.path) as file:
            status = os.fstat(file.fileno())
            start = self._offset - len(self._known)
            is_same = self._inode in {None, (status.st_dev, status.st_ino)} and status.st_size >= self._offset
            if not is_same or (self._known and os.pread(file.fileno(), len(self._known), start) != self._known):
                return False
            self._inode = (status.st_dev, status.st_ino)
            if status.st_size == self._offset:
                return True
            file.seek(self._offset)
            is_followed = self._take_lines(file)
            start = max(0, self._offset - _KNOWN_BYTES)
            self._known = os.pread(file.fileno(), self._offset - start, start)
            return is_followed

    def turns(self) -> tuple[list[ParsedTurn], int]:
        """Return the turns of the main conversation that are kept, and the number of earlier ones."""
        with self._lock:
            opened = self._numbering.preview(self._reader.open_turns())
            return [*self._finished, *(turn for turn in opened if not turn.turn.sidechain)], self._released_count

    def has_dropped(self, name: str) -> bool:
        """Return True if a turn with this id is not kept but may be in the file."""
        if hash(name) not in self._released:
            return False
        return not any(name == turn.turn.id or name in turn.aliases for turn in self.turns()[0])

    def release(self, turns: Sequence[ParsedTurn]) -> None:
        """Keep only the last of the finished turns up to the last of these, which the caller has dealt with."""
        if not turns:
            return
        with self._lock:
            ids = [turn.turn.id for turn in self._finished]
            count = ids.index(turns[-1].turn.id) + 1 if turns[-1].turn.id in ids else len(ids)
            count = min(count, len(ids) - _MAX_KEPT_TURNS)
            for turn in self._finished[: max(count, 0)]:
                self._released.update(map(hash, (turn.turn.id, *turn.aliases)))
                self._released_count += 1
            del self._finished[: max(count, 0)]

    def _take_lines(self, file: IO[bytes]) -> bool:
        while line := file.readline(MAX_LINE_BYTES):
            if len(line) >= MAX_LINE_BYTES:
                return False
            text = line.removeprefix(BYTE_ORDER_MARK) if not self._offset else line
            record = parse_object(text, self._stats) if text.strip() else None
            # A last line without its end is taken if it is whole, because it may stay so. A part of an object is never one.
            if record is None and not line.endswith(b"\n"):
                break
            self._offset += len(line)
            for builder in () if record is None else self._reader.take(record):
                turn = self._numbering.add(builder)
                if turn is not None and not turn.turn.sidechain:
                    self._finished.append(turn)
        return True


_LONG_TRANSCRIPT_BYTES = 1_000_000
"""A transcript up to this size is read within ten milliseconds."""
_MAX_TAILS = 8
"""Sessions whose transcript is followed at a time."""
_TAIL_IDLE_S = 3600.0


class TranscriptTails:
    """The transcripts of this process's live sessions, each read once. Keys: tenant, path and session. Thread-safe."""

    def __init__(self) -> None:
        self._tails: dict[tuple[str, str, str], tuple[TranscriptTail, float]] = {}
        self._lock = Lock()

    def open(self, key: tuple[str, str, str], turn: str) -> TranscriptTail | None:
        """Return the transcript as it is now; None if it has no lines. Raise NotFound or SourceError.

        `turn` is the turn to find, if any.
        """
        tail = self._tails.get(key, (None, 0.0))[0]
        if tail is None or not tail.read_on():
            tail = self._begin(key)
        if tail is not None and turn and tail.has_dropped(turn):
            tail = self._begin(key)
        now = time.monotonic()
        with self._lock:
            self._tails.pop(key, None)
            if tail is not None:
                self._tails[key] = (tail, now)
            for other, (_, used_at) in list(self._tails.items())[:-1]:
                if now - used_at > _TAIL_IDLE_S or len(self._tails) > _MAX_TAILS:
                    del self._tails[other]
        return tail

    def clear(self) -> None:
        """Forget all transcripts; the next events read them whole."""
        with self._lock:
            self._tails.clear()

    def _begin(self, key: tuple[str, str, str]) -> TranscriptTail | None:
        _, path, session = key
        conversation = open_conversation(path, session)
        if conversation.new_reader is None or is_compressed(path):
            return None
        tail = TranscriptTail(conversation)
        return tail if tail.read_on() else None


TAILS = TranscriptTails()
"""Tails of this process."""


_MAX_HEAD_LINES = 200


def read_conversation_head(conversation: Conversation) -> ConversationHead:
    """Read a conversation's metadata; only the session id if it cannot be read."""
    default = ConversationHead(session=conversation.session)
    try:
        if conversation.format == "sqlite":
            heads = list_database_heads(conversation.path, conversation.session)
            return next((head for head, _ in heads), default)
        if conversation.records:
            records = _with_time(conversation.path, conversation.records(conversation.path, TranscriptStats()))
        else:
            records = read_records(conversation.path, TranscriptStats(), _MAX_HEAD_LINES)
        read_head = _HEADS.get(conversation.host, _session_head)
        return read_head(conversation.path, islice(records, _MAX_HEAD_LINES))
    except (LorelogError, sqlite3.Error):
        return default


def list_database_heads(path: str, session: str = "") -> Iterator[tuple[ConversationHead, float]]:
    """Yield the metadata of each session in a database, or of one, oldest first, and when it was changed, in seconds since 1970."""
    with open_sessions(path) as database:
        for form in _DATABASES:
            if form.matches(database.columns):
                for head in form.heads(database, session):
                    yield _make_head(head, is_sidechain=bool(head.get("sidechain"))), head.get("changed") or 0.0
                return


def _find_type(records: Iterable[JsonObject], *types: str) -> JsonObject:
    return next((record for record in records if object_type(record) in types), {})


def _make_head(meta: JsonObject, *, is_sidechain: bool = False) -> ConversationHead:
    """Return the metadata that a host keeps in one object, under the names of any of them."""

    def text(*names: str) -> str:
        return next((to_text(meta[name]) for name in names if meta.get(name)), "")

    created = meta.get("timestamp") or meta.get("time_created") or as_object(meta.get("time")).get("created")
    return ConversationHead(
        session=text("id"),
        directory=text("cwd", "directory"),
        created=timestamp(created),
        parent=text("forked_from_id", "parentSession", "parentID", "parent_id"),
        branch=text("branch"),
        is_sidechain=is_sidechain,
    )


def _session_head(_path: str, records: Iterable[JsonObject]) -> ConversationHead:
    return _make_head(_find_type(records, "session", "session_start"))


def _copilot_head(_path: str, records: Iterable[JsonObject]) -> ConversationHead:
    start = as_object(_find_type(records, "session.start").get("data"))
    return _make_head({**as_object(start.get("context")), "id": start.get("sessionId")})


def _claude_head(_path: str, lines: Iterable[JsonObject]) -> ConversationHead:
    """Read the metadata without a start time: a fork repeats its parent's lines with their times."""
    records = list(lines)
    first = next((record for record in records if record.get("cwd")), {})
    session = next((record["sessionId"] for record in records if isinstance(record.get("sessionId"), str)), "")
    messages = [record for record in records if object_type(record) in {"user", "assistant"}]
    is_sidechain = bool(messages) and all(bool(message.get("isSidechain")) for message in messages)
    branch = first.get("gitBranch")
    meta = {"id": session, "cwd": first.get("cwd"), "branch": "" if branch == "HEAD" else branch}
    return _make_head(meta, is_sidechain=is_sidechain)


def _codex_head(_path: str, records: Iterable[JsonObject]) -> ConversationHead:
    meta = as_object(_find_type(records, "session_meta").get("payload"))
    branch = as_object(meta.get("git")).get("branch")
    return _make_head({**meta, "branch": branch}, is_sidechain="subagent" in as_object(meta.get("source")))


def _gemini_head(path: str, lines: Iterable[JsonObject]) -> ConversationHead:
    """Read the metadata without a start time: a resumed session has a new one. A document has each member in a record."""
    records = list(lines)
    session, kind = (next((record[name] for record in records if name in record), "") for name in ("sessionId", "kind"))
    meta = {"id": session, "cwd": gemini.find_project_directory(path, records)}
    return _make_head(meta, is_sidechain=kind == "subagent")


def _kimi_head(path: str, lines: Iterable[JsonObject]) -> ConversationHead:
    return _make_head(_find_type(list(lines), "session") or kimi.read_state(path))


def _document_head(_path: str, records: Iterable[JsonObject]) -> ConversationHead:
    info = as_object(next(iter(records), {}).get("info"))
    return _make_head(info, is_sidechain=bool(info.get("parentID")))


_HEADS = {
    "claude": _claude_head,
    "qwen": _claude_head,
    "gemini": _gemini_head,
    "codex": _codex_head,
    "copilot": _copilot_head,
    "opencode": _document_head,
    "kimi": _kimi_head,
}
