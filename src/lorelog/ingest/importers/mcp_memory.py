"""Reads the file of the MCP memory server: entities with observations, and relations, one JSON object per line.

An entity is one entry, with its observations and relations: an observation alone does not name what it is about. The file has no dates, so
entries take the time of its last change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.export_files import file_head
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    list_of,
    modification_time,
    text_of,
)
from lorelog.ingest.transcripts.json_files import read_records
from lorelog.ingest.transcripts.turns import TranscriptStats

_NAMES = ("memory.jsonl", "memory.json")
_INSTALLED = "node_modules/@modelcontextprotocol/server-memory/dist"


class McpMemorySource:
    """The knowledge graph of the MCP memory server."""

    name = "mcp-memory"
    title = "MCP memory server"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield files where the server writes by default and where people put them."""
        folders = [places.project, places.home, places.project / _INSTALLED]
        folders += [path / _INSTALLED for path in sorted((places.home / ".npm" / "_npx").glob("*"))]
        for folder in folders:
            for name in _NAMES:
                if self.accepts(folder / name):
                    yield folder / name

    def accepts(self, path: Path) -> bool:
        """Return whether a file begins with an entity or a relation."""
        head = file_head(path)[:400].replace(" ", "")
        return head.startswith("{") and ('"type":"entity"' in head or '"type":"relation"' in head)

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield an entry for each entity. Relations may precede their entities, so the file is read whole."""
        stats = TranscriptStats()
        entities: dict[str, dict[str, Any]] = {}
        relations: dict[str, list[str]] = {}
        for number, record in enumerate(read_records(str(path), stats), 1):
            if record.get("type") == "entity":
                name = _first_text(record, "name", "entityName", "id")
                if not name:
                    yield SkippedItem(f"{path.name}, record {number}", "the entity has no name")
                    continue
                entities.setdefault(name, record)
            elif record.get("type") == "relation":
                source, target = _first_text(record, "from", "from_id"), _first_text(record, "to", "to_id")
                if source and target:
                    words = _first_text(record, "relationType", "relation_type") or "relates to"
                    relations.setdefault(source, []).append(f"- {words.replace('_', ' ')} {target}")
        if stats.broken or stats.skipped:
            yield SkippedItem(path.name, f"{stats.broken + stats.skipped:,} lines are not JSON objects")
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


def _first_text(record: dict[str, Any], *names: str) -> str:
    return next((text for name in names if (text := text_of(record.get(name)))), "")


SOURCE = McpMemorySource()
