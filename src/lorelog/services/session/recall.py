"""Which memories belong to a prompt, unasked: few, likely, and none that the session has seen.

A memory that comes up by itself costs the reader's attention and an agent's context, so the bar is high: what is not
likely to be relevant stays away, what this very session said is not told to it again, and nothing is shown twice in a
session, across restarts too. What was shown is written down before it is handed over, and only while somebody still waits:
whoever gave up waiting has not seen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lorelog.core.code import UNCHECKED, Verdict
from lorelog.core.options import SearchOptions
from lorelog.core.query import Grounding, Hit, SearchReply
from lorelog.core.record import CANDIDATE_TRUST, FOREIGN, Tier, Trust
from lorelog.services.session.captures import open_captures

MOST_LETTERS = 300
"""Of a memory that is shown."""
_PROMPT_LETTERS = 2000
"""Of a prompt that are searched for: pasted logs and files say little about what is meant."""
_SPARE = 4
_FURTHER = 20
"""Further candidates for those that the session knows already: few at first, because reading each takes its time."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What somebody typed into which session."""

    host: str
    session: str
    text: str


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that fits a prompt."""

    id: str
    text: str
    source: str
    """Its file; of a record `record` and its id."""
    date: str
    relevance: float
    origin: str = ""
    """Whose words it has where nobody here has answered for them: `tool`, `import`, or `foreign` for what rests on such."""
    trust: Trust = CANDIDATE_TRUST
    grounding: tuple[Grounding, ...] = ()
    verdict: Verdict = UNCHECKED


def recall(
    prompt: Prompt,
    options: SearchOptions,
    search: Callable[[str, SearchOptions], SearchReply],
    folder: Path,
    wanted: Callable[[], None],
) -> tuple[Recalled, ...]:
    """Return at most `options.k` memories for a prompt. `wanted` raises when nobody waits for them any more."""
    query = _query(prompt.text)
    if not query or options.k < 1:
        return ()
    with open_captures(folder) as captures:
        seen = captures.shown(prompt.host, prompt.session)
        few = replace(options, k=options.k + _SPARE, token_budget=0)
        fresh, all_told = _fresh(prompt, search(query, few), few, seen)
        if len(fresh) < options.k and not all_told:  # most of what there is was shown: look further down
            many = replace(few, k=few.k + len(seen) + _FURTHER)
            fresh, _ = _fresh(prompt, search(query, many), many, seen)
        chosen = dict(list(fresh.items())[: options.k])
        if not chosen:
            return ()
        wanted()
        new = captures.add_shown(prompt.host, prompt.session, chosen)
    return tuple(_recalled(hit) for one, hit in chosen.items() if one in new)


def _fresh(
    prompt: Prompt, reply: SearchReply, options: SearchOptions, seen: frozenset[str]
) -> tuple[dict[str, Hit], bool]:
    """Return the hits that the session does not know, by what they are known by; and whether there are no further ones."""
    fresh: dict[str, Hit] = {}
    for hit in reply.hits:
        own = prompt.session and hit.anchor is not None and hit.anchor.session == prompt.session
        if hit.relevance >= options.min_relevance and not own and _identity(hit) not in seen:
            fresh.setdefault(_identity(hit), hit)
    return fresh, len(reply.hits) < options.k


def _query(text: str) -> str:
    """Return what to search for: of a long prompt the beginning and the end, where people say what they want."""
    text = text.strip()
    if len(text) <= _PROMPT_LETTERS:
        return text
    half = _PROMPT_LETTERS // 2
    return f"{text[:half]} {text[-half:]}"


def _identity(hit: Hit) -> str:
    """Return what a memory is known by though its lines move: its own id, or else what it says."""
    return hit.anchor.memory if hit.anchor is not None and hit.anchor.memory else hit.content_hash


def _recalled(hit: Hit) -> Recalled:
    text = hit.snippet if len(hit.snippet) <= MOST_LETTERS else hit.snippet[: MOST_LETTERS - 1] + "…"
    own = hit.anchor.origin if hit.anchor is not None else ""
    origin = (own if own in FOREIGN else "foreign") if hit.trust.tainted else ""
    # A record is named by its id: its page is made from the ledger, and a path in the index tells an agent nothing.
    is_record = hit.trust.tier in {Tier.CANONICAL, Tier.VERIFIED} and bool(hit.grounding)
    source = f"record {hit.grounding[0].record}" if is_record else hit.source
    return Recalled(hit.id, text, source, hit.date, hit.relevance, origin, hit.trust, hit.grounding, hit.verdict)
