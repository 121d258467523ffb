"""Selects memories to show for a prompt: few, relevant, and new to the session.

A memory that was not asked for costs attention and context, so the bar is high: it must be relevant, must not come from
the same session, and is shown once per session, even across restarts, whichever hook showed it. It is saved as shown
before it is returned, and only if the caller still waits: after a timeout, the session has not seen it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import ARCHIVE_TYPE
from lorelog.core.options import SearchOptions
from lorelog.core.query import UNCHECKED_VERDICT, FreshnessVerdict, Hit, SearchReply, SupportingRecord, ValueChange
from lorelog.core.record import (
    CANDIDATE_TRUST,
    REPOSITORY_ORIGIN,
    UNTRUSTED_ORIGINS,
    Trust,
    TrustTier,
    VerificationHint,
)
from lorelog.core.serializable import Serializable
from lorelog.light.delivery_log import prompted_memories
from lorelog.services.sessions.capture_db import open_captures

MAX_TEXT_CHARS = 300
"""Length limit of a shown memory."""
_MAX_PROMPT_CHARS = 2000
"""Characters of a prompt that are searched for: pasted logs and files say little about the question."""
DELIVERIES_FOLDER = "deliveries"
_SPARE_HITS = 4
_EXTRA_HITS = 20
_ARCHIVE_EXTRA_HITS = 100
"""Further candidates in place of memories that the session has seen; few at first, because reading each takes time."""


class UserPrompt(Struct, frozen=True):
    """A prompt and its session."""

    host: str
    session: str
    text: str


class RecalledMemory(
    Serializable, Struct, frozen=True, kw_only=True, rename={"grounding": "grounding_refs", "verdict": "freshness"}
):
    """A memory that matches a prompt."""

    id: str
    """The id of the chunk, which `show` takes."""
    memory: str
    """The id that the log of deliveries has: the memory's own, or the hash of its content."""
    text: str
    source: str
    """Its file; for a record, `record` and its id."""
    date: str
    relevance: float
    origin: str = ""
    """Untrusted origin of the text: `tool`, `import`, or `foreign` if it is based on such; otherwise empty."""
    trust: Trust = CANDIDATE_TRUST
    grounding: tuple[SupportingRecord, ...] = ()
    verification_hint: VerificationHint = CANDIDATE_TRUST.verification_hint
    verdict: FreshnessVerdict = UNCHECKED_VERDICT
    now_was: tuple[ValueChange, ...] = ()
    """Values that it states and other hits state differently."""


class RecallSources(Struct, frozen=True):
    """Where memories for a prompt come from."""

    search: Callable[[str, SearchOptions], SearchReply]
    folder: Path
    """The tenant's."""


def recall_memories(
    prompt: UserPrompt, options: SearchOptions, sources: RecallSources, check_waiting: Callable[[], None]
) -> tuple[RecalledMemory, ...]:
    """Return at most `options.k` memories that are relevant to a prompt. `check_waiting` raises if the caller has given up."""
    query, half = prompt.text.strip(), _MAX_PROMPT_CHARS // 2
    if len(query) > _MAX_PROMPT_CHARS:  # the beginning and the end usually contain the request
        query = f"{query[:half]} {query[-half:]}"
    if not query or not options.k:
        return ()
    with open_captures(sources.folder) as captures:
        seen = captures.shown_memories(prompt.host, prompt.session)
        seen |= prompted_memories(str(sources.folder / DELIVERIES_FOLDER), prompt.host, prompt.session)
        few = replace(options, k=options.k + _SPARE_HITS, token_budget=0)
        reply = sources.search(query, few)
        hits = _new_hits(prompt, reply, few, seen)
        if len(hits) < options.k and len(reply.hits) >= few.k:
            # Most of the hits were shown before, or are archive: fetch more.
            has_archive = any(hit.type == ARCHIVE_TYPE for hit in reply.hits)
            many = replace(few, k=few.k + len(seen) + (_ARCHIVE_EXTRA_HITS if has_archive else _EXTRA_HITS))
            hits = _new_hits(prompt, sources.search(query, many), many, seen)
        chosen = {key: _to_recalled_memory(hit) for key, hit in list(hits.items())[: options.k]}
        if not chosen:
            return ()
        check_waiting()
        added = captures.add_shown(prompt.host, prompt.session, chosen)
    return tuple(memory for key, memory in chosen.items() if key in added)


def _new_hits(prompt: UserPrompt, reply: SearchReply, options: SearchOptions, seen: frozenset[str]) -> dict[str, Hit]:
    """Return the relevant hits that are new to the session, by memory key."""
    new: dict[str, Hit] = {}
    for hit in reply.hits:
        own = prompt.session and hit.anchor is not None and hit.anchor.session == prompt.session
        is_shown = not own and hit.type != ARCHIVE_TYPE and _memory_key(hit) not in seen
        if is_shown and hit.relevance >= options.min_relevance:
            new.setdefault(_memory_key(hit), hit)
    return new


def _memory_key(hit: Hit) -> str:
    """Return a key that is stable when lines move: the memory's id, or the hash of its content."""
    return hit.anchor.memory if hit.anchor is not None and hit.anchor.memory else hit.content_hash


def _to_recalled_memory(hit: Hit) -> RecalledMemory:
    text = hit.snippet if len(hit.snippet) <= MAX_TEXT_CHARS else hit.snippet[: MAX_TEXT_CHARS - 1] + "…"
    own = hit.anchor.origin if hit.anchor is not None else ""
    origin = own if own == REPOSITORY_ORIGIN else ""
    if hit.trust.tainted:
        origin = own if own in UNTRUSTED_ORIGINS else "foreign"
    # A record is cited by its id: its page in the index is of no use to an agent.
    is_record = hit.trust.tier in {TrustTier.CANONICAL, TrustTier.VERIFIED} and bool(hit.grounding)
    return RecalledMemory(
        id=hit.id,
        memory=_memory_key(hit),
        text=text,
        source=f"record {hit.grounding[0].record}" if is_record else hit.source,
        date=hit.date,
        relevance=hit.relevance,
        origin=origin,
        trust=hit.trust,
        grounding=hit.grounding,
        verification_hint=hit.trust.verification_hint,
        verdict=hit.verdict,
        now_was=hit.now_was,
    )
