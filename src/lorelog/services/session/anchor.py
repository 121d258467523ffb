"""The anchor of a captured turn: which session and turn it is of, and where its conversation lies."""

from __future__ import annotations

import json
import re
from datetime import datetime
from urllib.parse import quote

from lorelog.core.memory import NewMemory
from lorelog.core.session import HookEvent
from lorelog.ingest.transcripts.detect import Conversation
from lorelog.ingest.transcripts.heads import Head

_WORD = re.compile(r"[^\s<>]+")
_CONFUSING = re.compile(r"--|[<>\x00-\x1f\x7f]|\s[a-z][a-z_-]*:\S")
"""What would end the comment, or be taken for the next of its words."""


Words = tuple[tuple[str, str], ...]
"""Of an anchor, each with its key."""


def anchor_words(event: HookEvent, conversation: Conversation, head: Head) -> Words:
    """Return the words of an anchor, the session's first; without those that nothing is known of."""
    dialect = "db" if conversation.format == "sqlite" else "rollout" if event.host == "codex" else "transcript"
    words = (
        ("session", one_word(event.session)),
        (dialect, address(conversation.path)),
        ("host", one_word(event.host)),
        ("agent", one_word(event.agent)),
        ("branch", one_word(event.branch or head.branch)),
        ("commit", one_word(event.commit)),
    )
    return tuple((key, value) for key, value in words if value)


def packed(memory: NewMemory) -> str:
    """Return an entry as text from which it can be made again."""
    when = memory.at.isoformat() if memory.at else ""
    return json.dumps({"text": memory.text, "id": memory.id, "source": memory.source, "at": when})


def unpacked(text: str) -> NewMemory | None:
    """Return the entry that was packed; None for anything else."""
    try:
        told = json.loads(text)
        source = tuple((str(key), str(value)) for key, value in told["source"])
        when = datetime.fromisoformat(told["at"])
        return NewMemory(told["text"], "turn", origin="agent", id=told["id"], source=source, at=when)
    except (ValueError, KeyError, TypeError):
        return None


def one_word(text: str) -> str:
    """Return a text as one word that ends no comment."""
    return "_".join(_WORD.findall(text.replace("--", "-")))[:200]


def address(path: str) -> str:
    """Return a path as an anchor can hold it: as it is, or as a file:// address where it would be misread."""
    return f"file://{quote(path)}".replace("--", "-%2D") if _CONFUSING.search(path) or path.strip() != path else path
