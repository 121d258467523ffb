"""What is remembered about a file, for editors: the memories that name it or something in it, and what an edit of it runs against.

A memory belongs to a definition or a file that it names as code; a word of prose is no name. Notes of turns are left out: they name every
file of a session. Guards and rules are matched as for an edit of an agent, by the same files that hooks read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import asdict

from lorelog.code.source import decode_source
from lorelog.core.document import StoredChunk
from lorelog.core.query import NO_LIFECYCLE_STATE, UNCHECKED_VERDICT, FreshnessVerdict
from lorelog.core.serializable import Serializable
from lorelog.light.cue_table import match_cues
from lorelog.light.delivery_files import RULE_TYPES, STALE_VERDICTS, is_users_word, shorten_line
from lorelog.light.guard_check import find_matches, format_match
from lorelog.retrieval.cache import ProcessCache
from lorelog.services.freshness.mentions import Mention, MentionKind, find_mentions
from lorelog.services.lines.attribution import MAX_FILE_BYTES, is_same_file
from lorelog.services.lines.explain import LineStatement, file_symbols, make_statement

_MAX_MEMORIES, _MAX_TEXT_CHARS, _MAX_PLACED = 100, 400, 500
_MENTIONS: ProcessCache[tuple[Mention, ...]] = ProcessCache(8_192)


class FileMemory(LineStatement, frozen=True, kw_only=True):
    """A memory that names a file, or something in it."""

    source: str
    source_line: int
    """The memory's file, and its first line there."""
    names: tuple[str, ...]
    """What it names of the file, without the container."""
    lines: tuple[int, ...]
    """The definitions that it names; line 1 if it names the file; none if it names only what the file uses."""


class EditWarning(Serializable, Struct, frozen=True, kw_only=True):
    """A guard or a rule of the user that an edit runs against."""

    kind: str
    """`guard` or `rule`."""
    id: str
    text: str
    line: int
    """The first added line that it is about, from 0."""


class FileMemories(Serializable, Struct, frozen=True, kw_only=True):
    """What is remembered about a file, and what an edit of it runs against."""

    path: str
    memories: tuple[FileMemory, ...] = ()
    """Those about definitions and the file first, then the newest first."""
    warnings: tuple[EditWarning, ...] = ()


class MemorySources(Struct, frozen=True):
    """Where the answer's parts come from."""

    root: str
    memories: Callable[[], Sequence[StoredChunk]]
    """The memories that are shown, newest first."""
    verdicts: Callable[[Sequence[StoredChunk]], Mapping[str, FreshnessVerdict]]
    with_origin: Callable[[StoredChunk], StoredChunk]
    guards: Callable[[], Sequence[dict[str, Any]]]
    """The guards that are switched on."""
    cues: tuple[str, ...]


def find_memories(file: Path, sources: MemorySources) -> tuple[FileMemory, ...]:
    """Return the memories that name a file or something in it; none of a binary, generated or huge file."""
    if file.stat().st_size > MAX_FILE_BYTES:
        return ()
    decoded = decode_source(file.read_bytes(), "")
    if decoded.refusal:
        return ()
    path = file.relative_to(Path(sources.root).resolve()).as_posix()
    words = {*re.findall(r"[A-Za-z_$][\w$]*", decoded.source.decode("utf-8", "replace")), *re.findall(r"\w+", path)}
    symbols = [(f".{symbol.qualified_name}", symbol.name_line) for symbol in file_symbols(file)]
    found: list[tuple[StoredChunk, tuple[str, ...], tuple[int, ...]]] = []
    for stored in sources.memories():
        mentions = _MENTIONS.of_text(stored.chunk.text, find_mentions)
        named = list(_named(mentions, path, words))
        is_elsewhere = "" not in named and any(mention.kind is MentionKind.PATH for mention in mentions)
        if named:
            parts = [f".{name}" for name in named]
            lines = {line for symbol, line in symbols if not is_elsewhere and symbol.endswith(tuple(parts))}
            lines |= {1} if "" in named else set()
            found.append((stored, tuple(name.rpartition(".")[2] for name in named if name), tuple(sorted(lines))))
    found = sorted(found, key=lambda each: not each[2])[:_MAX_MEMORIES]
    verdicts = sources.verdicts([stored for stored, _, _ in found])
    memories = []
    for stored, names, places in found:
        verdict, chunk = verdicts.get(stored.id, UNCHECKED_VERDICT), sources.with_origin(stored).chunk
        statement = make_statement(stored.id, chunk, NO_LIFECYCLE_STATE, verdict)
        place = {"source": chunk.source, "source_line": chunk.start_line}
        memories.append(convert({**asdict(statement), **place, "names": names, "lines": places}, FileMemory))
    return tuple(memories)


def _named(mentions: Sequence[Mention], path: str, words: set[str]) -> Iterator[str]:
    """Yield the names of a file's words that a memory mentions, and an empty one for the file itself."""
    for mention in mentions:
        if mention.kind is MentionKind.PATH and is_same_file(mention.text, path):
            yield ""
        elif mention.kind is MentionKind.SYMBOL and words.issuperset(parts := mention.text.split(".")):
            inside = [part for part in parts if part not in path.replace(".", "/").split("/")]  # without the module
            yield ".".join(inside or parts)


def check_edit(file: Path, added: Sequence[str], sources: MemorySources) -> tuple[EditWarning, ...]:
    """Return the guards and rules that an edit of a file runs against, by the lines that it adds."""

    def call(content: str) -> dict[str, Any]:
        return {"tool": "Edit", "kind": "edit", "command": "", "paths": [str(file)], "content": content}

    whole, found = call("\n".join(added)), []
    for guard in find_matches(sources.guards(), whole, sources.root):
        placed = enumerate(added[:_MAX_PLACED] if guard["content"] else ())
        line = next((number for number, text in placed if find_matches([guard], call(text), sources.root)), 0)
        found.append(EditWarning(kind="guard", id=guard["id"], text=format_match(guard)["message"], line=line))
    for match in match_cues(sources.cues, whole, root=sources.root, moment="tool-before"):
        if is_users_word(match) and match.get("type") in RULE_TYPES and match.get("verdict") not in STALE_VERDICTS:
            value = str(match.get("cue", "")).partition("=")[2]
            line = next((number for number, text in enumerate(added) if value and value in text), 0)
            text = shorten_line(str(match["text"]), _MAX_TEXT_CHARS)
            found.append(EditWarning(kind="rule", id=str(match["id"]), text=text, line=line))
    return tuple(found)
