"""Conversations from exports of ChatGPT, Claude.ai and agent files of Letta: each turn becomes an entry.

A long turn is cut. Exports are ZIP archives or folders; of a conversation with several branches the one that the person saw last is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct

from lorelog.ingest.importers import export_files
from lorelog.ingest.importers.source import (
    MAX_ENTRY_CHARS,
    ImportedEntry,
    ImportedItem,
    ImportSource,
    SkippedItem,
    clean_tags,
    first_text,
    list_of,
    modification_time,
    object_of,
    parse_time,
    text_of,
)
from lorelog.light.spool import is_off_record

_CUT = "\n\n[cut here: the turn is longer than an entry can be]"


class ChatMessage(Struct, frozen=True):
    is_user: bool
    text: str
    at: datetime | None
    author: str = ""


class ChatHead(Struct, frozen=True):
    """What all turns of a conversation share."""

    title: str
    identity: str
    at: datetime | None
    place: str
    tags: tuple[str, ...] = ()


def read_turns(head: ChatHead, messages: Iterable[ChatMessage]) -> Iterator[ImportedEntry]:
    """Yield an entry for each turn that is on the record. It begins with the title: a turn alone seldom says what it is about."""
    turn: list[ChatMessage] = []
    number = 0
    for message in (*takewhile(lambda each: not (each.is_user and is_off_record(each.text)), messages), None):
        if turn and (message is None or (message.is_user and not all(earlier.is_user for earlier in turn))):
            number += 1
            yield _make_entry(head, turn, number)
            turn = []
        if message is not None and message.text.strip():
            turn.append(message)


def _make_entry(head: ChatHead, turn: list[ChatMessage], number: int) -> ImportedEntry:
    lines = [f"**{head.title}**"] if head.title else []
    lines += [f"{'User' if message.is_user else 'Assistant'}: {message.text.strip()}" for message in turn]
    text = "\n\n".join(lines)
    if len(text) > MAX_ENTRY_CHARS:
        text = text[: MAX_ENTRY_CHARS - len(_CUT)] + _CUT
    answers = (message.author for message in turn if not message.is_user and message.author)
    return ImportedEntry(
        text=text,
        kind="turn",
        place=f"{head.place}, turn {number}",
        tags=clean_tags("conversation", *head.tags),
        at=next((message.at for message in turn if message.at), head.at),
        author=next(answers, ""),
        anchor=(("conversation", head.identity),) if head.identity else (),
        archive=True,
    )


_ROLES = {"user": True, "assistant": False}
_TEXT_TYPES = frozenset({"text", "multimodal_text", "code"})


class ChatGptSource(ImportSource):
    """Export of ChatGPT: `conversations.json`, or several numbered files, in a ZIP archive or a folder.

    A conversation is a tree of messages, because answers can be regenerated. The branch that the person last saw is read. The shape is
    that of the download. Conversations without a time take that of their earliest message.
    Tested with files in the form of the download, which is not documented.
    """

    name = "chatgpt"
    title = "ChatGPT export"
    in_home = ("Downloads/*.zip",)

    def accepts(self, path: Path) -> bool:
        return _has_conversations(path, "mapping")

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the turns of conversations."""
        for name in _conversation_files(path):
            yield from export_files.read_each(export_files.read_array(path, name), name, _read_chatgpt_conversation)


def _has_conversations(path: Path, member: str) -> bool:
    is_export = path.is_dir() or export_files.is_zip(path) or path.suffix == ".json"
    names = _conversation_files(path)[:1] if is_export else []
    return any(f'"{member}"' in export_files.member_head(path, name) for name in names)


def _conversation_files(path: Path) -> list[str]:
    if not path.is_dir() and not export_files.is_zip(path):
        return [path.name]
    return [
        name for name in export_files.member_names(path) if export_files.base_name(name).startswith("conversations")
    ]


