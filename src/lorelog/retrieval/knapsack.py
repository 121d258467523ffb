"""Chooses the form of each hit under a token budget: the most valuable set that fits.

A hit can be shown as its snippet, its chunk, or the whole section around it. Values are whole points: a hit is worth
up to 100, by its score relative to the best; its section earns all of that, its chunk three fifths, its snippet one
fifth. So a whole section of a good hit beats several snippets, and the remaining budget still buys snippets.

A section is paid once for all hits in it, and shows them all; sections can be nested. Because points are whole
numbers there are few totals, and keeping the cheapest way to each is an exact knapsack: the result is optimal,
deterministic, and never worse with a larger budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from lorelog.core.ports import group_by
from lorelog.core.query import HitForm

MAX_HITS_PACKED = 64
"""Further hits are not considered: 10 hits take a millisecond, 20 take 5, and these at most about 150."""

_MAX_POINTS = 100
_MIN_POINTS = 5  # below it a snippet would round to no points


class HitOffer(Struct, frozen=True):
    """The forms of one hit and their costs, besides `citation`, which every shown hit costs."""

    points: int
    citation: int
    snippet: int
    chunk: int | None = None
    section: int | None = None
    """Index of its section."""


class SectionOffer(Struct, frozen=True):
    """The cost of a section's text, and its parent section."""

    tokens: int
    parent: int | None = None


class FormChoice(Struct, frozen=True):
    """A hit's form; for a section, which one: its own, or an enclosing one."""

    form: HitForm
    section: int | None = None


class PackingPlan(Struct, frozen=True):
    """A choice for each hit, None if left out, with the total cost and value."""

    choices: tuple[FormChoice | None, ...]
    tokens: int
    value: int


def hit_points(scores: Sequence[float]) -> list[int]:
    """Return the points of each hit of a ranking, by its score relative to the best; never more than a better-ranked
    one.
    """
    points: list[int] = []
    best = scores[0] if scores else 0.0
    for score in scores:
        share = score / best if best > 0 and score > 0 else 0.0
        earned = max(_MIN_POINTS, round(_MAX_POINTS * min(share, 1.0)))
        points.append(min(earned, points[-1]) if points else _MAX_POINTS)
    return points


def form_value(points: int, form: HitForm) -> int:
    if form is HitForm.SECTION:
        return points
    return points * 3 // 5 if form is HitForm.CHUNK else points // 5


_ChoiceChain = tuple["_ChoiceChain", dict[int, FormChoice]] | tuple[()]
"""A linked list of choices, the last one first, so that states share their common part."""
_States = dict[int, tuple[int, _ChoiceChain]]
"""Minimum cost by value, and the choices with that cost."""


def choose_forms(offers: Sequence[HitOffer], sections: Sequence[SectionOffer], budget: int) -> PackingPlan:
    """Return the most valuable set of forms that costs at most `budget`; among equals the cheapest.

    The tree of sections is walked once with all states: a section is shown whole, or its parts.
    """
    considered = offers[:MAX_HITS_PACKED]
    own = group_by(range(len(considered)), lambda number: offers[number].section)
    """The hits that belong directly to each section, None for the top level."""
    inside = group_by(range(len(sections)), lambda number: sections[number].parent)
    """The direct children of each section, in order of their best hit."""

    def hits_in(section: int) -> list[int]:
        inner = (hit for child in inside.get(section, ()) for hit in hits_in(child))
        return sorted([*own.get(section, ()), *inner])

    def extended(states: _States, form: HitForm, text: int, hits: Sequence[int], section: int | None = None) -> _States:
        """Return the states after showing these hits in a form, whose text costs so much."""
        value = sum(form_value(offers[hit].points, form) for hit in hits)
        cost = text + sum(offers[hit].citation for hit in hits)
        chosen = dict.fromkeys(hits, FormChoice(form, section))
        return {
            had + value: (spent + cost, (picked, chosen))
            for had, (spent, picked) in states.items()
            if spent <= budget - cost
        }

    def through(section: int | None, states: _States) -> _States:
        """Add the hits of a section one by one, and its child sections whole or one by one."""
        for hit in own.get(section, ()):
            costs = {HitForm.SNIPPET: offers[hit].snippet, HitForm.CHUNK: offers[hit].chunk}
            for added in [extended(states, form, cost, [hit]) for form, cost in costs.items() if cost is not None]:
                states = _merge_states(states, added)
        for inner in inside.get(section, ()):
            whole = extended(states, HitForm.SECTION, sections[inner].tokens, hits_in(inner), inner)
            states = _merge_states(through(inner, states), whole)
        return states

    value, (tokens, picked) = max(through(None, {0: (0, ())}).items())
    choices: dict[int, FormChoice] = {}
    while picked:
        picked, chosen = picked
        choices |= chosen
    return PackingPlan(tuple(choices.get(number) for number in range(len(offers))), tokens, value)


def _merge_states(one: _States, other: _States) -> _States:
    """Return the cheapest way to each value, without values for which a higher one costs no more."""
    joined = dict(one)
    for value, state in other.items():
        if value not in joined or state[0] < joined[value][0]:
            joined[value] = state
    kept: _States = {}
    cheapest: int | None = None
    for value in sorted(joined, reverse=True):
        if cheapest is None or joined[value][0] < cheapest:
            kept[value] = joined[value]
            cheapest = joined[value][0]
    return kept
