"""Judgements of answers are kept for their owner's eyes, move what they judge, and are measured by."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose
from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import NotFound, UsageError
from lorelog.services.memory_state.lifecycle_index import IRRELEVANT_PENALTY

FAKE = {"embedding.provider": "fake"}
QUERY = "where do otters sleep"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    """A memory of three otters, and a section without an id."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "n.md").write_text("# N\n\nwhere do otters sleep, asked nobody\n", "utf-8")
    with Lorelog(project=tmp_path / "app", settings=FAKE) as opened:
        opened.add_batch(["otters sleep in holts", "where do otters sleep? in kelp", "otters do not sleep"])
        opened.index([tmp_path / "app" / "n.md"])
        yield opened


def test_what_was_judged_irrelevant_comes_lower_for_the_same_question(memory: Lorelog) -> None:
    """Its score has a part that says so and the parts still add up; other questions are answered as before."""
    before = memory.search(QUERY, k=9).hits
    other = memory.search("otters in kelp", k=9).hits

    memory.feedback(f"  {QUERY.upper()} ?", before[0].id, relevant=False)

    after = memory.search(QUERY, k=9).hits
    assert [hit.id for hit in after][-1] == before[0].id
    parts = {part.name: part.value for part in after[-1].explanation.parts}
    assert parts["feedback"] == -IRRELEVANT_PENALTY
    assert isclose(after[-1].score, sum(parts.values()))
    assert isclose(after[-1].score, before[0].score - IRRELEVANT_PENALTY)
    assert memory.search("otters in kelp", k=9).hits == other


def test_the_last_word_holds(memory: Lorelog) -> None:
    """Who changes their mind is heard, and saying the same twice is written once."""
    before = memory.search(QUERY, k=9).hits

    assert memory.feedback(QUERY, before[0].id, relevant=False).changed
    assert not memory.feedback(QUERY, before[0].id, relevant=False).changed
    assert memory.feedback(QUERY, before[0].id, relevant=True).changed

    assert memory.search(QUERY, k=9).hits == before


def test_a_section_without_id_is_judged_by_what_it_says(memory: Lorelog, tmp_path: Path) -> None:
    """Its judgement holds though its lines move, and ends when it says something else."""
    path = tmp_path / "app" / "n.md"
    identity = next(hit.id for hit in memory.search(QUERY, k=9).hits if hit.heading == "N")
    memory.feedback(QUERY, identity, relevant=False)

    def is_lowered() -> bool:
        hit = next(hit for hit in memory.search(QUERY, k=9).hits if hit.heading == "N")
        return any(part.name == "feedback" for part in hit.explanation.parts)

    path.write_text("# M\n\nminks\n\n" + path.read_text("utf-8"), "utf-8")
    memory.index()
    assert is_lowered()
    path.write_text("# N\n\nwhere do otters sleep, asked somebody\n", "utf-8")
    memory.index()
    assert not is_lowered()


@pytest.mark.slow
def test_questions_are_for_their_owners_eyes(memory: Lorelog, home: Path) -> None:
    """The file is readable by its owner only, and no other file of the home holds the question."""
    memory.feedback("is ottilie leaving the company", memory.list().memories[0].id, relevant=True)

    kept = home / "data" / "default" / "feedback.jsonl"
    assert kept.stat().st_mode & 0o777 == 0o600
    holders = [path for path in home.rglob("*") if path.is_file() and b"ottilie" in path.read_bytes()]
    assert holders == [kept]


def test_searches_are_measured_by_feedback(memory: Lorelog) -> None:
    """Without files, what was judged is asked; the judgement itself does not move what is measured."""
    with pytest.raises(UsageError, match="nothing was judged relevant"):
        memory.evaluate()
    best, *rest = memory.search(QUERY, k=9).hits
    memory.feedback(QUERY, best.id, relevant=True)
    memory.feedback("otters in kelp", memory.search("otters in kelp").hits[0].id, relevant=True)
    memory.feedback("otters in kelp", rest[-1].id, relevant=False)

    reply = memory.evaluate()

    assert (reply.questions, reply.judged, reply.unknown) == (2, 2, ())
    ours = next(ranking for ranking in reply.rankings if ranking.name == "ours")
    assert {measure.name: measure.mean for measure in ours.measures}["MRR"] == 1.0
    with pytest.raises(UsageError, match="feedback cannot be combined"):
        memory.call("memory.evaluate", {"queries": "q", "qrels": "r", "feedback": True})
    with pytest.raises(UsageError, match="judged questions are missing"):
        memory.call("memory.evaluate", {"queries": "q"})


def test_an_unhelpful_judgement_does_not_flatter_the_measure(memory: Lorelog) -> None:
    """What was judged irrelevant stands where the search alone would put it while it is measured."""
    first, second, *_ = memory.search(QUERY, k=9).hits
    memory.feedback(QUERY, first.id, relevant=False)
    memory.feedback(QUERY, second.id, relevant=True)

    ours = next(ranking for ranking in memory.evaluate().rankings if ranking.name == "ours")

    assert memory.search(QUERY).hits[0].id == second.id
    assert {measure.name: measure.mean for measure in ours.measures}["MRR"] == 0.5


def test_what_cannot_be_judged_is_said(memory: Lorelog) -> None:
    """No such memory, no question."""
    with pytest.raises(NotFound):
        memory.feedback(QUERY, "nobody", relevant=True)
    with pytest.raises(UsageError, match="empty"):
        memory.feedback("  ", memory.list().memories[0].id, relevant=True)
