"""Which agents keep sessions on this machine, where, and which sessions those are, for backfilling.

`agents.toml` is the one declaration of them: `lorelog backfill` finds sessions by it, and docs/transcripts.md shows it. Unreadable files
are skipped: capturing them reports the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from msgspec import DecodeError, Struct, json, toml
from msgspec.structs import replace

from lorelog.core import VERSION
from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import LorelogError
from lorelog.core.paths import modified_at
from lorelog.hosts import HOST_TITLES, TRANSCRIPT_FILES, host_data_folder
from lorelog.ingest.transcripts.conversation import list_database_heads, open_conversation, read_conversation_head
from lorelog.services.sessions.capture_db import OPEN_TURN_S

_EDITOR_FOLDERS = ("~/.config/*/User/", "~/Library/Application Support/*/User/", "~/.*-server/data/User/")
"""Of VS Code and the editors made of it; the last is on a machine that is worked on from another."""
_DATABASE_SUFFIXES = frozenset({".db", ".sqlite", ".vscdb"})


class Agent(Struct, frozen=True, kw_only=True):
    """An entry of `agents.toml`."""

    form: str
    title: str = ""
    files: tuple[str, ...] = ()
    verified: str = ""
    reads: str = ""

    @property
    def is_in_project(self) -> bool:
        """True if its files lie in projects, and so may have come with a repository."""
        return self.files[0].startswith("./")


@cache
def all_agents() -> dict[str, Agent]:
    """Return the agents by their names, with the titles and files of hosts."""
    agents = toml.decode(Path(__file__).with_name("agents.toml").read_bytes(), type=dict[str, Agent])
    for name, agent in agents.items():
        files = agent.files or (TRANSCRIPT_FILES[name],)
        agents[name] = replace(agent, title=agent.title or HOST_TITLES[name], files=files)
    return agents


class HostSession(Struct, frozen=True, kw_only=True):
    """A conversation kept by an agent."""

    host: str
    session: str
    transcript: str
    directory: str
    branch: str = ""
    agent: str = ""
    changed: float = 0.0
    """Modification time of its file, or of its row in a database; seconds since 1970."""
    began: float = 0.0
    """When it began, or was changed if that is unknown."""
    size: int = 0
    """Bytes of the file it is in."""


class SeenTranscript(Struct):
    """What backfills know of a file with conversations."""

    stamp: str
    """Its size, time and number, those of its write-ahead log, and the version that read it."""
    sessions: tuple[HostSession, ...] = ()
    """The main conversations in it."""
    captured: dict[str, tuple[str, int]] = {}
    """By session and database of captures: from which day on all turns are captured, and the number of turns."""


class SeenTranscripts:
    """Derived file that spares a backfill from reading transcripts that have not changed."""

    def __init__(self, home: Path) -> None:
        self._path = home / "cache" / ".transcripts.json"
        self.files: dict[str, SeenTranscript] = {}
        with suppress(OSError, DecodeError):
            self.files = json.decode(self._path.read_bytes(), type=dict[str, SeenTranscript])

    def known(self) -> Iterator[HostSession]:
        """Yield the conversations of all files that were read."""
        yield from (session for known in self.files.values() for session in known.sessions)

    def sessions(self, path: Path, read: Callable[[], Iterator[HostSession]]) -> tuple[HostSession, ...]:
        """Return the main conversations of a file, which is read if it has changed."""
        stamp = VERSION
        for file in (path, path.with_name(f"{path.name}-wal")):
            with suppress(FileNotFoundError):
                status = file.stat()
                stamp += f" {status.st_size} {status.st_mtime_ns} {status.st_ino}"
        known = self.files.get(str(path))
        if known is not None and known.stamp == stamp:
            return known.sessions
        sessions = tuple(read())
        if all(
            session.directory or session.host != "gemini" for session in sessions
        ):  # recorded elsewhere, perhaps later
            seen = self.files[str(path)] = SeenTranscript(stamp, sessions)
            if known is not None and path.suffix in _DATABASE_SUFFIXES:  # most of its sessions are as they were
                same = {_mark(session) for session in sessions}
                seen.captured = {key: of for key, of in known.captured.items() if key.rpartition("|")[0] in same}
        return sessions

    def turns(self, session: HostSession, captures: str, since: str) -> int | None:
        """Return the number of turns if all since a day are in a database of captures, else None."""
        known = self.files.get(session.transcript)
        first, turns = known.captured.get(f"{_mark(session)}|{captures}", ("~", 0)) if known else ("~", 0)
        return turns if first <= since else None

    def add(self, session: HostSession, captures: str, since: str, turns: int) -> None:
        """Note that all turns since a day were captured. A turn of the last day may go on."""
        known = self.files.get(session.transcript)
        if captures and known is not None and session.changed < time.time() - OPEN_TURN_S:
            known.captured[f"{_mark(session)}|{captures}"] = (since, turns)

    def save(self) -> None:
        """Save what is known of files that still exist."""
        self.files = {path: known for path, known in self.files.items() if Path(path).exists()}
        write_atomic(self._path, json.encode(self.files), durable=False)


def _mark(session: HostSession) -> str:
    return f"{session.session}|{session.changed}"


def find_host_sessions(
    host: str, environment: Mapping[str, str], seen: SeenTranscripts, projects: Iterable[str] = ()
) -> Iterator[HostSession]:
    """Yield the main conversations of an agent, without those of subagents. A conversation comes before its forks.

    `projects` are directories in which agents may have left files. A session that is kept in two forms is yielded once.
    """
    forms: dict[str, str] = {}
    for base, pattern in _places(host, environment, projects):
        is_hidden = pattern.rpartition("/")[2].startswith(".")
        files = [path for path in base.glob(pattern) if path.name.startswith(".") == is_hidden and path.is_file()]
        for path in sorted(files, key=lambda path: (modified_at(path), path)):
            with suppress(LorelogError, OSError):
                for session in seen.sessions(path, partial(_read_sessions, host, path)):
                    if forms.setdefault(session.session, path.suffix) == path.suffix:
                        yield session


def _places(host: str, environment: Mapping[str, str], projects: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield where to look for an agent's files: a folder, and a pattern below it."""
    folders = {"XDG_DATA_HOME": ".local/share/", "XDG_CONFIG_HOME": ".config/"}
    for declared in all_agents()[host].files:
        in_editor = declared.removeprefix("editors/")
        for pattern in [folder + in_editor for folder in _EDITOR_FOLDERS] if in_editor != declared else [declared]:
            start, _, rest = pattern.partition("/")
            if start == ".":
                yield from ((Path(project), rest) for project in projects)
            elif start == "~":
                moved = next((name for name in folders if environment.get(name) and rest.startswith(folders[name])), "")
                yield Path(environment[moved]) if moved else Path.home(), rest.removeprefix(folders.get(moved, ""))
            else:
                yield Path(host_data_folder(host, environment)), pattern


def _read_sessions(host: str, path: Path) -> Iterator[HostSession]:
    """Yield the main conversations of a file, by their heads."""
    form, changed, size = all_agents()[host].reads or host, modified_at(path), path.stat().st_size
    if path.suffix in _DATABASE_SUFFIXES:
        heads = list(list_database_heads(str(path)))
    else:
        conversation = open_conversation(str(path))
        heads = [(read_conversation_head(conversation), 0.0)] if conversation.host == form else []
    for head, row_changed in heads:
        if not head.is_sidechain:
            yield HostSession(
                host=host,
                session=head.session or path.name.partition(".jsonl")[0],
                transcript=str(path),
                directory=head.directory,
                branch=head.branch,
                agent=path.parent.parent.name if host == "openclaw" else "",
                changed=row_changed or changed,
                began=head.created or row_changed or changed,
                size=size,
            )
