"""Selects the memories that may be delivered without a search, and their cues.

Standing are corrections, preferences and decisions, and other memories with cues written by hand. Cues are derived from
standing memories and from facts that were added by hand, never from the notes of captured turns: these name every file
of a session. A captured statement is delivered without what it is about; if its words name nothing, the call that the
user rejected with them is its cue. Superseded, expired and deleted memories, and those whose code is gone, are left out. A memory that came
with the repository cannot supersede one of the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE, Anchor, Chunk, ChunkKey, StoredChunk
from lorelog.light.shell_command import word_set
from lorelog.services.cues.cue import Cue, read_cues
from lorelog.services.standing.ownership import HEADING, STANDING_TYPES, OwnClaim, Ownership, is_confirmed, memory_body
from lorelog.services.standing.rules import is_lasting_rule
from lorelog.services.standing.source import FORMAT, DeliverySource, MemoryMarks
from lorelog.services.standing.tables import StandingMemory, replace_if_changed

if TYPE_CHECKING:
    from lorelog.services.cues.derive import DerivedCues

MAX_TEXT_CHARS = 400
_CUELESS_TYPES = frozenset({"turn", "summary", "plan", "trace", "progress", "conversation", "message", "chat"})
"""Types from which no cues are derived: they tell what happened, not what to do."""
_BULLET = re.compile(r"\A[-*+] (?!\[)")
_WORD = re.compile(r"\w+")
_FILLERS = word_set(
    """
    a an the please always to of for no i we you it is are be that this and
    """
)
_MIN_NEAR_WORDS = 6
_MIN_NEAR_SHARE = 0.85
_FEW_NEW = 20
"""Up to this many new memories, derive cues again instead of loading the cache, which takes longer."""


_Bucket = tuple[str, tuple[str, ...], frozenset[str]]
"""Project, longest words, and words that matter of a text: near-equal texts have the same."""


class _Draft(Struct):
    """What a chunk says of a memory by itself, apart from registry, supersessions and dates.

    A process keeps the drafts: between two calls only a few chunks change, and deriving cues takes milliseconds for each.
    """

    mark: str
    """Of the chunk; another one makes the draft invalid."""
    stored: StoredChunk
    """Without its text."""
    claim: OwnClaim
    memory: StandingMemory | None = None
    """Not own, without expiry; None if it can never be delivered."""
    derived: str = ""
    """The derived cues as a field of `derived.json`; empty if none were derived."""
    shown: StandingMemory | None = None
    """The memory as it was shown last."""
    bucket: _Bucket = ("", (), frozenset())


@lru_cache(maxsize=4)
def _known_drafts(folder: Path) -> dict[ChunkKey, _Draft]:
    """Return the drafts that this process keeps for a tenant. Changed under the lock of the folder only."""
    del folder
    return {}


def read_memories(source: DeliverySource, marks: MemoryMarks) -> list[StandingMemory]:
    """Return the memories that may be delivered, newest first; near-equal ones once."""
    drafts = _read_drafts(source, marks)
    registered = source.authored.all()
    own: dict[ChunkKey, Anchor] = {}
    for draft in drafts:
        anchor = draft.stored.chunk.anchor
        if anchor is not None and is_confirmed(draft.claim, registered.get(anchor.memory)):
            own[draft.stored.key] = anchor
    own_ids = {anchor.memory for anchor in own.values()}
    replaced = frozenset(memory for anchor in own.values() for memory in anchor.superseded_ids)
    visible = [
        draft
        for draft in drafts
        if draft.memory is not None
        # Another memory with the id of an own one is forged.
        if draft.stored.key in own or draft.memory.id not in own_ids
        if _show(source, draft, replaced, is_own=draft.stored.key in own)
    ]
    return _drop_repetitions(sorted(visible, key=lambda draft: draft.stored.chunk.date, reverse=True))


def _read_drafts(source: DeliverySource, marks: MemoryMarks) -> list[_Draft]:
    """Return a draft of every memory, newest first. Only chunks that changed since the last call are read."""
    from lorelog.services.cues.derive import DerivedCues

    known = _known_drafts(source.folder)
    new = {key: mark for key, mark in marks if key not in known or known[key].mark != mark}
    gone = known.keys() - {key for key, _ in marks}
    ownership = Ownership(source.workspace, source.authored)
    is_cold = not known or len(new) > _FEW_NEW
    derived = DerivedCues(source.folder / "derived.json", FORMAT, is_read=is_cold)
    for key, stored in source.store.fetch(list(new)).items():
        known[key] = _make_draft(stored, new[key], ownership, derived)
    for key in gone:
        del known[key]
    if gone or any(known[key].derived for key in new if key in known) or is_cold:
        fields = (draft.derived for draft in known.values() if draft.derived)
        replace_if_changed(source.folder / "derived.json", derived.contents(fields))
    return [known[key] for key, mark in marks if key in known and known[key].mark == mark]


class _Reading(Struct, frozen=True):
    """What of a chunk matters for delivery."""

    text: str
    context: str
    """For a captured statement: what it is about."""
    by_hand: tuple[Cue, ...]
    is_standing: bool
    derives_cues: bool
    """True if cues are derived from the text: it lasts, and has none written by hand."""


def _read_chunk(chunk: Chunk, anchor: Anchor) -> _Reading:
    is_captured = bool(anchor.session or anchor.turn)
    words, context = split_statement(chunk.text) if is_captured else (chunk.text, "")
    text = plain_text(words)
    by_hand = read_cues(anchor.cues)
    lasts = not is_captured or is_lasting_rule(text)
    is_standing = bool(by_hand) or (chunk.type in STANDING_TYPES and (lasts or chunk.type == "decision"))
    is_added_fact = not (is_captured or anchor.covers) and chunk.type not in _CUELESS_TYPES
    return _Reading(text, context, by_hand, is_standing, lasts and (is_standing or is_added_fact) and not by_hand)


def list_derived_cues(stored: StoredChunk) -> tuple[Cue, ...]:
    """Return the cues that are derived from a memory's text; none if it has cues written by hand, or is not delivered."""
    from lorelog.services.cues.derive import derive_call_cues, derive_cues

    chunk, anchor = stored.chunk, stored.chunk.anchor
    if anchor is None or stored.machine or chunk.type == ARCHIVE_TYPE:
        return ()
    reading = _read_chunk(chunk, anchor)
    if not reading.derives_cues:
        return ()
    return derive_cues(reading.text) or derive_call_cues(reading.context, stored.project)


