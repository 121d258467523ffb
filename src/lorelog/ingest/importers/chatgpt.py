"""Reads the export of ChatGPT: `conversations.json`, or several numbered files, in a ZIP archive or a folder.

A conversation is a tree of messages, because answers can be regenerated. The branch that the person last saw is read. The shape is
that of the download; it is not documented by its maker. Conversations without a time take that of their earliest message.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.conversations import ChatHead, ChatMessage, read_turns
from lorelog.ingest.importers.export_files import base_name, is_zip, member_head, member_names, read_array
from lorelog.ingest.importers.source import (
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    list_of,
    object_of,
    parse_time,
    text_of,
)

_ROLES = {"user": True, "assistant": False}
_TEXT_TYPES = frozenset({"text", "multimodal_text", "code"})


class ChatGptSource:
    """The export of a ChatGPT account."""

    name = "chatgpt"
    title = "ChatGPT export"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield archives among the downloads that look like an export."""
        for path in sorted((places.home / "Downloads").glob("*.zip")):
            if path.is_file() and self.accepts(path):
                yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path has conversations with a `mapping`."""
        if not (path.is_dir() or is_zip(path) or path.suffix == ".json"):
            return False
        return any('"mapping"' in member_head(path, name) for name in _conversation_files(path)[:1])

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the turns of conversations."""
        for name in _conversation_files(path):
            for number, value in enumerate(read_array(path, name), 1):
                place = f"{name}, item {number}"
                if isinstance(value, SkippedItem):
                    yield value
                elif not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
                    yield SkippedItem(place, "it is not a conversation")
                else:
                    yield from _read_conversation(value, place)


def _conversation_files(path: Path) -> list[str]:
    if not path.is_dir() and not is_zip(path):
        return [path.name]
    return [name for name in member_names(path) if base_name(name).startswith("conversations")]


def _read_conversation(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    messages = list(_branch(value))
    times = [message.at for message in messages if message.at]
    at = parse_time(value.get("create_time")) or min(times, default=None) or parse_time(value.get("update_time"))
    identity = text_of(value.get("conversation_id")) or text_of(value.get("id"))
    yield from read_turns(ChatHead(text_of(value.get("title")), identity, at, place), messages)


def _branch(value: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield the messages of the branch that ends at the current node; without one, of the longest branch."""
    nodes = value["mapping"]
    name = value.get("current_node")
    if name not in nodes:
        leaves = [key for key, node in nodes.items() if not list_of(object_of(node).get("children"))]
        name = max(leaves, key=lambda leaf: len(_path_to(nodes, leaf)), default=None)
    for key in reversed(_path_to(nodes, name)):
        message = _read_message(object_of(object_of(nodes[key]).get("message")))
        if message is not None:
            yield message


def _path_to(nodes: dict[str, Any], name: object) -> list[str]:
    """Return the nodes from one up to the root. A node that is reached twice ends the path."""
    path: dict[str, None] = {}
    while isinstance(name, str) and name in nodes and name not in path:
        path[name] = None
        name = object_of(nodes[name]).get("parent")
    return list(path)


def _read_message(message: dict[str, Any]) -> ChatMessage | None:
    role = object_of(message.get("author")).get("role")
    metadata = object_of(message.get("metadata"))
    content = object_of(message.get("content"))
    if role not in _ROLES or metadata.get("is_visually_hidden_from_conversation"):
        return None
    if content.get("content_type", "text") not in _TEXT_TYPES:
        return None
    parts = [
        part if isinstance(part, str) else text_of(object_of(part).get("text"))
        for part in list_of(content.get("parts"))
    ]
    text = "\n\n".join(filter(None, map(str.strip, parts))) or text_of(content.get("text"))
    return ChatMessage(_ROLES[role], text, parse_time(message.get("create_time")), text_of(metadata.get("model_slug")))


SOURCE = ChatGptSource()
