"""Append memories to a journal, completely or not at all, and flushed to disk; format their anchors; split a journal into entries.

A journal is the user's file, too. It is only appended to, under a lock that other lorelog processes honour; a failed write is rolled
back; an editor that replaces the file during the write does not lose the entry; and a journal that is a link is refused, because a
repository must not choose which file we write to. An end that a kill or a power cut tore off stays as it is, above the next entry.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
from msgspec import Struct

from lorelog.core.atomic_file import OpenDescriptor, Writing, open_to_append, sync_folder, write_all
from lorelog.core.document import FileStamp
from lorelog.core.errors import StoreBusy, StoreUnwritable, UsageError
from lorelog.core.ids import new_id
from lorelog.core.memory import NewMemory
from lorelog.core.processes import acquire_file_lock
from lorelog.ingest.outline import Outline, read_outline
from lorelog.services.places.workspace import FOLDER, create_project_folder

if TYPE_CHECKING:
    from lorelog.core.session import HookEvent
    from lorelog.ingest.transcripts.conversation import Conversation, ConversationHead

_NEEDS_ESCAPE = re.compile(r"--|[<>\x00-\x1f\x7f]|\s[a-z][a-z_-]*:\S")
"""Text that would end the comment, or be read as the next anchor field."""


AnchorFields = tuple[tuple[str, str], ...]
"""Keys and values of an anchor."""


def anchor_fields(event: HookEvent, conversation: Conversation, head: ConversationHead) -> AnchorFields:
    """Return the known fields of a captured turn's anchor, the session first."""
    dialect = "db" if conversation.format == "sqlite" else "rollout" if event.host == "codex" else "transcript"
    words = (
        ("session", to_anchor_word(event.session)),
        (dialect, anchor_address(conversation.path)),
        ("host", to_anchor_word(event.host)),
        ("agent", to_anchor_word(event.agent)),
        ("branch", to_anchor_word(event.branch or head.branch)),
        ("commit", to_anchor_word(event.commit)),
    )
    return tuple((key, value) for key, value in words if value)


def parse_entry(text: str) -> NewMemory | None:
    """Return the memory of a JSON text; None if it is malformed."""
    try:
        return msgspec.json.decode(text, type=NewMemory)
    except msgspec.DecodeError:
        return None


def to_anchor_word(text: str) -> str:
    """Return a text as one word that cannot end a comment."""
    return "_".join(text.replace("--", "-").replace("<", " ").replace(">", " ").split())[:200]


def anchor_address(path: str) -> str:
    """Return a path for an anchor: unchanged, or as a file:// URL if it would be misread."""
    return f"file://{quote(path)}".replace("--", "-%2D") if _NEEDS_ESCAPE.search(path) or path.strip() != path else path


_TYPE = re.compile(r"[\w][\w.-]{0,63}")
_TAG = re.compile(r"[\w][\w.:/*@+-]{0,199}")
_IDENTITY = re.compile(r"[\w.:-]{1,200}")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_CUE_CHARS = "=/*?.:@+!$&'()"
"""Characters that stay readable in an anchor besides letters, digits and `_.-~`."""
MAX_CUES, MAX_CUE_CHARS = 20, 300
_HASHES_PER_LINE = 24
"""Covered hashes per line of a journal, for readability."""
_WAIT_S = 10.0
_MAX_TRIES = 5
_HEADING = b"\n### "
_MIN_TORN_BYTES = len("### 00:00\n")
"""A heading alone may be the user's and does no harm; an unclosed comment would hide the text after it."""
OwnEntries = Callable[..., AbstractContextManager[None]]
"""A context in which memories with ids are written to a journal; see `ProjectMemories.own_entries`."""


class JournalEntry(Struct, frozen=True):
    """An entry as written: its id and its lines."""

    memory: str
    path: Path
    start_line: int
    end_line: int
    existed: bool = False
    """It existed before, and nothing was written."""


class _JournalEnd(Struct, frozen=True):
    """The end of a journal that no code fence is open at, and the stamp of the file."""

    stamp: FileStamp
    lines: int
    tail: bytes
    """From the last heading on."""


_ends: dict[Path, _JournalEnd] = {}
"""By folder, the journal that this process added to last. One with another stamp is read, and its fences are looked at, as a whole."""


