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
from functools import cached_property

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


def choose_forms(offers: Sequence[HitOffer], sections: Sequence[SectionOffer], budget: int) -> PackingPlan:
    """Return the most valuable set of forms that costs at most `budget`; among equals the cheapest."""
    search = _Knapsack(offers[:MAX_HITS_PACKED], sections, budget)
    value, (tokens, picked) = max(search.through(None, {0: (0, ())}).items())
    choices: dict[int, FormChoice] = {}
    while picked:
        picked, chosen = picked
        choices |= chosen
    return PackingPlan(tuple(choices.get(number) for number in range(len(offers))), tokens, value)


_ChoiceChain = tuple["_ChoiceChain", dict[int, FormChoice]] | tuple[()]
"""A linked list of choices, the last one first, so that states share their common part."""
_States = dict[int, tuple[int, _ChoiceChain]]
"""Minimum cost by value, and the choices with that cost."""


class _Knapsack(Struct, frozen=True, dict=True):
    """Walks the tree of sections once with all states: show a section whole, or its parts."""

    offers: Sequence[HitOffer]
    sections: Sequence[SectionOffer]
    budget: int

    @cached_property
    def _inside(self) -> dict[int | None, list[int]]:
        """The direct children of each section, None for the top level; in order of their best hit."""
        return group_by(range(len(self.sections)), lambda number: self.sections[number].parent)

    @cached_property
    def _own(self) -> dict[int | None, list[int]]:
        """The hits that belong directly to each section."""
        return group_by(range(len(self.offers)), lambda number: self.offers[number].section)

    def through(self, section: int | None, states: _States) -> _States:
        """Add the hits of a section one by one, and its child sections whole or one by one."""
        for number in self._own.get(section, ()):
            for extended in [self._extended(states, *form) for form in self._forms(number)]:
                states = _merge_states(states, extended)
        for inner in self._inside.get(section, ()):
            states = _merge_states(self.through(inner, states), self._extended(states, *self._whole(inner)))
        return states

    def _forms(self, number: int) -> list[tuple[int, int, dict[int, FormChoice]]]:
        """Return the value, cost and choice of each form that is the hit's alone."""
        offer = self.offers[number]
        costs = {HitForm.SNIPPET: offer.snippet, HitForm.CHUNK: offer.chunk}
        return [
            (form_value(offer.points, form), offer.citation + cost, {number: FormChoice(form)})
            for form, cost in costs.items()
            if cost is not None
        ]

    def _whole(self, section: int) -> tuple[int, int, dict[int, FormChoice]]:
        """Return the value, cost and choices of a section with all hits in it."""
        hits = self._hits_in(section)
        value = sum(form_value(self.offers[hit].points, HitForm.SECTION) for hit in hits)
        cost = self.sections[section].tokens + sum(self.offers[hit].citation for hit in hits)
        return value, cost, {hit: FormChoice(HitForm.SECTION, section) for hit in hits}

    def _hits_in(self, section: int) -> list[int]:
        inner = (hit for child in self._inside.get(section, ()) for hit in self._hits_in(child))
        return sorted([*self._own.get(section, ()), *inner])

    def _extended(self, states: _States, value: int, cost: int, chosen: dict[int, FormChoice]) -> _States:
        left = self.budget - cost
        return {
            had + value: (spent + cost, (picked, chosen)) for had, (spent, picked) in states.items() if spent <= left
        }


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
