"""Selects memories to show for a prompt: few, about the same thing, and new to the session.

A memory that was not asked for costs attention and context. On judged prompts of real sessions, no relevance of a search told the wanted
ones from the others (docs/delivery.md has the figures); a name did. So a memory comes only if a rare name of the prompt stands in it: a file, an
identifier, a code, a compound, that is, a word which the analyser takes apart, in few entries. And three more rare words, because a name alone is
often not the subject. If no entry is, nothing is searched for. A memory must not come from the same session, nor be in its log of deliveries.

The answer is left in a file as well: if the hook no longer waits, the session's next hook shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import ARCHIVE_TYPE, TURN_TYPE, Anchor, without_anchors
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Store
from lorelog.core.query import UNCHECKED_VERDICT, Filters, FreshnessVerdict, Hit, SearchReply, SupportingRecord, Term
from lorelog.core.record import CANDIDATE_TRUST, FOREIGN_ORIGINS, UNTRUSTED_ORIGINS, Trust, TrustTier, VerificationHint
from lorelog.core.serializable import Serializable
from lorelog.language.analyser import WordAnalyser
from lorelog.light.delivery_files import MAX_LATE_S, late_answer
from lorelog.light.delivery_log import prompted_memories

MIN_NAME_RARITY, MIN_WORD_RARITY = 3.5, 2.0
"""BM25's weight of a name that is in about 3 % of the entries, and of a word that is in about 13 %. No name is so rare among fewer than 49."""
_MAX_NAME_FREQUENCY = 2.84
"""How far the weight of a name may be below that of an unknown word: it is then in at most eight entries."""
_ONE_ENTRY = 1.1
"""How far the weight of a name that is in one entry is below that of an unknown word."""
MIN_OTHERS = 3
_MAX_NAMED = 50
_UNKNOWN = "\0"
DELIVERIES_FOLDER = "deliveries"
_SPARE_HITS = (8, 100)
"""Further candidates in place of the session's own memories, and then of the archive; few at first, because reading each takes time."""


class UserPrompt(Struct, frozen=True):
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


class RecallSources(Struct, frozen=True):
    """Where memories for a prompt come from."""

    search: Callable[[str, SearchOptions], SearchReply]
    pack: Callable[[str, SearchReply, SearchOptions], SearchReply]
    folder: Path
    """The tenant's."""
    analyser: WordAnalyser
    store: Store


class _Subject:
    """The rare names of a prompt, and its other rare words."""

    def __init__(self, prompt: str, sources: RecallSources) -> None:
        self._words, self._store = sources.analyser.words, sources.store
        lines = (line for line in prompt.splitlines() if not line.lstrip().startswith("#"))  # not headings of a plan
        text = "\n".join(lines)
        names: set[str] = set()
        parts: set[str] = set()
        for span in sources.analyser.spans(text):
            token = text[span.start : span.end]
            if len(span.words) > 1 or (span.words and not (token.isalpha() or token.isdecimal())):
                names.add(span.words[0])
                parts.update(span.words)
        words = {term.text for term in sources.analyser.query_terms(text)} - parts
        rarity = sources.store.rarity([*names, *words, _UNKNOWN])
        highest = rarity[_UNKNOWN]
        # Among few entries a name that is in one of them is as rare as it can be.
        rare = max(min(MIN_NAME_RARITY, highest - _ONE_ENTRY), highest - _MAX_NAME_FREQUENCY)
        self._names = {name for name in names if rare <= rarity[name] < highest}
        self._others = {word for word in words if rarity[word] >= MIN_WORD_RARITY}

    def is_known(self, session: str) -> bool:
        """Return whether an entry of another session is about it. Few have the names: this takes a tenth of a search, and most prompts need none."""
        terms = [Term(name, 1.0) for name in self._names]
        named, _ = self._store.propose(terms, None, Filters(), _MAX_NAMED) if terms else ([], [])
        chunks = (stored.chunk for stored in self._store.fetch([key for key, _ in named]).values())
        return any(self._is_in(chunk.text) for chunk in chunks if not _is_of_session(chunk.anchor, session))

    def is_of(self, hit: Hit) -> bool:
        """Return whether a memory is about it, and says more than what was asked."""
        text = without_anchors(hit.content)
        is_request = hit.type == TURN_TYPE and "- User asked:" in text and "- Outcome:" not in text
        return not is_request and self._is_in(text)

    def _is_in(self, text: str) -> bool:
        found = set(self._words(text))
        return bool(self._names & found) and len((self._names | self._others) & found) > MIN_OTHERS


