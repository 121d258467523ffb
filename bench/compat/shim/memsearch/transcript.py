"""Conversations. A turn of ours is a request and the work on it; memsearch has a turn for each role."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lorelog.core.errors import SourceError
from lorelog.ingest.transcripts.conversation import open_conversation
from lorelog.ingest.transcripts.turns import MAX_RESULT_CHARS, TranscriptStats
from lorelog.services.sessions.transcripts import MAX_REPLY_CHARS

MAX_OUTPUT_CHARS = MAX_RESULT_CHARS + 10  # with the 20 of the test: our mark says how many characters are left out
MAX_RENDER_CHARS = MAX_REPLY_CHARS


class UnknownTranscriptFormat(ValueError):
    """The file is not a transcript that is known."""


@dataclass
class ToolCall:
    command: str
    output: str


@dataclass
class Turn:
    role: str
    uuid: str
    text: str
    tools: list[ToolCall] = field(default_factory=list)


def _load_jsonl(path: Path) -> Path:
    return path


def detect_format(path: Path) -> str:
    return open_conversation(str(path)).host


def parse_transcript(path: str | Path) -> list[Turn]:
    try:
        parsed = [each.turn for each in open_conversation(str(path)).turns(TranscriptStats())]
    except SourceError as error:
        raise UnknownTranscriptFormat(str(error)) from None
    turns: list[Turn] = []
    for turn in parsed:
        tools = [ToolCall(call.input, call.result) for call in turn.tools]
        turns.append(Turn("user", turn.id, turn.user))
        if turn.assistant or tools:
            turns.append(Turn("assistant", turn.id, turn.assistant, tools))
    return turns


def select_turns(turns: list[Turn], uuid: str, context: int = 3) -> list[Turn]:
    at = next(index for index, turn in enumerate(turns) if turn.uuid == uuid)
    return turns[max(0, at - context) : at + context + 1]


def format_turns(turns: list[Turn]) -> str:
    """Return what `lorelog transcript` shows of each turn; it pages by turn, which the caller of this does not."""
    return "\n".join(
        line
        for turn in turns
        for line in (turn.text, *(f"$ {call.command}\n{call.output}" for call in turn.tools))
        if line
    )
