"""Search: from a query to ranked hits with explanation and relevance.

Only the first candidates, a few times the number of hits, are fetched and read. A missing model is not an error: if the query
cannot be embedded, keyword search answers and a note gives the reason; only a dense search has no alternative. A reranker
that fails causes a note.

A time in the query counts only if some candidate is from that time: a year that is the subject of a text ("im Jahr 2010") is not the
date of a note, and must not change the ranking.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import ChunkKey, StoredChunk
from lorelog.core.errors import ModelError, ModelFault, StoreDamaged, UsageError, plural
from lorelog.core.options import CacheOptions, RerankOptions, SearchOptions
from lorelog.core.ports import Embedder, Reranker, Store, Vector
from lorelog.core.query import NO_LIFECYCLE_STATE, Fusion, Hit, Lane, SearchReply, VectorCoverage
from lorelog.core.vectors import unit_vector
from lorelog.language.analyser import WordAnalyser
from lorelog.retrieval.cache import AnswerCache, AnswerKey, ProcessCache, normalize_spaces
from lorelog.retrieval.dedupe import RankedChunk, drop_duplicates, fold_entries
from lorelog.retrieval.fusion import FusedCandidate, keyword_likeness, unread_share
from lorelog.retrieval.relevance import QueryFeatures, calibration_of, never_rising, relevance_probability
from lorelog.retrieval.score_features import (
    COMMANDS_WEIGHT,
    NAME_WEIGHT,
    WORDS_READING_WEIGHTS,
    CloseReader,
    MatchFeatures,
    explain_commands,
    explain_name,
    find_quoted_phrases,
    match_phrases,
)
from lorelog.retrieval.snippet import cut_snippet
from lorelog.services.memory_state.lifecycle_index import (
    IRRELEVANT_PENALTY,
    LifecycleIndex,
    explain_penalty,
    rank_below_sources,
)
from lorelog.services.search.candidates import MAX_HITS, CandidateSet, SearchQuestion, StandingCheck, find_candidates
from lorelog.services.search.postprocess import hit_of

if TYPE_CHECKING:
    from lorelog.retrieval.time_expressions import TimeHint

_MAX_TURN_WAIT_S = 1.0
NOTHING_INDEXED = "nothing is indexed here yet; run 'lorelog index PATH' or 'lorelog add'"
MAX_QUERY_CHARS = 10_000
"""A longer query is cut: analysing it takes time in proportion, and its words say no more."""
_WORDS: ProcessCache[list[str]] = ProcessCache(1_024)
"""Words of the texts that were read lately: the same memories are candidates again and again. At most 3 KB each."""
_MIN_FETCHED = 20
_FETCHED_PER_HIT = 2
_MIN_FETCHED_QUOTED = 100
"""With quoted phrases more are fetched: single words may rank a phrase far down."""


class SearchDeps(Struct, frozen=True):
    """Optional dependencies: reranker, clock, and the lifecycle of memories."""

    reranker: Reranker | None = None
    rerank: RerankOptions = field(default_factory=RerankOptions)
    today: Callable[[], dt.date] = dt.date.today
    lifecycle: LifecycleIndex | None = None
    stands: StandingCheck | None = None


class HitBuilder:
    """Builds the hits of one search from the fused candidates."""

    def __init__(
        self, searcher: Searcher, question: SearchQuestion, options: SearchOptions, candidates: CandidateSet
    ) -> None:
        self.notes: list[str] = []
        self.transient_notes: list[str] = []
        """Notes of failures that may not recur, even without a write."""
        self.shown: dict[str, StoredChunk] = {}
        """The chunks of the hits by id, without those of other machines."""
        self._store, self._analyser, self._deps = searcher.store, searcher.analyser, searcher.deps
        self._question, self._options, self._candidates = question, options, candidates
        self._reader = CloseReader(question.terms, candidates.rarity, unread_share(question.text))
        self._query_features = QueryFeatures(
            len(question.terms),
            question.chunks,
            candidates.lead,
            0.0 if question.vector is None else question.calibration.mean_cosine(question.vector),
            keyword_likeness(question.text, candidates.rarity.values(), question.chunks),
        )
        self._phrases = find_quoted_phrases(question.text)
        self._readings: dict[ChunkKey, MatchFeatures] = {}
        """Made when they are needed: of all candidates if they are ranked by them, else of the hits alone."""
        self._found: dict[ChunkKey, StoredChunk] = {}
        """The candidates as they were fetched: also superseded memories, in whose place their successors are shown."""
        self._words: dict[str, Sequence[str]] = {}
        """Words by text: analysed once, for close reading and snippets."""
        self._plain_scores: dict[ChunkKey, float] = {}
        """Scores of lanes and close reading only, on which relevance was calibrated."""
        self._best_scores: list[float] = []
        """The two highest of them."""
        weights = candidates.weights
        self._reading_weights = WORDS_READING_WEIGHTS if weights is None else weights.readings
        self._replaced: dict[ChunkKey, str] = {}
        """Days of the superseded memories in whose place their successors are shown."""
        self._left_out = ""
        """Id of the best successor that the filters exclude."""
        self._rerank_reason = ""
        self._timing: TimeHint | None = None
        self._is_timed = False

    def hits(self) -> tuple[Hit, ...]:
        distinct = self._distinct()
        self._best_scores = sorted(map(self._plain_score, distinct), reverse=True)[:2]
        chosen = self._rank_below_sources(self._rerank(distinct))[: self._options.k]
        self.shown = {item.stored.id: item.stored for item in chosen if not item.stored.machine}
        # Sort by the displayed scores: they may differ from the ranking's in the last digit.
        hits = sorted((self._hit(ranked) for ranked in chosen), key=lambda hit: -hit.score)
        replaced = ((item.stored.id, self._replaced.get(item.fused.key)) for item in chosen)
        self.notes += [f"{newer} replaces an older one of {day}, which matches" for newer, day in replaced if day]
        if self._left_out and not hits:
            self.notes.append(f"{self._left_out} replaces an older one, which matches, but the filters leave it out")
        # What stands keeps its own relevance: it may be put before others that are more likely.
        stands = [any(part.name == "standing" for part in hit.explanation.parts) for hit in hits]
        falling = iter(never_rising([hit.relevance for hit, first in zip(hits, stands, strict=True) if not first]))
        hits = [
            hit if first else replace(hit, relevance=next(falling)) for hit, first in zip(hits, stands, strict=True)
        ]
        likely = [hit for hit in hits if hit.relevance >= self._options.min_relevance]
        best = max((hit.relevance for hit in hits), default=0.0)
        if hits and not likely:
            self.notes.append(
                f"nothing relevant found: the best of {plural(len(hits), 'hit')} has a relevance of {best:.0%}, "
                f"below the minimum of {self._options.min_relevance:.0%}"
            )
        return tuple(likely)

    def explain_weights(self) -> str:
        """Return how much each lane counted, and why; empty if a single lane answered."""
        weights = self._candidates.weights
        reasons = [f"dense {weights.dense:.2f}, lexical {1 - weights.dense:.2f}: {weights.reason}"] if weights else []
        if self._timing is not None:
            reasons.append(self._timing.description)
        if self._rerank_reason:
            reasons.append(self._rerank_reason)
        return "; ".join(reasons)

    @property
    def _uses_own_ranking(self) -> bool:
        """Whether our ranking applies; single lanes and reciprocal ranks are not changed."""
        return self._options.lane is Lane.HYBRID and self._options.fusion is Fusion.CONVEX

    def _distinct(self) -> list[RankedChunk]:
        """Return enough distinct chunks for the hits. Keys removed since the lanes answered are skipped.

        Far fewer are fetched than were ranked, so duplicates are found among the first few times k only.
        """
        read: list[tuple[FusedCandidate, StoredChunk]] = []
        distinct: list[RankedChunk] = []
        count = self._options.k
        if self._deps.reranker is not None and self._uses_own_ranking:
            count = max(count, self._deps.rerank.candidates)
        min_fetched = _MIN_FETCHED_QUOTED if self._phrases and self._uses_own_ranking else _MIN_FETCHED
        page = max(min_fetched, _FETCHED_PER_HIT * min(self._options.k, MAX_HITS))
        for start in range(0, len(self._candidates.ranked), page):
            read += self._read(self._candidates.ranked[start : start + page])
            if self._uses_own_ranking:
                read.sort(key=lambda candidate: -candidate[0].score)
            distinct = fold_entries(drop_duplicates(read))
            if len(distinct) >= count:
                return distinct
        if not self._candidates.may_be_more:
            return distinct
        self._candidates = find_candidates(self._store, self._question, self._options, is_first=False)
        return self._distinct()

    def _read(self, candidates: Sequence[FusedCandidate]) -> list[tuple[FusedCandidate, StoredChunk]]:
        chunks = self._store.fetch([candidate.key for candidate in candidates])
        lifecycle = self._deps.lifecycle
        read = []
        for candidate in candidates:
            shown = chunks.get(candidate.key)
            if shown is None:
                continue
            self._found[candidate.key] = shown
            # Filter before deduplication: a visible chunk may duplicate a hidden one.
            if lifecycle is not None and lifecycle.hides(shown, self._options):
                newer = self._find_successor(shown, lifecycle)
                if newer is None:
                    continue
                self._replaced[candidate.key] = shown.chunk.date[:10]
                shown = newer
            read.append((candidate, shown))
        if not self._uses_own_ranking:
            return read
        timing = self._find_time([stored for _, stored in read])
        return [(self._score(candidate, stored, timing), stored) for candidate, stored in read]

    def _reading(self, key: ChunkKey) -> MatchFeatures:
        if key not in self._readings:
            self._readings[key] = self._reader.read(self._words_of(self._found[key]))
        return self._readings[key]

    def _words_of(self, stored: StoredChunk) -> Sequence[str]:
        text = stored.chunk.matched_text
        if text not in self._words:
            self._words[text] = _WORDS.of_text(text, self._analyser.words)
        return self._words[text]

    def _find_successor(self, stored: StoredChunk, lifecycle: LifecycleIndex) -> StoredChunk | None:
        """Return the memory in force that replaces a superseded one, to be shown in its place; None if filters exclude it."""
        from lorelog.services.memories.listing import matches_filters

        newer = lifecycle.find_successor(stored)
        if newer is None or lifecycle.hides(newer, self._options):
            return None
        if not matches_filters(self._options.filters, newer):
            self._left_out = self._left_out or newer.id
            return None
        return newer

    def _find_time(self, stored: Sequence[StoredChunk]) -> TimeHint | None:
        """Return the time that the query names, by the first page of candidates; all pages are scored alike."""
        if not self._is_timed:
            from lorelog.retrieval.time_expressions import find_time_hint

            self._is_timed = True
            hint = find_time_hint(self._question.text, self._deps.today())
            if hint is not None and any(hint.includes(entry.chunk.date[:10]) for entry in stored):
                self._timing = hint
        return self._timing

    def _score(self, fused: FusedCandidate, stored: StoredChunk, timing: TimeHint | None) -> FusedCandidate:
        chunk, lifecycle = stored.chunk, self._deps.lifecycle
        date, reading, weights = chunk.date, self._reading(fused.key), self._reading_weights
        fused = fused.plus(reading.score(weights), lambda: reading.parts(weights))
        if share := self._name_share(stored):
            weight = NAME_WEIGHT if self._candidates.weights else NAME_WEIGHT / 2
            fused = fused.plus(weight * share, partial(explain_name, share, weight))
        self._plain_scores[fused.key] = fused.score - self._candidates.priors.get(fused.key, 0.0)
        if timing is not None:
            fused = fused.plus(timing.value(date), lambda: (timing.part(date),))
        if share := self._reader.commands_share(chunk.text):
            fused = fused.plus(-COMMANDS_WEIGHT * share, partial(explain_commands, share))
        if self._phrases:
            quoted = match_phrases(self._phrases, chunk.matched_text)
            fused = fused.plus(quoted.score, quoted.parts)
        if lifecycle is not None and lifecycle.is_irrelevant(self._question.text, stored):
            fused = fused.plus(-IRRELEVANT_PENALTY, explain_penalty)
        return fused

    def _name_share(self, stored: StoredChunk) -> float:
        """Return how much of the query the words of a document's title and file name have that no heading of a chunk has."""
        if stored.chunk.memory:
            return 0.0
        name = stored.chunk.source.rpartition(os.sep)[2]
        suffix = name.rfind(".")
        stem = name[:suffix] if 0 < suffix < len(name) - 1 else name  # as pathlib's, which takes ten times as long
        words = self._analyser.words
        return self._reader.name_share(
            words(f"{stored.title} {stem}"), lambda: words(" ".join(stored.chunk.heading_path))
        )

    def _rerank(self, ranked: list[RankedChunk]) -> list[RankedChunk]:
        if self._deps.reranker is None or not ranked or not self._uses_own_ranking:
            return ranked
        from lorelog.retrieval.rerank import rerank

        result = rerank(
            self._question.text,
            [item.fused.score for item in ranked],
            [item.stored.chunk.embedded_text for item in ranked],
            self._deps.reranker,
            self._deps.rerank,
        )
        self.transient_notes += result.notes
        self._rerank_reason = result.reason
        reranked = [
            item if part is None else replace(item, fused=item.fused.plus(part.value, partial(tuple, (part,))))
            for item, part in zip(ranked, result.parts, strict=True)
        ]
        return sorted(reranked, key=lambda item: -item.fused.score)

    def _plain_score(self, item: RankedChunk) -> float:
        """Return the score that the others of a hit are compared with; none for a summary, which is no rival of its sources."""
        lifecycle = self._deps.lifecycle
        is_summary = lifecycle is not None and lifecycle.summary_links.contents_of(item.stored.chunk.memory)
        return 0.0 if is_summary else self._plain_scores.get(item.fused.key, 0.0)

    def _rank_below_sources(self, ranked: list[RankedChunk]) -> list[RankedChunk]:
        """Rank summaries below their sources. Last, because it moves nothing up."""
        lifecycle = self._deps.lifecycle
        if lifecycle is None or not lifecycle.summary_links or not self._uses_own_ranking:
            return ranked
        return rank_below_sources(ranked, lifecycle.summary_links, lambda item: self._relevance(item.fused.key))

    def _relevance(self, key: ChunkKey) -> float:
        score = self._plain_scores.get(key)
        margin = score
        if score is not None and len(self._best_scores) > 1:
            margin = score - self._best_scores[score == self._best_scores[0]]
            margin += self._candidates.priors.get(key, 0.0)  # which speaks for a rule, and not against the others
        return relevance_probability(
            self._query_features,
            self._reading(key),
            self._question.calibration,
            margin=margin,
            cosine=self._candidates.cosines.get(key),
        )

    def _hit(self, ranked: RankedChunk) -> Hit:
        key, lifecycle = ranked.fused.key, self._deps.lifecycle
        words = self._words_of(ranked.stored)
        snippet = cut_snippet(ranked.stored.chunk.text, self._question.terms, self._analyser, words=words)
        explanation = ranked.fused.explanation
        return hit_of(
            ranked.stored,
            snippet,
            score=explanation.score,
            explanation=explanation,
            duplicates=ranked.duplicates,
            lifecycle=NO_LIFECYCLE_STATE if lifecycle is None else lifecycle.shown_state(ranked.stored),
            relevance=self._relevance(key),
        )


