"""Measuring how well a person's own questions are answered from their own index.

Every question is asked in several ways, as a search asks it, and what comes back is compared with which documents its judge
holds for relevant. A document is whatever the judge named: a file, some lines of one, a chunk, a memory. Its rank is
that of its best hit. Other hits count by file where only files are judged, and each for itself otherwise. A hit that
folds repeats stands for all the places it names, one after the other, as if they had not been folded.

A judged document that the index does not know stays judged and counts as not found: leaving it out would make the
ranking look better the more of the index is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.memory import Problem
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Progress, Store
from lorelog.core.query import Fusion, Hit, Lane, SearchReply
from lorelog.ingest.judgements import Question, parse_reference, read_judgements, read_questions
from lorelog.retrieval.measure import DEPTH, Interval, difference, interval, measure, names_of
from lorelog.services.feedback import RELEVANT, Feedback
from lorelog.services.reach import real_path

OURS = "ours"
_WAYS: Mapping[str, tuple[Lane, Fusion | None]] = {
    "words": (Lane.LEXICAL, None),
    "vectors": (Lane.DENSE, None),
    "rrf": (Lane.HYBRID, Fusion.RRF),
    OURS: (Lane.HYBRID, None),
}
_FIRST_HITS = 20
_MORE = 4
_MOST_HITS = 10_000
_NAMED = 5

Search = Callable[[str, SearchOptions], SearchReply]


@dataclass(frozen=True, slots=True)
class Judged:
    """Questions with their judgements, and what they come from."""

    questions: tuple[Question, ...]
    gains: Mapping[str, Mapping[str, float]]
    problems: tuple[Problem, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """Which questions, judged by whom, and how they are asked."""

    judged: Judged
    options: SearchOptions
    """Filters and all else that a search takes; `lane` and `fusion` are chosen here."""
    k: int = 10
    """How deep documents count; the reciprocal rank looks deeper."""
    lane: Lane | None = None
    """Only the rankings of this lane; None compares all."""
    has_model: bool = True
    """Without one there is nothing but words to compare."""


@dataclass(frozen=True, slots=True)
class RankingResult:
    """How well one ranking answered: each measure by name."""

    name: str
    measures: Mapping[str, Interval]
    ours_ahead: Interval | None = None
    """By how much our own ranking is better in nDCG, question by question; None for itself, or where it was not asked."""


@dataclass(frozen=True, slots=True)
class EvaluateReply:
    """What was measured, over how many questions, and what a reader should know about it."""

    k: int
    questions: int
    """How many were read."""
    judged: int
    """How many of them have a relevant document, and count."""
    documents: int
    """How many different documents are judged relevant to these."""
    unknown: tuple[tuple[str, str], ...]
    """Those of them that a search cannot find, each with the reason; they count as not found."""
    rankings: tuple[RankingResult, ...]
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a judged document stands in the index."""

    name: str
    source: str
    places: tuple[tuple[int, int], ...] = ()
    """Lines that are meant; none means the whole file."""
    exact: bool = False
    """Whether only a hit of exactly these lines is meant, as with a chunk's id."""

    def holds(self, source: str, first: int, last: int) -> bool:
        if source != self.source:
            return False
        if self.exact:
            return (first, last) in self.places
        return not self.places or any(first <= end and last >= start for start, end in self.places)


def evaluate(search: Search, store: Store, request: EvaluateRequest, progress: Progress | None = None) -> EvaluateReply:
    """Ask every judged question in every way, and measure. Raise UsageError when no question is judged."""
    if request.k < 1:
        raise UsageError(f"the depth must be at least 1, not {request.k}")
    asked, gains = request.judged, request.judged.gains
    judged = [one for one in asked.questions if any(gain > 0 for gain in gains.get(one.id, {}).values())]
    if not judged:
        raise _nothing_judged(asked)
    relevant = [name for one in judged for name, gain in gains[one.id].items() if gain > 0]
    targets = _Targets(store, request.options.filters.projects)
    unknown = targets.resolve(name for one in judged for name in gains[one.id])
    missing = {name: unknown[name] for name in dict.fromkeys(relevant) if name in unknown}
    if len(missing) == len(set(relevant)):
        first, why = next(iter(missing.items()))
        raise NotFound(
            f"none of the {len(missing)} judged documents can be found: {first!r} {why}",
            hint="index them first; a document is a path, path:10-20, a chunk id or a memory id",
        )
    asking = _Asking(search, request, targets, gains)
    values = asking.all(judged, progress or (lambda stage, done, total: None))
    known = {one.id for one in asked.questions}
    strays = [one for one in gains if one not in known]
    return EvaluateReply(
        k=request.k,
        questions=len(asked.questions),
        judged=len(judged),
        documents=len(set(relevant)),
        unknown=tuple(missing.items()),
        rankings=_results(values, request.k),
        problems=asked.problems,
        notes=(*_no_model(request), *_strays(strays), *asking.notes),
    )


