"""Which form of which hit to show under a token budget: the most valuable set that fits.

A hit can be shown as its snippet, its chunk, or the whole section around it. Values are whole points: a hit is worth
up to 100 by its score beside the best one's; its section earns all of that, its chunk three fifths, its snippet one fifth.
So a whole section of a good hit beats a handful of snippets, and what is left over still buys snippets.

A section is paid once, however many hits lie in it, and shows them all; sections can lie inside one another. Because
points are whole numbers there are few totals, and keeping the cheapest way to each is an exact knapsack: the answer is the
optimum, the same every time, and a larger budget never gives less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from lorelog.core.query import Form

MOST_WEIGHED = 64
"""Hits beyond these are not considered: weighing 10 takes a millisecond, 20 takes 5, and these at most some 150."""

_MOST_POINTS = 100
_LEAST_POINTS = 5  # below it a snippet would be worth nothing


@dataclass(frozen=True, slots=True)
class Offer:
    """What one hit can be shown as, and what each form costs beside `citation`, which every shown hit costs."""

    points: int
    citation: int
    snippet: int
    chunk: int | None = None
    section: int | None = None
    """Which of the sections it lies in."""


@dataclass(frozen=True, slots=True)
class SectionOffer:
    """What a section's text costs, and which section it lies in."""

    tokens: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A hit's form; where that is a section, which one: its own, or one around it."""

    form: Form
    section: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice for each hit, None for those left out, with what they cost and are worth together."""

    choices: tuple[Choice | None, ...]
    tokens: int
    value: int


def points_of(scores: Sequence[float]) -> list[int]:
    """Return what each hit of a ranking is worth, by its score beside the best; never more than a better-ranked one."""
    points: list[int] = []
    best = scores[0] if scores else 0.0
    for score in scores:
        share = score / best if best > 0 and score > 0 else 0.0
        earned = max(_LEAST_POINTS, round(_MOST_POINTS * min(share, 1.0)))
        points.append(min(earned, points[-1]) if points else _MOST_POINTS)
    return points


def worth(points: int, form: Form) -> int:
    """Return what a hit of so many points earns in a form."""
    if form is Form.SECTION:
        return points
    return points * 3 // 5 if form is Form.CHUNK else points // 5


def choose(offers: Sequence[Offer], sections: Sequence[SectionOffer], budget: int) -> Plan:
    """Return the most valuable set of forms that costs at most `budget`; of equals the cheapest."""
    search = _Knapsack(offers[:MOST_WEIGHED], sections, budget)
    value, (tokens, picked) = max(search.states().items())
    choices: dict[int, Choice] = {}
    while picked:
        picked, chosen = picked
        choices |= chosen
    return Plan(tuple(choices.get(number) for number in range(len(offers))), tokens, value)


_Picked = tuple["_Picked", dict[int, Choice]] | tuple[()]
"""A chain of choices, the last one first, so that states share what they have in common."""
_States = dict[int, tuple[int, _Picked]]
"""By value: the least cost of it, and the choices that cost so much."""


@dataclass(frozen=True)
class _Knapsack:
    """Goes through the tree of sections once, each time with all states: show this section whole, or look inside."""

    offers: Sequence[Offer]
    sections: Sequence[SectionOffer]
    budget: int

    @cached_property
    def _inside(self) -> dict[int | None, list[int]]:
        """The sections right inside each section, None for those inside none; in order of their best hit."""
        inside: dict[int | None, list[int]] = {}
        for number in range(len(self.sections)):
            inside.setdefault(self.sections[number].parent, []).append(number)
        return inside

    @cached_property
    def _own(self) -> dict[int | None, list[int]]:
        """The hits whose own section it is."""
        own: dict[int | None, list[int]] = {}
        for number, offer in enumerate(self.offers):
            own.setdefault(offer.section, []).append(number)
        return own

    def states(self) -> _States:
        """Return every value that can be had within the budget."""
        return self._through(None, {0: (0, ())})

    def _through(self, section: int | None, states: _States) -> _States:
        """Add the hits of a section one by one, and the sections inside it whole or one by one."""
        for number in self._own.get(section, ()):
            states = self._with_one_of(self._forms(number), states)
        for inner in self._inside.get(section, ()):
            whole = self._whole(inner)
            states = _best_of(self._through(inner, states), self._extended(states, *whole))
        return states

    def _forms(self, number: int) -> list[tuple[int, int, dict[int, Choice]]]:
        """Return the value, cost and choice of each form that is the hit's alone."""
        offer = self.offers[number]
        costs = {Form.SNIPPET: offer.snippet, Form.CHUNK: offer.chunk}
        return [
            (worth(offer.points, form), offer.citation + cost, {number: Choice(form)})
            for form, cost in costs.items()
            if cost is not None
        ]

    def _whole(self, section: int) -> tuple[int, int, dict[int, Choice]]:
        """Return the value, cost and choices of a section with all hits in it."""
        hits = self._hits_in(section)
        value = sum(worth(self.offers[hit].points, Form.SECTION) for hit in hits)
        cost = self.sections[section].tokens + sum(self.offers[hit].citation for hit in hits)
        return value, cost, {hit: Choice(Form.SECTION, section) for hit in hits}

    def _hits_in(self, section: int) -> list[int]:
        inner = (hit for one in self._inside.get(section, ()) for hit in self._hits_in(one))
        return sorted([*self._own.get(section, ()), *inner])

    def _with_one_of(self, forms: Iterable[tuple[int, int, dict[int, Choice]]], states: _States) -> _States:
        for extended in [self._extended(states, *form) for form in forms]:
            states = _best_of(states, extended)
        return states

    def _extended(self, states: _States, value: int, cost: int, chosen: dict[int, Choice]) -> _States:
        left = self.budget - cost
        return {
            had + value: (spent + cost, (picked, chosen)) for had, (spent, picked) in states.items() if spent <= left
        }


def _best_of(one: _States, other: _States) -> _States:
    """Return the cheapest way to each value, without values for which a higher one costs no more."""
    joined = dict(one)
    for value, state in other.items():
        if value not in joined or state[0] < joined[value][0]:
            joined[value] = state
    kept: _States = {}
    least: int | None = None
    for value in sorted(joined, reverse=True):
        if least is None or joined[value][0] < least:
            kept[value] = joined[value]
            least = joined[value][0]
    return kept
