"""Appending a memory to a journal: whole or not at all, and safe on disk before anyone is told.

A journal is a person's file too. It is only ever appended to, under a lock that other lorelog processes honour; a
write that fails is taken back to the byte; an editor that replaces the file while we write does not lose the
entry; and a journal that is a link is refused, because a repository must not choose which file we write to.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lorelog.core.errors import StoreBusy, StoreUnwritable, UsageError
from lorelog.core.identity import new_id
from lorelog.core.locking import locks_within
from lorelog.core.memory import NewMemory
from lorelog.ingest.lines import Outline, read_outline

_TYPE = re.compile(r"[\w][\w.-]{0,63}")
_TAG = re.compile(r"[\w][\w.:/*@+-]{0,199}")
_IDENTITY = re.compile(r"[\w.:-]{1,200}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_HASH = re.compile(r"[0-9a-f]{16}")
_A_LINE = 24
"""Hashes of what a summary covers, on one line of a journal: people read those, too."""
_WAIT_S = 10.0
_TRIES = 5
_HEADING = b"\n### "
_LEAST_TORN = len("### 00:00\n")
"""A heading alone may be a person's, and does no harm; the beginning of a comment would swallow what follows it."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry as it was written: its id and the lines it took."""

    memory: str
    path: Path
    start_line: int
    end_line: int
    stood: bool = False
    """It stood there before, and nothing was written."""


def append_entries(
    directory: Path, memories: Sequence[NewMemory], now: datetime, *, private: bool = False
) -> list[JournalEntry]:
    """Append memories to the day's journal in a directory, all or none, and return where each stands.

    A memory whose id stands in the journal already is not written again.
    """
    for memory in memories:
        check_memory(memory)
    identities = [memory.id or new_id() for memory in memories]
    entries = {
        identity: _entry(memory, identity, memory.at or now)
        for memory, identity in zip(memories, identities, strict=True)
    }
    path = journal_of(directory, now)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        for _ in range(_TRIES):
            placed = _append(path, entries, now, 0o600 if private else 0o644)
            if placed is not None:
                return [placed[identity] for identity in identities]
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror or error}",
            hint="nothing was added; make it a writable file, free some space, or use --global",
        ) from error
    raise StoreBusy(f"{path} is being replaced again and again by another program", hint="nothing was added; try again")


def journal_of(directory: Path, day: datetime) -> Path:
    """Return the journal of a day."""
    return directory / f"{day:%Y-%m-%d}.md"


def stands_in(path: Path, memory: str) -> bool:
    """Say whether a journal has an entry of this id. What is no regular file is not opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be read: {error.strerror}", hint="make it a readable file") from error
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and _mark(memory) in _read(descriptor)
    finally:
        os.close(descriptor)


def check_memory(memory: NewMemory) -> None:
    """Raise UsageError for a memory that could not be written down and read back."""
    if not memory.text.strip():
        raise UsageError("there is nothing to remember: the text is empty", hint='lorelog add "what you learned"')
    if "\0" in memory.text or memory.text.encode("utf-8", "replace").decode() != memory.text:
        raise UsageError("the text is not plain text", hint="it must be UTF-8 without NUL characters")
    if memory.type and not _TYPE.fullmatch(memory.type):
        raise UsageError(
            f"{memory.type!r} cannot be a type",
            hint="a type is one word of letters, digits, '_', '-' and '.', at most 64 characters",
        )
    for tag in memory.tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(
                f"{tag!r} cannot be a tag",
                hint="a tag is one word of letters, digits, '_', '-', '.', ':', '/', '*', '@' and '+', at most 200 characters",
            )
    for old in memory.supersedes:
        if not _IDENTITY.fullmatch(old):
            raise UsageError(f"{old!r} cannot be superseded: its id cannot be written down", hint="give it another id")
    if not all(map(_HASH.fullmatch, memory.covers)):
        raise UsageError("what is summed up is named by the hashes of contents", hint="16 hex digits each")


def _append(path: Path, entries: Mapping[str, str], now: datetime, mode: int) -> dict[str, JournalEntry] | None:
    """Append the entries that are not there and return where all are, or None when the file was replaced meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        if not locks_within(descriptor, _WAIT_S):
            raise StoreBusy(f"{path} is locked by another program", hint="nothing was added; try again")
        if not _is_still(path, descriptor):
            return None
        before = _complete(descriptor, _read(descriptor), entries.values())
        # Written before, or whoever replaced the file just now had read our entry first.
        placed = {one: _found(path, one, entry, before) for one, entry in entries.items() if _mark(one) in before}
        missing = {one: entry for one, entry in entries.items() if one not in placed}
        if missing:
            separator = _separator(before, now)
            _append_whole(descriptor, len(before), (separator + "\n".join(missing.values())).encode())
            first = (before.decode("utf-8", "replace") + separator).count("\n") + 1
            placed |= _placed(path, missing, first)
        if not before:
            _sync_directory(path.parent)
        if not _is_still(path, descriptor):
            return None
    finally:
        os.close(descriptor)
    return placed


