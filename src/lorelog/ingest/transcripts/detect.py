"""What a file is, by what stands in it: names and places of transcripts differ between machines, contents do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from lorelog.core.errors import NotFound, SourceError
from lorelog.ingest.scan_read import printable
from lorelog.ingest.transcripts import claude, codex, dsh, openclaw, opencode
from lorelog.ingest.transcripts.building import Found, Record, Tally, TurnBuilder, number_turns
from lorelog.ingest.transcripts.databases import MAGIC, open_database, tables
from lorelog.ingest.transcripts.documents import read_members
from lorelog.ingest.transcripts.lines import find_line, read_head, read_records

KNOWN = (
    "read are: Claude Code (.jsonl), Codex rollouts (.jsonl), OpenCode (opencode.db, exported .json),"
    " OpenClaw (.jsonl, openclaw-agent.sqlite), DSH (session.jsonl, also .zstd)"
)
_LOOKED_AT, _ENOUGH = 2000, 20
"""Lines in which something must be known, and after how many known ones it is clear what it is."""
_DOCUMENT = re.compile(rb'\A\s*\{\s*"(info|messages|session|items)"\s*:\s*[{\["]')
_LineReader = Callable[[Iterator[Record], Tally], Iterator[TurnBuilder]]
_BY_LINE: tuple[tuple[str, Callable[[Record], bool], _LineReader], ...] = (
    ("claude", claude.is_claude, claude.read_claude),
    ("openclaw", openclaw.is_openclaw, openclaw.read_openclaw),
    ("dsh", dsh.is_dsh, dsh.read_dsh),
    ("codex", codex.is_codex, codex.read_codex),
    # Of a session in which nothing was said yet there is only the first line.
    ("openclaw", openclaw.is_session, openclaw.read_openclaw),
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that can be read, as often as one likes."""

    path: str
    host: str
    format: str
    session: str
    """The session to read, where a file holds several."""
    read: Callable[[Tally], Iterator[TurnBuilder]] = field(repr=False)
    note: str = ""
    read_from: Callable[[int, Tally], Iterator[TurnBuilder]] | None = field(default=None, repr=False)
    """Reads on from where a line begins, in a file of lines."""

    @property
    def address(self) -> str:
        """Where it lies."""
        return f"{self.path}#{self.session}" if self.format == "sqlite" else self.path

    def turns(self, tally: Tally) -> Iterator[Found]:
        """Yield its turns from the first on; `tally` is told what was met beside them."""
        return number_turns(self.read(tally))

    def turns_since(self, name: str, tally: Tally) -> Iterator[Found]:
        """Yield its turns from the one on that first holds a name; all of them where that cannot be told.

        What is above is neither read nor known: only for hosts whose turns have ids of their own.
        """
        start = find_line(self.path, name) if self.read_from is not None else 0
        if not start or self.read_from is None:
            return self.turns(tally)
        return number_turns(self.read_from(start, tally))


def open_conversation(path: str, session: str = "", turn: str = "") -> Conversation:
    """Find out what a file is. In a database `session`, or the one that `turn` is in, is read; else the newest.

    Raise NotFound when there is no such file or session, SourceError when it cannot be read or is no transcript.
    """
    head = read_head(path)
    if head.startswith(MAGIC):
        return _open_database(path, session, turn)
    if document := _DOCUMENT.match(head):
        if document[1] in {b"info", b"messages"}:
            return Conversation(path, "opencode", "json", session, lambda tally: _read_export(path, tally))
        return Conversation(path, "codex", "json", session, lambda tally: _read_rollout(path, tally))
    host, reader = _recognise(path, is_empty=not head.strip())

    def read_from(start: int, tally: Tally) -> Iterator[TurnBuilder]:
        return reader(read_records(path, tally, start=start), tally)

    return Conversation(path, host, "jsonl", session, partial(read_from, 0), read_from=read_from)


def _recognise(path: str, *, is_empty: bool) -> tuple[str, _LineReader]:
    if is_empty:
        raise SourceError(f"{printable(path)} is empty", hint="a host that has just begun may not have written it yet")
    found: dict[int, int] = {}
    for record in read_records(path, Tally(), _LOOKED_AT):
        for place, (_, knows, _) in enumerate(_BY_LINE):
            if knows(record):
                found[place] = found.get(place, 0) + 1
                break
        if sum(found.values()) >= _ENOUGH:
            break
    if not found:
        raise SourceError(f"{printable(path)} is no transcript that is known", hint=KNOWN)
    # One line of another kind (a quoted record, a stray import) must not decide.
    last = len(_BY_LINE) - 1
    host, _, reader = _BY_LINE[max(found, key=lambda place: (place != last, found[place], -place))]
    return host, reader


def _open_database(path: str, session: str, turn: str) -> Conversation:
    with open_database(path) as connection:
        columns = tables(connection)
        if {"session_id", "seq", "event_json"} <= columns.get("transcript_events", frozenset()):
            host = "openclaw"
            newest, count = openclaw.newest_session(connection)
        elif opencode.is_opencode(columns):
            host = "opencode"
            session = session or (opencode.session_of(connection, columns, turn) if turn else "")
            newest, count = opencode.newest_session(connection, columns)
        else:
            raise SourceError(f"{printable(path)} is a database, but no transcript that is known", hint=KNOWN)
        if not newest:
            raise NotFound(f"{printable(path)} holds no conversation yet")
    note = "" if session or count == 1 else f"the newest of {count} sessions; name another one as FILE#SESSION"
    wanted = session or newest
    return Conversation(path, host, "sqlite", wanted, lambda tally: _read_database(path, host, wanted, tally), note)


def _read_database(path: str, host: str, session: str, tally: Tally) -> Iterator[TurnBuilder]:
    with open_database(path) as connection:
        if host == "openclaw":
            yield from openclaw.read_rows(connection, session, tally)
        else:
            yield from opencode.read_rows(connection, tables(connection), session, tally)


def _read_export(path: str, tally: Tally) -> Iterator[TurnBuilder]:
    return opencode.read_export(read_members(path, frozenset({"messages"}), tally), tally)


def _read_rollout(path: str, tally: Tally) -> Iterator[TurnBuilder]:
    def items() -> Iterator[Record]:
        for name, value in read_members(path, frozenset({"items"}), tally):
            if name == "session" and isinstance(value, dict):
                yield {**value, "instructions": None}
            elif name == "items" and isinstance(value, dict):
                yield value
            else:
                tally.skipped += 1

    return codex.read_codex(items(), tally)
