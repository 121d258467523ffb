"""Batches: every source in exactly one, each fits, those that belong together are together, and always the same."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.services.compact.scripted import source

from lorelog.services.compact.sources import SummarySource, compare_by_words, make_batches, shorten_hashes

DAYS = st.integers(1, 28).map(lambda day: f"2026-02-{day:02}")


@given(
    st.lists(st.tuples(st.integers(1, 50), DAYS), max_size=60),
    st.integers(50, 200),
    st.lists(st.floats(-1, 1), min_size=1, max_size=7),
)
def test_every_source_is_in_one_batch_and_each_fits(
    given_sources: list[tuple[int, str]], most: int, nearness: list[float]
) -> None:
    """However near they are, no source is lost or asked about twice, and no batch is more than is read at once."""
    ordered = sorted(given_sources, key=lambda one: one[1])
    sources = [source(number, f"text {number}", day) for number, (_, day) in enumerate(ordered)]
    costs = {item.id: ordered[number][0] for number, item in enumerate(sources)}

    def near(one: SummarySource, others: Sequence[SummarySource]) -> list[float]:
        return [nearness[place % len(nearness)] for place in range(len(others))]

    batches = make_batches(sources, lambda one: costs[one.id], most, near)

    assert sorted(entry.id for batch in batches for entry in batch) == sorted(costs)
    assert all(sum(costs[each.id] for each in batch) <= most for batch in batches)
    assert all(batch for batch in batches)
    assert all([element.day for element in batch] == sorted(member.day for member in batch) for batch in batches)
    assert batches == make_batches(sources, lambda one: costs[one.id], most, near)


def test_what_says_the_same_words_goes_together() -> None:
    """Of two topics in turn each gets its own batch, the one that was begun first first."""
    texts = ["otters sleep in holts", "the importer retries", "otters hold kelp", "the importer fails"] * 3
    sources = [source(number, text) for number, text in enumerate(texts)]

    batches = make_batches(sources, lambda _: 1, 6, compare_by_words)

    assert [{"otters" in item.text for item in batch} for batch in batches] == [{True}, {False}]


def test_time_goes_before_words() -> None:
    """What is a month away does not join for its words where something near in time has some of them."""
    days = ("2026-01-01", "2026-01-01", "2026-02-20")
    texts = ("the cache expires", "the cache", "the cache expires")
    sources = [source(number, text, day) for number, (text, day) in enumerate(zip(texts, days, strict=True))]

    batches = make_batches(sources, lambda _: 1, 2, compare_by_words)

    assert [[item.day for item in batch] for batch in batches] == [["2026-01-01", "2026-01-01"], ["2026-02-20"]]


@given(st.sets(st.text("0123456789abcdef", min_size=16, max_size=16), max_size=50))
def test_a_label_means_one_source(hashes: set[str]) -> None:
    """Each begins its hash, no two are the same, and all are as long as needed."""
    labels = shorten_hashes(sorted(hashes))

    assert len(set(labels.values())) == len(hashes)
    assert all(label.startswith(short) and len(short) >= 8 for label, short in labels.items())
