"""Finds the session that wrote a line: by Git the commit, then by the digests of edits the turn.

The strongest evidence is text: the turn wrote the same line, white space aside, to the same file, before the commit was made.
A line that is short or that many files have (`}`, `return None`) proves nothing by itself: the turn must have written it between the
same lines as well. Commits of bots are never attributed. Time and files alone never attribute; they are a hint.

What a repository claims about the sessions of a commit (trailers of its message, notes of other tools) came with the repository: it
is quoted, never followed as a path, never obeyed, and never written. A trailer speaks of the whole commit; a note of git-ai or
Agent Trace of lines.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.code.git import BlamedLine, Git, GitHistory
from lorelog.services.traces.tables import DIGEST_BYTES, TracedEdit, TraceTables, line_digest

MAX_FILE_BYTES = 2 << 20
_MAX_LINE_CHARS = 2_000
"""Of a line that a person or an agent writes; longer ones are minified or generated."""
_BLAME_S = 4.0
_CLOCK_SLACK_S = 120
_NEAR = 3
"""Lines before and after a line that are compared with those of an edit."""
_MIN_NEAR = 2
"""Of them, those that a line which proves nothing by itself needs."""
_MIN_LETTERS, _MIN_WORDS, _MIN_LONG = 16, 3, 24
"""A line with so many letters and digits, in so many words or in all, is distinctive."""
_BOTS = ("dependabot", "renovate", "github-actions", "greenkeeper", "snyk", "pre-commit-ci")
_SESSION_ID = re.compile(r"[\w.:@-]{4,100}")
_HEX = frozenset("0123456789abcdef")
_CHECKPOINT_REFS = ("refs/heads/entire/checkpoints/v1", "refs/remotes/origin/entire/checkpoints/v1")
_AGENTS = ("claude", "codex", "copilot", "gemini", "cursor", "qwen", "opencode", "aider")
"""First words of the names under which agents sign as co-authors."""
_MAX_SESSIONS, _MAX_TRAILERS = 8, 50


class LineSources(Struct, frozen=True, kw_only=True):
    """What a line's writer is looked up in."""

    tables: TraceTables
    projects: tuple[str, ...] | None
    root: str
    """The working tree; only its files are read."""


class LineAuthor(Struct, frozen=True, kw_only=True):
    """A line, its commit, and the turn that wrote it, if one is known."""

    path: str
    """Below the working tree."""
    number: int
    text: str
    commit: BlamedLine | None = None
    """None for a line that is not committed."""
    edit: TracedEdit | None = None
    """The edit that wrote it."""
    near: int = 0
    """Lines around it that the same edit wrote."""
    edits: Sequence[TracedEdit] = ()
    """The edits of the file before the commit, newest first."""
    unknown: str = ""
    """Why no session is named."""

    @property
    def is_bots(self) -> bool:
        """True if a bot made the commit."""
        names = () if self.commit is None else (self.commit.author.lower(), self.commit.email.lower())
        return any("[bot]" in name or name.startswith(_BOTS) for name in names)


def find_author(file: str, number: int, sources: LineSources, now_s: float) -> LineAuthor:
    """Return the commit of a line, and the captured turn that wrote it. `file` is an absolute path below the root."""
    path = os.path.relpath(file, sources.root)
    lines, problem = _read_lines(file, number)
    if problem:
        return LineAuthor(path=path, number=number, text="", unknown=problem)
    text = lines[number - 1]
    blamed, problem = _blame(file, number)
    author = LineAuthor(path=path, number=number, text=text, commit=blamed, unknown=problem)
    if problem or author.is_bots:
        return replace(author, unknown=problem or "a bot made this commit")
    return _attribute(author, lines, sources, now_s)


