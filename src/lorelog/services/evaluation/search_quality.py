"""Measure how well a user's own questions are answered from their own index.

Every question is searched with several rankings, and the results are compared with the documents judged relevant. A document is
what the judge named: a file, lines of one, a chunk or a memory. Its rank is that of its best hit. Other hits count by file if only
files are judged, and each by itself otherwise. A hit with duplicates stands for all their locations, one after the other.

A judged document that is not in the index stays judged and counts as not found: leaving it out would make the ranking look
better the more of the index is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.document import StoredChunk
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.memory import FileProblem
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Progress, Store
from lorelog.core.query import Fusion, Hit, Lane, SearchReply
from lorelog.core.serializable import ReplyItems, Serializable
from lorelog.ingest.judgements import JudgedQuestion, parse_reference, read_judgements, read_questions
from lorelog.retrieval.ranking_metrics import (
    RANKING_DEPTH,
    MeanInterval,
    mean_interval,
    measure_ranking,
    metric_names,
    paired_difference,
)
from lorelog.services.memory_state.lifecycle_index import RELEVANT, Feedback
from lorelog.services.places.root_selection import real_path

OUR_RANKING = "ours"
_RANKINGS: Mapping[str, tuple[Lane, Fusion | None]] = {
    "words": (Lane.LEXICAL, None),
    "vectors": (Lane.DENSE, None),
    "rrf": (Lane.HYBRID, Fusion.RRF),
    OUR_RANKING: (Lane.HYBRID, None),
}
_FIRST_HITS = 20
_GROWTH_FACTOR = 4
_MAX_HITS = 10_000
_MAX_NAMED = 5

SearchFunction = Callable[[str, SearchOptions], SearchReply]


class JudgedQuestions(Struct, frozen=True):
    """Questions with their judgements, and their origin."""

    questions: tuple[JudgedQuestion, ...]
    gains: Mapping[str, Mapping[str, float]]
    problems: tuple[FileProblem, ...] = ()
    origin: str = ""
    is_feedback: bool = False


class EvaluationOptions(Struct, frozen=True):
    """The judged questions, and how to search them."""

    judged: JudgedQuestions
    options: SearchOptions
    """Filters and other search options; `lane` and `fusion` are set here."""
    k: int = 10
    """Depth to which documents count; the reciprocal rank looks deeper."""
    lane: Lane | None = None
    """Only the rankings of this lane; None compares all."""
    has_model: bool = True
    """Without a model only keyword search can be measured."""
    is_hidden: Callable[[StoredChunk], bool] = lambda stored: False
    """Returns whether searches leave a memory out: superseded or expired ones."""


class RankingResult(Serializable, Struct, frozen=True):
    """The measures of one ranking, by name."""

    name: str
    measures: Mapping[str, MeanInterval]
    ours_ahead: MeanInterval | None = None
    """Paired difference of our ranking in nDCG; None for itself, or if it was not measured."""


class EvaluateReply(ReplyItems[RankingResult], Struct, frozen=True):
    """The measurements, their basis, and notes for the reader."""

    k: int
    questions: int
    """Number of questions read."""
    judged: int
    """Number of questions with a relevant document; only these count."""
    documents: int
    """Number of distinct documents judged relevant."""
    unknown: tuple[tuple[str, str], ...]
    """Judged documents that a search cannot find, with the reason; they count as not found."""
    rankings: tuple[RankingResult, ...]
    problems: tuple[FileProblem, ...] = ()
    notes: tuple[str, ...] = ()


class _JudgedDocument(Struct, frozen=True):
    """Location of a judged document in the index."""

    name: str
    source: str
    places: tuple[tuple[int, int], ...] = ()
    """Line ranges; empty for the whole file."""
    exact: bool = False
    """Whether only a hit of exactly these lines counts, as with a chunk's id."""

    def holds(self, source: str, first: int, last: int) -> bool:
        if source != self.source:
            return False
        if self.exact:
            return (first, last) in self.places
        return not self.places or any(first <= end and last >= start for start, end in self.places)


