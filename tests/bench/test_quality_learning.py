"""What the ranking is learned from: smaller and harder sets, the lanes of parts of them, and the learning itself."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from bench.quality.examples import WHOLE, Example, _part, examples_of, whole_examples
from bench.quality.learning import LaneModel, Unit, ndcg
from bench.quality.pipeline import Bench
from bench.quality.sampled_store import SampledStore, read_set
from bench.quality.sets import JudgedSet, Question, Text

from lorelog.core.query import Filters

ANIMALS = ("otter", "badger", "heron", "salamander", "lynx", "kestrel")
GIVEN = JudgedSet(
    "tiny",
    tuple(Text(f"d{number}", f"The {name} sleeps near rock {number}.", name) for number, name in enumerate(ANIMALS)),
    tuple(Question(f"q{number}", f"where does the old {name} usually sleep") for number, name in enumerate(ANIMALS)),
    {f"q{number}": {f"d{number}": 1.0} for number in range(len(ANIMALS))},
)


@pytest.mark.slow
def test_lanes_of_a_whole_set_are_those_of_the_store(tmp_path: Path) -> None:
    """Asked of all rows, the lanes in memory answer as the index does, and a part without the answer does not find it."""
    with Bench(GIVEN, tmp_path, tmp_path / "vectors") as bench:
        bench.index()
        whole = read_set(bench, GIVEN.name)
        rows = np.arange(len(whole.chunks))
        terms, vector = bench.analyser.query_terms(GIVEN.questions[0].text), bench.embedder.embed_query("otter")
        ours = SampledStore(whole, rows).propose(terms, vector, Filters(), 3)
        real = bench.store.propose(terms, vector, Filters(), 3)
        for found, wanted in zip(ours, real, strict=True):
            assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-3)
        answers = [row for row, names in enumerate(whole.documents) if "d0" in names]
        part = _part(whole, rows, 3, answers, random.Random(1), with_answer=False)
        assert len(part) == 3
        assert not set(part) & set(answers)
        made = list(examples_of(GIVEN, bench, whole.vectors.mean(0)))
        assert len(list(whole_examples(GIVEN, bench, whole.vectors.mean(0), 3))) == 3
    judged = [item for item in made if (item.kind, item.size) == ("judged", WHOLE)]
    assert len(judged) == len(ANIMALS)
    assert all(item.relevant.any() == bool(item.gains) for item in made)


def made_example(chosen: random.Random, *, words_know: bool) -> Example:
    """A question whose answer, the first of ten, one lane knows; the other has any."""
    right = np.array([1.0] + [0.2] * 9)
    other = np.array([chosen.random() for _ in range(10)])
    words, cosines = (right, other) if words_know else (other / 10, right)
    evidence = {
        "full": 40.0,
        "terms": 4,
        "unread": 0.0,
        "foreign": 0.0,
        "best": float(40 * words.max()),
        "lead": 1.0,
        "known": 0.0,
        "deviation": 0.1,
        "highest": float(cosines.max()),
        "lowest": float(cosines.min()),
        "mean_cosine": 0.0,
        "chunks": 1_000,
        "length": 400.0,
        "keywords": 0.0,
    }
    relevant = np.arange(10) == 0
    return Example(
        "judged",
        WHOLE,
        evidence,
        40 * words,
        cosines,
        cosines,
        40 * words,
        np.zeros((10, 5)),
        list("abcdefghij"),
        relevant,
        {"a": 1.0},
    )


def test_learning_trusts_the_lane_that_knows() -> None:
    """From questions that words answer where much of them is found, and vectors where little is, both are ranked right."""
    chosen = random.Random(3)
    sets = {"mixed": [made_example(chosen, words_know=number % 2 == 0) for number in range(200)]}
    model = LaneModel(Unit(0.1, 0.0)).learn(sets)
    assert np.mean([ndcg(item, model.scores(item)) for item in sets["mixed"]]) > 0.97
    assert all(0.0 <= model.scores(item).max() <= 1.0 + 1e-9 for item in sets["mixed"])
