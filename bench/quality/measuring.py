"""One set measured, as a process of its own does it: the numbers of every question, and a line for each on request."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from unittest import mock

from bench.quality.calibration import Claim, claim, negatives, spread
from bench.quality.pipeline import RANKINGS, Bench, Place, parts_of
from bench.quality.sets import JudgedSet, Question, load, load_questions, names_in

from lorelog.retrieval.measure import DEPTH, measure
from lorelog.retrieval.snippet import Snippet
from lorelog.services import answer


@dataclass(frozen=True)
class Job:
    """Which set to measure and how."""

    data: Path
    name: str
    vectors: Path | None = None
    keep: Path | None = None
    limit: int = 0
    least: int = 10
    calibration: bool = True
    anchors: bool = False
    dump: Path | None = None


@dataclass(frozen=True)
class SetResult:
    """What was measured of one set."""

    name: str
    texts: int
    chunks: int
    shared_chunks: int
    unreachable: int
    questions: Sequence[str]
    """Ids of the judged questions, in the order of all values below."""
    values: Mapping[str, Mapping[str, Sequence[float]]]
    """By ranking and measure, one value a question."""
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
        with Bench(given, folder, vectors, anchors=job.anchors) as bench:
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
                for measured, value in measure([one.document for one in places[:DEPTH]], gains).items():
                    values[name].setdefault(measured, []).append(value)
            claims.append(claim("judged", rankings["ours"], relevant))
            if dump is not None:
                dump.write(json.dumps(_row(given.name, question, gains, rankings), ensure_ascii=False) + "\n")
    notes = []
    made = [one for one in claims if one is not None]
    if job.calibration and made:
        made += negatives(bench, given, _strangers(job))
    elif job.calibration:
        notes.append("hits say nothing of their own relevance yet: no calibration")
    return SetResult(
        name=given.name,
        texts=len(given.texts),
        chunks=bench.chunks,
        shared_chunks=bench.shared_chunks,
        unreachable=bench.unreachable,
        questions=[one.id for one in questions],
        values=values,
        claims=made if job.calibration else [],
        embedded=bench.embedder.asked,
        index_s=bench.seconds,
        search_s=time.perf_counter() - started,
        notes=notes,
    )


def _row(
    name: str, question: Question, gains: Mapping[str, float], rankings: Mapping[str, Sequence[Place]]
) -> dict[str, Any]:
    """What is written down of one question."""
    return {
        "set": name,
        "query": question.id,
        "text": question.text,
        "group": question.group,
        "category": question.category,
        "gains": gains,
        "ours": [_place(one) for one in rankings["ours"]],
        **{other: [one.document for one in rankings[other][:20]] for other in RANKINGS if other != "ours"},
    }


def _place(place: Place) -> dict[str, Any]:
    if place.hit is None:
        return {"id": place.document}
    said = {"relevance": place.hit.relevance} if hasattr(place.hit, "relevance") else {}
    return {"id": place.document, "score": place.hit.score, **said, "parts": parts_of(place.hit)}


def _strangers(job: Job) -> Sequence[Question]:
    """Questions of another set: the one half-way round the list, so that no set gets its own translation."""
    names = names_in(job.data)
    other = names[(names.index(job.name) + len(names) // 2) % len(names)]
    return load_questions(job.data, other) if other != job.name else ()


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
    """Cut no snippets: they are half the time of a deep search, and nothing that is ranked depends on them."""
    with mock.patch.object(answer, "cut_snippet", return_value=Snippet("", ())):
        yield