def evaluate(
    search: SearchFunction, store: Store, request: EvaluationOptions, progress: Progress | None = None
) -> EvaluateReply:
    """Search every judged question with every ranking, and measure. Raise UsageError if no question is judged."""
    if request.k < 1:
        raise UsageError(f"k must be at least 1 (got {request.k})")
    questions, gains = request.judged.questions, request.judged.gains
    judged = [question for question in questions if any(gain > 0 for gain in gains.get(question.id, {}).values())]
    if not judged:
        raise _no_judgements_error(request.judged)
    relevant = [name for question in judged for name, gain in gains[question.id].items() if gain > 0]
    targets = _JudgedDocuments(store, request.options.filters.projects, request.is_hidden)
    unknown = targets.resolve(name for question in judged for name in gains[question.id])
    missing = {name: unknown[name] for name in dict.fromkeys(relevant) if name in unknown}
    if len(missing) == len(set(relevant)):
        first, why = next(iter(missing.items()))
        judged_documents = (
            "the judged document cannot" if len(missing) == 1 else f"none of the {len(missing)} judged documents can"
        )
        raise NotFound(
            f"{judged_documents} be found: {first!r} {why}",
            hint="judge what is shown now ('lorelog feedback'), or index what is missing",
        )
    runner = _QuestionRunner(search, request, targets)
    values = runner.run(judged, progress or (lambda stage, done, total: None))
    known = {question.id for question in questions}
    strays = [question_id for question_id in gains if question_id not in known]
    notes = []
    if request.lane is None and not request.has_model:
        notes.append("no embedding model is configured (embedding.provider is 'none'): only keyword search is measured")
    if strays:
        more = f" and {len(strays) - _MAX_NAMED} more" if len(strays) > _MAX_NAMED else ""
        notes.append(f"judged, but not among the questions: {', '.join(strays[:_MAX_NAMED])}{more}")
    return EvaluateReply(
        k=request.k,
        questions=len(questions),
        judged=len(judged),
        documents=len(set(relevant)),
        unknown=tuple(missing.items()),
        rankings=_make_results(values, request.k),
        problems=request.judged.problems,
        notes=(*notes, *runner.summed_notes()),
    )


def read_judged_questions(queries: Path, qrels: Path) -> JudgedQuestions:
    """Return the questions and judgements of two files."""
    questions = read_questions(queries)
    judgements = read_judgements(qrels, {question.id for question in questions.questions})
    origin = f"no question of {queries} has a relevant document in {qrels}"
    return JudgedQuestions(questions.questions, judgements.gains, (*questions.problems, *judgements.problems), origin)


def questions_from_feedback(feedback: Feedback) -> JudgedQuestions:
    """Return the questions that users gave feedback on, with relevant and irrelevant memories."""
    judged = feedback.judgements()
    gains = {
        query: {
            judgement.memory or judgement.id: float(judgement.relevance == RELEVANT) for judgement in by_memory.values()
        }
        for query, by_memory in judged.items()
    }
    questions = tuple(JudgedQuestion(query, query) for query in judged)
    return JudgedQuestions(questions, gains, origin="nothing was judged relevant yet", is_feedback=True)


def rank_documents(
    search: Callable[[int], Sequence[Hit]],
    documents_of: Callable[[Hit], Iterable[str]],
    relevant: Collection[str],
    min_documents: int,
) -> dict[str, Hit]:
    """Return the ranked documents of a question, best first, each with its best hit, as deep as its measures need.

    Requests a few hits, as a user does, and more only while there are fewer than `min_documents` or none of the relevant ones, down to
    the depth at which a document no longer counts. Documents of an earlier request keep their rank.
    """
    ranked: dict[str, Hit] = {}
    limit = _FIRST_HITS
    while True:
        hits = search(limit)
        for hit in hits:
            for document in documents_of(hit):
                ranked.setdefault(document, hit)
        is_enough = len(ranked) >= min_documents and (not relevant or any(name in ranked for name in relevant))
        is_all = len(hits) < limit or limit >= _MAX_HITS or len(ranked) >= max(RANKING_DEPTH, min_documents)
        if is_enough or is_all:
            return ranked
        limit *= _GROWTH_FACTOR


class _JudgedDocuments:
    """Judged documents by the name that the judge used."""

    def __init__(
        self, store: Store, projects: Collection[str] | None, is_hidden: Callable[[StoredChunk], bool]
    ) -> None:
        self._store = store
        self._is_hidden = is_hidden
        self._projects = projects
        self._sources: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = {}
        for document in store.documents():
            self._sources[document.source] = document.project
            self._by_name.setdefault(PurePath(document.source).name, []).append(document.source)
        self._resolved: dict[str, _JudgedDocument] = {}

    def resolve(self, names: Iterable[str]) -> dict[str, str]:
        """Look up names; return those that are not found, with the reason."""
        unknown: dict[str, str] = {}
        for name in dict.fromkeys(names):
            target = self._find(name)
            if isinstance(target, str):
                unknown[name] = target
            elif not self._is_visible(target.source):
                unknown[name] = "belongs to another project (--all-projects)"
            else:
                self._resolved[name] = target
        return unknown

    def of(self, names: Iterable[str]) -> list[_JudgedDocument]:
        return [self._resolved[name] for name in names if name in self._resolved]

    def _is_visible(self, source: str) -> bool:
        return self._projects is None or self._sources.get(source) in self._projects

    def _find(self, name: str) -> _JudgedDocument | str:
        reference = parse_reference(name)
        for path, lines in ((name, None), (reference.name, reference.lines)):
            sources = self._files(path)
            if len(sources) > 1:
                return f"names {len(sources)} files, such as {sources[0]} and {sources[1]}"
            if sources:
                return _JudgedDocument(name, sources[0], (lines,) if lines else ())
        return self._by_id(name)

    def _files(self, path: str) -> list[str]:
        """Return the documents at a path or whose path ends with it, visible ones first."""
        try:
            absolute = real_path(path)
        except UsageError:
            return []
        if absolute in self._sources:
            return [absolute]
        if path.startswith(("/", "~")):
            return []
        ending = "/" + path.removeprefix("./")
        matches = [source for source in self._by_name.get(PurePath(path).name, ()) if source.endswith(ending)]
        return [source for source in matches if self._is_visible(source)] or matches

    def _by_id(self, name: str) -> _JudgedDocument | str:
        matches = self._store.find(name)
        chunks = [stored for stored in matches if stored.id == name] or matches
        if not chunks:
            return "is not in the index"
        chunk = chunks[0].chunk
        memories = {(stored.chunk.source, stored.chunk.anchor) for stored in chunks}
        if len(memories) > 1:
            return f"is the beginning of {len(chunks)} ids"
        if self._is_hidden(chunks[0]):
            return "is superseded or expired, so no search shows it"
        if chunk.anchor and chunk.anchor.memory.startswith(name):
            pieces = [stored.chunk for stored in self._store.chunks_of(chunk.source)]
            lines = [(piece.start_line, piece.end_line) for piece in pieces if piece.anchor == chunk.anchor]
            return _JudgedDocument(name, chunk.source, tuple(lines), exact=True)
        if len(chunks) > 1:
            return f"is the beginning of {len(chunks)} ids"
        return _JudgedDocument(name, chunk.source, ((chunk.start_line, chunk.end_line),), exact=True)