def append_entries(
    directory: Path,
    memories: Sequence[NewMemory],
    now: datetime,
    *,
    private: bool = False,
    session: str = "",
    are_new: bool = False,
) -> list[JournalEntry]:
    """Append memories to the day's journal in a directory, all or none, and return their positions.

    A memory whose id is already in the journal is not written again; with `are_new` the ids were made for this call. `session` is
    the session that they were captured in, if its entries are to stand below a heading of their own.
    """
    for memory in memories:
        check_memory(memory)
    identities = [memory.id or new_id() for memory in memories]
    entries = {
        identity: format_entry(memory, identity, memory.at or now)
        for memory, identity in zip(memories, identities, strict=True)
    }
    path = journal_path(directory, now)
    with Writing(path, hint="nothing was added; make it a writable file, free some space, or use --global"):
        mode = 0o700 if private else _folder_mode(directory)
        _create_folder(directory, mode)
        for attempt in range(_MAX_TRIES):
            # An editor that replaces the file may have read an entry of the attempt before.
            placed = _append_missing(path, entries, now, mode & 0o666, session, are_new=are_new and not attempt)
            if placed is not None:
                return [placed[identity] for identity in identities]
    raise StoreBusy(f"{path} is replaced repeatedly by another program", hint="nothing was added; try again")


def _folder_mode(directory: Path) -> int:
    """Return the mode for new journals and folders: that of the innermost existing folder at or below `.lorelog`.

    A new `.lorelog` is its owner's alone, like the conversations in it. One that a person opened to others stays open. Elsewhere, in
    a directory that the user named, the umask decides.
    """
    for folder in (directory, *directory.parents):
        if FOLDER not in folder.parts:
            break
        if folder.is_dir():
            return stat.S_IMODE(folder.stat().st_mode) & 0o777
    return 0o700 if FOLDER in directory.parts else 0o777


def _create_folder(directory: Path, mode: int) -> None:
    missing = [folder for folder in (directory, *directory.parents) if not folder.is_dir()]
    for folder in reversed(missing):
        if folder.name == FOLDER:
            create_project_folder(str(folder.parent))
            continue
        # Only what is ours is closed to others: directories above `.lorelog` belong to the user.
        folder.mkdir(exist_ok=True, mode=mode if folder == directory or FOLDER in folder.parts else 0o777)


def journal_path(directory: Path, day: datetime) -> Path:
    return directory / f"{day:%Y-%m-%d}.md"


