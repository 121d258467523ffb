"""Relevance judgements of users: this memory answers that question, or does not.

Kept in `feedback.jsonl` beside the index, readable by its owner only, because questions are private. A judgement names a memory
by its id, or a section without an id by its content hash, so it survives moved lines; an edited section is a new one. The last
judgement of a question and memory counts. `lorelog eval --feedback` measures searches by them, and results marked irrelevant rank
lower when the same question is asked again. Other questions are not affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lorelog.core.document import StoredChunk
from lorelog.core.query import ScorePart
from lorelog.services.memory_state.append_log import AppendLog

RELEVANT, IRRELEVANT = "relevant", "irrelevant"
IRRELEVANT_PENALTY = 0.5
"""Subtracted from the score: about the weight of all words of a question. The result ranks lower and stays findable."""


class Judgement(NamedTuple):
    """A user's judgement of one result."""

    query: str
    """As returned by `normalize_query`."""
    key: str
    """The memory's id, or the content hash of a section."""
    id: str
    """The chunk's id when it was judged."""
    memory: str
    relevance: str
    at: str


class Feedback:
    """The judgements of one tenant."""

    def __init__(self, path: Path) -> None:
        self._file = AppendLog(path, _parse_judgement, is_optional=True)
        self._lines: tuple[Judgement, ...] = ()
        self._judged: dict[str, dict[str, Judgement]] = {}

    @property
    def token(self) -> str:
        """Changes with every judgement."""
        return "{}.{}.{}".format(*self._file.stamp())

    def judgements(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return the current judgements, by question and memory key."""
        lines = self._file.lines()
        if lines is not self._lines:
            judged: dict[str, dict[str, Judgement]] = {}
            for line in lines:
                judged.setdefault(line.query, {})[line.key] = line
            self._judged, self._lines = judged, lines
        return self._judged

    def record(self, query: str, stored: StoredChunk, relevance: str) -> tuple[Judgement, bool]:
        """Record a judgement; return it and whether it is new."""
        memory = stored.chunk.anchor.memory if stored.chunk.anchor else ""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        judgement = Judgement(normalize_query(query), feedback_key(stored), stored.id, memory, relevance, at)
        previous = self.judgements().get(judgement.query, {}).get(judgement.key)
        if previous is not None and previous.relevance == relevance:
            return previous, False
        self._file.append([judgement._asdict()])
        return judgement, True


def is_judged_irrelevant(judgements: Mapping[str, Mapping[str, Judgement]], query: str, stored: StoredChunk) -> bool:
    """Return whether this memory was judged irrelevant to exactly this question."""
    if not judgements:
        return False
    judgement = judgements.get(normalize_query(query), {}).get(feedback_key(stored))
    return judgement is not None and judgement.relevance == IRRELEVANT


def normalize_query(query: str) -> str:
    """Return a question for comparison: case, white space and final punctuation are ignored."""
    return " ".join(query.casefold().split()).rstrip(" ?!.？！。")


def feedback_key(stored: StoredChunk) -> str:
    """Return the key under which a memory is judged."""
    anchor = stored.chunk.anchor
    return anchor.memory if anchor is not None and anchor.memory else stored.chunk.content_hash


def explain_penalty() -> tuple[ScorePart, ...]:
    """Return the score part of an irrelevant judgement."""
    return (ScorePart("feedback", -IRRELEVANT_PENALTY, "judged irrelevant to this question"),)


def _parse_judgement(entry: Any) -> Judgement:
    return Judgement(*(str(entry[name]) for name in ("query", "key", "id", "memory", "relevance", "at")))
