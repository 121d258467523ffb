"""Edit the section of a memory in its file, and replace files that others write to as well.

A journal is also written by other lorelog processes, which honour its lock, and by editors, which do not. So the file is
replaced under its lock; if its content changed meanwhile, the edit is made again from the new content. An edit of a section
names the text that it replaces: if the file says something else by now, nothing is written.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import AtomicFile, write_atomic
from lorelog.core.document import FileStamp, SourceFile, StoredChunk
from lorelog.core.errors import NotFound, SourceChanged, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.ports import Embedder, Store
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import Serializable
from lorelog.ingest.redaction.redact import redact
from lorelog.services.indexing.run import IndexRun
from lorelog.services.memories.delete import find_memory
from lorelog.services.memories.journal import has_closed_fences, is_same_file, read_bytes
from lorelog.services.places.roots import Root

if TYPE_CHECKING:
    from lorelog.services.indexing.run import IndexJob
    from lorelog.services.memory_state.authored import AuthoredMemories

_LOCK_WAIT_S = 10.0
_MAX_TRIES = 5
_IDS = re.compile(r"<!--[^>]*?\bmemory:([^\s>]+)")
_ANCHOR = re.compile(r"^<!--.*-->\s*$")

EditBytes = Callable[[bytes], bytes]


class SectionEdit(Struct, frozen=True):
    """The text of a section as it was read, and as it shall be."""

    before: str
    after: str

    def apply(self, data: bytes) -> bytes:
        """Return a file's content with the section replaced. Raise SourceChanged if it does not contain it once."""
        text = data.decode("utf-8", "surrogateescape")
        lines = text.replace("\r\n", "\n")
        has_crlf = lines != text
        if has_crlf and lines.replace("\n", "\r\n") != text:
            raise UsageError("the file has mixed line ends", hint="make them the same, then edit the memory again")
        places = _find_lines(lines, self.before)
        if len(places) != 1:
            if not places and len(_find_lines(lines, self.after)) == 1:
                return data  # the same edit was made before
            raise SourceChanged(
                "the section was changed in its file meanwhile", hint="read it again, and edit the current text"
            )
        edited = lines[: places[0]] + self.after + lines[places[0] + len(self.before) :]
        return (edited.replace("\n", "\r\n") if has_crlf else edited).encode("utf-8", "surrogateescape")


def _find_lines(text: str, part: str) -> list[int]:
    """Return where a text consists of whole lines of another."""
    places, at = [], text.find(part) if part else -1
    while at >= 0:
        end = at + len(part)
        if (at == 0 or text[at - 1] == "\n") and (end == len(text) or text[end] == "\n"):
            places.append(at)
        at = text.find(part, at + 1)
    return places


class EditReply(Serializable, Struct, frozen=True):
    """A memory that was edited in its file."""

    memory: str
    source: str
    changed: bool
    """False if the file said so already."""
    redacted: dict[str, int]
    """Number of secrets that were removed from the new text, by kind."""
    notes: tuple[str, ...] = ()