def read_judged(queries: Path, qrels: Path) -> Judged:
    """Return what two files hold."""
    asked = read_questions(queries)
    judgements = read_judgements(qrels, {one.id for one in asked.questions})
    origin = f"no question of {queries} has a relevant document in {qrels}"
    return Judged(asked.questions, judgements.gains, (*asked.problems, *judgements.problems), origin)


def judged_by_feedback(feedback: Feedback) -> Judged:
    """Return what people have said about answers: each question with the memories that answer it and those that do not."""
    judged = feedback.judged()
    gains = {
        query: {one.memory or one.id: float(one.relevance == RELEVANT) for one in by_memory.values()}
        for query, by_memory in judged.items()
    }
    questions = tuple(Question(query, query) for query in judged)
    return Judged(questions, gains, origin="nothing was judged relevant yet ('lorelog feedback')")


def deepen(
    search: Callable[[int], Sequence[Hit]],
    documents_of: Callable[[Hit], Iterable[str]],
    relevant: Collection[str],
    least: int,
) -> dict[str, Hit]:
    """Return the ranked documents of a question, best first, each with its best hit, as deep as its measures need.

    Asks for a few hits, as a user does, and for more only while fewer than `least` documents are there or none of the
    relevant ones is, down to the depth at which a document no longer counts. What a first answer ranked stays where it was.
    """
    ranked: dict[str, Hit] = {}
    wanted = _FIRST_HITS
    while True:
        hits = search(wanted)
        for hit in hits:
            for document in documents_of(hit):
                ranked.setdefault(document, hit)
        is_enough = len(ranked) >= least and (not relevant or any(one in ranked for one in relevant))
        is_all = len(hits) < wanted or wanted >= _MOST_HITS or len(ranked) >= max(DEPTH, least)
        if is_enough or is_all:
            return ranked
        wanted *= _MORE


class _Targets:
    """Judged documents by the name that the judge gave them."""

    def __init__(self, store: Store, projects: Collection[str] | None) -> None:
        self._store = store
        self._projects = projects
        self._sources: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = {}
        for document in store.documents():
            self._sources[document.source] = document.project
            self._by_name.setdefault(PurePath(document.source).name, []).append(document.source)
        self._found: dict[str, _Target] = {}

    def resolve(self, names: Iterable[str]) -> dict[str, str]:
        """Find what is named; return the names that lead nowhere, each with the reason."""
        unknown: dict[str, str] = {}
        for name in dict.fromkeys(names):
            found = self._find(name)
            if isinstance(found, str):
                unknown[name] = found
            elif not self._is_visible(found.source):
                unknown[name] = "belongs to another project (--all-projects)"
            else:
                self._found[name] = found
        return unknown

    def of(self, names: Iterable[str]) -> list[_Target]:
        return [self._found[name] for name in names if name in self._found]

    def _is_visible(self, source: str) -> bool:
        return self._projects is None or self._sources.get(source) in self._projects

    def _find(self, name: str) -> _Target | str:
        reference = parse_reference(name)
        for path, lines in ((name, None), (reference.name, reference.lines)):
            sources = self._files(path)
            if len(sources) > 1:
                return f"names {len(sources)} files, such as {sources[0]} and {sources[1]}"
            if sources:
                return _Target(name, sources[0], (lines,) if lines else ())
        return self._by_id(name)

    def _files(self, path: str) -> list[str]:
        """Return the documents at a path, or whose path ends so; those that are seen from here go first."""
        try:
            absolute = real_path(path)
        except UsageError:
            return []
        if absolute in self._sources:
            return [absolute]
        if path.startswith(("/", "~")):
            return []
        ending = "/" + path.removeprefix("./")
        found = [one for one in self._by_name.get(PurePath(path).name, ()) if one.endswith(ending)]
        return [one for one in found if self._is_visible(one)] or found

    def _by_id(self, name: str) -> _Target | str:
        found = self._store.find(name)
        chunks = [one for one in found if one.id == name] or found
        if not chunks:
            return "is not in the index"
        one = chunks[0].chunk
        memories = {(stored.chunk.source, stored.chunk.anchor) for stored in chunks}
        if len(memories) > 1:
            return f"is the beginning of {len(chunks)} ids"
        if one.anchor and one.anchor.memory.startswith(name):
            pieces = [stored.chunk for stored in self._store.chunks_of(one.source)]
            lines = [(piece.start_line, piece.end_line) for piece in pieces if piece.anchor == one.anchor]
            return _Target(name, one.source, tuple(lines), exact=True)
        if len(chunks) > 1:
            return f"is the beginning of {len(chunks)} ids"
        return _Target(name, one.source, ((one.start_line, one.end_line),), exact=True)


