"""From the lanes' ranking to the hits: read closely, dated, looked at again, repeats folded, judged.

The first few times as many candidates as hits are wanted are fetched and read; what is beyond them is never looked at.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lorelog.core.document import Key, StoredChunk
from lorelog.core.options import RerankOptions, SearchOptions
from lorelog.core.ports import Reranker, Store
from lorelog.core.query import NO_FATE, Fusion, Hit, Lane, Part
from lorelog.retrieval.analyse import WordAnalyser
from lorelog.retrieval.cache import HotTier, Kept
from lorelog.retrieval.closeread import CloseReader, Reading
from lorelog.retrieval.dedupe import Ranked, drop_repeats
from lorelog.retrieval.fuse import Fused, Parts
from lorelog.retrieval.quoted import find_phrases, look_for
from lorelog.retrieval.recency import Recency
from lorelog.retrieval.relevance import Asked, judge
from lorelog.retrieval.snippet import cut_snippet
from lorelog.retrieval.weigh import find_unread_share
from lorelog.services.candidates import MOST_HITS, Found, Question
from lorelog.services.coverings import put_below
from lorelog.services.fates import Fates
from lorelog.services.feedback import LOWERED, lowered
from lorelog.services.timing import Timing, find_timing

_LEAST_FETCHED = 20
_FETCHED_A_HIT = 2
_LEAST_FETCHED_QUOTED = 100
"""Words alone may rank a phrase far down."""
_UNLIKELY = 0.05
"""A best hit below this is said to be probably nothing."""


@dataclass(frozen=True, slots=True)
class Judges:
    """Who looks at candidates a second time, what day it is, and what is known of memories beyond what they say."""

    reranker: Reranker | None = None
    rerank: RerankOptions = field(default_factory=RerankOptions)
    today: Callable[[], dt.date] = dt.date.today
    fates: Fates | None = None
    """Who knows what has become of memories."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What is the same for all answers."""

    store: Store
    analyser: WordAnalyser
    judges: Judges
    hot: HotTier | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """A candidate with its text, what that holds of the question, and its score."""

    fused: Fused
    stored: StoredChunk
    reading: Reading