def has_entry(path: Path, memory: str) -> bool:
    """Return whether a journal has an entry with this id. Only regular files are opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreUnwritable(f"{path} cannot be read: {error.strerror}", hint="make it a readable file") from error
    with OpenDescriptor(descriptor):
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and _id_marker(memory) in read_bytes(descriptor)


def check_memory(memory: NewMemory) -> None:
    """Raise UsageError for a memory that could not be written and read back."""
    if not memory.text.strip():
        raise UsageError("the text is empty", hint='lorelog add "what you learned"')
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
    if len(memory.cues) > MAX_CUES:
        raise UsageError(
            f"a memory can have at most {MAX_CUES} cues (got {len(memory.cues)})", hint="write two memories"
        )
    for cue in memory.cues:
        if not cue.strip() or len(cue) > MAX_CUE_CHARS or not cue.isprintable():
            raise UsageError(
                f"{cue[:80]!r} cannot be a cue", hint=f"a cue is one line of at most {MAX_CUE_CHARS} characters"
            )
    if any(len(digest) != 16 or digest.strip("0123456789abcdef") for digest in memory.covers):
        raise UsageError("covers must contain content hashes", hint="16 hex digits each")


def _append_missing(
    path: Path, entries: Mapping[str, str], now: datetime, mode: int, session: str, *, are_new: bool
) -> dict[str, JournalEntry] | None:
    """Append the missing entries and return the positions of all, or None if the file was replaced meanwhile."""
    with OpenDescriptor(open_to_append(path, mode)) as descriptor:
        if not acquire_file_lock(descriptor, _WAIT_S):
            raise StoreBusy(f"{path} is locked by another program", hint="nothing was added; try again")
        if not is_same_file(path, descriptor):
            return None
        end = _ends.pop(path.parent, None)
        end = end if end and end.stamp == FileStamp.from_stat(os.fstat(descriptor)) else None
        found = end.tail if end and are_new else read_bytes(descriptor)
        before = found if end else _complete_torn_entry(descriptor, found, entries.values())
        # An earlier attempt wrote them, or an editor that replaced the file had read our entry first.
        placed: dict[str, JournalEntry] = {}
        for identity, entry in entries.items():
            if _id_marker(identity) in before:
                start = before[: before.index(_id_marker(identity))].count(b"\n")  # the anchor is on the second line
                placed[identity] = JournalEntry(identity, path, start, start + entry.count("\n") - 1, before == found)
        missing = {identity: entry for identity, entry in entries.items() if identity not in placed}
        if missing:
            separator = _separator(before, now, is_closed=bool(end))
            word = to_anchor_word(session)
            if word and f"<!-- session:{word} ".encode() not in before[before.rfind(_HEADING) :]:
                separator += (
                    f"## Session {now:%H:%M}\n\n"  # as memsearch writes it, unless the last entry is of this session
                )
            size, lines = (end.stamp.size, end.lines) if end else (len(before), before.count(b"\n"))
            added = separator + "\n".join(missing.values())
            stamp, data = _append_or_undo(descriptor, size, added.encode()), b"\n" + added.encode()
            # Unless somebody else has added something at the same time.
            if stamp.size == size + len(data) - 1 and is_closed_at_end(added):
                _ends[path.parent] = _JournalEnd(stamp, lines + added.count("\n"), data[data.rfind(_HEADING) :])
            first = lines + separator.count("\n") + 1
            for identity, entry in missing.items():
                placed[identity] = JournalEntry(identity, path, first, first + entry.count("\n") - 1)
                first += entry.count("\n") + 1
        if not before:
            sync_folder(path.parent)
        if not is_same_file(path, descriptor):
            return None
    return placed


def _complete_torn_entry(descriptor: int, before: bytes, entries: Iterable[str]) -> bytes:
    """Write the rest of an entry that a killed process left incomplete, and return the file's content.

    A kill may end a write between two pages. The end of the file is then the beginning of the same entry.
    """
    tail = before[before.rfind(_HEADING) + 1 :]
    if len(tail) <= _MIN_TORN_BYTES:
        return before
    for entry in map(str.encode, entries):
        if entry.startswith(tail) and entry != tail:
            _append_or_undo(descriptor, len(before), entry[len(tail) :])
            return before + entry[len(tail) :]
    return before


def _id_marker(identity: str) -> bytes:
    return f"memory:{identity}".encode()


def is_same_file(path: Path, descriptor: int) -> bool:
    """Return whether the path still names the open file: editors save by replacing it."""
    current = FileStamp.of(path)
    return current is not None and current.inode == FileStamp.from_stat(os.fstat(descriptor)).inode


def format_entry(memory: NewMemory, identity: str, now: datetime) -> str:
    cues = (quote(cue, safe=_CUE_CHARS).replace("--", "-%2D") for cue in memory.cues)  # neither `-->` nor a comma
    fields = {
        "memory": identity,
        "type": memory.type,
        "tags": ",".join(memory.tags),
        "origin": memory.origin,
        "supersedes": ",".join(memory.supersedes),
        "expires": memory.expires,
        "cues": ",".join(cues),
    }
    words = [f"{key}:{value}" for key, value in (*memory.source, *fields.items()) if value]
    covers = [
        ",".join(memory.covers[start : start + _HASHES_PER_LINE])
        for start in range(0, len(memory.covers), _HASHES_PER_LINE)
    ]
    if len(covers) == 1:
        words.append(f"covers:{covers.pop()}")
    anchor = "\n".join(f"<!-- {fields} -->" for fields in (" ".join(words), *(f"covers:{line}" for line in covers)))
    return f"### {now:%H:%M}\n{anchor}\n{_format_body(memory.text)}\n"


def _format_body(text: str) -> str:
    """Return the text with its headings as bold lines and its last fence closed, so that it stays one entry.

    An anchor applies to its own section only: a heading inside would leave the rest without id, type and tags.
    """
    # The lines in front keep a leading `---` from being parsed as front matter.
    outline = read_outline("x\n\n" + text.strip("\r\n").replace("\r\n", "\n").rstrip())
    lines = list(outline.lines)
    for heading in reversed(outline.headings):
        lines[heading.first : heading.last + 1] = [f"**{heading.title}**", ""] if heading.title else [""]
    return "\n".join([*lines[2:], *_closing_fence(outline)])


def is_closed_at_end(text: str) -> bool:
    """Return True if no code fence and no comment is open at the end of a text: what follows stands for itself."""
    headings = read_outline(f"{text}\n\n# probe").headings
    return bool(headings) and headings[-1].first > text.count("\n")


def _closing_fence(outline: Outline) -> list[str]:
    """Return the line that closes an open code fence, if there is one."""
    last = len(outline.lines) - 1
    probe = read_outline("\n".join([*outline.lines, "", "# probe"]))
    if probe.headings and probe.headings[-1].first > last:
        return []
    opening = max((first for first, end in probe.atomic_blocks.items() if end > last), default=0)
    mark = _FENCE.match(outline.lines[opening])
    return [mark[1]] if mark else []


_FENCE_MARK = re.compile(r"```[^\n]*")
_OPEN_COMMENT = re.compile(r"<!--(?![^\n]*-->)")


def is_surely_closed(text: str) -> bool:
    """Return True if no code fence is open at the end of a text, False if only a parse can tell: 70 ms for 5,000 entries, this 5."""
    if "```" not in text and "~~~" not in text:
        return True
    if "~~~" in text or text.startswith(("---", "+++")) or _OPEN_COMMENT.search(text):  # lines that may be hidden
        return False
    is_open = False
    for fence in _FENCE_MARK.finditer(text):
        rest = fence[0][3:]
        if "`" in rest or (is_open and rest) or (fence.start() and text[fence.start() - 1] != "\n"):
            return False
        is_open = not is_open
    return not is_open


def _separator(before: bytes, now: datetime, *, is_closed: bool) -> str:
    if not before or before.isspace():
        return ("" if not before or before.endswith(b"\n") else "\n") + f"# {now:%Y-%m-%d}\n\n"
    text = "" if is_closed else before.decode("utf-8", "replace").rstrip("\n")
    lines = [] if is_surely_closed(text) else _closing_fence(read_outline(text))
    if closing := "".join(f"{line}\n" for line in lines):
        return ("" if before.endswith(b"\n") else "\n") + closing + "\n"
    if before.endswith(b"\n\n"):
        return ""
    return "\n" if before.endswith(b"\n") else "\n\n"


def read_bytes(descriptor: int) -> bytes:
    """Return the whole content of an open file; its position stays."""
    parts, offset = [], 0
    while part := os.pread(descriptor, max(os.fstat(descriptor).st_size - offset, 1), offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)  # without a copy if it is one, as it nearly always is


def _append_or_undo(descriptor: int, size: int, text: bytes) -> FileStamp:
    """Append to a file of this size, completely or not at all; return its stamp, read before the flush gives others time to write."""
    try:
        write_all(descriptor, text, durable=False)
        stamp = FileStamp.from_stat(os.fstat(descriptor))
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
    return stamp


_ENTRY_LEVEL = 3
_DIGEST_CHARS = 32
_INVALID_BYTE = re.compile("[\\udc80-\\udcff]")
_WORD_FIELD = r"(?:^|\s){}:(\S+)"
ANCHOR = re.compile(r"\A(?:#{1,6} [^\n]*\n)?\s*<!--(.*?)-->", re.DOTALL)
MACHINE_WORD = re.compile(r"(?:^|(?<=\s))(?:transcript|rollout|db):\S*\s?")
"""Paths of this machine in an anchor."""


def anchor_field(text: str, name: str) -> str:
    """Return a word of an entry's anchor, such as its type; empty if there is none."""
    anchor = ANCHOR.match(text)
    found = re.search(_WORD_FIELD.format(name), anchor[1]) if anchor else None
    return found[1] if found else ""


