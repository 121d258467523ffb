"""The statements that nobody has filed yet: what the user typed, said at a rejection, or answered.

Journals name each turn and its conversation; the words are read from the conversation itself, because a note may be
shortened or worded by a model. If the conversation is gone, the journal's words are taken. A statement has the id of
its journal entry. All text is redacted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.document import TURN_TYPE, Anchor, StoredChunk
from lorelog.core.errors import LorelogError
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.serializable import Serializable
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.standing.memories import read_words
from lorelog.services.standing.ownership import Ownership, memory_body

if TYPE_CHECKING:
    from lorelog.ingest.transcripts.turns import ParsedTurn
    from lorelog.services.memories.transcript_access import TranscriptAccess

PROMPT, REJECTION, ANSWER = "prompt", "rejection", "answer"
MAX_ENTRIES = 20_000
MAX_STATEMENT_CHARS, MAX_BEFORE_CHARS = 1_500, 300
_CHANNELS = {TURN_TYPE: PROMPT, "correction": REJECTION, "decision": ANSWER}
"""How the words of an entry were said, by its type."""
_REQUEST_LABELS = ("- User asked: ", "- Went on with: ")
_HOST_COMMANDS = ("/", "!", "<")
"""First characters of input to the host itself."""


class Statement(Serializable, Struct, frozen=True, kw_only=True):
    """What the user said once."""

    id: str
    channel: str
    """`prompt`, `rejection` or `answer`."""
    text: str
    before: str
    """The end of what the agent had said, or the call that was rejected."""
    date: str
    project: str
    session: str
    host: str = ""
    """The agent that it was said to; empty if its conversation is gone."""


class StatementSource(Struct, frozen=True, kw_only=True):
    """Finds the statements of a tenant that were captured on this machine."""

    store: Store
    lifecycle: LifecycleIndex
    ownership: Ownership
    access: TranscriptAccess
    redact: Callable[[str], str]

    def open_statements(
        self,
        projects: tuple[str, ...] | None,
        limit: int,
        filed: Container[str] = (),
        only: Container[str] | None = None,
        *,
        in_full: bool = True,
    ) -> list[Statement]:
        """Return at most `limit` statements that are not `filed`, newest first; None stands for all projects.

        With `only`, those with these ids. Without `in_full`, in the words of their journals; no conversation is read.
        """
        found: list[Statement] = []
        words: dict[tuple[str, str], dict[str, tuple[str, str, str]]] = {}
        for stored, anchor in self._open_entries(projects, filed):
            if only is not None and anchor.memory not in only:
                continue
            is_here = in_full and anchor.transcript and "://" not in anchor.transcript
            transcript = self.access.resolve(stored, anchor.transcript, anchor.session) if is_here else ""
            conversation = (transcript, anchor.session)
            if conversation not in words:
                words[conversation] = self._read_words(*conversation)
            text, before, host = words[conversation].get(anchor.memory) or (
                *map(self.redact, _words_of_entry(stored)),
                "",
            )
            if text and not text.startswith(_HOST_COMMANDS):
                found.append(_make_statement(stored, anchor, text, before, host))
                if len(found) == limit:
                    break
        return found

    def count_open(self, projects: tuple[str, ...] | None, filed: Container[str] = ()) -> Counter[str]:
        """Return the number of open statements by project; conversations are not read."""
        words = ((stored.project, _words_of_entry(stored)[0]) for stored, _ in self._open_entries(projects, filed))
        return Counter(project for project, text in words if text and not text.startswith(_HOST_COMMANDS))

    def _open_entries(
        self, projects: tuple[str, ...] | None, filed: Container[str]
    ) -> Iterator[tuple[StoredChunk, Anchor]]:
        """Yield captured entries that are not filed, newest first. What came with a repository is not the user's word."""
        for stored in self.store.recent(Filters(projects=projects, types=tuple(_CHANNELS)), MAX_ENTRIES):
            anchor = stored.chunk.anchor
            if anchor is None or not anchor.session or not anchor.memory or anchor.memory in filed:
                continue
            if self.lifecycle.is_shown(stored) and self.ownership.is_own(stored.chunk, memory_body(stored)):
                yield stored, anchor

    def _read_words(self, path: str, session: str) -> dict[str, tuple[str, str, str]]:
        """Return the words of a conversation, what was before them, and its host, by the ids of their entries."""
        if not path:
            return {}
        from lorelog.ingest.transcripts.conversation import open_conversation  # a count of statements reads none
        from lorelog.ingest.transcripts.turns import TranscriptStats

        try:
            conversation = open_conversation(path, session)
            turns = [turn for turn in conversation.turns(TranscriptStats()) if not turn.turn.sidechain]
        except (LorelogError, OSError):
            return {}
        return dict(self._words_of_turns(turns, conversation.host, session))

    def _words_of_turns(
        self, turns: Sequence[ParsedTurn], host: str, session: str
    ) -> Iterator[tuple[str, tuple[str, str, str]]]:
        from lorelog.core.session import turn_memory_id
        from lorelog.ingest.transcripts.turn_note import strip_injected_context, turn_redactor

        secrets: dict[str, str] = {}
        for turn in turns:
            clean = turn_redactor(turn.digest, self.redact, secrets)
            request = strip_injected_context(turn.digest.request)
            yield turn_memory_id(host, session, turn.turn.id), (clean(request), clean(turn.digest.asked), host)
            for said in turn.digest.statements:
                key = turn_memory_id(host, session, turn.turn.id, f"statement {said.key}")
                yield key, (clean(said.text), clean(said.context), host)


def _words_of_entry(stored: StoredChunk) -> tuple[str, str]:
    """Return the words that a journal entry keeps, and what they are about."""
    if stored.chunk.type != TURN_TYPE:
        words, about = read_words(stored.chunk)
        return words.strip().removeprefix("- ").strip(), about
    body = memory_body(stored).strip()
    label = next((label for label in _REQUEST_LABELS if body.startswith(label)), "")
    return (body[len(label) :].partition("\n- ")[0].strip(), "") if label else ("", "")


def _make_statement(stored: StoredChunk, anchor: Anchor, text: str, before: str, host: str) -> Statement:
    from lorelog.ingest.transcripts.note_text import shorten_middle

    return Statement(
        id=anchor.memory,
        channel=_CHANNELS[stored.chunk.type],
        text=shorten_middle(text.strip(), MAX_STATEMENT_CHARS),
        before=" ".join(before.split())[-MAX_BEFORE_CHARS:],
        date=stored.chunk.date,
        project=stored.project,
        session=anchor.session,
        host=host,
    )
