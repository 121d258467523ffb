"""Memories in the stores and exports of other tools: mem0, the MCP memory server, claude-mem and memd."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorelog.core.errors import SourceError
from lorelog.ingest.importers import export_files
from lorelog.ingest.importers.note_folders import matter_list, parse_matter
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    ImportSource,
    SkippedItem,
    check_text,
    clean_tags,
    clean_type,
    first_text,
    link_problem,
    list_of,
    modification_time,
    object_of,
    parse_time,
    text_of,
)
from lorelog.ingest.transcripts import json_files

_MEM0_ARRAYS = frozenset({"results", "memories", "data"})
_PLUGIN_HEAD = ("id:", "created_at:", "type:", "confidence:")
_RULE = "\n---\n"


class Mem0Source(ImportSource):
    """mem0: JSON of its platform or library, the Markdown that its plugin exports, and the library's `history.db`.

    The library keeps texts in a vector store of the user's choice, and every change of them in `history.db`. The newest change of each
    memory is its text; memories whose last change is a deletion are gone. Tested with JSON and a database made by mem0ai 2.2.1.
    """

    name = "mem0"
    title = "mem0"
    in_home = (".mem0/history.db", "Downloads/mem0-export-*.md")
    in_project = ("mem0-export-*.md",)

    def accepts(self, path: Path) -> bool:
        head = export_files.file_head(path)
        if head.startswith(json_files.SQLITE_MAGIC.decode()):
            return "history" in export_files.database_tables(path) and (
                path.parent.name == ".mem0" or "memory_id" in head
            )
        if path.name.startswith("mem0-export-") and path.suffix == ".md":
            return True
        return (
            head[:1] in "[{"
            and '"memory"' in head
            and any(word in head for word in ('"hash"', '"user_id"', '"agent_id"'))
        )

    def read(self, path: Path) -> Iterator[ImportedItem]:
        head = export_files.file_head(path)
        if head.startswith(json_files.SQLITE_MAGIC.decode()):
            yield from _read_history(path)
        elif head.startswith("["):
            yield from export_files.read_each(export_files.read_array(path, path.name), path.name, _read_object)
        elif head.startswith("{"):
            values = (value for _, value in export_files.read_named_arrays(path, _MEM0_ARRAYS))
            yield from export_files.read_each(values, path.name, _read_object)
        else:
            yield from _read_plugin_export(path)


def _read_object(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    yield _make_entry(value, first_text(value, "memory", "text", "data"), place)


def _make_entry(value: Mapping[str, Any], text: str, place: str) -> ImportedItem:
    if not text:
        return SkippedItem(place, "it has no text")
    metadata = object_of(value.get("metadata"))
    return ImportedEntry(
        text=text,
        kind="memory",
        place=place,
        type=clean_type(value.get("type") or metadata.get("type")) or "fact",
        tags=clean_tags(*list_of(value.get("categories")), metadata.get("category")),
        at=parse_time(value.get("created_at")) or parse_time(value.get("updated_at")),
        author=first_text(value, "agent_id", "actor_id", "user_id"),
        key=text_of(value.get("id")),
        project=text_of(metadata.get("project")) or text_of(value.get("project")),
    )


def _read_history(path: Path) -> Iterator[ImportedItem]:
    with json_files.open_database(str(path)) as connection:
        columns = json_files.table_columns(connection).get("history", frozenset())
        if not {"memory_id", "new_memory", "event"} <= columns:
            raise SourceError(f"{path} has no history of memories", hint="name the file history.db of mem0")
        optional = [
            name if name in columns else "NULL" for name in ("created_at", "updated_at", "actor_id", "is_deleted")
        ]
        rows = connection.execute(
            f"SELECT memory_id, new_memory, event, {', '.join(optional)} FROM history ORDER BY rowid"  # noqa: S608  (fixed names)
        )
        last: dict[str, tuple[Any, ...]] = {}
        first_time: dict[str, Any] = {}
        for row in rows:
            identity = str(row[0])
            first_time.setdefault(identity, row[3])
            last[identity] = row
    for identity, (_, text, event, created, updated, actor, is_deleted) in last.items():
        place = f"history.db, memory {identity}"
        if event == "DELETE" or is_deleted:
            yield SkippedItem(place, "it was deleted in mem0")
            continue
        value = {"id": identity, "created_at": first_time[identity] or created or updated, "actor_id": actor}
        yield _make_entry(value, text_of(text), place)


def _read_plugin_export(path: Path) -> Iterator[ImportedItem]:
    """Yield the blocks of the plugin's export: front matter and text, one after the other."""
    with json_files.open_stream(str(path)) as stream:
        export = stream.read().decode("utf-8", "replace").replace("\r\n", "\n")
    blocks: list[list[str]] = []
    for part in f"\n{export}\n".replace("\n---\n---\n", "\n---\n\n---\n").split(_RULE):
        if part.startswith(_PLUGIN_HEAD) and not (blocks and len(blocks[-1]) == 1):
            blocks.append([part])
        elif blocks:
            blocks[-1].append(part)
    for number, (matter, *bodies) in enumerate(blocks, 1):
        values = parse_matter(matter.split("\n"))
        files = [f"`{name}`" for name in matter_list(values.get("files"))]
        text = _RULE.join(bodies).strip()
        text = f"{text}\n\nFiles: {', '.join(files)}" if text and files else text
        values["categories"] = matter_list(values.get("categories"))
        yield _make_entry(values, text, f"{path.name}, block {number}")


