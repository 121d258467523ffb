"""Measure how well a user's own questions are answered from their own index.

Every question is searched with several rankings, and the results are compared with the documents judged relevant. A document is
what the judge named: a file, lines of one, a chunk or a memory. Its rank is that of its best hit. Other hits count by file if only
files are judged, and each by itself otherwise. A hit with duplicates stands for all their locations, one after the other.

A judged document that is not in the index stays judged and counts as not found: leaving it out would make the ranking look
better the more of the index is missing.

Questions are JSON lines, judgements tab-separated lines: the usual formats of retrieval test sets. A malformed line becomes a problem
that names the file and the line; all other lines count. A gzip file is recognised by its first bytes, not by its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import fsum, isfinite, log2
from pathlib import Path, PurePath
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.json import decode
from msgspec.structs import astuple, replace

from lorelog.core.document import StoredChunk
from lorelog.core.errors import NotFound, SourceError, UsageError
from lorelog.core.memory import EvaluateReply, FileProblem, MeanInterval, MissingDocument, RankingMeasure, RankingResult
from lorelog.core.options import SearchOptions
from lorelog.core.ports import Progress, Store
from lorelog.core.query import Fusion, Hit, Lane, SearchReply
from lorelog.ingest.files import os_error_text, printable_path
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
_GZIP_MAGIC = b"\x1f\x8b"
_LINE_SUFFIX = r"(?:#L(\d+)(?:-L?(\d+))?|:(\d+)(?:-(\d+))?)\Z"
_MAX_SHOWN_CHARS = 60

SearchFunction = Callable[[str, SearchOptions], SearchReply]


class JudgedQuestions(Struct, frozen=True):
    """Questions with their judgements, and their origin."""

    questions: Mapping[str, str]
    """Texts by id."""
    gains: Mapping[str, Mapping[str, float]]
    """By question and by the name of a document, as they were written."""
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
    judged = [question for question in questions if any(gain > 0 for gain in gains.get(question, {}).values())]
    if not judged:
        raise _no_judgements_error(request.judged)
    relevant = [name for question in judged for name, gain in gains[question].items() if gain > 0]
    targets = _JudgedDocuments(store, request.options.filters.projects, request.is_hidden)
    unknown = targets.resolve(name for question in judged for name in gains[question])
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
    strays = [question for question in gains if question not in questions]
    notes = []
    if request.lane is None and not request.has_model:
        notes.append("no embedding model is configured (embedding.provider is 'none'): only keyword search is measured")
    if strays:
        more = f" and {len(strays) - _MAX_NAMED} more" if len(strays) > _MAX_NAMED else ""
        notes.append(f"judged, but not among the questions: {', '.join(strays[:_MAX_NAMED])}{more}")
    for note, count in runner.notes.items():
        notes.append(note if count == runner.searches else f"{note} (in {count:,} of {runner.searches:,} searches)")
    return EvaluateReply(
        k=request.k,
        questions=len(questions),
        judged=len(judged),
        documents=len(set(relevant)),
        unknown=tuple(MissingDocument(name, reason) for name, reason in missing.items()),
        rankings=_make_results(values, request.k),
        problems=request.judged.problems,
        failed=len(request.judged.problems),
        notes=tuple(notes),
    )


def read_judged_questions(queries: Path, qrels: Path) -> JudgedQuestions:
    """Return the questions and judgements of two files. Raise SourceError if one cannot be read."""
    problems: list[FileProblem] = []
    questions = _read_questions(queries, problems)
    gains = _read_judgements(qrels, questions, problems)
    origin = f"no question of {queries} has a relevant document in {qrels}"
    return JudgedQuestions(questions, gains, tuple(problems), origin)


class _QuestionLine(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"\S")] | int
    text: Annotated[str, Meta(pattern=r"\S")]


def _read_questions(path: Path, problems: list[FileProblem]) -> dict[str, str]:
    """Read lines of `{"id": …, "text": …}`."""
    questions: dict[str, str] = {}
    for location, line in _read_lines(path, problems):
        try:
            question = decode(line, type=_QuestionLine)
        except (ValueError, RecursionError) as error:
            hint = 'write lines such as {"id": "q1", "text": "why redis?"}'
            problems.append(FileProblem(location, f"{error}: {_format_excerpt(line)}", hint))
            continue
        name = str(question.id).strip()
        if questions.setdefault(name, question.text) is not question.text:
            problems.append(FileProblem(location, f"duplicate id {_format_excerpt(name)}; the first one counts"))
    return questions


def _read_judgements(
    path: Path, questions: Collection[str], problems: list[FileProblem]
) -> dict[str, dict[str, float]]:
    """Read tab-separated question, document and gain.

    A first line without a number is a header, unless it begins with one of the `questions`.
    """
    gains: dict[str, dict[str, float]] = {}
    for number, (location, line) in enumerate(_read_lines(path, problems)):
        question, document, text, *_ = [*(cell.strip() for cell in line.split("\t")), "", "", ""]
        gain = None
        with suppress(ValueError):
            gain = float(text)
        if gain is not None and isfinite(gain) and question and document:
            if gains.setdefault(question, {}).setdefault(document, gain) != gain:
                message = f"{_format_excerpt(document)} has two different gains; the first one counts"
                problems.append(FileProblem(location, message))
        elif number or gain is not None or question in questions or not text:
            message = f"expected question, document and gain, got {_format_excerpt(line)}"
            problems.append(FileProblem(location, message, "separate three columns by tabs"))
    return gains


def _read_lines(path: Path, problems: list[FileProblem]) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank with its location; a line that is not UTF-8 is a problem."""
    import gzip
    import zlib

    shown = printable_path(str(path))
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
    except (OSError, ValueError, EOFError, zlib.error) as error:
        why = os_error_text(error) if isinstance(error, OSError | ValueError) else str(error)
        raise SourceError(f"{shown} cannot be read: {why}", hint="give a text file, plain or gzip") from error
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            line = raw.decode().rstrip("\r")
        except UnicodeDecodeError:
            hint = "convert the file to UTF-8, for example with iconv"
            problems.append(FileProblem(f"{shown}:{number}", "not valid UTF-8", hint))
            continue
        if line.strip():
            yield f"{shown}:{number}", line