def _complete(descriptor: int, before: bytes, entries: Iterable[str]) -> bytes:
    """Write the rest of an entry that someone was killed in the middle of, and return what the file holds then.

    A kill may end a write between two pages. What is left of it is the beginning of the same entry, at the end of the file.
    """
    tail = before[before.rfind(_HEADING) + 1 :]
    if len(tail) <= _LEAST_TORN:
        return before
    for entry in map(str.encode, entries):
        if entry.startswith(tail) and entry != tail:
            _append_whole(descriptor, len(before), entry[len(tail) :])
            return before + entry[len(tail) :]
    return before


def _mark(identity: str) -> bytes:
    return f"memory:{identity}".encode()


def _found(path: Path, identity: str, entry: str, before: bytes) -> JournalEntry:
    first = before[: before.index(_mark(identity))].count(b"\n")  # the anchor's line is the second
    return JournalEntry(identity, path, first, first + entry.count("\n") - 1, stood=True)


def _placed(path: Path, entries: Mapping[str, str], first: int) -> dict[str, JournalEntry]:
    placed: dict[str, JournalEntry] = {}
    for identity, entry in entries.items():
        lines = entry.count("\n")
        placed[identity] = JournalEntry(identity, path, first, first + lines - 1)
        first += lines + 1
    return placed


def _is_still(path: Path, descriptor: int) -> bool:
    """Say whether the path still names the file we have open: editors save by replacing it."""
    ours = os.fstat(descriptor)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _entry(memory: NewMemory, identity: str, now: datetime) -> str:
    words = [*(f"{key}:{value}" for key, value in memory.source), f"memory:{identity}"]
    if memory.type:
        words.append(f"type:{memory.type}")
    if memory.tags:
        words.append(f"tags:{','.join(memory.tags)}")
    words.append(f"origin:{memory.origin}")
    if memory.supersedes:
        words.append(f"supersedes:{','.join(memory.supersedes)}")
    if memory.expires:
        words.append(f"expires:{memory.expires}")
    covers = [",".join(memory.covers[start : start + _A_LINE]) for start in range(0, len(memory.covers), _A_LINE)]
    if len(covers) == 1:
        words.append(f"covers:{covers.pop()}")
    anchor = "\n".join(f"<!-- {one} -->" for one in (" ".join(words), *(f"covers:{line}" for line in covers)))
    return f"### {now:%H:%M}\n{anchor}\n{_body(memory.text)}\n"


def _body(text: str) -> str:
    """Return the text with its headings as bold lines and its last fence closed, so that it stays one entry.

    An anchor speaks for its own section only: a heading inside would leave the rest without id, type and tags.
    """
    # The lines in front keep a leading `---` from being taken for front matter.
    outline = read_outline("x\n\n" + text.strip("\r\n").replace("\r\n", "\n").rstrip())
    lines = list(outline.lines)
    for heading in reversed(outline.headings):
        lines[heading.first : heading.last + 1] = [f"**{heading.title}**", ""] if heading.title else [""]
    return "\n".join([*lines[2:], *_closing_fence(outline)])


def _closing_fence(outline: Outline) -> list[str]:
    """Return the line that ends a fence which would swallow whatever comes after the text, if there is one."""
    last = len(outline.lines) - 1
    probe = read_outline("\n".join([*outline.lines, "", "# probe"]))
    if probe.headings and probe.headings[-1].first > last:
        return []
    opening = max((first for first, end in probe.whole.items() if end > last), default=0)
    mark = _FENCE.match(outline.lines[opening])
    return [mark[1]] if mark else []


def _separator(before: bytes, now: datetime) -> str:
    if not before.strip():
        return ("" if not before or before.endswith(b"\n") else "\n") + f"# {now:%Y-%m-%d}\n\n"
    closing = "".join(
        f"{line}\n" for line in _closing_fence(read_outline(before.decode("utf-8", "replace").rstrip("\n")))
    )
    if closing:
        return ("" if before.endswith(b"\n") else "\n") + closing + "\n"
    if before.endswith(b"\n\n"):
        return ""
    return "\n" if before.endswith(b"\n") else "\n\n"


def _read(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts, offset = [], 0
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _append_whole(descriptor: int, size: int, text: bytes) -> None:
    try:
        written = 0
        while written < len(text):
            written += os.write(descriptor, text[written:])
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _sync_directory(directory: Path) -> None:
    """Make a new file's name as durable as its bytes."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