_INSTALLED = "node_modules/@modelcontextprotocol/server-memory/dist"


class McpMemorySource(ImportSource):
    """File of the MCP memory server: entities with observations, and relations, one JSON object per line.

    An entity is one entry, with its observations and relations: an observation alone does not name what it is about. The file has no dates, so
    entries take the time of its last change. Tested with a file made by server-memory 2026.8.31.
    """

    name = "mcp-memory"
    title = "MCP memory server"
    in_project = ("memory.json*", f"{_INSTALLED}/memory.json*")
    in_home = ("memory.json*", f".npm/_npx/*/{_INSTALLED}/memory.json*")

    def accepts(self, path: Path) -> bool:
        if path.name.startswith("memory.json") and path.suffix not in {".json", ".jsonl"}:  # a copy
            return False
        head = export_files.file_head(path)[:400].replace(" ", "")
        return head.startswith("{") and ('"type":"entity"' in head or '"type":"relation"' in head)

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield an entry for each entity. Relations may precede their entities, so the file is read whole."""
        entities: dict[str, dict[str, Any]] = {}
        relations: dict[str, list[str]] = {}
        for place, record in export_files.read_lines(path):
            if isinstance(record, SkippedItem):
                yield record
            elif record.get("type") == "entity":
                if name := first_text(record, "name", "entityName", "id"):
                    entities.setdefault(name, record)
                else:
                    yield SkippedItem(place, "the entity has no name")
            elif record.get("type") == "relation":
                source, target = first_text(record, "from", "from_id"), first_text(record, "to", "to_id")
                if source and target:
                    words = first_text(record, "relationType", "relation_type") or "relates to"
                    relations.setdefault(source, []).append(f"- {words.replace('_', ' ')} {target}")
        at = modification_time(path)
        for name, record in entities.items():
            yield self._make_entry(name, record, relations.pop(name, []), path, at)
        for name in relations:
            yield SkippedItem(path.name, f"a relation names the entity {name!r}, which is not there")

    def _make_entry(self, name: str, record: dict[str, Any], relations: list[str], path: Path, at: Any) -> ImportedItem:
        kind = text_of(record.get("entityType"))
        lines = [f"- {text}" for item in list_of(record.get("observations")) if (text := text_of(item))]
        if not lines and not relations:
            return SkippedItem(f"{path.name}, entity {name}", "it has no observations")
        head = f"**{name}**" + (f" ({kind})" if kind else "")
        return ImportedEntry(
            text="\n".join((head, "", *lines, *relations)),
            kind="entity",
            place=f"{path.name}, entity {name}",
            type="fact",
            tags=clean_tags(kind),
            at=at,
            key=f"{path.name}#{name}",
        )


_TYPES = {"bugfix": "lesson", "discovery": "fact", "change": "fact", "refactor": "fact", "feature": "fact"}
_SENSITIVE_TYPES = frozenset({"sensitive"})
_TABLES = {"observations": "observation", "session_summaries": "session summary"}
_SUMMARY_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_MAX_FILES = 20


class ClaudeMemSource(ImportSource):
    """claude-mem: its SQLite database.

    Columns vary by version, so only those that are there are read. Observations are memories: they were written by a model, and keep
    its name as author. Session summaries are archive material. Prompts are left out: `lorelog backfill` reads the conversations
    themselves. Observations of the type `sensitive` are left out. Tested with a database made by claude-mem 13.25.3.
    """

    name = "claude-mem"
    title = "claude-mem"
    is_personal = False
    in_home = (".claude-mem/claude-mem.db",)

    def accepts(self, path: Path) -> bool:
        if (path / "claude-mem.db").is_file():
            return True
        return {"observations", "sdk_sessions"} <= export_files.database_tables(path)

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield observations and session summaries."""
        folder, path = path, path / "claude-mem.db" if path.is_dir() else path
        if problem := link_problem(path, folder):
            yield SkippedItem(path.name, problem)
            return
        yield from _read_database(path)


