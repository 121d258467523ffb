"""What an import source is, and what reading one yields.

A source finds what a tool left on this machine, recognizes a path, and reads it as a stream of entries. It never writes, never
follows a link out of the folder that it was given, and never raises for a single bad record: that is a `SkippedItem`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from lorelog.core.errors import UsageError, nearest_name
from lorelog.core.paths import leads_out

MAX_ENTRY_CHARS = 1_000_000
_MAX_TAGS = 100
_TYPE_CHARS, _MAX_TYPE_CHARS = ".-", 64
_TAG_CHARS, _MAX_TAG_CHARS = ".:/*@+-", 200
"""Characters that journals accept in a type or tag beside letters, digits and `_`, and its length."""
_MILLISECONDS = 100_000_000_000
"""A number of seconds this large is a number of milliseconds."""


class ImportedEntry(Struct, frozen=True, kw_only=True):
    """One memory of another tool, without its claims about trust."""

    text: str
    kind: str
    """What the tool calls it, for counts: `observation`, `turn`, `note`."""
    place: str
    """Where it is in the source: a file and line, a row, a conversation."""
    type: str = ""
    tags: tuple[str, ...] = ()
    at: datetime | None = None
    """When it was written there, in local time; None if that is unknown."""
    author: str = ""
    """Who wrote it there, as the tool says."""
    project: str = ""
    """Project that the tool assigns: a directory or a name; empty if none."""
    key: str = ""
    """Name that stays the same when the text changes, such as a note's path; empty if there is none."""
    known_id: str = ""
    """Its id in the lorelog that exported it; empty if another tool did."""
    anchor: tuple[tuple[str, str], ...] = ()
    """Fields for its anchor, such as `("session", "…")`."""
    is_users: bool = False
    """Whether it belongs to the user and not to a project, whatever the source says in general."""
    archive: bool = False
    """Whether it is a record of the past, such as a conversation: found by a search, never shown by a hook."""


class SkippedItem(Struct, frozen=True):
    """An item that is not imported, and why."""

    place: str
    reason: str


class ImportedSetting(Struct, frozen=True):
    """A setting of another tool, as a setting of ours."""

    key: str
    value: str
    place: str


def link_problem(path: Path, folder: Path) -> str:
    """Return why a path is not read if links lead out of a folder; empty if it stays inside. The target is named, not its path."""
    target = leads_out(path, folder)
    return f"it is a link that leads out of the folder, to {Path(target).name}" if target else ""


ImportedItem = ImportedEntry | SkippedItem | ImportedSetting


class MachinePlaces(Struct, frozen=True):
    """Where sources look for what tools left."""

    home: Path
    project: Path


class ImportSource(ABC):
    """One tool whose memories can be read."""

    name: str
    title: str
    is_personal = True
    """Whether entries without a project belong to the user, and not to the project of the command."""
    in_home: tuple[str, ...] = ()
    in_project: tuple[str, ...] = ()
    """Patterns of the paths where the tool leaves its memories."""

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield the paths on this machine that `read` takes. Opens no file that it need not."""
        for base, patterns in ((places.project, self.in_project), (places.home, self.in_home)):
            for pattern in patterns:
                yield from (path for path in sorted(base.glob(pattern)) if self.accepts(path))

    @abstractmethod
    def accepts(self, path: Path) -> bool:
        """Return whether a path looks like this tool's."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield what a path holds. Raise SourceError if nothing of it can be read."""


SOURCE_MODULES = {
    "memsearch": "note_folders:MemsearchSource",
    "loop": "note_folders:LoopSource",
    "memd": "memory_stores:MemdSource",
    "claude-mem": "memory_stores:ClaudeMemSource",
    "mem0": "memory_stores:Mem0Source",
    "basic-memory": "note_folders:BasicMemorySource",
    "mcp-memory": "memory_stores:McpMemorySource",
    "claude-ai": "chats:ClaudeAiSource",
    "chatgpt": "chats:ChatGptSource",
    "rules": "note_folders:RulesSource",
    "obsidian": "note_folders:ObsidianSource",
    "letta": "chats:LettaSource",
}
"""Names of sources, and the module and class that reads each."""
_DETECTION_ORDER = (
    *("claude-mem", "mem0", "chatgpt", "claude-ai", "letta", "mcp-memory", "memd"),
    *("obsidian", "basic-memory", "memsearch", "loop", "rules"),
)


def open_source(name: str) -> ImportSource:
    """Return the source with a name. Raise UsageError if there is none."""
    if name not in SOURCE_MODULES:
        near = nearest_name(name, tuple(SOURCE_MODULES))
        raise UsageError(
            f"there is no import source {name!r}" + (f"; did you mean {near!r}?" if near else ""),
            hint=f"sources: {', '.join(SOURCE_MODULES)}; or name a file or folder",
        )
    module, _, kind = SOURCE_MODULES[name].partition(":")
    return cast("ImportSource", getattr(import_module(f"{__package__}.{module}"), kind)())


def detect_source(path: Path) -> ImportSource | None:
    """Return the source that a path looks like; None if none does."""
    return next((source for source in map(open_source, _DETECTION_ORDER) if source.accepts(path)), None)


def import_id(text: str) -> str:
    """Return the id of an imported text: its hash in the form of a UUID version 8."""
    digest = bytearray(hashlib.sha256(b"lorelog import\0" + text.strip().encode("utf-8", "replace")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def parse_time(value: object) -> datetime | None:
    """Return an ISO time, or a number of seconds or milliseconds, in local time; None for anything else or a future time."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MILLISECONDS else value
            time = datetime.fromtimestamp(seconds, UTC).astimezone()
        else:
            time = datetime.fromisoformat(str(value).strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return time if datetime(1971, 1, 1, tzinfo=UTC) < time <= datetime.now().astimezone() else None


def modification_time(path: Path) -> datetime | None:
    """Return when a file was last modified: its entries without a date are no newer."""
    try:
        return parse_time(path.stat().st_mtime)
    except OSError:
        return None


def clean_type(value: object) -> str:
    """Return a type in the form that journals accept; empty if nothing is left."""
    return _clean_word(value, _TYPE_CHARS, _MAX_TYPE_CHARS)


def clean_tags(*values: object) -> tuple[str, ...]:
    """Return tags in the form that journals accept, without repeats."""
    words = (_clean_word(value, _TAG_CHARS, _MAX_TAG_CHARS) for value in values)
    return tuple(dict.fromkeys(filter(None, words)))[:_MAX_TAGS]


def _clean_word(value: object, allowed: str, limit: int) -> str:
    if not isinstance(value, str):
        return ""
    kept = "".join(char if char.isalnum() or char == "_" or char in allowed else " " for char in value)
    return "-".join(kept.split()).strip("-.:/*@+")[:limit]


def first_text(values: Mapping[str, Any], *names: str) -> str:
    """Return the first text under one of these names, without white space around it; else an empty text."""
    return next((text for name in names if (text := text_of(values.get(name)))), "")


def text_of(value: object) -> str:
    """Return a value if it is text, without white space around it; else an empty text."""
    return value.strip() if isinstance(value, str) else ""


def list_of(value: object) -> list[Any]:
    """Return a value if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def object_of(value: object) -> dict[str, Any]:
    """Return a value if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def check_text(text: str) -> str:
    """Return why a text cannot be a memory; empty if it can."""
    if not text.strip():
        return "it has no text"
    if len(text) > MAX_ENTRY_CHARS:
        return f"it is longer than {MAX_ENTRY_CHARS:,} characters"
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        return "it is not plain text"
    return ""
