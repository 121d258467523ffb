"""File formats of exported memories and records: Markdown, JSON lines and Open Memory Format.

JSON lines: one record each, without its position in the ledger. Lines of a ledger's own files are accepted as well;
their position is ignored, and their hash only reveals that a line was changed.

OMF 1.0, as memd reads and writes it (https://fmschulz.github.io/memd/omf/): a document with `memories`, each a text
with tags and a time. The whole record is under `extensions.lorelog`. Of other programs' documents only text, type and
tags are imported: their claims about lifecycle and trust cannot be checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from pathlib import Path, PurePath
from typing import IO, Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from lorelog.core import VERSION
from lorelog.core.atomic_file import read_bounded_lines
from lorelog.core.document import DATE_OF_FILE, GLOBAL_PROJECT, StoredChunk
from lorelog.core.errors import LorelogError, UsageError, nearest_name
from lorelog.core.paths import is_below
from lorelog.core.ports import group_by
from lorelog.core.record import Record, RecordDraft
from lorelog.ingest.importers.memory_stores import is_inactive, read_omf_memory
from lorelog.ingest.importers.source import ImportedEntry, SkippedItem, object_of, text_of
from lorelog.ingest.transcripts.json_files import read_members
from lorelog.ingest.transcripts.turns import TranscriptStats
from lorelog.records import chain as ledger_chain
from lorelog.records.kinds import REDACTED_KEY, search_text
from lorelog.records.ledger import utc_time

_REQUIRED_FIELDS = ("id", "at", "kind")
_TEXT_FIELDS = (*_REQUIRED_FIELDS, *ledger_chain.TEXT_FIELDS)
_LEDGER_FIELDS = ("#", "v", "seq", "prev", "more", REDACTED_KEY)
UNVERIFIED_FIELD = "unverified"
"""Marks a record after a break in its ledger's hash chain; it is not restored as one's own backup."""
MAX_LINE_BYTES = 2 * ledger_chain.MAX_RECORD_BYTES


ExportedMemory = tuple[StoredChunk, str]
"""A memory, and its whole text."""


class ImportItem(Struct, frozen=True, kw_only=True):
    """One record or memory of a file, or the reason why it cannot be read."""

    place: int
    """Line number; in an OMF document, the number of the item."""
    draft: RecordDraft | None = None
    memory: ImportedEntry | None = None
    """Without claims about its author, project and trust."""
    problem: str = ""
    unverified: bool = False
    redacted: bool = False
    """Whether its texts had been replaced by their hashes."""
    archived: bool = False
    """Whether the other program had archived it."""


def record_to_json(record: Record) -> dict[str, Any]:
    """Return a record as JSON, without empty fields."""
    values = ledger_chain.content_values(record)
    if not record.verified:
        values[UNVERIFIED_FIELD] = True
    if record.redacted:
        values[REDACTED_KEY] = record.hash
    return values


def draft_from_json(values: object) -> RecordDraft:
    """Return the draft of a record from its JSON. Raise UsageError for any other shape."""
    if not isinstance(values, Mapping):
        raise UsageError("it is not a JSON object")
    for name in values:
        if name not in (*_TEXT_FIELDS, *_LEDGER_FIELDS, "supports_claim", "fields", UNVERIFIED_FIELD):
            near = nearest_name(str(name), _TEXT_FIELDS)
            raise UsageError(
                f"a record has no field {str(name)[:100]!r}" + (f"; did you mean {near!r}?" if near else "")
            )
    if values.get("v") != ledger_chain.LINE_FORMAT_VERSION:
        raise UsageError(f"its format is {str(values.get('v'))[:20]!r}, not {ledger_chain.LINE_FORMAT_VERSION}")
    if missing := [name for name in _REQUIRED_FIELDS if not values.get(name)]:
        raise UsageError(f"{missing[0]!r} is missing")
    try:
        convert(values, ledger_chain.LINE_SHAPE)
    except ValidationError as error:
        raise UsageError(f"a value has the wrong type: {error}") from error
    return RecordDraft(**{name: values[name] for name in (*_TEXT_FIELDS, "supports_claim", "fields") if name in values})


def write_jsonl(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as JSON lines."""
    return (encode_compact_json(record_to_json(record)) + "\n" for record in records)


