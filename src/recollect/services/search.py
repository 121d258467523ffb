"""Finding: ask both lanes for far more than is wanted, fuse, drop repeats, cut snippets, explain.

Nothing here fails for want of a model. Where the question cannot be embedded, words answer alone and a note says why;
only a search that was asked to be dense alone has nothing else to give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.core.document import StoredChunk
from recollect.core.errors import ModelError, UsageError
from recollect.core.options import SearchOptions
from recollect.core.ports import Embedder, Store, Vector
from recollect.core.query import Candidate, Coverage, Filters, Fusion, Hit, Lane, SearchReply, Term
from recollect.core.vectors import unit
from recollect.retrieval.analyse import WordAnalyser
from recollect.retrieval.dedupe import Ranked, drop_repeats
from recollect.retrieval.fuse import Fused, fuse_convex, fuse_rrf, rank_single
from recollect.retrieval.snippet import cut_snippet
from recollect.retrieval.weigh import weigh

_LEAST_CANDIDATES = 200
_CANDIDATES_A_HIT = 10
_MOST_HITS = 10_000
_LEAST_FETCHED = 40
_FETCHED_A_HIT = 4


@dataclass(frozen=True, slots=True)
class _Found:
    """What the lanes propose."""

    lexical: Sequence[Candidate] = ()
    dense: Sequence[Candidate] = ()
    vector: Vector | None = None


class Searcher:
    """Answers questions over one store. `embedder` is None where only words are wanted."""

    def __init__(self, store: Store, embedder: Embedder | None, analyser: WordAnalyser) -> None:
        self._store = store
        self._embedder = embedder
        self._analyser = analyser

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        """Return the hits for a question, best first."""
        _check(query, options)
        query = query.encode("utf-8", "replace").decode()  # half a surrogate pair is nobody's word
        filters = options.filters
        coverage = self._store.coverage(filters)
        notes: list[str] = []
        if not coverage.chunks:
            notes.append("nothing is indexed here yet: 'recollect index PATH' or 'recollect add'")
        terms = self._analyser.query_terms(query)
        found = self._ask_lanes(query, terms, options, coverage, notes)
        weights = weigh(query)
        ranked = self._rank(found, options, weights.dense)
        hits = tuple(self._hit(one, terms) for one in self._distinct(ranked, options.k))
        if options.lane is not Lane.DENSE and not found.lexical:
            notes += self._elsewhere(terms, filters)
        fused = found.vector is not None and options.lane is Lane.HYBRID and options.fusion is Fusion.CONVEX
        weighing = f"dense {weights.dense:.2f}, lexical {1 - weights.dense:.2f}: {weights.reason}" if fused else ""
        return SearchReply(query, options.lane, hits, coverage, tuple(notes), weighing)

    def _ask_lanes(
        self, query: str, terms: Sequence[Term], options: SearchOptions, coverage: Coverage, notes: list[str]
    ) -> _Found:
        limit = max(_LEAST_CANDIDATES, _CANDIDATES_A_HIT * min(options.k, _MOST_HITS))
        lexical: Sequence[Candidate] = ()
        if options.lane is not Lane.DENSE:
            lexical = self._store.lexical(terms, options.filters, limit)
        vector = self._question(query, options.lane, coverage, notes)
        if vector is None:
            return _Found(lexical)
        return _Found(lexical, self._store.dense(vector, options.filters, limit), vector)

    def _question(self, query: str, lane: Lane, coverage: Coverage, notes: list[str]) -> Vector | None:
        """Return the question's vector, or None where words must do; a note says why."""
        if lane is Lane.LEXICAL or not coverage.chunks:
            return None
        if self._embedder is None:
            if lane is Lane.DENSE:
                raise UsageError("there is no model to search by meaning with", hint="embedding.provider is 'none'")
            return None
        if not coverage.with_vectors:
            alone = "" if lane is Lane.DENSE else "; words alone answered"
            notes.append(f"nothing here has vectors of the current model yet{alone} ('recollect index' makes them)")
            return None
        if coverage.with_vectors < coverage.chunks:
            notes.append(
                f"{coverage.with_vectors:,} of {coverage.chunks:,} chunks have vectors; the rest is found by words"
            )
        try:
            return unit(self._embedder.embed_query(query))
        except ModelError as error:
            if lane is Lane.DENSE:
                raise
            notes.append(f"words alone answered: {error.message}")
            return None

    def _rank(self, found: _Found, options: SearchOptions, weight_dense: float) -> list[Fused]:
        if options.lane is Lane.DENSE:
            return rank_single(found.dense, Lane.DENSE)
        if found.vector is None:
            return rank_single(found.lexical, Lane.LEXICAL)
        if options.fusion is Fusion.RRF:
            return fuse_rrf(found.lexical, found.dense)
        known = {one.key: one.score for one in found.dense}
        missing = [one.key for one in found.lexical if one.key not in known]
        known |= self._store.similarities(found.vector, missing)
        return fuse_convex(found.lexical, found.dense, known, weight_dense)

    def _distinct(self, ranked: Sequence[Fused], k: int) -> list[Ranked]:
        """Return the first k different chunks. Keys that were removed since the lanes answered are passed over.

        Far fewer are fetched than were ranked, so repeats are looked for among the first few times k.
        """
        pairs: list[tuple[Fused, StoredChunk]] = []
        distinct: list[Ranked] = []
        page = max(_LEAST_FETCHED, _FETCHED_A_HIT * min(k, _MOST_HITS))
        for start in range(0, len(ranked), page):
            part = ranked[start : start + page]
            stored = self._store.fetch([one.key for one in part])
            pairs += [(one, stored[one.key]) for one in part if one.key in stored]
            distinct = drop_repeats(pairs)
            if len(distinct) >= k:
                break
        return distinct[:k]

    def _hit(self, one: Ranked, terms: Sequence[Term]) -> Hit:
        chunk = one.stored.chunk
        snippet = cut_snippet(chunk.text, terms, self._analyser)
        return Hit(
            id=one.stored.id,
            score=one.fused.score,
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
            explanation=one.fused.explanation,
            duplicates=one.duplicates,
        )

    def _elsewhere(self, terms: Sequence[Term], filters: Filters) -> list[str]:
        """Say whether other projects would have answered."""
        if filters.projects is None:
            return []
        others = tuple(project for project in self._store.projects() if project not in filters.projects)
        if others and self._store.lexical(terms, replace(filters, projects=others), 1):
            return ["no word of it is in this project; other projects have matches: --all-projects"]
        return []


def _check(query: str, options: SearchOptions) -> None:
    if not query.strip():
        raise UsageError("there is nothing to search for: the query is empty")
    if options.k < 1:
        raise UsageError(f"the number of hits must be at least 1, not {options.k}")
