"""Choosing forms under a budget: the optimum, never over it, nothing paid twice, and no surprises."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from lorelog.core.query import Form
from lorelog.retrieval.pack import MOST_WEIGHED, Choice, Offer, Plan, SectionOffer, choose, points_of, worth

Shelf = tuple[list[Offer], list[SectionOffer]]


@st.composite
def shelves(draw: st.DrawFn, most: int = 12, dearest: int = 30) -> Shelf:
    """Hits in rank order, some of them in sections, some of those inside one another."""
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
    return [Offer(one, draw(costs), draw(costs), draw(st.none() | costs), draw(homes)) for one in points], sections


def ancestors(section: int | None, sections: list[SectionOffer]) -> Iterator[int]:
    """Yield a section and those around it."""
    while section is not None:
        yield section
        section = sections[section].parent


def bill(plan: Plan, offers: list[Offer], sections: list[SectionOffer]) -> tuple[int, int]:
    """Add up what a plan costs and is worth, from the offers alone; each section once."""
    tokens = value = 0
    opened: set[int] = set()
    for offer, choice in zip(offers, plan.choices, strict=True):
        if choice is None:
            continue
        value += worth(offer.points, choice.form)
        tokens += offer.citation
        if choice.form is Form.SECTION:
            assert choice.section is not None
            assert choice.section in ancestors(offer.section, sections)
            opened.add(choice.section)
        else:
            cost = offer.snippet if choice.form is Form.SNIPPET else offer.chunk
            assert cost is not None
            tokens += cost
    return tokens + sum(sections[one].tokens for one in opened), value


def best_value(offers: list[Offer], sections: list[SectionOffer], budget: int) -> int:
    """Try everything: each set of opened sections, which show all hits in them, with each form of the other hits."""
    best = 0
    for opened in product((False, True), repeat=len(sections)):
        chosen = {number for number, is_open in enumerate(opened) if is_open}
        held = [not chosen.isdisjoint(ancestors(offer.section, sections)) for offer in offers]
        fixed = sum(sections[one].tokens for one in chosen)
        fixed += sum(offer.citation for offer, is_held in zip(offers, held, strict=True) if is_held)
        value = sum(offer.points for offer, is_held in zip(offers, held, strict=True) if is_held)
        free = [offer for offer, is_held in zip(offers, held, strict=True) if not is_held]
        for forms in product((None, Form.SNIPPET, Form.CHUNK), repeat=len(free)):
            cost, earned = fixed, value
            for offer, form in zip(free, forms, strict=True):
                if form is None:
                    continue
                own = offer.snippet if form is Form.SNIPPET else offer.chunk
                cost += offer.citation + (own if own is not None else budget + 1)
                earned += worth(offer.points, form)
            if cost <= budget:
                best = max(best, earned)
    return best


@given(shelves(), st.integers(0, 400))
def test_the_budget_holds_and_the_bill_adds_up(shelf: Shelf, budget: int) -> None:
    """What is chosen costs at most the budget, and cost and value are what the parts say, a section paid once."""
    plan = choose(*shelf, budget)

    assert plan.tokens <= budget
    assert bill(plan, *shelf) == (plan.tokens, plan.value)
    assert len(plan.choices) == len(shelf[0])


@settings(deadline=None)
@given(shelves(most=5), st.integers(0, 150))
def test_no_other_choice_is_worth_more(shelf: Shelf, budget: int) -> None:
    """On small cases, where everything can be tried, nothing beats the plan."""
    assert choose(*shelf, budget).value == best_value(*shelf, budget)


@settings(deadline=None, max_examples=300)
@given(shelves(most=4, dearest=3), st.integers(0, 12))
def test_no_token_is_wasted(shelf: Shelf, budget: int) -> None:
    """Where a single token decides, it is the plan that finds the best use of it."""
    assert choose(*shelf, budget).value == best_value(*shelf, budget)


@given(shelves(), st.integers(0, 400))
def test_something_is_shown_when_anything_fits(shelf: Shelf, budget: int) -> None:
    """The plan is empty only when not even the cheapest form of any hit fits."""
    offers, sections = shelf
    cheapest = [
        offer.citation + min(cost for cost in (offer.snippet, offer.chunk) if cost is not None) for offer in offers
    ]
    plan = choose(offers, sections, budget)

    if any(cost <= budget for cost in cheapest):
        assert any(choice is not None for choice in plan.choices)


@given(shelves(), st.integers(0, 300), st.integers(0, 100))
def test_more_budget_never_gives_less(shelf: Shelf, budget: int, more: int) -> None:
    """A larger budget never gives a lower total value."""
    assert choose(*shelf, budget + more).value >= choose(*shelf, budget).value


@given(shelves(), st.integers(0, 400))
def test_the_same_question_has_the_same_answer(shelf: Shelf, budget: int) -> None:
    """Choosing twice gives the same plan."""
    assert choose(*shelf, budget) == choose(*shelf, budget)


def test_whole_sections_are_preferred() -> None:
    """With room for one section or for a handful of snippets, the section of the best hit is shown."""
    offers = [Offer(points, 10, 40, 150, number) for number, points in enumerate((100, 70, 60, 55, 50))]
    plan = choose(offers, [SectionOffer(240)] * 5, 260)

    assert plan.choices[0] == Choice(Form.SECTION, 0)


def test_all_is_shown_whole_when_there_is_room() -> None:
    """A budget that holds every section shows every hit by its section."""
    offers = [Offer(points, 10, 40, 150, number) for number, points in enumerate((100, 70, 60))]
    plan = choose(offers, [SectionOffer(240)] * 3, 750)

    assert [choice and choice.form for choice in plan.choices] == [Form.SECTION] * 3


def test_the_better_hit_goes_first() -> None:
    """Of two hits that cost the same, the one with the higher score is shown, or shown larger."""
    alone = choose([Offer(100, 5, 20), Offer(90, 5, 20)], [], 25)
    larger = choose([Offer(100, 5, 20, 60), Offer(90, 5, 20, 60)], [], 95)

    assert alone.choices == (Choice(Form.SNIPPET), None)
    assert larger.choices == (Choice(Form.CHUNK), Choice(Form.SNIPPET))


def test_a_shared_section_is_paid_once() -> None:
    """Two hits of one section are both shown for the price of it and a citation each."""
    plan = choose([Offer(100, 5, 50, 90, 0), Offer(80, 5, 50, 90, 0)], [SectionOffer(100)], 110)

    assert plan.choices == (Choice(Form.SECTION, 0), Choice(Form.SECTION, 0))
    assert (plan.tokens, plan.value) == (110, 180)


def test_a_section_around_a_section_holds_its_hits_too() -> None:
    """A hit of a subsection is shown by the section around it when that is shown anyway."""
    offers = [Offer(100, 5, 20, None, 0), Offer(90, 5, 20, None, 1)]
    plan = choose(offers, [SectionOffer(200), SectionOffer(150, parent=0)], 210)

    assert plan.choices == (Choice(Form.SECTION, 0), Choice(Form.SECTION, 0))


def test_only_so_many_hits_are_weighed() -> None:
    """Hits beyond the first are left out, and the plan still has a place for each."""
    plan = choose([Offer(5, 1, 1)] * (MOST_WEIGHED + 3), [], 10_000)

    assert [choice is not None for choice in plan.choices] == [True] * MOST_WEIGHED + [False] * 3


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_points_fall_with_the_rank(scores: list[float]) -> None:
    """Whatever the scores, negative or all zero, the best hit has all points, none has none, and a worse rank no more."""
    points = points_of(scores)

    assert points[:1] in ([], [100])
    assert all(5 <= after <= before for before, after in pairwise(points))


@given(st.integers(5, 100))
def test_more_text_is_worth_more(points: int) -> None:
    """A section is worth more than its chunk, and the chunk more than its snippet, which is worth something."""
    assert worth(points, Form.SECTION) > worth(points, Form.CHUNK) > worth(points, Form.SNIPPET) > 0
