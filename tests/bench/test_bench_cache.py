"""The bench of the caches: what it asks, and that every arrangement is asked the same."""

from pathlib import Path

import pytest
from bench.cache import ARRANGEMENTS, NEAR, NEW, REPEATED, main, measure, tables, workload
from bench.scale.contender import Deadline
from bench.scale.making import make
from bench.scale.with_lorelog import STORE

from lorelog.retrieval.cache import normalize_wording


@pytest.mark.slow
def test_the_mix_is_what_it_says(tmp_path: Path) -> None:
    """Repeats repeat an earlier question to the letter, near-repeats its wording but for an article or the end mark."""
    steps = workload(make(tmp_path, 200), 300)
    seen: set[str] = set()
    worded: set[tuple[str, ...]] = set()
    for step in steps:
        text = step.question.text
        assert step.kind != REPEATED or text in seen
        assert step.kind != NEAR or normalize_wording(text) in worded
        seen.add(text)
        worded.add(normalize_wording(text))

    counts = [sum(step.kind == kind for step in steps) for kind in (NEW, REPEATED, NEAR)]
    assert counts[0] > counts[1] > counts[2] > 20


@pytest.mark.slow
def test_every_arrangement_answers_every_question(tmp_path: Path) -> None:
    """Each is asked as often as the others, and only those with a cache find anything in one."""
    material = make(tmp_path / "material", 200)
    STORE.insert(tmp_path / "index", material, Deadline.after(60))

    ways = measure(tmp_path / "index", workload(material, 120), 0.0)

    assert len({len(way.all_times) for way in ways.values()}) == 1
    counts = {name: way.caches.counters() for name, way in ways.items()}
    assert set(counts) == set(ARRANGEMENTS)
    assert counts["no cache"].lookups == counts["no cache"].hot_lookups == 0
    assert counts["answers"].exact == counts["both"].exact > 0
    assert counts["answers, near ones too"].near > 0
    assert counts["hot tier"].hot_hits > 0
    assert len(tables(ways)) == 2 + len(ARRANGEMENTS) + 3 + 3


@pytest.mark.slow
def test_the_command_runs_twice(tmp_path: Path) -> None:
    """A small run ends well, and can be done again with what it kept."""
    for _ in range(2):
        assert main(["--size", "100", "--questions", "120", "--keep", str(tmp_path)]) == 0
