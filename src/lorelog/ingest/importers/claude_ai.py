"""Reads the export of Claude.ai: conversations, projects and the memory it kept.

The shapes are those of the download that Claude.ai offers: `conversations.json`, `projects.json` and `memories.json`, in a ZIP
archive or a folder. They are not documented by their maker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.importers.conversations import ChatHead, ChatMessage, read_turns
from lorelog.ingest.importers.export_files import base_name, is_zip, member_head, member_names, read_array
from lorelog.ingest.importers.source import (
    ImportedEntry,
    ImportedItem,
    MachinePlaces,
    SkippedItem,
    list_of,
    object_of,
    parse_time,
    text_of,
)


class ClaudeAiSource:
    """The export of a Claude.ai account."""

    name = "claude-ai"
    title = "Claude.ai export"
    is_personal = True

    def find(self, places: MachinePlaces) -> Iterator[Path]:
        """Yield archives among the downloads that look like an export."""
        for path in sorted((places.home / "Downloads").glob("data-*batch-*.zip")):
            if self.accepts(path):
                yield path

    def accepts(self, path: Path) -> bool:
        """Return whether a path has conversations with `chat_messages`."""
        if not (path.is_dir() or is_zip(path) or path.suffix == ".json"):
            return False
        names = _conversation_files(path)
        return any('"chat_messages"' in member_head(path, name) for name in names[:1])

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the turns of conversations, the documents of projects, and the memory."""
        for name in member_names(path):
            base = base_name(name)
            if base.startswith("conversations") or not (path.is_dir() or is_zip(path)):
                yield from _each(path, name, _read_conversation)
            elif base.startswith("projects"):
                yield from _each(path, name, _read_project)
            elif base.startswith("memories"):
                yield from _each(path, name, _read_memory)


def _conversation_files(path: Path) -> list[str]:
    if not path.is_dir() and not is_zip(path):
        return [path.name]
    return [name for name in member_names(path) if base_name(name).startswith("conversations")]


def _each(path: Path, name: str, read: Any) -> Iterator[ImportedItem]:
    for number, value in enumerate(read_array(path, name), 1):
        if isinstance(value, SkippedItem):
            yield value
        elif not isinstance(value, dict):
            yield SkippedItem(f"{name}, item {number}", "it is not an object")
        else:
            yield from read(value, f"{name}, item {number}")


def _read_conversation(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    messages = value.get("chat_messages")
    if not isinstance(messages, list):
        yield SkippedItem(place, "it has no messages")
        return
    head = ChatHead(text_of(value.get("name")), text_of(value.get("uuid")), parse_time(value.get("created_at")), place)
    yield from read_turns(head, (_read_message(object_of(message)) for message in messages))


def _read_message(message: dict[str, Any]) -> ChatMessage:
    parts = [object_of(part) for part in list_of(message.get("content"))]
    text = "\n\n".join(filter(None, (text_of(part.get("text")) for part in parts if part.get("type") == "text")))
    attached = [object_of(part) for part in list_of(message.get("attachments"))]
    files = [f"[attached: {name}]" for part in attached if (name := text_of(part.get("file_name")))]
    return ChatMessage(
        message.get("sender") == "human",
        "\n\n".join(filter(None, (text or text_of(message.get("text")), *files))),
        parse_time(message.get("created_at")),
    )


def _read_project(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    name, at = text_of(value.get("name")), parse_time(value.get("created_at"))
    identity = text_of(value.get("uuid")) or name
    prompt = text_of(value.get("prompt_template"))
    if prompt:
        text = f"**Instructions of the project {name}**\n\n{prompt}"
        yield ImportedEntry(
            text=text, kind="project instructions", place=place, type="note", at=at, key=f"{identity}#prompt"
        )
    for document in map(object_of, list_of(value.get("docs"))):
        title, content = text_of(document.get("filename")), text_of(document.get("content"))
        if content:
            yield ImportedEntry(
                text=f"**{title}** (project {name})\n\n{content}",
                kind="project document",
                place=f"{place}: {title}",
                at=parse_time(document.get("created_at")) or at,
                key=f"{identity}#{title}",
                archive=True,
            )


def _read_memory(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    texts = {"conversations": text_of(value.get("conversations_memory"))}
    texts |= {f"project {name}": text_of(text) for name, text in object_of(value.get("project_memories")).items()}
    for name, text in texts.items():
        if text:
            yield ImportedEntry(text=text, kind="memory", place=f"{place}: {name}", type="note", key=f"memory#{name}")


SOURCE = ClaudeAiSource()