def read_jsonl(stream: IO[bytes]) -> Iterator[ImportItem]:
    """Yield the records of a file of JSON lines, including the unreadable ones."""
    return (parse_import_line(place, line) for place, line in read_bounded_lines(stream, MAX_LINE_BYTES))


def parse_import_line(place: int, text: bytes) -> ImportItem:
    """Return the record of a JSON line, or its problem."""
    if len(text) > MAX_LINE_BYTES:
        return ImportItem(place=place, problem=f"it is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        values = json.loads(text)
        line = ledger_chain.decode_line(text.strip()) if isinstance(values, dict) and "#" in values else None
    except LorelogError as error:
        return ImportItem(place=place, problem=error.message)
    except (ValueError, RecursionError):
        return ImportItem(place=place, problem="it is not valid JSON")
    if isinstance(values, dict) and "#" in values and (line is None or not line.is_intact):
        return ImportItem(place=place, problem="it was changed after it was written")
    return _parse_item(place, values)


def _parse_item(place: int, values: Any) -> ImportItem:
    """Return the record of a JSON value, or the memory of a line of `lorelog export`."""
    item = values.get("item") if isinstance(values, dict) else ""
    if item == "memory":
        memory = values | {"content": values.get("text"), "created_at": values.get("date")}
        return _parse_omf_memory(place, memory, values)
    values = values.get("record") if item == "record" else values
    try:
        draft = draft_from_json(values)
    except LorelogError as error:
        return ImportItem(place=place, problem=error.message)
    unverified, redacted = values.get(UNVERIFIED_FIELD) is True, REDACTED_KEY in values
    return ImportItem(place=place, draft=draft, unverified=unverified, redacted=redacted)


def encode_compact_json(values: Mapping[str, Any]) -> str:
    """Return JSON in the canonical form of the ledger."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


OMF_VERSION = "1.0"
EXTENSION_KEY = "lorelog"
_EXTENSION_VERSION = 1


def write_omf(records: Iterable[Record], memories: Iterable[ExportedMemory] = ()) -> Iterator[str]:
    """Yield an OMF document, one item per line."""
    source = encode_compact_json({"app": EXTENSION_KEY, "version": VERSION})
    yield f'{{"omf":"{OMF_VERSION}","exported_at":"{utc_time("seconds")}","source":{source},"memories":['
    separator = "\n"
    for item in chain(map(_record_to_omf, records), map(_memory_to_omf, memories)):
        yield separator + encode_compact_json({name: value for name, value in item.items() if value})
        separator = ",\n"
    yield "\n]}\n"


def read_omf(path: str) -> Iterator[ImportItem]:
    """Yield the items of an OMF document. Raise UsageError at the end if the document has another format."""
    tally = TranscriptStats()
    version: object = None
    place = 0
    for name, value in read_members(path, frozenset({"memories"}), tally):
        version = value if name == "omf" else version
        if name != "memories":
            continue
        place += 1
        ours = object_of(object_of(object_of(value).get("extensions")).get(EXTENSION_KEY))
        if not isinstance(value, dict):
            yield ImportItem(place=place, problem="it is not an object")
        elif "record" not in ours:
            yield _parse_omf_memory(place, value, ours)
        elif ours.get("v") != _EXTENSION_VERSION:
            yield ImportItem(place=place, problem=f"its record has the unknown format {str(ours.get('v'))[:20]!r}")
        else:
            yield _parse_item(place, ours["record"])
    if tally.broken:
        yield ImportItem(place=place + 1, problem="the document ends here unexpectedly")
    elif version != OMF_VERSION:
        raise UsageError(
            f"{path} is not an OMF {OMF_VERSION} document", hint='it begins {"omf": "1.0", …, "memories": […]}'
        )


def _record_to_omf(record: Record) -> dict[str, Any]:
    tags = dict.fromkeys(filter(None, (record.kind, record.status, record.text("challenge_id"))))
    return {
        "content": search_text(record),
        "category": PurePath(record.project).name,
        "tags": list(tags),
        "created_at": record.at,
        "extensions": {EXTENSION_KEY: {"v": _EXTENSION_VERSION, "record": record_to_json(record)}},
    }


def _memory_to_omf(memory: ExportedMemory) -> dict[str, Any]:
    (stored, text), chunk = memory, memory[0].chunk
    ours = {"v": _EXTENSION_VERSION, "memory": chunk.memory, "type": chunk.type, "project": stored.project}
    return {
        "content": text,
        "category": PurePath(stored.project).name,
        "tags": list(chunk.tags),
        "created_at": chunk.date,
        "extensions": {EXTENSION_KEY: ours},
    }


def _parse_omf_memory(place: int, item: Mapping[str, Any], ours: Mapping[str, Any]) -> ImportItem:
    entry = read_omf_memory({**item, "extensions": {**object_of(item.get("extensions")), EXTENSION_KEY: ours}}, "")
    if isinstance(entry, SkippedItem):
        return ImportItem(place=place, problem=entry.reason)
    shown = repr(entry.text[:60])
    memory = replace(entry, place=shown, author="", project="", known_id=text_of(ours.get("memory")))
    return ImportItem(place=place, memory=memory, archived=is_inactive(item))


_LEADING_MARKS = re.compile(r"\A(?:#{1,6} [^\n]*\n)?(?:\s*<!--.*?-->[ \t]*\n?)*", re.DOTALL)
"""The heading of a memory and the comments below it."""


def exported_projects(visible: Iterable[str], *, all_projects: bool, with_global: bool) -> tuple[str, ...] | None:
    """Return the projects to export; None for all. Global memories are private notes of a person: they are left out unless asked for."""
    if all_projects:
        return None
    return tuple(project for project in dict.fromkeys(visible) if with_global or project != GLOBAL_PROJECT)


def export_jsonl(memories: Iterable[ExportedMemory], records: Iterable[Record]) -> Iterator[str]:
    """Yield one line per memory, then one per record."""
    for memory, text in memories:
        chunk = memory.chunk
        values = {
            "item": "memory",
            "memory": chunk.memory,
            "id": memory.id,
            "text": text,
            "type": chunk.type,
            "tags": list(chunk.tags),
            "date": chunk.date,
            "origin": chunk.anchor.origin if chunk.anchor else "",
            "project": memory.project,
            "source": chunk.source,
            "line": chunk.start_line,
        }
        yield json.dumps(values, ensure_ascii=False) + "\n"
    for record in records:
        yield json.dumps({"item": "record", "record": record_to_json(record)}, ensure_ascii=False) + "\n"


def export_markdown(memories: Iterable[ExportedMemory]) -> Iterator[str]:
    """Yield the memories of each project, newest first and undated ones last, under headings for project, day and time."""
    by_project = group_by(memories, lambda exported: exported[0].project)
    for project in sorted(by_project):
        yield f"# {project if project != GLOBAL_PROJECT else 'Global'}\n\n"
        last = "none yet"
        dated = [(memory.chunk.date_source == DATE_OF_FILE, memory, text) for memory, text in by_project[project]]
        for is_undated, memory, text in sorted(dated, key=itemgetter(0)):
            day, _, time = ("" if is_undated else memory.chunk.date).partition("T")
            if day != last:
                yield f"## {day or 'Without a date'}\n\n"
                last = day
            details = [memory.chunk.type, *(f"#{tag}" for tag in memory.chunk.tags)]
            title = " ".join(filter(None, (time, *details))) or memory.chunk.heading or memory.id
            yield f"### {title}\n\n{text}\n\n"


def read_memories(memories: Iterable[StoredChunk], read_text: Callable[[str], str]) -> Iterator[ExportedMemory]:
    """Yield memories with their whole texts, without headings and comments; empty ones are omitted."""
    for memory in memories:
        try:
            text = read_text(memory.id)
        except LorelogError:  # its file is gone; the index still has its beginning
            text = memory.chunk.content
        if text := _LEADING_MARKS.sub("", text, count=1).strip():
            yield memory, text


def journal_memories(memories: Iterable[StoredChunk], pages: Path) -> tuple[StoredChunk, ...]:
    """Return the memories of journals, without record pages."""
    return tuple(each for each in memories if each.chunk.memory and not is_below(each.chunk.source, str(pages)))