def _read_chatgpt_conversation(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    if not isinstance(value.get("mapping"), dict):
        yield SkippedItem(place, "it is not a conversation")
        return
    messages = list(_branch(value))
    times = [message.at for message in messages if message.at]
    at = parse_time(value.get("create_time")) or min(times, default=None) or parse_time(value.get("update_time"))
    identity = first_text(value, "conversation_id", "id")
    yield from read_turns(ChatHead(text_of(value.get("title")), identity, at, place), messages)


def _branch(value: dict[str, Any]) -> Iterator[ChatMessage]:
    """Yield the messages of the branch that ends at the current node; without one, of the longest branch."""
    nodes = value["mapping"]
    name = value.get("current_node")
    if name not in nodes:
        leaves = [key for key, node in nodes.items() if not list_of(object_of(node).get("children"))]
        name = max(leaves, key=lambda leaf: len(_path_to(nodes, leaf)), default=None)
    for key in reversed(_path_to(nodes, name)):
        message = _read_chatgpt_message(object_of(object_of(nodes[key]).get("message")))
        if message is not None:
            yield message


def _path_to(nodes: dict[str, Any], name: object) -> list[str]:
    """Return the nodes from one up to the root. A node that is reached twice ends the path."""
    path: dict[str, None] = {}
    while isinstance(name, str) and name in nodes and name not in path:
        path[name] = None
        name = object_of(nodes[name]).get("parent")
    return list(path)


def _read_chatgpt_message(message: dict[str, Any]) -> ChatMessage | None:
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


class ClaudeAiSource(ImportSource):
    """Export of Claude.ai: conversations, projects and the memory it kept.

    The shapes are those of the download that Claude.ai offers: `conversations.json`, `projects.json` and `memories.json`, in a ZIP
    archive or a folder. Tested with files in the form of the download, which is not documented.
    """

    name = "claude-ai"
    title = "Claude.ai export"
    in_home = ("Downloads/data-*batch-*.zip",)

    def accepts(self, path: Path) -> bool:
        return _has_conversations(path, "chat_messages")

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield the turns of conversations, the documents of projects, and the memory."""
        readers = {"conversations": _read_claude_ai_conversation, "projects": _read_project, "memories": _read_memory}
        for name in export_files.member_names(path):
            base = export_files.base_name(name) if path.is_dir() or export_files.is_zip(path) else "conversations"
            for prefix, read in readers.items():
                if base.startswith(prefix):
                    yield from export_files.read_each(export_files.read_array(path, name), name, read)


def _read_claude_ai_conversation(value: dict[str, Any], place: str) -> Iterator[ImportedItem]:
    messages = value.get("chat_messages")
    if not isinstance(messages, list):
        yield SkippedItem(place, "it has no messages")
        return
    head = ChatHead(text_of(value.get("name")), text_of(value.get("uuid")), parse_time(value.get("created_at")), place)
    read: list[ChatMessage] = []
    for message in map(object_of, messages):
        text = _content_text(message.get("content")) or text_of(message.get("text"))
        attached = [object_of(part) for part in list_of(message.get("attachments"))]
        files = [f"[attached: {name}]" for part in attached if (name := text_of(part.get("file_name")))]
        whole, at = "\n\n".join(filter(None, (text, *files))), parse_time(message.get("created_at"))
        read.append(ChatMessage(message.get("sender") == "human", whole, at))
    yield from read_turns(head, read)


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


_MAX_BYTES = 256 * 1024 * 1024


class LettaSource(ImportSource):
    """Agent files of Letta (`.af`): the blocks that an agent keeps in its context, and its conversation.

    Archival passages are not part of an agent file. System prompts and tools are not memory and are left out. Tested with the documented form.
    """

    name = "letta"
    title = "Letta agent file"
    in_project = ("*.af",)
    in_home = ("Downloads/*.af",)

    def accepts(self, path: Path) -> bool:
        return path.suffix == ".af" and export_files.file_head(path).startswith("{")

    def read(self, path: Path) -> Iterator[ImportedItem]:
        """Yield blocks as memories and messages as archive."""
        document = object_of(export_files.read_small_json(path, _MAX_BYTES))
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
            name = text_of(agent.get("name"))
            messages = [
                ChatMessage(_ROLES[role], _content_text(each.get("content")), parse_time(each.get("created_at")), name)
                for each in map(object_of, list_of(agent.get("messages")))
                if (role := text_of(each.get("role"))) in _ROLES
            ]
            head = ChatHead(name, text_of(agent.get("id")), at, f"{path.name}, {name or 'agent'}")
            yield from read_turns(head, messages)


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


def _content_text(content: object) -> str:
    """Return the text of a message: itself, or the texts of its parts."""
    parts = [object_of(part) for part in list_of(content)]
    texts = (text_of(part.get("text")) for part in parts if part.get("type", "text") == "text")
    return text_of(content) or "\n\n".join(filter(None, texts))
