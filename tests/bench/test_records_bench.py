"""The records bench: its corpora are what its page says, its crowd can be written, and its numbers are counted right."""

import pytest
from bench.records import KINDS, Answered, distinct, hit_at, mean_rank
from bench.records_corpus import Corpus, Question, corpora

pytestmark = pytest.mark.slow

CORPORA = corpora()


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda one: one.name)
def test_a_corpus_is_large_enough_and_asks_for_all_its_tasks(corpus: Corpus) -> None:
    """Twelve tasks, at least 36 questions of every kind, each of them once, and none for a task that is not there."""
    names = [case.name for case in corpus.cases]
    asked = [(question.text, *question.filters.items()) for question in corpus.questions]

    assert len(set(names)) == len(names) == 12
    assert len(asked) >= 36
    assert len(set(asked)) == len(asked)
    assert {question.case for question in corpus.questions} == set(names)
    assert {question.kind for question in corpus.questions} == set(KINDS)


def test_ranks_are_of_distinct_tasks() -> None:
    """A task found by three records is one answer; what was not found counts nothing."""
    question = Question("q", "b", "words")
    answered = [
        Answered(question, distinct(iter(["a", "a", "a", "b"]))),
        Answered(question, ("b",)),
        Answered(question, ("a", "c")),
        Answered(question, ("a", "c", "d", "b")),
    ]

    assert [one.rank for one in answered] == [2, 1, 0, 4]
    assert (hit_at(answered, 1), hit_at(answered, 3)) == (0.25, 0.5)
    assert mean_rank(answered) == pytest.approx((1 / 2 + 1 + 1 / 4) / 4)