class _QuestionRunner(Struct):
    """Searches questions with the selected rankings, and collects the notes of the replies."""

    search: SearchFunction
    request: EvaluationOptions
    targets: _JudgedDocuments
    notes: Counter[str] = field(default_factory=Counter)
    searches: int = 0

    def summed_notes(self) -> Iterator[str]:
        """Yield the notes of the replies, with their number if not all replies have them."""
        for note, count in self.notes.items():
            yield note if count == self.searches else f"{note} (in {count:,} of {self.searches:,} searches)"

    def run(self, questions: Sequence[JudgedQuestion], progress: Progress) -> dict[str, list[dict[str, float]]]:
        """Return the measures of every question, by ranking."""
        lane = self.request.lane
        if lane is None and not self.request.has_model:
            lane = Lane.LEXICAL
        ways = {name: way for name, way in _RANKINGS.items() if lane in (None, way[0])}
        values: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        done = 0
        for name, (own, fusion) in ways.items():
            options = replace(self.request.options, lane=own, token_budget=0, min_relevance=0.0)
            options = options if fusion is None else replace(options, fusion=fusion)
            for question in questions:
                values[name].append(self._measure_question(question, options))
                done += 1
                progress("asking", done, len(questions) * len(ways))
        return values

    def _measure_question(self, question: JudgedQuestion, options: SearchOptions) -> dict[str, float]:
        gains = self.request.judged.gains[question.id]
        targets = self.targets.of(gains)
        by_file = all(not target.places for target in targets)
        relevant = {name for name, gain in gains.items() if gain > 0}

        def search(k: int) -> Sequence[Hit]:
            reply = self.search(question.text, replace(options, k=k))
            self.searches += 1
            self.notes.update(set(reply.notes))
            return reply.hits

        def documents_of(hit: Hit) -> Iterator[str]:
            for location in ((hit.source, hit.start_line, hit.end_line), *map(_parse_location, hit.duplicates)):
                names = [target.name for target in targets if target.holds(*location)]
                # A judge cannot write a name that begins with a newline.
                yield from names or ["\n" + (location[0] if by_file else "{}:{}-{}".format(*location))]

        return measure_ranking(
            list(rank_documents(search, documents_of, relevant, self.request.k))[:RANKING_DEPTH],
            gains,
            self.request.k,
        )


def _parse_location(text: str) -> tuple[str, int, int]:
    """Parse `source:first-last`, as a hit lists its duplicates."""
    source, _, lines = text.rpartition(":")
    first, _, last = lines.partition("-")
    return source, int(first), int(last or first)


def _make_results(values: Mapping[str, Sequence[Mapping[str, float]]], k: int) -> tuple[RankingResult, ...]:
    def ndcg(name: str) -> list[float]:
        return [row[f"nDCG@{k}"] for row in values[name]]

    return tuple(
        RankingResult(
            name,
            {measured: mean_interval([row[measured] for row in rows]) for measured in metric_names(k)},
            paired_difference(ndcg(OUR_RANKING), ndcg(name)) if name != OUR_RANKING and OUR_RANKING in values else None,
        )
        for name, rows in values.items()
    )


def _no_judgements_error(judged: JudgedQuestions) -> UsageError:
    if judged.is_feedback:
        return UsageError(judged.origin, hint='lorelog feedback "why redis?" ID relevant')
    counts = f"{len(judged.questions)} questions and judgements of {len(judged.gains)} were read"
    if judged.problems:
        first = judged.problems[0]
        counts += f", {len(judged.problems)} lines could not be, such as {first.path}: {first.message}"
    return UsageError(f"{judged.origin}: {counts}", hint="the first column of the judgements is the id of a question")
