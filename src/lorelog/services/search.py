"""Finding: candidates of both lanes, read closely, repeats folded, explained, and said how likely they answer.

Nothing here fails for want of a model. Where the question cannot be embedded, words answer alone and a note says why;
only a search that was asked to be dense alone has nothing else to give. A cross-encoder that cannot answer is a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lorelog.core.errors import ModelError, ModelFault, UsageError
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Embedder, Store, Vector
from lorelog.core.query import Coverage, Filters, Lane, SearchReply, Term
from lorelog.core.vectors import unit
from lorelog.retrieval.analyse import WordAnalyser
from lorelog.retrieval.cache import Caches, Inquiry, tidy
from lorelog.services.answer import Answer, Desk, Judges
from lorelog.services.candidates import Found, Question, find


class Searcher:
    """Answers questions over one store. `embedder` is None where only words are wanted."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        analyser: WordAnalyser,
        judges: Judges | None = None,
        caches: Caches | None = None,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._analyser = analyser
        self._caches = caches or Caches()
        self._desk = Desk(store, analyser, judges or Judges(), self._caches.hot)

    def search(self, query: str, options: SearchOptions) -> SearchReply:
        """Return the hits for a question, best first."""
        _check(query, options)
        query = tidy(query.encode("utf-8", "replace").decode())  # half a surrogate pair is nobody's word
        revision = self._revision() if self._caches.on else ""  # before anything else is read
        answers = self._caches.answers
        if answers is None:
            return self._search(query, options, revision)
        inquiry = Inquiry(query, options, self._model, self._desk.judges.today().isoformat())
        return answers.get(inquiry, revision) or self._search(query, options, revision, inquiry)

    def _search(self, query: str, options: SearchOptions, revision: str, inquiry: Inquiry | None = None) -> SearchReply:
        answers = self._caches.answers
        coverage = self._store.reach(options.filters)
        notes: list[str] = []
        troubles: list[str] = []
        if not coverage.chunks:
            notes.append("nothing is indexed here yet: 'lorelog index PATH' or 'lorelog add'")
        terms = self._analyser.query_terms(query)
        question = Question(query, terms, self._embed(query, options.lane, coverage, notes, troubles))
        if answers is not None and inquiry is not None and question.vector is not None:
            near = answers.get_near(inquiry, revision, question.vector)
            if near is not None:
                return near
        found = self._find(question, options, troubles)
        answer = Answer(self._desk, question, options, found, revision)
        hits = answer.hits()
        troubles += answer.troubles
        notes += [*troubles, *answer.notes]
        if options.lane is not Lane.DENSE and not terms:
            notes.append("there is no word in it to look for")
        elif options.lane is not Lane.DENSE and not found.lexical:
            notes += self._elsewhere(terms, options.filters)
        reply = SearchReply(query, options.lane, hits, coverage, tuple(notes), answer.weighing())
        if answers is not None and inquiry is not None and not troubles:
            answers.put(inquiry, revision, reply, question.vector)
        return reply

    def _revision(self) -> str:
        """Return a token of all that answers are made from: the index, and what is kept beside it."""
        fates = self._desk.judges.fates
        return f"{self._store.revision()} {fates.token}" if fates is not None else self._store.revision()

    @property
    def _model(self) -> str:
        return f"{self._embedder.provider}/{self._embedder.model}" if self._embedder else "none"

    def _embed(
        self, query: str, lane: Lane, coverage: Coverage, notes: list[str], troubles: list[str]
    ) -> Vector | None:
        """Return the question's vector, or None where words must do; a note says why.

        What may go better the next time, without any write, goes into `troubles`: such an answer is not kept.
        """
        if lane is Lane.LEXICAL or not coverage.chunks:
            return None
        if self._embedder is None:
            if lane is Lane.DENSE:
                raise UsageError("there is no model to search by meaning with", hint="embedding.provider is 'none'")
            return None
        if not coverage.with_vectors:
            notes.append(self._no_vectors(lane))
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
            troubles.append(f"words alone answered: {error.message}")
            return None

    def _find(self, question: Question, options: SearchOptions, troubles: list[str]) -> Found:
        """Ask the lanes; a vector that does not fit the index, since the model changed under its name, is left out."""
        try:
            return find(self._store, question, options)
        except ModelFault as error:
            if options.lane is Lane.DENSE:
                raise
            troubles.append(f"words alone answered: {error.message} ({error.hint})")
            return find(self._store, replace(question, vector=None), options)

    def _no_vectors(self, lane: Lane) -> str:
        alone = "" if lane is Lane.DENSE else "; words alone answered"
        if not self._store.serves_model():
            return f"the index has vectors of another model{alone} ('lorelog index --reembed' makes this one's)"
        return f"nothing here has vectors of the current model yet{alone} ('lorelog index' makes them)"

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
    if not 0.0 <= options.min_relevance <= 1.0:
        raise UsageError(f"the least relevance is {options.min_relevance}, not within 0 and 1")
