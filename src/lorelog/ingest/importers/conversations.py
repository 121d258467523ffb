"""Turns of conversations, as archive entries: one entry per request and its answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from lorelog.ingest.importers.source import MAX_ENTRY_CHARS, ImportedEntry, clean_tags

_CUT = "\n\n[cut here: the turn is longer than an entry can be]"


class ChatMessage(Struct, frozen=True):
    """One message of a conversation."""

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
    """Yield an entry for each turn. Its text begins with the title: a turn alone seldom says what it is about."""
    turn: list[ChatMessage] = []
    number = 0
    for message in (*messages, None):
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