class MemoryEditor(Struct, frozen=True):
    """Edits memories in their files, and brings the index up to date."""

    store: Store
    embedder: Embedder | None
    job: IndexJob
    authored: AuthoredMemories
    refresh: Callable[[], None]
    """Brings what hooks read up to date."""

    def edit(self, identity: str, before: str, after: str, patterns: Sequence[str] | None) -> EditReply:
        """Replace the section of a memory. Raise SourceChanged if its file says something else by now.

        Secrets in the new text are redacted, and what matches `patterns`; None keeps them.
        """
        stored = find_memory(identity, self.store)
        path, root = self._own_file(stored)
        after = after.replace("\r\n", "\n").strip("\n")
        redaction = None if patterns is None else redact(after, patterns)
        after = after if redaction is None else redaction.text
        _check_section(stored, before, after)
        changed = edit_file(path, SectionEdit(before, after).apply)
        if not changed and not path.exists():
            raise NotFound(f"{path} does not exist any more", hint="search again")
        if changed:
            self._register(stored, before, after)
        notes = self._index(path, root)
        self.refresh()
        return EditReply(
            memory=_memory_id(stored),
            source=str(path),
            changed=changed,
            redacted=dict(redaction.kinds) if redaction is not None else {},
            notes=notes,
        )

    def _own_file(self, stored: StoredChunk) -> tuple[Path, Root]:
        source = stored.chunk.source
        document = self.store.document(source)
        if stored.machine or document is None:
            raise NotFound(f"the file of {stored.id} is not on this machine", hint="edit it on the machine it is on")
        root = Root(document.root, document.project)
        if os.path.realpath(source) != source or not root.holds(source):
            raise UsageError(f"{source} is a link now, and is not edited", hint="edit the file that it leads to")
        return Path(source), root

    def _register(self, stored: StoredChunk, before: str, after: str) -> None:
        """Keep a memory the user's own, if it was: the registry knows its text."""
        anchor = stored.chunk.anchor
        if anchor is None or not anchor.memory or not self.authored.wrote(anchor, _body(before)):
            return
        source = (("session", anchor.session), (anchor.dialect or "transcript", anchor.transcript))
        memory = NewMemory(
            _body(after),
            anchor.type,
            anchor.tags,
            anchor.origin,
            id=anchor.memory,
            source=source if anchor.transcript else (),
            supersedes=anchor.superseded_ids,
            expires=anchor.expires,
            cues=anchor.cues,
        )
        with suppress(StoreUnwritable):
            self.authored.record([memory], stored.project)

    def _index(self, path: Path, root: Root) -> tuple[str, ...]:
        file = SourceFile(str(path), root.path, FileStamp.from_stat(path.lstat()))
        report = IndexRun(self.store, self.embedder, replace(self.job, roots=(root,))).over_file(file)
        return (*report.notes, *(problem.message for problem in report.problems))


def _memory_id(stored: StoredChunk) -> str:
    return (stored.chunk.anchor.memory if stored.chunk.anchor else "") or stored.id


def _check_section(stored: StoredChunk, before: str, after: str) -> None:
    """Raise UsageError for a text that would lose an id or change what follows it."""
    if not after.strip():
        raise UsageError("the text is empty", hint="delete or forget the memory instead")
    if "\0" in after or after.encode("utf-8", "replace").decode() != after:
        raise UsageError("the text is not valid", hint="it must be Unicode text without NUL")
    lost = sorted(set(_IDS.findall(before)) - set(_IDS.findall(after)))
    if lost:
        raise UsageError(
            f"the comment with the id {lost[0]} is missing", hint="keep the line '<!-- memory:… -->': it is the id"
        )
    if not has_closed_fences(after) and has_closed_fences(before):
        raise UsageError("a code fence is not closed", hint="close it: it would swallow the next section")
    if stored.chunk.heading_level and before.startswith("#") and not after.startswith("#"):
        raise UsageError("the heading is missing", hint="keep the first line: it begins the section")


def _body(section: str) -> str:
    """Return a section without its heading and its anchor, as it was given to be remembered."""
    lines = section.split("\n")
    lines = lines[1:] if lines[0].startswith("#") else lines
    while lines and (not lines[0].strip() or _ANCHOR.match(lines[0])):
        lines = lines[1:]
    return "\n".join(lines)


def edit_file(path: Path, edit: EditBytes) -> bool:
    """Replace a file's content by what `edit` returns; return False if that changes nothing.

    Raise StoreUnwritable or StoreBusy, and then the file is as it was.
    """
    try:
        for _ in range(_MAX_TRIES):
            with suppress(_ChangedMeanwhileError):
                return _edit_locked(path, edit)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be replaced: {error.strerror or error}", hint="make the file and its folder writable"
        ) from error
    raise StoreBusy(f"{path} is changed repeatedly by another program", hint="close it there, then try again")


class _ChangedMeanwhileError(Exception):
    """Another program changed the file since it was read."""


def _edit_locked(path: Path, edit: EditBytes) -> bool:
    """Replace a file once. Raise _ChangedMeanwhileError if another program changed it meanwhile."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        if not acquire_file_lock(descriptor, _LOCK_WAIT_S):
            raise StoreBusy(f"{path} is locked by another program", hint="try again")
        if not is_same_file(path, descriptor):
            raise _ChangedMeanwhileError
        before = read_bytes(descriptor)
        after = edit(before)
        if after == before:
            return False
        with AtomicFile(path, keep_mode=True) as file:
            file.write(after)
            if not is_same_file(path, descriptor) or read_bytes(descriptor) != before:
                raise _ChangedMeanwhileError
        late = read_bytes(descriptor)
        if late != before:  # a program without the lock wrote to the old file in the last moment
            write_atomic(path, edit(late), keep_mode=True)
        return True
    finally:
        os.close(descriptor)
