"""The inbox: memories that wait for a person's word.

Not every text counts as a rule of the user. What an agent, a tool, an import or a repository says does not, and of the corrections in
conversations only those count that clearly last (`durable`). A person decides about the others: approved, such a text is
written anew as the person's own memory, which supersedes the first one, so both stay in their files and who said what
remains visible. Summaries, and imported text that is not a rule, are only marked as reviewed. Guards have a log of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta

from lorelog.core.dataclasses import dataclass
from lorelog.core.document import StoredChunk
from lorelog.core.record import REPOSITORY_ORIGIN
from lorelog.services.delivery.durable import is_lasting_rule
from lorelog.services.delivery.ownership import STANDING_TYPES, memory_body
from lorelog.services.delivery.standing import plain_text, split_statement

RULE, CORRECTION, SUMMARY, IMPORT = "rule", "correction", "summary", "import"
MAX_SCANNED = 5_000
"""Memories that are looked at, newest first."""
MAX_AGE_DAYS = 30
"""Nobody is asked about older memories."""
_AGENT, _USER_ORIGINS, _FOREIGN_ORIGINS = "agent", ("", "user"), ("import", "tool")
_SPOKEN_TYPES = frozenset({"correction", "preference"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """A memory that waits for a person's word."""

    id: str
    kind: str
    """`rule`: an agent proposes it; `correction`: said in a conversation; `summary`; `import`: from elsewhere."""
    type: str
    text: str
    """As it would be approved."""
    about: str
    """What a statement in a conversation was about."""
    origin: str
    date: str
    project: str
    session: str
    source: str
    becomes_rule: bool
    """True if approving writes it as the person's own rule; False if it is only marked as reviewed."""
    deletes: bool
    """True if refusing hides the memory; False if it stays as it is."""


def find_items(memories: Iterable[StoredChunk], is_reviewed: Callable[[str], bool], today: date) -> list[InboxItem]:
    """Return the memories that wait, in the given order. Superseded and expired ones must not be given."""
    first_day = (today - timedelta(days=MAX_AGE_DAYS)).isoformat()
    items = (make_item(stored) for stored in memories)
    return [item for item in items if item is not None if not is_reviewed(item.id) if item.date >= first_day]


def make_item(stored: StoredChunk) -> InboxItem | None:
    """Return the item of a memory; None if nobody has to decide about it."""
    chunk, anchor = stored.chunk, stored.chunk.anchor
    if anchor is None or not anchor.memory or stored.machine or chunk.piece:
        return None
    is_captured = bool(anchor.session or anchor.turn)
    body = memory_body(stored).strip()
    words, about = split_statement(body) if is_captured else (body, "")
    words = words.removeprefix("- ").strip() if is_captured else words
    kind = _kind_of(stored, words, is_captured=is_captured)
    if not kind or not words:
        return None
    return InboxItem(
        id=anchor.memory,
        kind=kind,
        type=chunk.type,
        text=words,
        about=about,
        origin=anchor.origin,
        date=chunk.date,
        project=stored.project,
        session=anchor.session,
        source=f"{chunk.source}:{chunk.start_line}",
        becomes_rule=kind in {RULE, CORRECTION} or (kind == IMPORT and chunk.type in STANDING_TYPES),
        deletes=kind != CORRECTION,
    )


def _kind_of(stored: StoredChunk, words: str, *, is_captured: bool) -> str:
    chunk, anchor = stored.chunk, stored.chunk.anchor
    origin = anchor.origin if anchor else ""
    if chunk.type == "summary":
        return SUMMARY
    if origin in _FOREIGN_ORIGINS or (origin == REPOSITORY_ORIGIN and chunk.type in _SPOKEN_TYPES):
        return IMPORT
    if origin == _AGENT and chunk.type in STANDING_TYPES:
        return RULE
    has_cues = anchor is not None and bool(anchor.cues)
    is_remark = is_captured and not has_cues and origin in _USER_ORIGINS and not is_lasting_rule(plain_text(words))
    return CORRECTION if is_remark and chunk.type in _SPOKEN_TYPES else ""
