"""What people have said about answers: this memory answers that question, or does not.

Kept in `feedback.jsonl` beside the index, readable by its owner only, because questions are a person's. A judgement names a
memory by its own id, or a section without one by what it says; so it holds though lines move, and an edited section is a new
one. The last word on a question and a memory holds. It is used twice: `lorelog eval --feedback` measures searches by it, and who asks
the very same question again sees lower what was judged irrelevant to it. Nothing is learned from it for other questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lorelog.core.document import StoredChunk
from lorelog.core.query import Part
from lorelog.services.appended import Appended

RELEVANT, IRRELEVANT = "relevant", "irrelevant"
LOWERED = 0.5
"""By how much a score falls: about what all of the words of a question are worth. It goes below other answers and stays findable."""


class Judgement(NamedTuple):
    """One person's word on one answer."""

    query: str
    """As `evened` leaves it."""
    key: str
    """The memory's own id, or the hash of what the section says."""
    id: str
    """The chunk's id when it was judged."""
    memory: str
    relevance: str
    at: str


class Feedback:
    """The judgements of one tenant."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path, _read)
        self._lines: tuple[Judgement, ...] = ()
        self._judged: dict[str, dict[str, Judgement]] = {}

    @property
    def token(self) -> str:
        """Changes with every judgement."""
        return "{}.{}.{}".format(*self._file.stamp())

    def judged(self) -> Mapping[str, Mapping[str, Judgement]]:
        """Return what holds now, by question and memory."""
        lines = self._file.lines()
        if lines is not self._lines:
            judged: dict[str, dict[str, Judgement]] = {}
            for one in lines:
                judged.setdefault(one.query, {})[one.key] = one
            self._judged, self._lines = judged, lines
        return self._judged

    def say(self, query: str, stored: StoredChunk, relevance: str) -> tuple[Judgement, bool]:
        """Write a judgement down, and return it and whether it is news."""
        memory = stored.chunk.anchor.memory if stored.chunk.anchor else ""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        said = Judgement(evened(query), key_of(stored), stored.id, memory, relevance, at)
        before = self.judged().get(said.query, {}).get(said.key)
        if before is not None and before.relevance == relevance:
            return before, False
        self._file.append([said._asdict()])
        return said, True

    def is_irrelevant(self, query: str, stored: StoredChunk) -> bool:
        """Say whether this memory was judged irrelevant to this very question."""
        judged = self.judged()
        if not judged:
            return False
        found = judged.get(evened(query), {}).get(key_of(stored))
        return found is not None and found.relevance == IRRELEVANT


def evened(query: str) -> str:
    """Return a question as it is compared: case, white space and the mark at its end do not count."""
    return " ".join(query.casefold().split()).rstrip(" ?!.？！。")


def key_of(stored: StoredChunk) -> str:
    """Return what a memory is judged as."""
    anchor = stored.chunk.anchor
    return anchor.memory if anchor is not None and anchor.memory else stored.chunk.content_hash


def lowered() -> tuple[Part, ...]:
    """Return the part of a score that a judgement takes away."""
    return (Part("feedback", -LOWERED, "judged irrelevant to this question"),)


def _read(entry: Any) -> Judgement:
    return Judgement(*(str(entry[name]) for name in ("query", "key", "id", "memory", "relevance", "at")))
