# ruff: noqa: SLF001 - the parts of find_candidates, one by one
"""What the ranking sees of questions: both lanes' candidates with their scores, once for every trial of a weight.

A set is asked whole, as it is and stressed (`samples`), and in parts of 5 to 10,000 chunks, with and without the answer:
so it is known which questions have none. Candidates and evidence are those of `find_candidates`, from the functions that
it is made of.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.quality.calibration import spread
from bench.quality.pipeline import Bench
from bench.quality.sampled_store import IndexedSet, SampledStore, read_set
from bench.quality.samples import SEED, keyword_questions, stressed
from bench.quality.sets import JudgedSet, Question

from lorelog.core.query import Filters
from lorelog.core.vectors import unit_vector
from lorelog.language.analyser import STOP_WORDS
from lorelog.retrieval.fusion import _split_exact_words, keyword_likeness, literalness, unread_share
from lorelog.retrieval.score_features import CloseReader, entry_share
from lorelog.services.search import candidates

SIZES = (5, 20, 60, 160, 1_000)
WHOLE = 0
_ASKED = {"judged": 500, "stressed": 200, "keywords": 80}
"""Questions of each kind that are asked of a whole set, at most."""
_ASKED_OF_PARTS = {"judged": 60, "removed": 30, "stressed": 40, "keywords": 12}
_STRANGERS = 80
_READ_PER_LANE = 40

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """A question in an index: its evidence, and its candidates with the scores of both lanes."""

    kind: str
    """`judged`, `stressed`, `keywords` (typed into a search box), `unanswerable` (the set says so), `elsewhere` (asked of others), `removed` (the answer was)."""
    size: int
    """Number of chunks of a part; 0 for the whole set."""
    evidence: Mapping[str, float]
    lexical: Array
    cosine: Array
    """With what short chunks borrow from their neighbours."""
    own_cosine: Array
    own_lexical: Array
    readings: Array
    """Coverage, phrase, proximity, part words, entry."""
    documents: Sequence[str]
    relevant: Array
    gains: Mapping[str, float]


def examples_of(given: JudgedSet, bench: Bench, centre: Array, strangers: Sequence[Question] = ()) -> Iterator[Example]:
    """Yield the examples of an indexed set. `centre` is the mean vector of texts about anything.

    `strangers` are questions of another set, which a set without groups is asked as those that it does not answer.
    """
    asker = _Asker(bench, read_set(bench, given.name), centre)
    projects = sorted({item.project for item in asker.whole.chunks})
    after = dict(zip(projects, [*projects[1:], *projects[:1]], strict=True))
    kinds = {
        "judged": given,
        "stressed": stressed(given, bench.analyser),
        "keywords": keyword_questions(given, _ASKED["keywords"]),
    }
    for kind, asked in kinds.items():
        for question in spread(asked.judged, _ASKED[kind]):
            yield asker.ask_whole(kind, bench.project(question), question, asked.gains[question.id])
    for question in spread(given.unanswerable, _STRANGERS):
        yield asker.ask_whole("unanswerable", bench.project(question), question, {})
    for question in spread(given.judged if len(projects) > 1 else strangers, _STRANGERS):
        project = after[bench.project(question)] if len(projects) > 1 else projects[0]
        yield asker.ask_whole("elsewhere", project, question, {})
    yield from _of_sizes(asker, kinds, SIZES)


def examples_of_parts(given: JudgedSet, bench: Bench, centre: Array, sizes: Sequence[int]) -> Iterator[Example]:
    """Yield the examples of parts of an indexed set, with its questions as they are and stressed."""
    asker = _Asker(bench, read_set(bench, given.name), centre)
    yield from _of_sizes(asker, {"judged": given, "stressed": stressed(given, bench.analyser)}, sizes)


def _of_sizes(asker: _Asker, kinds: Mapping[str, JudgedSet], sizes: Sequence[int]) -> Iterator[Example]:
    chosen = random.Random(f"{SEED} sizes {kinds['judged'].name}")
    for size in sizes:
        yield from _of_size(asker, kinds, size, chosen)


def _of_size(asker: _Asker, kinds: Mapping[str, JudgedSet], size: int, chosen: random.Random) -> Iterator[Example]:
    counts = dict(_ASKED_OF_PARTS)
    asked = [(kind, item) for kind, given in kinds.items() for item in chosen.sample(given.judged, len(given.judged))]
    for kind, question in asked:
        if not counts[kind]:
            continue
        rows = asker.whole.rows_of(asker.bench.project(question))
        gains = {name: gain for name, gain in kinds[kind].gains[question.id].items() if gain > 0}
        answers = [int(row) for row in rows if gains.keys() & set(asker.whole.documents[row])]
        if len(rows) < size or not answers:
            continue
        counts[kind] -= 1
        part = _part(asker.whole, rows, size, answers, chosen)
        here = {name for row in part for name in asker.whole.documents[row]}
        kept = {name: gain for name, gain in gains.items() if name in here}
        yield asker.ask(kind, size, SampledStore(asker.whole, part), question, kept)
        if kind == "judged" and counts["removed"]:
            counts["removed"] -= 1
            part = _part(asker.whole, rows, size, answers, chosen, with_answer=False)
            yield asker.ask("removed", size, SampledStore(asker.whole, part), question, {})


def _part(
    whole: IndexedSet,
    rows: Array,
    size: int,
    answers: Sequence[int],
    chosen: random.Random,
    *,
    with_answer: bool = True,
) -> Array:
    """Return the rows of an index of so many chunks: runs of chunks from files in any order, round an answer or without."""
    files: dict[int, list[int]] = {}
    for row in rows:
        files.setdefault(int(whole.files[row]), []).append(int(row))
    kept: set[int] = set()
    if with_answer:
        answer = chosen.choice(answers)
        file = files[int(whole.files[answer])]
        length = size // 3 + 1
        first = max(0, file.index(answer) - chosen.randrange(length))
        kept.update(file[first : first + length])
    others = [
        [row for row in file if row not in set(answers)] for file in chosen.sample(list(files.values()), len(files))
    ]
    for file in others:
        length = min(size - len(kept), max(3, size // 4))
        if length <= 0:
            break
        first = chosen.randrange(max(1, len(file) - length + 1))
        kept.update(file[first : first + length])
    rest = [row for file in others for row in file if row not in kept]
    kept.update(rest[: max(0, size - len(kept))])
    return np.array(sorted(kept))


class _Asker:
    """Asks parts of one set."""

    def __init__(self, bench: Bench, whole: IndexedSet, centre: Array) -> None:
        self.bench = bench
        self.whole = whole
        self._centre = centre
        self._projects: dict[str, SampledStore] = {}

    def ask_whole(self, kind: str, project: str, question: Question, gains: Mapping[str, float]) -> Example:
        """Ask the whole index, of which a filter admits one project."""
        if project not in self._projects:
            everything, admitted = np.arange(len(self.whole.chunks)), self.whole.rows_of(project)
            self._projects[project] = SampledStore(self.whole, everything, admitted)
        return self.ask(kind, WHOLE, self._projects[project], question, gains)

    def ask(self, kind: str, size: int, store: Any, question: Question, gains: Mapping[str, float]) -> Example:
        terms = self.bench.analyser.query_terms(question.text)
        vector = unit_vector(self.bench.embedder.embed_query(question.text))
        lexical, dense = store.propose(terms, vector, Filters(), candidates._CANDIDATES[0])
        rarity = candidates.weigh_terms(store, terms)
        words, cosines = dict(lexical), dict(dense)
        cosines |= store.similarities(vector, [key for key in words if key not in cosines])
        around = candidates._look_around(store, lexical, dense)
        support = candidates._find_support(store, vector, around, lexical, cosines)
        keys = list(dict.fromkeys((*words, *dict(dense))))
        by_words = np.array([support.lexical.get(key, words.get(key, 0.0)) for key in keys])
        by_vectors = np.array([support.dense.get(key, cosines[key]) for key in keys])
        own = np.array([cosines[key] for key in keys])
        own_words = np.array([words.get(key, 0.0) for key in keys])
        first = sorted(
            {
                int(place)
                for scores in (by_words, by_vectors, own, own_words)
                for place in np.argsort(-scores)[:_READ_PER_LANE]
            }
        )
        unread = unread_share(question.text)
        reader = CloseReader(terms, rarity, unread)
        readings = [reader.read(self.whole.words[int(keys[place])]) for place in first]
        owners = [self.whole.documents[int(keys[place])] for place in first]
        mean, deviation = candidates._mean_and_deviation([score for _, score in dense])
        exact, others = _split_exact_words(question.text)
        chunks = store.lane_coverage(Filters()).chunks
        plain = sum(word.lower() not in STOP_WORDS for word in others)
        return Example(
            kind,
            size,
            {
                "full": candidates._FULL_TERM_SCORE * sum(rarity.values()),
                "terms": len(rarity),
                "unread": unread,
                "literal": literalness(len(exact), len(exact) + plain),
                "keywords": keyword_likeness(question.text, rarity.values(), chunks),
                "best": float(by_words.max(initial=0.0)),
                "lead": candidates._lead(dense, mean, deviation),
                "highest": float(own.max()),
                "lowest": float(own.min()),
                "mean_cosine": float(self._centre @ np.frombuffer(vector, "<f4")),
                "chunks": chunks,
            },
            by_words[first],
            by_vectors[first],
            own[first],
            own_words[first],
            np.array(
                [
                    (
                        item.coverage,
                        item.phrase,
                        item.proximity,
                        item.part_words,
                        entry_share(int(self.whole.entries[int(keys[place])])),
                    )
                    for place, item in zip(first, readings, strict=True)
                ]
            ),
            [names[0] for names in owners],
            np.array([any(gains.get(name, 0.0) > 0 for name in names) for names in owners]),
            {name: gain for name, gain in gains.items() if gain > 0},
        )


def kept_examples(path: Path, make: Callable[[], Iterable[Example]]) -> list[Example]:
    """Return the examples that a file keeps, or make and keep them."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(list(make())))
    return list(pickle.loads(path.read_bytes()))
