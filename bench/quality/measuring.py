"""Measures one set in a separate process: the values of every query, and optionally a line for each."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import IO, Any
from unittest import mock

import numpy as np
from bench.quality.calibration import Claim, claim, negatives, spread
from bench.quality.examples import Example, examples_of_parts
from bench.quality.learning import DocumentGains, LaneModel, Unit, words_alone
from bench.quality.pipeline import RANKINGS, Bench, Place, parts_of
from bench.quality.samples import keyword_questions, stressed
from bench.quality.sets import JudgedSet, Question, load, load_questions, names_in

from lorelog.retrieval.relevance import calibration_of
from lorelog.retrieval.snippet import Snippet
from lorelog.services.evaluation.search_quality import RANKING_DEPTH, measure_ranking
from lorelog.services.search import searcher

PART_SIZES = (20, 60, 160)
STRESSED = 200
"""Stressed questions and keywords of a set, at most, if there is no limit."""


@dataclass(frozen=True)
class Job:
    """A set and the options to measure it with."""

    data: Path
    name: str
    vectors: Path | None = None
    keep: Path | None = None
    limit: int = 0
    least: int = 10
    calibration: bool = True
    anchors: bool = False
    rerank: str = ""
    """A cross-encoder that reads the first hits; none by default."""
    stress: bool = True
    dump: Path | None = None


@dataclass(frozen=True)
class SetResult:
    """Measurements of one set."""

    name: str
    texts: int
    chunks: int
    shared_chunks: int
    unreachable: int
    questions: Sequence[str]
    """Ids of the judged queries, in the order of the values below."""
    values: Mapping[str, Mapping[str, Sequence[float]]]
    """Values by ranking and measure, one per query."""
    stressed: Mapping[str, Sequence[float]]
    """nDCG@10 of questions without the words of their answers, by ranking."""
    keywords: Mapping[str, Sequence[float]]
    """nDCG@10 of one to five words as people type them into a search box, by ranking."""
    parts: Mapping[str, Mapping[str, Sequence[float]]]
    """nDCG@10 of questions asked of parts of the set, by kind and number of chunks, and by ranking."""
    claims: Sequence[Claim]
    embedded: int
    index_s: float
    search_s: float
    notes: Sequence[str] = field(default=())


def run(job: Job) -> SetResult:
    """Measure one set."""
    given = load(job.data, job.name)
    with _folder(job.keep, job.name) as folder, _without_snippets():
        vectors = job.vectors or folder / "vectors"
        with Bench(given, folder, vectors, anchors=job.anchors, rerank=job.rerank) as bench:
            bench.index()
            return _measured(job, given, bench)


def _measured(job: Job, given: JudgedSet, bench: Bench) -> SetResult:
    questions = spread(given.judged, job.limit) if job.limit else given.judged
    values: dict[str, dict[str, list[float]]] = {name: {} for name in RANKINGS}
    claims: list[Claim | None] = []
    started = time.perf_counter()
    with _lines(job.dump) as dump:
        for question in questions:
            gains = given.gains[question.id]
            relevant = [document for document, gain in gains.items() if gain > 0]
            rankings = bench.rankings(question, frozenset(relevant), job.least)
            for name, places in rankings.items():
                for measured, value in measure_ranking(
                    [place.document for place in places[:RANKING_DEPTH]], gains
                ).items():
                    values[name].setdefault(measured, []).append(value)
            claims.append(claim("judged", rankings["ours"], relevant))
            if dump is not None:
                dump.write(json.dumps(_row(given.name, question, gains, rankings), ensure_ascii=False) + "\n")
    notes = []
    made = [item for item in claims if item is not None]
    if job.calibration and made:
        made += negatives(bench, given, strangers_of(job.data, job.name))
    elif job.calibration:
        notes.append("hits say nothing of their own relevance yet: no calibration")
    return SetResult(
        name=given.name,
        texts=len(given.texts),
        chunks=bench.chunks,
        shared_chunks=bench.shared_chunks,
        unreachable=bench.unreachable,
        questions=[item.id for item in questions],
        values=values,
        stressed=_measure(job, stressed(given, bench.analyser), bench) if job.stress else {},
        keywords=_measure(job, keyword_questions(given, job.limit or STRESSED), bench) if job.stress else {},
        parts=_measure_parts(given, bench) if job.stress else {},
        claims=made if job.calibration else [],
        embedded=bench.embedder.asked,
        index_s=bench.seconds,
        search_s=time.perf_counter() - started,
        notes=notes,
    )


def _measure(job: Job, given: JudgedSet, bench: Bench) -> dict[str, list[float]]:
    """Return nDCG@10 of other questions of a set, by ranking."""
    values: dict[str, list[float]] = {name: [] for name in RANKINGS}
    for question in spread(given.judged, job.limit or STRESSED):
        gains = given.gains[question.id]
        rankings = bench.rankings(question, (), job.least)
        for name, places in rankings.items():
            measured = measure_ranking([place.document for place in places[:RANKING_DEPTH]], gains)
            values[name].append(measured["nDCG@10"])
    return values


def _measure_parts(given: JudgedSet, bench: Bench) -> dict[str, dict[str, Sequence[float]]]:
    """Return nDCG@10 of questions asked of parts of a set; the parts are asked in memory (`sampled_store`)."""
    calibration = calibration_of(f"{bench.embedder.provider}/{bench.embedder.model}")
    model = LaneModel(Unit(calibration.spread), calibration.lanes)
    centre = np.array(calibration.centre)
    asked = [item for item in examples_of_parts(given, bench, centre, PART_SIZES) if item.gains]
    found: dict[str, dict[str, Sequence[float]]] = {}
    for kind, size in dict.fromkeys((item.kind, item.size) for item in asked):
        meant = [item for item in asked if (item.kind, item.size) == (kind, size)]
        gains = DocumentGains(meant)
        ranks: dict[str, Callable[[Example], Any]] = {
            "BM25": words_alone,
            "dense": attrgetter("own_cosine"),
            "ours": model.scores,
        }
        found[f"{kind} {size}"] = {
            name: gains.of(np.concatenate([rank(item) for item in meant])).tolist() for name, rank in ranks.items()
        }
    return found


def _row(
    name: str, question: Question, gains: Mapping[str, float], rankings: Mapping[str, Sequence[Place]]
) -> dict[str, Any]:
    """Details of one query."""
    return {
        "set": name,
        "query": question.id,
        "text": question.text,
        "group": question.group,
        "category": question.category,
        "gains": gains,
        "ours": [_place(ranking) for ranking in rankings["ours"]],
        **{other: [ranking.document for ranking in rankings[other][:20]] for other in RANKINGS if other != "ours"},
    }


def _place(place: Place) -> dict[str, Any]:
    if place.hit is None:
        return {"id": place.document}
    said = {"relevance": place.hit.relevance} if hasattr(place.hit, "relevance") else {}
    return {"id": place.document, "score": place.hit.score, **said, "parts": parts_of(place.hit)}


def strangers_of(data: Path, name: str) -> Sequence[Question]:
    """Return the queries of another set: the opposite one in the list, so that it is not a translation."""
    names = names_in(data)
    other = names[(names.index(name) + len(names) // 2) % len(names)]
    return load_questions(data, other) if other != name else ()


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    if keep is not None:
        (keep / name).mkdir(parents=True, exist_ok=True)
        yield (keep / name).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="lorelog-quality-") as folder:
        yield Path(folder).resolve()


@contextmanager
def _lines(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        yield file


@contextmanager
def _without_snippets() -> Iterator[None]:
    """Make no snippets: they take half the time of a deep search, and do not affect the ranking."""
    with mock.patch.object(searcher, "cut_snippet", return_value=Snippet("", ())):
        yield
