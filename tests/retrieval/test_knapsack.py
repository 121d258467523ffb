"""Forms under a token budget: optimal, within the budget, nothing paid twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from lorelog.core.query import HitForm
from lorelog.retrieval.knapsack import (
    MAX_HITS_PACKED,
    HitOffer,
    PackingPlan,
    SectionOffer,
    choose_forms,
    form_value,
    hit_points,
)

Shelf = tuple[list[HitOffer], list[SectionOffer]]


@st.composite
def shelves(draw: st.DrawFn, most: int = 12, dearest: int = 30) -> Shelf:
    """Return hits in rank order, some of them in nested sections."""
    count = draw(st.integers(0, 4))
    sections: list[SectionOffer] = []
    for number in range(count):
        parent = draw(st.none() | st.integers(0, number - 1)) if number else None
        tokens = (
            draw(st.integers(1, 2 * dearest))
            if parent is None
            else draw(st.integers(1, max(1, sections[parent].tokens)))
        )
        sections.append(SectionOffer(tokens, parent))
    points = sorted(draw(st.lists(st.integers(5, 100), max_size=most)), reverse=True)
    costs = st.integers(0, dearest)
    homes = st.none() | st.integers(0, count - 1) if count else st.none()
    return [
        HitOffer(point, draw(costs), draw(costs), draw(st.none() | costs), draw(homes)) for point in points
    ], sections


def ancestors(section: int | None, sections: list[SectionOffer]) -> Iterator[int]:
    while section is not None:
        yield section
        section = sections[section].parent


def bill(plan: PackingPlan, offers: list[HitOffer], sections: list[SectionOffer]) -> tuple[int, int]:
    """Return the cost and value of a plan, from the offers alone; each section once."""
    tokens = value = 0
    opened: set[int] = set()
    for offer, choice in zip(offers, plan.choices, strict=True):
        if choice is None:
            continue
        value += form_value(offer.points, choice.form)
        tokens += offer.citation
        if choice.form is HitForm.SECTION:
            assert choice.section is not None
            assert choice.section in ancestors(offer.section, sections)
            opened.add(choice.section)
        else:
            cost = offer.snippet if choice.form is HitForm.SNIPPET else offer.chunk
            assert cost is not None
            tokens += cost
    return tokens + sum(sections[section].tokens for section in opened), value


def best_value(offers: list[HitOffer], sections: list[SectionOffer], budget: int) -> int:
    """Return the best value by trying every set of open sections and every form."""
    best = 0
    for opened in product((False, True), repeat=len(sections)):
        chosen = {number for number, is_open in enumerate(opened) if is_open}
        held = [not chosen.isdisjoint(ancestors(offer.section, sections)) for offer in offers]
        fixed = sum(sections[section].tokens for section in chosen)
        fixed += sum(offer.citation for offer, is_held in zip(offers, held, strict=True) if is_held)
        value = sum(offer.points for offer, is_held in zip(offers, held, strict=True) if is_held)
        free = [offer for offer, is_held in zip(offers, held, strict=True) if not is_held]
        for forms in product((None, HitForm.SNIPPET, HitForm.CHUNK), repeat=len(free)):
            cost, earned = fixed, value
            for offer, form in zip(free, forms, strict=True):
                if form is None:
                    continue
                own = offer.snippet if form is HitForm.SNIPPET else offer.chunk
                cost += offer.citation + (own if own is not None else budget + 1)
                earned += form_value(offer.points, form)
            if cost <= budget:
                best = max(best, earned)
    return best


@given(shelves(), st.integers(0, 400))
def test_the_budget_holds_and_the_bill_adds_up(shelf: Shelf, budget: int) -> None:
    """The plan costs at most the budget, and its cost and value add up, with each section paid once."""
    plan = choose_forms(*shelf, budget)

    assert plan.tokens <= budget
    assert bill(plan, *shelf) == (plan.tokens, plan.value)
    assert len(plan.choices) == len(shelf[0])


@settings(deadline=None)
@given(shelves(most=5), st.integers(0, 150))
def test_no_other_choice_is_worth_more(shelf: Shelf, budget: int) -> None:
    """On small cases no other choice has a higher value."""
    assert choose_forms(*shelf, budget).value == best_value(*shelf, budget)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(300))
@given(shelves(most=4, dearest=3), st.integers(0, 12))
def test_no_token_is_wasted(shelf: Shelf, budget: int) -> None:
    """The plan is optimal even if a single token decides."""
    assert choose_forms(*shelf, budget).value == best_value(*shelf, budget)


@given(shelves(), st.integers(0, 400))
def test_something_is_shown_when_anything_fits(shelf: Shelf, budget: int) -> None:
    """The plan is empty only if not even the cheapest form fits."""
    offers, sections = shelf
    cheapest = [
        offer.citation + min(cost for cost in (offer.snippet, offer.chunk) if cost is not None) for offer in offers
    ]
    plan = choose_forms(offers, sections, budget)

    if any(cost <= budget for cost in cheapest):
        assert any(choice is not None for choice in plan.choices)


@given(shelves(), st.integers(0, 300), st.integers(0, 100))
def test_more_budget_never_gives_less(shelf: Shelf, budget: int, more: int) -> None:
    """A larger budget never gives a lower total value."""
    assert choose_forms(*shelf, budget + more).value >= choose_forms(*shelf, budget).value


def test_only_so_many_hits_are_weighed() -> None:
    """Hits beyond the limit are left out, and the plan still has an entry for each."""
    plan = choose_forms([HitOffer(5, 1, 1)] * (MAX_HITS_PACKED + 3), [], 10_000)

    assert [choice is not None for choice in plan.choices] == [True] * MAX_HITS_PACKED + [False] * 3


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_points_fall_with_the_rank(scores: list[float]) -> None:
    """For any scores the best hit has all points, every hit has some, and a worse rank has no more."""
    points = hit_points(scores)

    assert points[:1] in ([], [100])
    assert all(5 <= after <= before for before, after in pairwise(points))


@given(st.integers(5, 100))
def test_more_text_is_worth_more(points: int) -> None:
    """A section has a higher value than its chunk, and the chunk than its snippet."""
    assert (
        form_value(points, HitForm.SECTION)
        > form_value(points, HitForm.CHUNK)
        > form_value(points, HitForm.SNIPPET)
        > 0
    )