class Answer:
    """One answer, from the lanes' ranking to the hits."""

    def __init__(
        self, desk: Desk, question: Question, options: SearchOptions, found: Found, revision: str = ""
    ) -> None:
        self.notes: list[str] = []
        self.troubles: list[str] = []
        """Notes of what may go better the next time, without any write."""
        self._store = desk.store
        self._analyser = desk.analyser
        self._judges = desk.judges
        self._hot = desk.hot
        self._revision = revision
        self._question = question
        self._options = options
        self._found = found
        self._reader = CloseReader(question.terms, found.rarity)
        self._asked = Asked(len(question.terms), find_unread_share(question.text))
        self._phrases = find_phrases(question.text)
        self._recency = Recency(options.recency_weight, options.half_life_days, desk.judges.today())
        self._readings: dict[Key, Reading] = {}
        self._plain: dict[Key, float] = {}
        """Scores of the lanes and the close reading, which relevance was calibrated on."""
        self._second_look = ""
        self._timing: Timing | None = None
        self._is_timed = False

    def hits(self) -> tuple[Hit, ...]:
        """Return the hits, best first."""
        distinct = self._below_summaries(self._look_again(self._distinct()))[: self._options.k]
        # Sorted by the very numbers that are shown: they may differ from the ranking's in the last digit.
        hits = sorted((self._hit(one) for one in distinct), key=lambda hit: -hit.score)
        likely = [hit for hit in hits if hit.relevance >= self._options.min_relevance]
        best = max((hit.relevance for hit in hits), default=0.0)
        if hits and not likely:
            self.notes.append(
                f"nothing relevant found: the best of {len(hits)} is {best:.0%} likely to be, "
                f"and {self._options.min_relevance:.0%} was asked for"
            )
        elif hits and best < _UNLIKELY:
            self.notes.append(f"probably nothing relevant: the best is {best:.0%} likely to be")
        return tuple(likely)

    def weighing(self) -> str:
        """Return how much each lane counted, and why; empty when one lane answered alone."""
        weights = self._found.weights
        said = [f"dense {weights.dense:.2f}, lexical {1 - weights.dense:.2f}: {weights.reason}"] if weights else []
        if self._timing is not None:
            said.append(self._timing.said)
        if self._second_look:
            said.append(self._second_look)
        return "; ".join(said)

    @property
    def _weighed(self) -> bool:
        """Whether the ranking is ours; single lanes and reciprocal ranks are left as they are."""
        return self._options.lane is Lane.HYBRID and self._options.fusion is Fusion.CONVEX

    def _distinct(self) -> list[Ranked]:
        """Return enough different chunks for the hits. Keys that were removed since the lanes answered are passed over.

        Far fewer are fetched than were ranked, so repeats are looked for among the first few times k.
        """
        read: list[_Read] = []
        distinct: list[Ranked] = []
        wanted = self._options.k
        if self._judges.reranker is not None:
            wanted = max(wanted, self._judges.rerank.candidates)
        least = _LEAST_FETCHED_QUOTED if self._phrases and self._weighed else _LEAST_FETCHED
        page = max(least, _FETCHED_A_HIT * min(self._options.k, MOST_HITS))
        for start in range(0, len(self._found.ranked), page):
            read += self._read(self._found.ranked[start : start + page])
            if self._weighed:
                read.sort(key=lambda one: -one.fused.score)
            distinct = drop_repeats((one.fused, one.stored) for one in read)
            if len(distinct) >= wanted:
                break
        return distinct

    def _read(self, candidates: Sequence[Fused]) -> list[_Read]:
        kept = self._keep([one.key for one in candidates])
        read = []
        for one in candidates:
            if one.key not in kept or self._is_hidden(kept[one.key].stored):
                continue
            reading = self._reader.read(kept[one.key].words)
            self._readings[one.key] = reading
            read.append(_Read(one, kept[one.key].stored, reading))
        if not self._weighed:
            return read
        timing = self._time([one.stored for one in read])
        return [self._score(one, timing) for one in read]

    def _is_hidden(self, stored: StoredChunk) -> bool:
        """Say whether a memory is superseded or expired. Told before repeats are folded: one that is shown may repeat it."""
        fates = self._judges.fates
        return fates is not None and fates.hides(stored, self._options)

    def _keep(self, keys: Sequence[Key]) -> dict[Key, Kept]:
        """Return chunks with their words: from the hot tier where they are there, and there from now on."""
        known = self._hot.get_many(keys, self._revision) if self._hot is not None else {}
        fetched = self._store.fetch([key for key in keys if key not in known])
        words = self._analyser.words
        new = {key: Kept(stored, words(stored.chunk.matched_text)) for key, stored in fetched.items()}
        if self._hot is not None:
            self._hot.put_many(new.values(), self._revision)
        return known | new

    def _time(self, stored: Sequence[StoredChunk]) -> Timing | None:
        """Return what time the question names, if one of the first candidates is of that time; all are measured alike."""
        if not self._is_timed:
            self._is_timed = True
            self._timing = find_timing(self._question.text, self._judges.today(), stored, self._event_day)
        return self._timing

    def _event_day(self, event: str) -> str:
        """Return the day of the chunk that tells of an event best, if one names it in full."""
        terms = self._analyser.query_terms(event)
        best = self._store.lexical(terms, self._options.filters, 1)
        chunk = next(iter(self._store.fetch([one.key for one in best]).values()), None)
        if chunk is None or not {term.text for term in terms} <= set(self._analyser.words(chunk.chunk.matched_text)):
            return ""
        return chunk.chunk.date[:10]

    def _score(self, one: _Read, timing: Timing | None) -> _Read:
        reading, date, recency = one.reading, one.stored.chunk.date, self._recency
        fused = one.fused.plus(reading.value, reading.parts)
        self._plain[fused.key] = fused.score
        if timing is not None:
            fused = fused.plus(timing.value(date), lambda: (timing.part(date),))
        if recency.weight > 0.0:
            fused = fused.plus(recency.value(date), lambda: (recency.part(date),))
        if self._phrases:
            quoted = look_for(self._phrases, one.stored.chunk.matched_text)
            fused = fused.plus(quoted.value, quoted.parts)
        if self._judges.fates is not None and self._judges.fates.is_unwanted(self._question.text, one.stored):
            fused = fused.plus(-LOWERED, lowered)
        return replace(one, fused=fused)

    def _look_again(self, ranked: list[Ranked]) -> list[Ranked]:
        """Have the cross-encoder, where there is one, read the first candidates together with the question."""
        if self._judges.reranker is None or not ranked or not self._weighed:
            return ranked
        from lorelog.retrieval.rerank import rerank

        done = rerank(
            self._question.text,
            [one.fused.score for one in ranked],
            [one.stored.chunk.embedded_text for one in ranked],
            self._judges.reranker,
            self._judges.rerank,
        )
        self.troubles += done.notes
        self._second_look = done.reason
        again = [
            one if part is None else replace(one, fused=one.fused.plus(part.value, _only(part)))
            for one, part in zip(ranked, done.parts, strict=True)
        ]
        return sorted(again, key=lambda one: -one.fused.score)

    def _below_summaries(self, ranked: list[Ranked]) -> list[Ranked]:
        """Let what a summary covers go below it, where that has the question's words too. After all else: it moves nothing up."""
        fates = self._judges.fates
        if fates is None or not fates.coverings or not self._weighed:
            return ranked
        asked = frozenset(term.text for term in self._question.terms)
        return put_below(ranked, fates.coverings, lambda text: asked & frozenset(self._analyser.words(text)))

    def _hit(self, one: Ranked) -> Hit:
        chunk = one.stored.chunk
        snippet = cut_snippet(chunk.text, self._question.terms, self._analyser)
        key = one.fused.key
        explanation = one.fused.explanation
        return Hit(
            id=one.stored.id,
            score=explanation.score,
            source=chunk.source,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            heading=chunk.heading,
            heading_level=chunk.heading_level,
            heading_path=chunk.heading_path,
            project=one.stored.project,
            date=chunk.date,
            type=chunk.type,
            tags=chunk.tags,
            content=chunk.content,
            content_hash=chunk.content_hash,
            snippet=snippet.text,
            matches=snippet.matches,
            anchor=chunk.anchor,
            explanation=explanation,
            duplicates=one.duplicates,
            fate=self._judges.fates.of(one.stored) if self._judges.fates is not None else NO_FATE,
            relevance=judge(self._asked, self._readings[key], self._plain.get(key), self._found.distance(key)),
        )


def _only(part: Part) -> Parts:
    return lambda: (part,)