def recall_memories(prompt: UserPrompt, options: SearchOptions, sources: RecallSources) -> tuple[RecalledMemory, ...]:
    """Return at most `options.k` memories about the subject of a prompt, and how their conversations ended, within a budget.

    With a minimum relevance of 0, they are what a search finds.
    """
    query = prompt.text.strip()
    if not query or not options.k:
        return ()
    subject = _Subject(query, sources) if options.min_relevance else None
    if subject is not None and not subject.is_known(prompt.session):
        return ()
    seen = prompted_memories(str(sources.folder / DELIVERIES_FOLDER), prompt.host, prompt.session)
    for spare in _SPARE_HITS:
        reply = sources.search(query, replace(options, k=options.k + spare + len(seen), token_budget=0))
        best = _new_hits(prompt, reply, seen)[: options.k]
        if len(best) == options.k or not any(hit.type == ARCHIVE_TYPE for hit in reply.hits):
            break
    found = tuple(hit for hit in best if subject is None or subject.is_of(hit))
    packed = sources.pack(query, replace(reply, hits=found), options).hits if found else ()
    shown = tuple(_to_recalled_memory(hit) for hit in packed if hit in found or _memory_key(hit) not in seen)
    if prompt.session and shown:
        _leave_answer(late_answer(str(sources.folder), prompt.host, prompt.session), shown)
    return shown


def _leave_answer(file: str, shown: tuple[RecalledMemory, ...]) -> None:
    """Write an answer for the session's hook, and remove those of other sessions that nobody took."""
    path, now = Path(file), time.time()
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(
            path, msgspec.json.encode({"at": now, "hits": [memory.to_dict() for memory in shown]}), durable=False
        )
        for old in path.parent.glob(f"*{path.suffix}"):
            if old.stat().st_mtime < now - MAX_LATE_S:
                old.unlink()


def _new_hits(prompt: UserPrompt, reply: SearchReply, seen: frozenset[str]) -> list[Hit]:
    """Return the hits that are new to the session; one of each memory, and of a turn and what was said in it."""
    new: dict[str, Hit] = {}
    for hit in reply.hits:
        is_own, key = _is_of_session(hit.anchor, prompt.session), _memory_key(hit)
        if not is_own and hit.type != ARCHIVE_TYPE and key not in seen:
            anchor = hit.anchor or Anchor()
            new.setdefault(f"{anchor.session} {anchor.turn}" if anchor.turn else key, hit)
    return list(new.values())


def _is_of_session(anchor: Anchor | None, session: str) -> bool:
    return bool(session) and anchor is not None and anchor.session == session


def _memory_key(hit: Hit) -> str:
    """Return a key that is stable when lines move: the memory's id, or the hash of its content."""
    return hit.anchor.memory if hit.anchor is not None and hit.anchor.memory else hit.content_hash


def _to_recalled_memory(hit: Hit) -> RecalledMemory:
    origin = hit.origin if hit.origin in FOREIGN_ORIGINS else ""
    if hit.trust.tainted:
        origin = hit.origin if hit.origin in UNTRUSTED_ORIGINS else "foreign"
    # A record is cited by its id: its page in the index is of no use to an agent.
    is_record = hit.trust.tier in {TrustTier.CANONICAL, TrustTier.VERIFIED} and bool(hit.grounding)
    return RecalledMemory(
        id=hit.id,
        memory=_memory_key(hit),
        text=" ".join((hit.packed.text if hit.packed else hit.snippet).split()),
        source=f"record {hit.grounding[0].record}" if is_record else hit.shown_source,
        date=hit.date,
        relevance=hit.relevance,
        origin=origin,
        trust=hit.trust,
        grounding=hit.grounding,
        verification_hint=hit.trust.verification_hint,
        verdict=hit.verdict,
    )
