"""Selects memories to show for a prompt: few, relevant, and new to the session.

A memory that was not asked for costs attention and context, so the bar is high: it must be relevant, must not come from
the same session, and is shown once per session, even across restarts, whichever hook showed it. It is saved as shown before it is returned, and
only if the caller still waits: after a timeout, the session has not seen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lorelog.core.code import UNCHECKED_VERDICT, FreshnessVerdict
from lorelog.core.options import SearchOptions
from lorelog.core.query import Hit, SearchReply, SupportingRecord
from lorelog.core.record import CANDIDATE_TRUST, UNTRUSTED_ORIGINS, Trust, TrustTier
from lorelog.services.sessions.captures import open_captures
from lorelog.services.sessions.prompt_rules import prompted_memories

MAX_TEXT_CHARS = 300
"""Length limit of a shown memory."""
_MAX_PROMPT_CHARS = 2000
"""Characters of a prompt that are searched for: pasted logs and files say little about the question."""
DELIVERIES_FOLDER = "deliveries"
_SPARE_HITS = 4
_EXTRA_HITS = 20
"""Further candidates in place of memories that the session has seen; few at first, because reading each takes time."""


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """A prompt and its session."""

    host: str
    session: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledMemory:
    """A memory that matches a prompt."""

    id: str
    """The id of the chunk, which `expand` takes."""
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
    verdict: FreshnessVerdict = UNCHECKED_VERDICT


def recall_memories(
    prompt: UserPrompt,
    options: SearchOptions,
    search: Callable[[str, SearchOptions], SearchReply],
    folder: Path,
    check_waiting: Callable[[], None],
) -> tuple[RecalledMemory, ...]:
    """Return at most `options.k` memories for a prompt. `check_waiting` raises if the caller has given up."""
    query = _prompt_query(prompt.text)
    if not query or options.k < 1:
        return ()
    with open_captures(folder) as captures:
        seen = captures.shown_memories(prompt.host, prompt.session)
        seen |= prompted_memories(str(folder / DELIVERIES_FOLDER), prompt.host, prompt.session)
        few = replace(options, k=options.k + _SPARE_HITS, token_budget=0)
        new_hits, is_all = _new_hits(prompt, search(query, few), few, seen)
        if len(new_hits) < options.k and not is_all:  # most of the hits were shown before: fetch more
            many = replace(few, k=few.k + len(seen) + _EXTRA_HITS)
            new_hits, _ = _new_hits(prompt, search(query, many), many, seen)
        chosen = dict(list(new_hits.items())[: options.k])
        if not chosen:
            return ()
        check_waiting()
        added = captures.add_shown(prompt.host, prompt.session, chosen)
    return tuple(_to_recalled_memory(hit) for key, hit in chosen.items() if key in added)


def _new_hits(
    prompt: UserPrompt, reply: SearchReply, options: SearchOptions, seen: frozenset[str]
) -> tuple[dict[str, Hit], bool]:
    """Return the relevant hits that are new to the session, by memory key; and whether the search has no more hits."""
    new: dict[str, Hit] = {}
    for hit in reply.hits:
        own = prompt.session and hit.anchor is not None and hit.anchor.session == prompt.session
        if hit.relevance >= options.min_relevance and not own and _memory_key(hit) not in seen:
            new.setdefault(_memory_key(hit), hit)
    return new, len(reply.hits) < options.k


def _prompt_query(text: str) -> str:
    """Return the query for a prompt; for a long one, its beginning and end, which usually contain the request."""
    text = text.strip()
    if len(text) <= _MAX_PROMPT_CHARS:
        return text
    half = _MAX_PROMPT_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def _memory_key(hit: Hit) -> str:
    """Return a key that is stable when lines move: the memory's id, or the hash of its content."""
    return hit.anchor.memory if hit.anchor is not None and hit.anchor.memory else hit.content_hash


def _to_recalled_memory(hit: Hit) -> RecalledMemory:
    text = hit.snippet if len(hit.snippet) <= MAX_TEXT_CHARS else hit.snippet[: MAX_TEXT_CHARS - 1] + "…"
    own = hit.anchor.origin if hit.anchor is not None else ""
    origin = (own if own in UNTRUSTED_ORIGINS else "foreign") if hit.trust.tainted else ""
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
        verdict=hit.verdict,
    )