def _attribute(author: LineAuthor, lines: Sequence[str], sources: LineSources, now_s: float) -> LineAuthor:
    blamed = author.commit
    path = blamed.path if blamed else author.path
    # A commit that was amended has lines from after its author's date, but a rebase looks the same: those stay unknown.
    until = (blamed.authored if blamed else now_s) + _CLOCK_SLACK_S
    edits = [
        edit
        for edit in sources.tables.edits(Path(path).name, sources.projects, int(until * 1000))
        if is_same_file(edit.file, path)
    ]
    is_weak = not distinctive(author.text)
    near = _near_digests(*_committed(author, lines)) if edits else ([], b"", [])
    found = [(support, edit) for edit in edits if (support := _support(edit.lines, *near)) >= _MIN_NEAR * is_weak]
    if blamed is not None and found:
        since = Git(blamed.root).last_change(f"{blamed.commit}^", blamed.path)
        recent = [pair for pair in found if pair[1].at / 1000 >= since]
        # An edit from before the file's last commit was committed then, or on another branch, which takes better evidence.
        found = recent or [pair for pair in found if pair[0] >= _MIN_NEAR and not is_weak]
    if found:
        support, edit = max(found, key=lambda pair: (pair[0], pair[1].at))
        return replace(author, edit=edit, near=support)
    return replace(author, edits=edits, unknown="no captured session wrote this line")


def _committed(author: LineAuthor, lines: Sequence[str]) -> tuple[Sequence[str], int]:
    """Return the lines of the file in the commit of a line, and where the line is among them."""
    blamed = author.commit
    if blamed is None:
        return lines, author.number - 1
    name, at = f"{blamed.commit}:{blamed.path}", blamed.number - 1
    data = Git(blamed.root).run("cat-file", "blob", name, max_bytes=MAX_FILE_BYTES) or b""
    around = data.decode("utf-8", "replace").split("\n")
    return (around, at) if 0 <= at < len(around) else ([author.text], 0)


def _support(lines: bytes, before: Sequence[bytes], digest: bytes, after: Sequence[bytes]) -> int:
    """Return how many of the lines around a line an edit wrote around it too; -1 if it did not write the line."""
    if digest not in lines:  # most edits end here
        return -1
    parts = [lines[at : at + DIGEST_BYTES] for at in range(0, len(lines), DIGEST_BYTES)]
    places = [at for at, part in enumerate(parts) if part == digest]
    near = [(parts[max(0, at - _NEAR) : at], parts[at + 1 : at + 1 + _NEAR]) for at in places]
    return max(
        (sum(map(head.__contains__, before)) + sum(map(tail.__contains__, after)) for head, tail in near), default=-1
    )


def _near_digests(lines: Sequence[str], at: int) -> tuple[Sequence[bytes], bytes, Sequence[bytes]]:
    """Return the digests of the lines before a line, of the line, and of those after it, without blank ones."""
    span = 3 * _NEAR
    before = filter(None, map(line_digest, reversed(lines[max(0, at - span) : at])))
    after = filter(None, map(line_digest, lines[at + 1 : at + 1 + span]))
    return list(before)[:_NEAR], line_digest(lines[at]), list(after)[:_NEAR]


def distinctive(line: str) -> bool:
    """Return True if a line is hardly written twice by chance."""
    words = "".join(char if char.isalnum() else " " for char in line).split()
    letters = sum(map(len, words))
    return letters >= _MIN_LONG or (letters >= _MIN_LETTERS and len(words) >= _MIN_WORDS)


def is_same_file(edited: str, path: str) -> bool:
    """Return True if an edited path, absolute or relative to an unknown directory, may be a path below the working tree."""
    edited, path = f"/{edited.lstrip('/')}", f"/{path}"
    return edited.endswith(path) or path.endswith(edited)


def _read_lines(file: str, number: int) -> tuple[list[str], str]:
    """Return the lines of a file; or why they cannot be asked about."""
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return [], f"the file cannot be read: {error.strerror}"
    if len(data) > MAX_FILE_BYTES:
        return [], f"the file is larger than {MAX_FILE_BYTES >> 20} MB"
    if b"\0" in data:
        return [], "the file is binary"
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    if not 1 <= number <= len(lines):
        return [], f"the file has {len(lines)} lines"
    if len(lines[number - 1]) > _MAX_LINE_CHARS:
        return [], "the line is minified or generated"
    return lines, "" if lines[number - 1].strip() else "the line is blank"


def _blame(file: str, number: int) -> tuple[BlamedLine | None, str]:
    """Return the commit of a line, or None for a line that is not committed; and why Git cannot say."""
    git, name = Git(str(Path(file).parent)), Path(file).name
    if GitHistory(git).is_filtered(name):  # Git would run a program that the repository chose
        return None, "a filter of the repository changes this file (LFS, an encoding)"
    blamed = git.blame(name, number, timeout_s=_BLAME_S)
    if blamed is None and git.list_files("--cached", only=[name]):
        return None, "Git did not answer in time"
    return (blamed if blamed and blamed.commit else None), ""


