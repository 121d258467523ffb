"""Reads agent files of Letta (`.af`): the blocks that an agent keeps in its context, and its conversation.

From the documented schema. Archival passages are not part of an agent file. System prompts and tools are not memory and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.conversations import ChatHead, ChatMessage, read_turns
from lorelog.ingest.importers.export_files import file_head, read_small_json
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    clean_tags,
    list_of,
    modification_time,
    object_of,
    parse_time,
    text_of,
)

_MAX_BYTES = 256 * 1024 * 1024
_ROLES = {"user": True, "assistant": False}


class LettaSource:
    """An agent file."""

    name = "letta"
    title = "Letta agent file"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield agent files in the project and among the downloads."""
        for folder in (places.project, places.home / "Downloads"):
            yield from sorted(path for path in folder.glob("*.af") if self.accepts(path))

    def accepts(self, path: Path) -> bool:
        """Return whether a path is an agent file."""
        return path.suffix == ".af" and file_head(path).startswith("{")

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield blocks as memories and messages as archive."""
        document = object_of(read_small_json(path, _MAX_BYTES))
        agents = [object_of(agent) for agent in list_of(document.get("agents"))] or [document]
        at = parse_time(document.get("created_at")) or modification_time(path)
        owners = {
            block: text_of(agent.get("name"))
            for agent in agents
            for block in list_of(agent.get("block_ids"))
            if isinstance(block, str)
        }
        blocks = [*list_of(document.get("blocks")), *(b for agent in agents for b in list_of(agent.get("core_memory")))]
        for number, block in enumerate(map(object_of, blocks), 1):
            yield _read_block(block, f"{path.name}, block {number}", owners, at)
        for agent in agents:
            yield from _read_messages(agent, path, at)


def _read_block(block: dict[str, Any], place: str, owners: dict[str, str], at: Any) -> ImportedItem:
    label, value = text_of(block.get("label")), text_of(block.get("value"))
    if not value:
        return SkippedItem(place, "the block is empty")
    description = text_of(block.get("description"))
    head = f"**{label}**" + (f": {description}" if description else "")
    return ImportedEntry(
        text=f"{head}\n\n{value}" if label else value,
        kind="block",
        place=f"{place} ({label})" if label else place,
        type="note",
        tags=clean_tags(label),
        at=at,
        author=owners.get(text_of(block.get("id")), ""),
        key=f"block#{text_of(block.get('id')) or label}",
    )


def _read_messages(agent: dict[str, Any], path: Path, at: Any) -> Iterator[ImportedItem]:
    name = text_of(agent.get("name"))
    messages = [
        ChatMessage(_ROLES[message["role"]], _message_text(message), parse_time(message.get("created_at")), name)
        for message in map(object_of, list_of(agent.get("messages")))
        if message.get("role") in _ROLES
    ]
    yield from read_turns(ChatHead(name, text_of(agent.get("id")), at, f"{path.name}, {name or 'agent'}"), messages)


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [object_of(part) for part in list_of(content)]
    return "\n\n".join(
        filter(None, (text_of(part.get("text")) for part in parts if part.get("type", "text") == "text"))
    )


SOURCE = LettaSource()