def _read_database(path: Path) -> Iterator[ImportedItem]:
    with json_files.open_database(str(path)) as connection:
        columns = json_files.table_columns(connection)
        if "observations" not in columns:
            raise SourceError(f"{path} has no observations", hint="name the file claude-mem.db of claude-mem")
        sessions: dict[str, str] = {}
        if {"memory_session_id", "content_session_id"} <= columns.get("sdk_sessions", frozenset()):
            rows = connection.execute("SELECT memory_session_id, content_session_id FROM sdk_sessions")
            sessions = {str(ours): str(theirs) for ours, theirs in rows if ours and theirs}
        for table, kind in _TABLES.items():
            for row in _rows(connection, table, columns.get(table, frozenset())):
                yield _read_row(row, kind, sessions)


def _rows(connection: sqlite3.Connection, table: str, columns: frozenset[str]) -> Iterator[dict[str, Any]]:
    if not columns:
        return
    names = sorted(name for name in columns if name.isidentifier())
    chosen = ", ".join(f'{json_files.bounded_column(f"{chr(34)}{name}{chr(34)}")} AS "{name}"' for name in names)
    order = "created_at_epoch, id" if {"created_at_epoch", "id"} <= columns else "rowid"
    for values in connection.execute(f'SELECT {chosen} FROM "{table}" ORDER BY {order}'):  # noqa: S608  (names of its own schema)
        yield dict(zip(names, values, strict=True))


def _read_row(row: Mapping[str, Any], kind: str, sessions: Mapping[str, str]) -> ImportedItem:
    place = f"{kind} {row.get('id', '?')}"
    if text_of(row.get("type")) in _SENSITIVE_TYPES:
        return SkippedItem(place, "claude-mem marked it as sensitive")
    is_observation = kind == "observation"
    parts = [(name, text_of(row.get(name))) for name in _SUMMARY_PARTS]
    summary = (f"**{name.replace('_', ' ').capitalize()}**\n\n{text}" for name, text in parts if text)
    text = _observation_text(row) if is_observation else "\n\n".join(summary)
    if not text:
        return SkippedItem(place, "it has no text")
    session = sessions.get(text_of(row.get("memory_session_id")), "")
    native = text_of(row.get("type"))
    concepts = _texts(row.get("concepts")) if is_observation else []
    return ImportedEntry(
        text=text,
        kind=kind,
        place=place,
        type=clean_type(_TYPES.get(native, native)) if is_observation else "",
        tags=clean_tags(native, *concepts),
        at=parse_time(row.get("created_at_epoch")) or parse_time(row.get("created_at")),
        author=first_text(row, "generated_by_model", "agent_type"),
        project=first_text(row, "merged_into_project", "project"),
        anchor=(("session", session),) if session else (),
        archive=not is_observation,
    )


