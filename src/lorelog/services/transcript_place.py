"""Where a conversation lies: of a path, of a memory's anchor, of an OpenClaw address.

Read is only what the caller names, or what the anchor of an indexed memory names. An anchor is text in somebody's
notes: it may name any file, but of a file that is no transcript nothing is shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from lorelog.core.document import Chunk
from lorelog.core.errors import LorelogError, NotFound, SourceError, UsageError
from lorelog.core.ports import Store
from lorelog.ingest.scan_read import printable
from lorelog.ingest.transcripts.lines import open_plain
from lorelog.services.expand import expand

_OPENCLAW = "openclaw-session"
_DATABASE = Path("agent") / "openclaw-agent.sqlite"
_PLAIN_NAME = re.compile(r"[\w.:@-]+")
"""Sessions and agents, which become part of a path: no slash, so that they lead nowhere else."""
_SESSIONS_BYTES = 64 * 1024 * 1024
_ENTRY_LASTS = timedelta(minutes=1)
"""An entry's heading tells the minute; its turn may have begun within it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and what of it is meant."""

    path: str
    session: str = ""
    turn: str = ""
    moment: str = ""
    """When the memory was written, in UTC, for anchors that name no turn."""


def find_place(place: str, store: Store, directory: str | None) -> Place:
    """Return what is meant by a path, an address, or the id of a chunk or a memory; without a directory, by an id only."""
    place = place.strip()
    if not place:
        raise UsageError("a transcript's path or a memory's id is needed", hint="'lorelog search' shows ids")
    if "\0" in place:
        raise UsageError("a path holds no NUL bytes")
    if directory is None:
        return _of_memory(place, store)
    if "://" in place:
        return _of_address(place, "")
    if place.startswith(("~", ".")) or "/" in place or os.sep in place:
        return _of_path(place, directory)
    try:
        return _of_memory(place, store)
    except NotFound as error:
        if os.path.lexists(os.path.join(directory, place.rpartition("#")[0] or place)):  # noqa: PTH118
            return _of_path(place, directory)
        raise NotFound(
            f"{printable(place)} is neither the id of a chunk or memory nor a file in {printable(directory)}",
            hint=error.hint,
        ) from error


def _of_path(given: str, directory: str) -> Place:
    path = _absolute(given, directory)
    base, mark, session = path.rpartition("#")
    if mark and base and not os.path.lexists(path):
        return Place(base, session)
    return Place(path)


def _of_memory(identity: str, store: Store) -> Place:
    try:
        reply = expand(identity, store, lines=0)
    except RuntimeError as error:  # a home directory that does not exist
        raise SourceError(f"the anchor of {identity} cannot be followed: {error}") from error
    chunk = reply.chunk.chunk
    anchor = chunk.anchor
    if anchor is None or not reply.transcript:
        raise SourceError(
            f"{reply.chunk.id} has no anchor that names a conversation",
            hint="entries that were captured from a session have one; 'lorelog expand' shows the section",
        )
    moment = "" if anchor.turn else _moment(chunk)
    if "://" in reply.transcript:
        found = _of_address(reply.transcript, anchor.session)
        return Place(found.path, found.session, anchor.turn, moment)
    return Place(os.path.normpath(reply.transcript), anchor.session, anchor.turn, moment)


def _absolute(given: str, directory: str) -> str:
    expanded = os.path.expanduser(given)  # noqa: PTH111 (leaves an unknown user's ~ as it is)
    return os.path.normpath(os.path.join(directory, expanded))  # noqa: PTH118


def _moment(chunk: Chunk) -> str:
    """Return when an entry was written, in UTC: its heading tells the local time."""
    if "T" not in chunk.date:
        return ""
    try:
        when = datetime.fromisoformat(chunk.date) + _ENTRY_LASTS
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""


def _of_address(address: str, session: str) -> Place:
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise SourceError(f"{printable(address)} is no address: {error}") from error
    if parts.scheme == "file":
        return Place(os.path.normpath(unquote(parts.path)), session or parts.fragment)
    if parts.scheme != _OPENCLAW:
        raise SourceError(
            f"{printable(address)} is no address that is known", hint=f"known are paths, file:// and {_OPENCLAW}://"
        )
    query = parse_qs(parts.query)
    key = query.get("sessionKey", [""])[0]
    agent = unquote(parts.netloc)
    named = unquote(parts.path).strip("/")
    agent = agent if _PLAIN_NAME.fullmatch(agent) else "main"
    if key.startswith("agent:") and agent == "agent":  # both are then placeholders of the address, not names
        agent = key.split(":")[1]
    session = session or (named if named != "session" else "")
    store = query.get("store", [""])[0] or os.environ.get("OPENCLAW_STATE_DIR", "") or "~/.openclaw"
    base = Path(os.path.expanduser(store))  # noqa: PTH111
    tried: list[str] = []
    for path, meant in _candidates(base, agent, session, key):
        if path.is_file():
            return Place(str(path), meant)
        tried.append(str(path))
    raise NotFound(
        f"the conversation behind {printable(address)} is not there",
        hint=f"looked for {', '.join(map(printable, tried[:4]))}" if tried else "its address names no session",
    )


def _candidates(base: Path, agent: str, session: str, key: str) -> Iterator[tuple[Path, str]]:
    """Yield where a session may lie, below a store that may be a database, a session list or a directory."""
    if base.suffix == ".json":
        listed, file = _listed(base, key)
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


def _listed(path: Path, key: str) -> tuple[str, Path | None]:
    """Return the session, and the file if it is told, that a session list has for a key."""
    try:
        with open_plain(str(path)) as opened:
            entry = json.loads(opened.read(_SESSIONS_BYTES))[key]
        session, file = entry.get("sessionId"), entry.get("sessionFile")
    except (LorelogError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError):
        return "", None
    is_told = isinstance(file, str) and "\0" not in file and file
    return (session if isinstance(session, str) else "", path.parent / file if is_told else None)
