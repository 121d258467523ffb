"""Writes the files that hooks read: the standing memories and the table of cues of each project.

`light.cue_table` reads the table, and says how it is sorted. A file is replaced only if its content changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.query import Freshness
from lorelog.light import cue_table
from lorelog.light.delivery_files import project_key
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import Cue, CueKind
from lorelog.services.standing.source import MAX_MEMORIES

MAX_STANDING = 2_000
_LAST_RANK = 999_999
_PATTERN_WORD = re.compile(r"[A-Za-z0-9_$]+")


class StandingMemory(Struct, frozen=True, kw_only=True):
    """A memory that may be delivered to an agent without a search."""

    id: str
    type: str
    text: str
    date: str
    origin: str
    source: str
    project: str
    own: bool
    is_standing: bool
    cues: tuple[Cue, ...]
    expires: str = ""
    verdict: str = Freshness.UNCHECKED.value
    unused: int = 0
    """Deliveries without a sign of use."""
    session: str = ""
    """The session that it was captured from."""

    def with_usage(self, verdict: str, unused: int) -> StandingMemory:
        """Return the memory with its freshness and its deliveries without a sign of use."""
        is_same = (self.verdict, self.unused) == (verdict, unused)
        return self if is_same else replace(self, verdict=verdict, unused=unused)

    def standing_line(self) -> dict[str, Any]:
        """Return its line of the standing file."""
        fields = {
            "id": self.id,
            "type": self.type,
            "text": self.text,
            "date": self.date,
            "origin": self.origin,
            "source": self.source,
            "verdict": self.verdict,
            "own": self.own,
            "cues": [str(cue) for cue in self.cues],
            "unused": self.unused,
        }
        return fields | {"expires": self.expires} if self.expires else fields

    def cue_entry(self) -> dict[str, Any]:
        """Return what the table of cues holds about it."""
        names = ("id", "type", "text", "date", "origin", "own")
        fields = {name: getattr(self, name) for name in names}
        drifted = self.verdict if self.verdict == Freshness.DRIFTED else ""
        optional = {"expires": self.expires, "verdict": drifted, "session": self.session}
        return fields | {name: value for name, value in optional.items() if value}


def write_projects(folder: Path, memories: Sequence[StandingMemory]) -> bool:
    by_project: dict[str, list[StandingMemory]] = {"": []}
    for memory in memories:
        by_project.setdefault(memory.project, []).append(memory)
    by_key = {project_key(project): members for project, members in by_project.items()}
    contents: dict[str, bytes] = {}
    for key, members in by_key.items():
        standing = [memory for memory in members if memory.is_standing][:MAX_STANDING]
        contents[f"{key}.standing.jsonl"] = "".join(map(_encode_standing, standing)).encode("utf-8", "replace")
        contents[f"{key}.cues"] = encode_cue_table(members)
    old = {path.name for pattern in ("*.standing.jsonl", "*.cues") for path in folder.glob(pattern)}
    # A project without memories keeps empty files: a hook may be reading them.
    changed = [replace_if_changed(folder / name, contents.get(name, b"")) for name in old | contents.keys()]
    return any(changed)


def replace_if_changed(path: Path, data: bytes) -> bool:
    try:
        if path.read_bytes() == data:
            return False
    except OSError:
        pass
    write_atomic(path, data, durable=False)
    return True


@lru_cache(maxsize=MAX_STANDING)
def _encode_standing(memory: StandingMemory) -> str:
    return json.dumps(memory.standing_line(), ensure_ascii=False) + "\n"


@lru_cache(maxsize=MAX_MEMORIES)
def _encode_cues(memory: StandingMemory, rank: str) -> tuple[tuple[str, tuple[str, str, bytes]], ...]:
    """Return the lines of a memory in the table of cues, each with the name that its symbol or error is listed under."""
    entry = json.dumps(memory.cue_entry(), ensure_ascii=False)
    lines = [(*_table_key(cue), _hint(cue), cue.value) for cue in memory.cues]
    return tuple(
        (kind + key, _encode_line(kind + key, hint, rank, value, entry)) for kind, key, hint, value in lines if kind
    )


def encode_cue_table(memories: Sequence[StandingMemory]) -> bytes:
    """Return the table of cues for memories in the order newest first."""
    lines: list[tuple[str, str, bytes]] = []
    names: dict[str, set[str]] = {cue_table.SYMBOL: set(), cue_table.ERROR: set()}
    # Ranks count from the oldest memory, so that a new one does not change the lines of the others.
    for number, memory in enumerate(memories, _LAST_RANK - len(memories) + 1):
        for name, line in _encode_cues(memory, f"{0 if memory.own else 1}{number:06}"):
            if name[0] in names:
                names[name[0]].add(name[1:])
            lines.append(line)
    for kind, label in ((cue_table.SYMBOL, cue_table.SYMBOL_NAMES), (cue_table.ERROR, cue_table.ERROR_WORDS)):
        if names[kind]:
            lines.append(_encode_line(label, "", "0", " ".join(sorted(names[kind])), "{}"))
    return _join_lines(lines)


def _hint(cue: Cue) -> str:
    """Return the longest fixed text that everything matched by a cue contains; empty if there is none."""
    if cue.kind is CueKind.COMMAND and not has_wildcard(cue.value):
        return max((word for word in cue.value.split() if not word.startswith("-")), key=len, default="")
    if cue.kind in (CueKind.PATH, CueKind.COMMAND, CueKind.ERROR):
        pieces = re.split(r"[*?]+", cue.value)
        return max((piece.strip("/ ") for piece in pieces), key=len)
    return ""


def _table_key(cue: Cue) -> tuple[str, str]:
    """Return the kind of line and the key under which a call finds a cue; no kind for topics."""
    if cue.kind is CueKind.PATH:
        return _path_key(cue.value)
    if cue.kind is CueKind.COMMAND:
        first = cue.value.split()[0]
        return cue_table.COMMAND, "" if has_wildcard(first) else first
    if cue.kind is CueKind.SYMBOL:
        return cue_table.SYMBOL, max(cue.value.split("."), key=len)
    if cue.kind is CueKind.ERROR:
        whole = [
            match[0]
            for match in _PATTERN_WORD.finditer(cue.value)
            if not has_wildcard(cue.value[max(0, match.start() - 1) : match.end() + 1])
        ]
        return cue_table.ERROR, max(whole, key=len, default="")
    simple = {CueKind.EVENT: cue_table.EVENT, CueKind.DAY: cue_table.DAY}
    return simple.get(cue.kind, ""), cue.value


def _path_key(pattern: str) -> tuple[str, str]:
    """Return a name that every matching path contains, or else the suffix that it has."""
    parts = pattern.strip("/").split("/")
    literal = [part for part in parts if part and not has_wildcard(part)]
    if literal:
        return cue_table.PATH, literal[-1] if literal[-1] == parts[-1] else max(literal, key=len)
    suffix = cue_table.extension_of(f"x{parts[-1]}")
    if suffix and not has_wildcard(suffix):
        return cue_table.EXTENSION, suffix
    return cue_table.PATH, ""


def _encode_line(key: str, hint: str, rank: str, value: str, entry: str) -> tuple[str, str, bytes]:
    """Return the escaped key, the hint and the bytes of a line, for `_join_lines`."""
    key = cue_table.escape_key(key)
    return key, hint, f"{key}\t{hint}\t{rank}\t{value}\t{entry}\n".encode("utf-8", "replace")


def _join_lines(lines: Iterable[tuple[str, str, bytes]]) -> bytes:
    """Return the bytes of a table with these lines."""
    by_key: dict[str, set[str]] = {}
    encoded: set[bytes] = set()
    for key, hint, line in lines:
        by_key.setdefault(key, set()).add(hint)
        encoded.add(line)
    if len(encoded) > cue_table.MAX_UNLISTED:
        for key, hints in by_key.items():
            listed = cue_table.HINT_SEPARATOR.join(sorted(hints))
            encoded.add(f"{key}\t{cue_table.HINT_LIST.decode()}\t0\t{listed}\t{{}}\n".encode("utf-8", "replace"))
    return b"".join(sorted(encoded))
