"""Conversations as the transcripts of Claude Code, so that the real reader captures them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5


@dataclass(frozen=True)
class Conversation:
    """A session: role and text of each message, in order."""

    name: str
    started: datetime
    messages: tuple[tuple[str, str], ...]


def session_id(name: str) -> str:
    """Return the id of the session with a name, always the same."""
    return str(uuid5(NAMESPACE_URL, name))


def write_transcript(conversation: Conversation, folder: Path, directory: Path) -> Path:
    """Write a conversation as a transcript that was recorded in a directory; return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session_id(conversation.name)}.jsonl"
    lines = (json.dumps(line, ensure_ascii=False) for line in _lines(conversation, directory))
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _lines(conversation: Conversation, directory: Path) -> Iterator[dict[str, Any]]:
    session, parent = session_id(conversation.name), None
    messages = list(_joined(conversation.messages))
    for number, (role, text) in enumerate(messages):
        at = conversation.started + timedelta(seconds=20 * number)
        name = str(uuid5(NAMESPACE_URL, f"{conversation.name} {number}"))
        message: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            message |= {
                "id": f"msg_{name[:12]}", "type": "message", "model": "recorded", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}],
            }  # fmt: skip
        yield {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": str(directory), "sessionId": session,
            "version": "2.0.67", "gitBranch": "main", "type": role, "message": message, "uuid": name,
            "timestamp": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }  # fmt: skip
        parent = name


def _joined(messages: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the messages; a question that nobody answered is acknowledged, because a turn ends with an answer."""
    for number, (role, text) in enumerate(messages):
        yield role, text
        following = messages[number + 1][0] if number + 1 < len(messages) else "user"
        if role == "user" and following == "user":
            yield "assistant", "Noted."