class SearchTurn:
    """Lets one search of a process compute at a time, in order of arrival: Python's threads would only hinder each other.

    With sixteen clients at once each search took 23 ms of CPU time, one after the other 13: 75 answers a second instead of 53. A search
    leaves its turn while it waits for a vector. None waits for long: after a second it goes ahead.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_taken = False
        self._owner = 0
        self._waiting: deque[Lock] = deque()
        """A lock of each waiting thread, released when it is its turn."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Compute in turn. Within a turn of the same thread, this does nothing."""
        is_inner = self._owner == get_ident()
        if not is_inner:
            self._take()
        try:
            yield
        finally:
            if not is_inner:
                self._leave()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Let others compute while this thread waits; without a turn, this does nothing."""
        is_left = self._leave()
        try:
            yield
        finally:
            if is_left:
                self._take()

    def _take(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken, self._owner = True, get_ident()
                return
            turn = Lock()
            turn.acquire()
            self._waiting.append(turn)
        if not turn.acquire(timeout=_MAX_TURN_WAIT_S):
            with self._lock:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                    return
        self._owner = get_ident()

    def _leave(self) -> bool:
        if self._owner != get_ident():
            return False
        self._owner = 0
        with self._lock:
            self._is_taken = bool(self._waiting)
            if self._waiting:
                self._waiting.popleft().release()
        return True


SEARCH_TURN = SearchTurn()


class Searcher:
    """Searches one store. Without an `embedder` it uses keywords only."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        analyser: WordAnalyser,
        deps: SearchDeps | None = None,
        answers: AnswerCache | None = None,
    ) -> None:
        self.store, self.analyser, self.deps = store, analyser, deps or SearchDeps()
        self._embedder = embedder
        self._answers = answers or AnswerCache(CacheOptions(answers=False))
        self.shown: dict[str, StoredChunk] = {}
        """What `HitBuilder.shown` was in the last search; empty if the reply was kept."""

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        """Return the hits for a query, best first."""
        if not query.strip():
            raise UsageError("the query is empty", hint="give words or a question to search for")
        if options.k < 1:
            raise UsageError(f"k must be at least 1 (got {options.k})")
        if not 0.0 <= options.min_relevance <= 1.0:
            raise UsageError(f"min_relevance must be between 0 and 1 (got {options.min_relevance})")
        is_cut = len(query) > MAX_QUERY_CHARS
        query = normalize_spaces(limit_query(query).encode("utf-8", "replace").decode())  # replaces lone surrogates
        # The revision before anything else is read: a later write then invalidates the reply.
        revision = self._revision() if self._answers.is_enabled else ""
        key = AnswerKey(query, options, self._model, self.deps.today().isoformat())
        reply, self.shown = self._answers.get(key, revision), {}
        if reply is None:
            reply = self._search(query, options, revision, key)
        note = f"only the first {MAX_QUERY_CHARS:,} characters of the query were used"
        return replace(reply, notes=(*reply.notes, note)) if is_cut else reply

    def _search(self, query: str, options: SearchOptions, revision: str, key: AnswerKey) -> SearchReply:
        coverage = self.store.lane_coverage(options.filters)
        notes: list[str] = []
        troubles: list[str] = []
        if not coverage.chunks:
            notes.append(NOTHING_INDEXED)
        terms = self.analyser.query_terms(query)
        vector = self._embed(query, options.lane, coverage, notes, troubles)
        question = SearchQuestion(query, terms, vector, calibration_of(self._model), coverage.chunks, self.deps.stands)
        candidates = self._find(question, options, troubles)
        # Damage is found by reading: then no chunk has a vector any more.
        is_suspect = vector is not None and not candidates.cosines
        left = self.store.lane_coverage(options.filters) if is_suspect else coverage
        if left.with_vectors < coverage.with_vectors:
            lost = plural(coverage.with_vectors - left.with_vectors, "damaged vector")
            troubles.append(f"{lost} removed: keywords find the texts until 'lorelog index' makes vectors again")
            coverage = left
        builder = HitBuilder(self, question, options, candidates)
        hits, self.shown = builder.hits(), builder.shown
        troubles += builder.transient_notes
        notes += [*troubles, *builder.notes]
        if options.lane is not Lane.DENSE and not terms:
            notes.append("the query contains no searchable word")
        elif options.lane is not Lane.DENSE and not candidates.lexical and options.filters.projects is not None:
            others = tuple(project for project in self.store.projects() if project not in options.filters.projects)
            if others and self.store.propose(terms, None, replace(options.filters, projects=others), 1)[0]:
                notes.append("no match in this project, but in other projects: use --all-projects")
        reply = SearchReply(query, options.lane, hits, coverage, tuple(notes), builder.explain_weights())
        if not troubles:
            self._answers.put(key, revision, reply)
        return reply

    def _revision(self) -> str:
        """Return a token of everything that replies depend on: the index, and the files beside it."""
        lifecycle = self.deps.lifecycle
        return f"{self.store.revision()} {lifecycle.token}" if lifecycle is not None else self.store.revision()

    @property
    def _model(self) -> str:
        return f"{self._embedder.provider}/{self._embedder.model}" if self._embedder else "none"

    def _embed(
        self, query: str, lane: Lane, coverage: VectorCoverage, notes: list[str], troubles: list[str]
    ) -> Vector | None:
        """Return the query's vector, or None if keywords must do; a note gives the reason.

        Failures that may not recur go into `troubles`: such a reply is not cached.
        """
        if lane is Lane.LEXICAL or not coverage.chunks:
            return None
        if self._embedder is None:
            if lane is Lane.DENSE:
                raise UsageError("dense search requires an embedding model", hint="embedding.provider is 'none'")
            return None
        if coverage.with_vectors < coverage.chunks and self.store.serves_model() and self.store.is_running():
            rest = "the rest is found by keywords" if coverage.with_vectors else "showing keyword matches only"
            progress = f"vectors are being made: {coverage.with_vectors:,} of {coverage.chunks:,}"
            troubles.append(progress if lane is Lane.DENSE else f"{progress}; {rest}")
            if not coverage.with_vectors:
                return None
        elif not coverage.with_vectors:
            notes.append(self._no_vectors(lane))
            return None
        elif coverage.with_vectors < coverage.chunks:
            notes.append(
                f"{coverage.with_vectors:,} of {coverage.chunks:,} chunks have vectors; the rest is found by keywords"
            )
        try:
            with SEARCH_TURN.left():
                return unit_vector(self._embedder.embed_query(query))
        except ModelError as error:
            if lane is Lane.DENSE:
                raise
            troubles.append(f"showing keyword matches only: {error.message}")
            return None

    def _find(self, question: SearchQuestion, options: SearchOptions, troubles: list[str]) -> CandidateSet:
        """Query the lanes; without the vector if it does not fit the index because the model behind its name changed,
        or if the vector files are damaged and cannot be repaired now.
        """
        try:
            return find_candidates(self.store, question, options)
        except (ModelFault, StoreDamaged) as error:
            if options.lane is Lane.DENSE or question.vector is None:
                raise
            troubles.append(f"showing keyword matches only: {error.message} ({error.hint})")
            return find_candidates(self.store, replace(question, vector=None), options)

    def _no_vectors(self, lane: Lane) -> str:
        alone = "" if lane is Lane.DENSE else "; showing keyword matches only"
        if not self.store.serves_model():
            state = self.store.reembed_state()
            if state.is_outdated:
                return f"{state.own} replaces {state.served}{alone} until the daemon or 'lorelog index' has made its vectors"
            return f"the index has vectors of another model{alone} ('lorelog index --reembed' replaces them)"
        return f"semantic search is not ready: no chunk has a vector yet{alone} ('lorelog index' makes them)"


def limit_query(query: str) -> str:
    """Return the part of a query that is used: up to the last space within the limit."""
    if len(query) <= MAX_QUERY_CHARS:
        return query
    cut = query[:MAX_QUERY_CHARS]
    return (cut.rpartition(" ")[0] if not query[MAX_QUERY_CHARS].isspace() else cut) or cut
