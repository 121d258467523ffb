"""The records bench: its corpora are what its page says, its crowd can be written, and its numbers are counted right."""

from pathlib import Path

import pytest
from bench.records import KINDS, Answered, Desk, distinct, fill, hit_at, mean_rank
from bench.records_corpus import Corpus, Crowd, Question, corpora

from lorelog.records.ledger import Ledger
from lorelog.records.tables import RecordTables

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


def test_corpora_have_little_in_common() -> None:
    """There are two at least, and few words of the goals of one stand in those of another."""
    words = [{word for case in one.cases for word in str(case.start["goal"]).lower().split()} for one in CORPORA]

    assert len(words) >= 2
    assert all(len(a & b) < 0.2 * min(len(a), len(b)) for a in words for b in words if a is not b)


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda one: one.name)
def test_a_corpus_is_written_by_the_operations_that_agents_use(corpus: Corpus, tmp_path: Path) -> None:
    """Every step of every task is accepted, and the questions' filters are known."""
    desk = Desk(tmp_path / "x", provider="none")
    tasks = desk.write(corpus)

    assert sorted(tasks.values()) == sorted(case.name for case in corpus.cases)
    for task, name in tasks.items():
        (case,) = (case for case in corpus.cases if case.name == name)
        assert len(desk.call("task.get", {"task_id": task})["artifacts"]) == 1 + len(case.steps)
    for one in corpus.questions:
        if one.filters:
            found = desk.call("task.search", {"query": one.text, "k": 20, **one.filters})["hits"]
            assert one.case in [tasks[hit["task_id"]] for hit in found]
    desk.close()


@pytest.mark.slow
def test_the_crowd_can_be_written(tmp_path: Path) -> None:
    """As many records as were asked for are accepted, each of a task that was begun, the same words from the same seed."""
    ledger = Ledger(tmp_path)
    crowd = Crowd("p", 20)
    fill(ledger, crowd, 1200)
    tables = RecordTables(None)

    assert tables.catch_up(ledger) == 1200
    assert {task.id for task in tables.tasks(limit=100)} == set(crowd.tasks)
    assert Crowd("p", 20).say(30) == Crowd("p", 20).say(30)


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
