"""What is remembered about a file, for editors: the memories that name it or something in it.

A memory belongs to a definition or a file that it names as code; a word of prose is no name. Notes of turns are left out: they name every
file of a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import asdict

from lorelog.code.source import decode_source
from lorelog.core.document import StoredChunk
from lorelog.core.query import NO_LIFECYCLE_STATE, UNCHECKED_VERDICT, FreshnessVerdict
from lorelog.core.serializable import Serializable
from lorelog.retrieval.cache import ProcessCache
from lorelog.services.freshness.mentions import Mention, MentionKind, find_mentions
from lorelog.services.lines.attribution import MAX_FILE_BYTES, is_same_file
from lorelog.services.lines.explain import LineStatement, file_symbols, make_statement

_MAX_MEMORIES = 100
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


class FileMemories(Serializable, Struct, frozen=True, kw_only=True):
    """What is remembered about a file."""

    path: str
    memories: tuple[FileMemory, ...] = ()
    """Those about definitions and the file first, then the newest first."""


class MemorySources(Struct, frozen=True):
    """Where the answer's parts come from."""

    root: str
    memories: Sequence[StoredChunk]
    """The memories that are shown, newest first."""
    verdicts: Callable[[Sequence[StoredChunk]], Mapping[str, FreshnessVerdict]]
    with_origin: Callable[[StoredChunk], StoredChunk]


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
    for stored in sources.memories:
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