class SessionClaim(Struct, frozen=True):
    """What a repository says about the sessions of a commit, in a trailer, or of a line, in a note."""

    name: str
    """The trailer or the tool, quoted."""
    sessions: tuple[str, ...]
    """Empty if only an agent is named."""
    is_of_line: bool = False


def find_claims(line: BlamedLine) -> list[SessionClaim]:
    """Return what a repository claims about a committed line, the best claim first."""
    git = Git(line.root)
    notes: list[SessionClaim] = []
    trailers, note = git.words_of(line.commit, ("ai", "agent-trace")) or ("", "")
    for read in (_read_git_ai, _read_agent_trace):
        try:
            notes += [SessionClaim(name, (session,), is_of_line=True) for name, session in read(note, line)]
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            continue  # of the other tool, or in another format
    return [*notes, *_read_trailers(trailers, git)][:_MAX_SESSIONS]


def _read_trailers(trailers: str, git: Git) -> Iterator[SessionClaim]:
    authors: list[SessionClaim] = []
    for trailer in trailers.splitlines()[:_MAX_TRAILERS]:
        key, _, value = (part.strip() for part in trailer.partition(":"))
        agent = value.partition(" ")[0]
        if key == "Entire-Checkpoint" and len(value) == 12 and set(value) <= _HEX:
            yield SessionClaim(f"{key}: {value}", tuple(_checkpoint_sessions(value, git)))
        elif key.lower().endswith(("session", "session-id")) and _SESSION_ID.fullmatch(value):
            yield SessionClaim(f"{key}: {value}", (value,))
        elif key.lower() == "co-authored-by" and agent.lower() in _AGENTS:
            authors.append(SessionClaim(f"{key}: {agent}", ()))
    yield from authors


def _checkpoint_sessions(checkpoint: str, git: Git) -> Iterator[str]:
    """Yield the sessions of a checkpoint of Entire, from its branch."""
    folder = f"{checkpoint[:2]}/{checkpoint[2:]}"
    files = [f"{ref}:{folder}/{number}/metadata.json" for ref in _CHECKPOINT_REFS for number in range(_MAX_SESSIONS)]
    for data in (GitHistory(git).contents(files) or {}).values():
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            session = json.loads(data)["session_id"]
            if isinstance(session, str) and _SESSION_ID.fullmatch(session):
                yield session


def _read_git_ai(note: str, line: BlamedLine) -> Iterator[tuple[str, str]]:
    """Yield the sessions that a git-ai log (3.0.0) names for a line: files, with keys and their lines, then what keys mean."""
    log, _, about = note.partition("\n---")
    described: Mapping[str, Any] = _read_json(about) if about.strip() else {}
    file = ""
    for entry in log.splitlines():
        if not entry.startswith((" ", "\t")):
            file = entry.strip().strip('"')
            continue
        key, _, ranges = entry.strip().partition(" ")
        if file == line.path and _has_line(ranges, line.number):
            of_key = (described.get(part, {}).get(key) for part in ("prompts", "sessions"))
            agent = next((found["agent_id"] for found in of_key if found), None)
            if agent and _SESSION_ID.fullmatch(agent["id"]):
                yield "git-ai", agent["id"]


def _has_line(ranges: str, number: int) -> bool:
    bounds = (part.partition("-") for part in ranges.split(","))
    return any(int(first) <= number <= int(last or first) for first, _, last in bounds)


def _read_agent_trace(note: str, line: BlamedLine) -> Iterator[tuple[str, str]]:
    """Yield the sessions that a record of Agent Trace names for a line: the last part of a conversation's address."""
    for file in _read_json(note)["files"] if note.strip() else ():
        for conversation in file["conversations"] if file["path"] == line.path else ():
            ranges = conversation["ranges"]
            if any(part["start_line"] <= line.number <= part["end_line"] for part in ranges):
                session = conversation["url"].rstrip("/").rpartition("/")[2]
                if _SESSION_ID.fullmatch(session):
                    yield "Agent Trace", session


def _read_json(text: str) -> Any:
    """Return the value that a text begins with: the note of another tool may follow."""
    return json.JSONDecoder().raw_decode(text.lstrip())[0]
