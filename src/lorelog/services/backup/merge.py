"""Merge files of a backup into those that are here: nothing twice, nothing lost, what is here wins.

Pure functions over texts and bytes, except for the merge of databases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from lorelog.core.dataclasses import dataclass
from lorelog.core.options import ChunkOptions
from lorelog.core.patterns import lazy_pattern
from lorelog.core.sqlite_file import connect, transaction
from lorelog.ingest.markdown import chunk_markdown
from lorelog.ingest.outline import read_outline
from lorelog.services.memory_state.tombstones import Tombstones, deletion_keys

_ENTRY_LEVEL = 3
_MEMORY_ID = lazy_pattern(r"<!--[^>]*?\bmemory:([^\s<>]+)")
_TITLE = lazy_pattern(r"\A\s*# [^\n]*\n?")


@dataclass(frozen=True, slots=True)
class ForgottenMemories:
    """What was taken out for good here: deletion keys, and ids of memories and chunks."""

    keys: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of_tenant(cls, folder: Path) -> ForgottenMemories:
        """Read the tombstones of a tenant. A deleted memory is only hidden; its text may come back, still hidden."""
        stones = [stone for stone in Tombstones(folder / "tombstones.jsonl").all() if stone.forgotten]
        names = {name for stone in stones for name in (stone.memory, *stone.ids) if name}
        return cls(frozenset(stone.key for stone in stones), frozenset(names))

    def names_any(self, text: bytes) -> bool:
        """Return whether a line names a forgotten memory."""
        return any(name.encode() in text for name in self.ids)


@dataclass(frozen=True, slots=True)
class JournalSection:
    """An entry of a journal: its text, the id of its memory if it has one, and a hash of its text without white space."""

    text: str
    memory: str
    digest: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class MergedText:
    """The merged content of a file, and what was done."""

    content: bytes
    added: int = 0
    forgotten: int = 0
    """Entries that are left out because they were forgotten here."""
    different: tuple[str, ...] = ()
    """Memories whose text here is another; it is kept."""


def read_entries(text: str) -> list[JournalSection]:
    """Return the entries of a journal, in order; text before the first one counts as an entry unless it is a title."""
    outline = read_outline(text)
    starts = [heading.first for heading in outline.headings if heading.level <= _ENTRY_LEVEL]
    starts = [first for first in starts if outline.lines[first].startswith("### ")] if starts else []
    bounds = [0, *starts, len(outline.lines)]
    sections = []
    for first, end in pairwise(bounds):
        body = "\n".join(outline.lines[first:end])
        if first == 0 and 0 not in starts:
            body = _TITLE.sub("", body, count=1)
        if body.strip():
            found = _MEMORY_ID.search(body)
            digest = hashlib.sha256("".join(body.split()).encode("utf-8", "replace")).hexdigest()
            sections.append(JournalSection(body.strip("\n"), found[1] if found else "", digest, first + 1, end))
    return sections


def merge_journal(
    here: bytes | None,
    backup: bytes,
    *,
    source: str,
    projects: Collection[str],
    present: Collection[str],
    forgotten: ForgottenMemories,
) -> MergedText:
    """Append the entries of a backup that are missing here. `present` are ids and digests of entries of this folder.

    `projects` are the names of the project, which the deletion keys of sections without an id depend on.
    """
    text = backup.decode("utf-8", "replace")
    sections = read_entries(text)
    gone = forgotten_lines(text, source, projects, forgotten) if forgotten.keys else set()
    wanted = [
        section
        for section in sections
        if section.memory not in forgotten.ids and not gone & set(range(section.first_line, section.last_line + 1))
    ]
    skipped = len(sections) - len(wanted)
    own = {section.memory: section.digest for section in read_entries((here or b"").decode("utf-8", "replace"))}
    known = {*present, *own, *own.values()}
    fresh = [
        section for section in wanted if (section.memory or section.digest) not in known and section.digest not in known
    ]
    different = tuple(
        section.memory
        for section in wanted
        if section.memory in own and own[section.memory] != section.digest and section.memory
    )
    if here is None and not skipped and len(fresh) == len(sections):
        return MergedText(backup, len(fresh))
    if not fresh:
        return MergedText(here if here is not None else b"", 0, skipped, different)
    title = _TITLE.match(text)
    before = here if here is not None else (title[0] if title else "").encode()
    parts = b"\n\n".join(section.text.encode("utf-8", "replace") for section in fresh)
    separator = b"\n\n" if before.strip() else b""
    return MergedText(before.rstrip(b"\n") + separator + parts + b"\n", len(fresh), skipped, different)


def forgotten_lines(text: str, source: str, projects: Collection[str], forgotten: ForgottenMemories) -> set[int]:
    """Return the lines of sections that were forgotten here."""
    chunks = chunk_markdown(text, source, ChunkOptions()).chunks
    return {
        line
        for project in projects
        for chunk, key in zip(chunks, deletion_keys(chunks, project), strict=True)
        if key in forgotten.keys
        for line in range(chunk.start_line, chunk.end_line + 1)
    }


def merge_lines(here: bytes | None, backup: bytes, forgotten: ForgottenMemories) -> MergedText:
    """Put the lines of a backup that are missing here before those that are here: the last line about a thing counts."""
    own = (here or b"").splitlines(keepends=True)
    known = {line.rstrip(b"\n") for line in own}
    lines = [line.rstrip(b"\n") for line in backup.splitlines() if line.strip()]
    missing = [line for line in dict.fromkeys(lines) if line not in known]
    fresh = [line for line in missing if not forgotten.names_any(line)]
    content = b"".join(line + b"\n" for line in fresh) + b"".join(own)
    return MergedText(content, len(fresh), len(missing) - len(fresh))


def merge_captures(target: Path, backup: Path) -> int:
    """Add the rows of another database of captures that are missing, in one transaction; return how many."""
    with closing(connect(target)) as database:
        database.execute("ATTACH ? AS other", (str(backup),))
        before = database.total_changes
        with transaction(database):
            tables = [row[0] for row in database.execute("SELECT name FROM other.sqlite_master WHERE type = 'table'")]
            here = {row[0] for row in database.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
            for table in tables:
                if table in here and table.isidentifier():
                    database.execute(f'INSERT OR IGNORE INTO main."{table}" SELECT * FROM other."{table}"')  # noqa: S608
        return database.total_changes - before