def portable_text(text: str) -> str:
    """Return an entry without the path of its transcript, which other machines do not have."""
    anchor = ANCHOR.match(text)
    if anchor is None:
        return text.strip("\n")
    words = MACHINE_WORD.sub("", anchor[1])
    return (text[: anchor.start(1)] + words + text[anchor.end(1) :]).strip("\n")


def entry_digest(text: str) -> str:
    """Return a digest of an entry's text without white space and without paths of a machine."""
    if _INVALID_BYTE.search(text):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # as it is exchanged
    bare = "".join(portable_text(text).split())
    return hashlib.sha256(bare.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]


class JournalPart(Struct, frozen=True):
    """A section of a journal, as it stands there."""

    text: str
    is_entry: bool
    """False for a title without text, and for empty text before the first heading."""
    first_line: int
    last_line: int

    @property
    def memory(self) -> str:
        """Id of its memory; empty if it has none."""
        return anchor_field(self.text, "memory")

    @property
    def key(self) -> str:
        """Id of its memory; its digest if it has none."""
        return self.memory or entry_digest(self.text)


def split_journal(text: str) -> list[JournalPart]:
    """Return the sections of a journal, in order. Together they are the whole text."""
    outline = read_outline(text)
    lines = list(outline.lines)
    starts = [heading.first for heading in outline.headings if heading.level <= _ENTRY_LEVEL]
    titles = {heading.first: heading.last for heading in outline.headings if heading.level < _ENTRY_LEVEL}
    parts = []
    for first, end in pairwise(sorted({0, *starts, len(lines)})):
        body = lines[titles[first] + 1 : end] if first in titles else lines[first:end]
        parts.append(JournalPart("\n".join(lines[first:end]), any(map(str.strip, body)), first + 1, end))
    return parts