class _Asking:
    """Asks questions in the ways that were chosen, and keeps what the answers note."""

    def __init__(
        self, search: Search, request: EvaluateRequest, targets: _Targets, gains: Mapping[str, Mapping[str, float]]
    ) -> None:
        self._search = search
        self._request = request
        self._targets = targets
        self._gains = gains
        self._notes: Counter[str] = Counter()
        self._searches = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the answers noted, and of how many, where it was not all of them."""
        return tuple(
            note if count == self._searches else f"{note} (in {count:,} of {self._searches:,} searches)"
            for note, count in self._notes.items()
        )

    def all(self, questions: Sequence[Question], progress: Progress) -> dict[str, list[dict[str, float]]]:
        """Return the measures of every question, by ranking."""
        lane = self._request.lane
        if lane is None and not self._request.has_model:
            lane = Lane.LEXICAL
        ways = {name: way for name, way in _WAYS.items() if lane in (None, way[0])}
        values: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        done = 0
        for name, (own, fusion) in ways.items():
            options = replace(self._request.options, lane=own, token_budget=0, min_relevance=0.0)
            options = options if fusion is None else replace(options, fusion=fusion)
            for question in questions:
                values[name].append(self._measured(question, options))
                done += 1
                progress("asking", done, len(questions) * len(ways))
        return values

    def _measured(self, question: Question, options: SearchOptions) -> dict[str, float]:
        gains = self._gains[question.id]
        targets = self._targets.of(gains)
        by_file = all(not target.places for target in targets)
        relevant = {name for name, gain in gains.items() if gain > 0}

        def search(k: int) -> Sequence[Hit]:
            reply = self._search(question.text, replace(options, k=k))
            self._searches += 1
            self._notes.update(set(reply.notes))
            return reply.hits

        def documents_of(hit: Hit) -> Iterator[str]:
            for place in ((hit.source, hit.start_line, hit.end_line), *map(_place, hit.duplicates)):
                named = [target.name for target in targets if target.holds(*place)]
                # No name that a judge can write begins so.
                yield from named or ["\n" + (place[0] if by_file else "{}:{}-{}".format(*place))]

        return measure(list(deepen(search, documents_of, relevant, self._request.k))[:DEPTH], gains, self._request.k)


def _place(text: str) -> tuple[str, int, int]:
    """Read `source:first-last`, as a hit names its repeats."""
    source, _, lines = text.rpartition(":")
    first, _, last = lines.partition("-")
    return source, int(first), int(last or first)


def _results(values: Mapping[str, Sequence[Mapping[str, float]]], k: int) -> tuple[RankingResult, ...]:
    def ndcg(name: str) -> list[float]:
        return [row[f"nDCG@{k}"] for row in values[name]]

    return tuple(
        RankingResult(
            name,
            {measured: interval([row[measured] for row in rows]) for measured in names_of(k)},
            difference(ndcg(OURS), ndcg(name)) if name != OURS and OURS in values else None,
        )
        for name, rows in values.items()
    )


def _nothing_judged(asked: Judged) -> UsageError:
    counts = f"{len(asked.questions)} questions and judgements of {len(asked.gains)} were read"
    if asked.problems:
        first = asked.problems[0]
        counts += f", {len(asked.problems)} lines could not be, such as {first.path}: {first.message}"
    return UsageError(f"{asked.origin}: {counts}", hint="the first column of the judgements is the id of a question")


def _no_model(request: EvaluateRequest) -> list[str]:
    alone = request.lane is None and not request.has_model
    return ["there is no model (embedding.provider is 'none'): words alone are measured"] if alone else []


def _strays(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"judged, but not among the questions: {', '.join(names[:_NAMED])}{more}"]