def _format_excerpt(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…")


def questions_from_feedback(feedback: Feedback) -> JudgedQuestions:
    """Return the questions that users gave feedback on, with relevant and irrelevant memories."""
    judged = feedback.judgements()
    gains = {
        query: {
            judgement.memory or judgement.id: float(judgement.relevance == RELEVANT) for judgement in by_memory.values()
        }
        for query, by_memory in judged.items()
    }
    return JudgedQuestions(
        {query: query for query in judged}, gains, origin="nothing was judged relevant yet", is_feedback=True
    )


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
        for path, lines in ((name, None), split_lines(name)):
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

    def run(self, questions: Sequence[str], progress: Progress) -> dict[str, list[dict[str, float]]]:
        """Return the measures of every question, by ranking."""
        lane = self.request.lane or (None if self.request.has_model else Lane.LEXICAL)
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

    def _measure_question(self, question: str, options: SearchOptions) -> dict[str, float]:
        text, gains = self.request.judged.questions[question], self.request.judged.gains[question]
        targets = self.targets.of(gains)
        by_file = all(not target.places for target in targets)
        relevant = {name for name, gain in gains.items() if gain > 0}

        def search(k: int) -> Sequence[Hit]:
            reply = self.search(text, replace(options, k=k))
            self.searches += 1
            self.notes.update(set(reply.notes))
            return reply.hits

        def documents_of(hit: Hit) -> Iterator[str]:
            others = ((path, *(lines or (0, 0))) for path, lines in map(split_lines, hit.duplicates))
            for location in ((hit.source, hit.start_line, hit.end_line), *others):
                names = [target.name for target in targets if target.holds(*location)]
                # A judge cannot write a name that begins with a newline.
                yield from names or ["\n" + (location[0] if by_file else "{}:{}-{}".format(*location))]

        return measure_ranking(
            list(rank_documents(search, documents_of, relevant, self.request.k))[:RANKING_DEPTH], gains, self.request.k
        )


def split_lines(text: str) -> tuple[str, tuple[int, int] | None]:
    """Return the path or id of a document, and its lines: `a.md`, `a.md#L10`, `a.md#L10-L20`, `a.md:10` or `a.md:10-20`."""
    match = re.search(_LINE_SUFFIX, text)
    if match is None or not text[: match.start()]:
        return text, None
    first, last = match[1] or match[3], match[2] or match[4]
    return text[: match.start()], (int(first), int(last or first))


def _make_results(values: Mapping[str, Sequence[Mapping[str, float]]], k: int) -> tuple[RankingResult, ...]:
    def ndcg(name: str) -> list[float]:
        return [row[f"nDCG@{k}"] for row in values[name]]

    return tuple(
        RankingResult(
            name,
            tuple(
                RankingMeasure(*astuple(mean_interval([row[measured] for row in rows])), name=measured)
                for measured in metric_names(k)
            ),
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


# -- metrics --------------------------------------------------------------------------------------------------------------
# Each metric is computed per query and then averaged, so that a query with many answers counts no more than one with
# few. Only judged queries count: those with at least one document with a gain above zero. Gain is linear, and the ideal
# ranking of nDCG contains all judged documents, retrieved or not.
#
# Intervals are bootstrapped: queries are resampled with replacement a thousand times from a fixed seed, so that the
# same values always give the same interval. Two rankings of the same queries are compared query by query, which is far
# more sensitive than checking whether their intervals overlap.

RANKING_DEPTH = 100
"""Depth to which the first relevant document is searched."""

_RESAMPLES = 1_000
_SEED = 20_260_301


def metric_names(k: int = 10) -> tuple[str, ...]:
    """Return the names of the metrics at a depth, in display order."""
    shares = tuple(f"R@{depth}" for depth in sorted({1, 5, k}))
    return (*shares, f"all@{k}", f"nDCG@{k}", "MRR")


def measure_ranking(ranked: Sequence[str], gains: Mapping[str, float], k: int = 10) -> dict[str, float]:
    """Return the metrics of one query's ranking, best first, by name.

    `gains` are its judged documents. Of a document that is ranked twice only the first position counts.
    """
    relevant = {name for name, gain in gains.items() if gain > 0}
    if not relevant:
        raise ValueError("a query without a relevant document cannot be measured")
    places: dict[str, int] = {}
    for name in ranked:
        places.setdefault(name, len(places) + 1)
    retrieved = {name: places[name] for name in relevant if name in places}
    values = {f"R@{depth}": sum(place <= depth for place in retrieved.values()) / len(relevant) for depth in {1, 5, k}}
    values[f"all@{k}"] = float(sum(place <= k for place in retrieved.values()) == len(relevant))
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:k]
    gained = fsum(gains[name] / log2(place + 1) for name, place in retrieved.items() if place <= k)
    values[f"nDCG@{k}"] = gained / fsum(gain / log2(place + 1) for place, gain in enumerate(best, 1))
    first = min(retrieved.values(), default=RANKING_DEPTH + 1)
    values["MRR"] = 1.0 / first if first <= RANKING_DEPTH else 0.0
    return {name: values[name] for name in metric_names(k)}


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Return the mean of one value per query, with its bootstrap interval."""
    if not values:
        raise ValueError("there is nothing to average")
    import numpy as np

    samples = np.asarray(values, dtype=np.float64)
    draw = np.random.default_rng(_SEED)
    means = [samples[draw.integers(0, len(samples), len(samples))].mean() for _ in range(_RESAMPLES)]
    low, high = np.percentile(means, (2.5, 97.5)).tolist()
    return MeanInterval(fsum(values) / len(values), low, high)


def paired_difference(first: Sequence[float], second: Sequence[float]) -> MeanInterval:
    """Return by how much the first ranking is better on average, with the paired bootstrap interval.

    Both have one value per query, in the same order. An interval that contains zero is not a significant difference.
    """
    return mean_interval([left - right for left, right in zip(first, second, strict=True)])
