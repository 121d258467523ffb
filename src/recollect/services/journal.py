"""Appending a memory to a journal: whole or not at all, and safe on disk before anyone is told.

A journal is a person's file too. It is only ever appended to, under a lock that other recollect processes honour; a
write that fails is taken back to the byte; an editor that replaces the file while we write does not lose the
entry; and a journal that is a link is refused, because a repository must not choose which file we write to.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from recollect.core.errors import StoreBusy, StoreUnwritable, UsageError
from recollect.core.memory import NewMemory, new_id
from recollect.ingest.lines import Outline, read_outline

_WORD = re.compile(r"[\w][\w.-]{0,63}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_WAIT_S = 10.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry as it was written: its id and the lines it took."""

    memory: str
    path: Path
    start_line: int
    end_line: int


def append_entries(
    directory: Path, memories: Sequence[NewMemory], now: datetime, *, private: bool = False
) -> list[JournalEntry]:
    """Append memories to the day's journal in a directory, all or none, and return where each stands."""
    for memory in memories:
        check_memory(memory)
    identities = [new_id() for _ in memories]
    entries = [_entry(memory, identity, now) for memory, identity in zip(memories, identities, strict=True)]
    path = directory / f"{now:%Y-%m-%d}.md"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        for _ in range(_TRIES):
            first = _append(path, "\n".join(entries), now, 0o600 if private else 0o644)
            if first is not None:
                return list(_placed(path, identities, entries, first))
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror or error}",
            hint="nothing was added; make it a writable file, free some space, or use --global",
        ) from error
    raise StoreBusy(f"{path} is being replaced again and again by another program", hint="nothing was added; try again")


def _placed(path: Path, identities: Sequence[str], entries: Sequence[str], first: int) -> Iterator[JournalEntry]:
    for identity, entry in zip(identities, entries, strict=True):
        lines = entry.count("\n")
        yield JournalEntry(identity, path, first, first + lines - 1)
        first += lines + 1


def check_memory(memory: NewMemory) -> None:
    """Raise UsageError for a memory that could not be written down and read back."""
    if not memory.text.strip():
        raise UsageError("there is nothing to remember: the text is empty", hint='recollect add "what you learned"')
    if "\0" in memory.text or memory.text.encode("utf-8", "replace").decode() != memory.text:
        raise UsageError("the text is not plain text", hint="it must be UTF-8 without NUL characters")
    for name, values in (("type", (memory.type,) if memory.type else ()), ("tag", memory.tags)):
        for value in values:
            if not _WORD.fullmatch(value):
                raise UsageError(
                    f"{value!r} cannot be a {name}",
                    hint=f"a {name} is one word of letters, digits, '_', '-' and '.', at most 64 characters",
                )


def _append(path: Path, entry: str, now: datetime, mode: int) -> int | None:
    """Append entries and return the first line, or None when the file was replaced meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        _lock(descriptor, path)
        if not _is_still(path, descriptor):
            return None
        before = _read(descriptor)
        anchor = entry.split("\n", 2)[1].encode()
        if anchor in before:  # whoever replaced the file had read our entry first
            return before[: before.index(anchor)].count(b"\n")
        text = _separator(before, now) + entry
        _append_whole(descriptor, len(before), text.encode())
        if not before:
            _sync_directory(path.parent)
        if not _is_still(path, descriptor):
            return None
    finally:
        os.close(descriptor)
    return (before.decode("utf-8", "replace") + text).count("\n") - entry.count("\n") + 1


def _lock(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreBusy(f"{path} is locked by another program", hint="nothing was added; try again") from None
            time.sleep(0.01)
        else:
            return


def _is_still(path: Path, descriptor: int) -> bool:
    """Say whether the path still names the file we have open: editors save by replacing it."""
    ours = os.fstat(descriptor)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)


def _entry(memory: NewMemory, identity: str, now: datetime) -> str:
    words = [f"memory:{identity}"]
    if memory.type:
        words.append(f"type:{memory.type}")
    if memory.tags:
        words.append(f"tags:{','.join(memory.tags)}")
    words.append(f"origin:{memory.origin}")
    return f"### {now:%H:%M}\n<!-- {' '.join(words)} -->\n{_body(memory.text)}\n"


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