def _make_draft(stored: StoredChunk, mark: str, ownership: Ownership, derived: DerivedCues) -> _Draft:
    """Return the draft of a chunk, with a memory if that can ever be delivered."""
    from lorelog.services.cues.derive import derive_call_cues, derived_field

    chunk, anchor = stored.chunk, stored.chunk.anchor
    bare = replace(stored, chunk=replace(chunk, content="", text="", content_hash=chunk.content_hash))
    draft = _Draft(mark, bare, ownership.claim_of(chunk, memory_body(stored)))
    if anchor is None or stored.machine or chunk.type == ARCHIVE_TYPE:
        return draft
    reading = _read_chunk(chunk, anchor)
    text, context, by_hand, is_standing = reading.text, reading.context, reading.by_hand, reading.is_standing
    cues = by_hand
    if reading.derives_cues:
        cues, key = derived.of(text)
        draft.derived = derived_field(key, cues)
        cues = cues or derive_call_cues(context, stored.project)
    if not text or not (is_standing or cues):
        return draft
    draft.memory = StandingMemory(
        id=anchor.memory,
        type=chunk.type,
        text=text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…",
        date=chunk.date,
        origin=anchor.origin,
        source=f"{chunk.source}:{chunk.start_line}",
        project=stored.project,
        own=False,
        is_standing=is_standing,
        cues=cues,
        session=anchor.session,
    )
    near = _near_words(draft.memory.text)
    longest = sorted(near, key=lambda word: (-len(word), word))[:2]
    draft.bucket = (stored.project, tuple(sorted(longest)), frozenset(filter(_matters, near)))
    return draft


def _show(source: DeliverySource, draft: _Draft, replaced: frozenset[str], *, is_own: bool) -> bool:
    """Set what a draft shows; return False if it is hidden. `replaced` are the memories that own ones supersede."""
    memory = draft.memory
    if memory is None:
        return False
    state = source.lifecycle.state_of(draft.stored)
    if state.expired or (state.superseded_by and (not is_own or memory.id in replaced)):
        return False
    shown = draft.shown or memory
    if (shown.own, shown.expires) != (is_own, state.expires):
        shown = replace(memory, own=is_own, expires=state.expires)
    draft.shown = shown
    return True


def split_statement(text: str) -> tuple[str, str]:
    """Return the words of a captured statement, and what they are about; see `format_statement` of the transcripts."""
    words, mark, context = text.rpartition("\n- About: ")
    return (words, " ".join(context.split())) if mark else (text, "")


def plain_text(text: str) -> str:
    """Return a chunk's text on one line, without its heading and control characters."""
    line = " ".join(HEADING.sub("", text.lstrip("\n"), count=1).split())
    line = _BULLET.sub("", line)
    return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)


def _drop_repetitions(drafts: Iterable[_Draft]) -> list[StandingMemory]:
    """Keep one of each near-equal text and project: the user's word, an agent's, or a foreign one; the newest of these."""
    kept: list[StandingMemory] = []
    near: dict[_Bucket, list[tuple[int, str]]] = {}
    for draft in drafts:
        memory = draft.shown
        if memory is None:
            continue
        others = near.setdefault(draft.bucket, [])
        words = _near_words(memory.text) if others else frozenset()
        same = next((index for index, text in others if _are_near_equal(words, _near_words(text))), None)
        if same is None:
            others.append((len(kept), memory.text))
            kept.append(memory)
        elif _standing_rank(memory) < _standing_rank(kept[same]):
            kept[same] = memory
    return kept


@lru_cache(maxsize=1024)
def _near_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) - _FILLERS


def _standing_rank(memory: StandingMemory) -> int:
    """Return 0 for the user's own word, 1 for what an agent noted here, 2 for what came from elsewhere."""
    return 2 if not memory.own else int(memory.origin == "agent")


def _are_near_equal(words: frozenset[str], others: frozenset[str]) -> bool:
    if words == others:
        return True
    if min(len(words), len(others)) < _MIN_NEAR_WORDS:
        return False
    shared = len(words & others)
    if shared < _MIN_NEAR_SHARE * (len(words) + len(others) - shared):
        return False
    return not any(_matters(word) for word in words ^ others)


def _matters(word: str) -> bool:
    """Return True for a word that changes the meaning: a number or a negation."""
    return any(char.isdigit() for char in word) or word in {"not", "never", "don", "dont", "stop", "without", "avoid"}