def _observation_text(row: Mapping[str, Any]) -> str:
    title = text_of(row.get("title"))
    body = first_text(row, "narrative", "text", "subtitle")
    facts = [f"- {fact}" for fact in _texts(row.get("facts"))]
    files = [f"`{name}`" for name in _texts(row.get("files_modified"))[:_MAX_FILES]]
    if not (title or body or facts):
        return ""
    parts = [f"**{title}**" if title else "", body, "\n".join(facts), f"Files: {', '.join(files)}" if files else ""]
    return "\n\n".join(filter(None, parts))


def _texts(value: object) -> list[str]:
    """Return the texts of a list, or of a JSON array in a text."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [text for item in list_of(value) if (text := text_of(item))]


_INACTIVE_STATES = frozenset({"archived", "expired", "superseded", "deleted"})
_ADDING_TOOLS = frozenset({"memory.add", "memory.add_batch", "add"})


class MemdSource(ImportSource):
    """memd: Open Memory Format 1.0, and JSON lines of its batch files and search results.

    memd's own files are not read; `memd export-omf` writes OMF. Claims about lifecycle and trust cannot be checked and are left
    out. OMF documents of lorelog itself hold records too: `lorelog import FILE` reads those. Tested with the documented form.
    """

    name = "memd"
    title = "memd"
    is_personal = False
    in_home = (".memd/data",)

    def accepts(self, path: Path) -> bool:
        if path.is_dir():
            return ".memd" in path.parts[-2:]
        head = export_files.file_head(path)[:2_000]
        if not head.startswith("{"):
            return False
        return '"omf"' in head or ('"tool"' in head and '"memory.' in head) or '"chunk_id"' in head

    def read(self, path: Path) -> Iterator[ImportedItem]:
        if path.is_dir():
            raise SourceError(
                f"{path} holds memd's own files",
                hint="run 'memd export-omf --output memories.json', then 'lorelog import memd memories.json'",
            )
        if '"omf"' in export_files.file_head(path)[:2_000]:
            values = (value for _, value in export_files.read_named_arrays(path, {"memories"}))
            yield from export_files.read_each(values, path.name, _read_active_memory)
            return
        for place, record in export_files.read_lines(path):
            if isinstance(record, SkippedItem):
                yield record
                continue
            tool = first_text(record, "tool", "op")
            if tool and tool not in _ADDING_TOOLS:
                yield SkippedItem(place, f"{tool} adds no memory")
                continue
            arguments = object_of(record.get("arguments")) or object_of(record.get("params")) or record
            several = list_of(arguments.get("chunks")) or list_of(arguments.get("memories")) or [arguments]
            yield from export_files.read_each(several, place, _read_active_memory)


def _read_active_memory(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    entry = read_omf_memory(value, place)
    if isinstance(entry, ImportedEntry) and is_inactive(value):
        entry = SkippedItem(place, f"it is {text_of(value.get('status')).lower()} in memd")
    yield entry


def is_inactive(item: Mapping[str, Any]) -> bool:
    """Return whether the other program had archived, replaced or deleted a memory."""
    return str(item.get("status")).lower() in _INACTIVE_STATES


def read_omf_memory(item: Mapping[str, Any], place: str) -> ImportedEntry | SkippedItem:
    """Return the memory of an OMF item, or of an object with memd's names."""
    extensions = object_of(item.get("extensions"))
    theirs, ours = object_of(extensions.get("memd")), object_of(extensions.get("lorelog"))
    content = item.get("content") if isinstance(item.get("content"), str) else item.get("text")
    problem = check_text(content) if isinstance(content, str) else "it has no content"
    if problem:
        return SkippedItem(place, problem.replace("it has no text", "it has no content"))
    kind = ours.get("type") or theirs.get("chunk_type") or item.get("chunk_type") or item.get("type")
    times = (item.get("created_at"), item.get("timestamp_created"), theirs.get("created_at"), item.get("date"))
    return ImportedEntry(
        text=str(content),
        kind="memory",
        place=place,
        type=clean_type(kind),
        tags=clean_tags(*list_of(item.get("tags"))),
        at=next((time for value in times if value and (time := parse_time(value))), None),
        author=text_of(item.get("agent_id")) or text_of(theirs.get("agent_id")),
        project=text_of(item.get("project_id")) or text_of(theirs.get("project_id")),
    )
