"""A close reading of the first candidates: which words of the question a chunk holds, and how near to each other.

BM25 counts words wherever they stand, and lets one that is repeated make up for one that is missing. Reading the few best
chunks once more costs a millisecond and tells: how much of the question is there at all (`coverage`), which of its
neighbouring words are neighbours here too (`phrase`), how close together the others are (`proximity`), and which missing
words are part of a longer one, as in compounds and names (`part-words`). Every word counts by its rarity.
The weights are learned on all sets together and sum up, with the lanes' and that of `entry`, to 1 (`python -m bench.quality.fit` prints them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lorelog.core.query import Part, Term

LANES = 0.56
"""What is left for the lanes."""
COVERAGE = 0.08
PHRASE = 0.01
PROXIMITY = 0.07
PART_WORDS = 0.21

_MOST_PLACES = 8
_SHORTEST_PART = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """What a chunk holds of a question; each is 0 to 1."""

    coverage: float
    phrase: float
    proximity: float
    part_words: float

    @property
    def value(self) -> float:
        """What it adds to the score."""
        held = COVERAGE * self.coverage + PHRASE * self.phrase
        return held + PROXIMITY * self.proximity + PART_WORDS * self.part_words

    def parts(self) -> tuple[Part, ...]:
        """Return the shares of that by name."""
        return (
            Part("coverage", COVERAGE * self.coverage, f"{self.coverage:.0%} of the question's words by rarity"),
            Part("phrase", PHRASE * self.phrase, f"its neighbouring words are neighbours here: {self.phrase:.2f} of 1"),
            Part("proximity", PROXIMITY * self.proximity, f"its words are close together: {self.proximity:.2f} of 1"),
            Part("part-words", PART_WORDS * self.part_words, f"{self.part_words:.0%} are part of longer words here"),
        )


class CloseReader:
    """Reads chunks for one question."""

    def __init__(self, terms: Sequence[Term], rarity: Mapping[str, float]) -> None:
        self._terms = list(dict.fromkeys(term.text for term in terms))
        self._rarity = {text: max(rarity.get(text, 0.0), 0.0) for text in self._terms}
        self._whole = sum(self._rarity.values())
        self._pairs = list(dict.fromkeys(pairwise(self._terms)))

    def read(self, words: Sequence[str]) -> Reading:
        """Return what a chunk of these words, in their order, holds of the question."""
        if self._whole <= 0.0:
            return Reading(0.0, 0.0, 0.0, 0.0)
        places = self._places(words)
        held = [text for text in self._terms if text in places]
        return Reading(
            coverage=sum(self._rarity[text] for text in held) / self._whole,
            phrase=self._phrase(places),
            proximity=self._proximity(held, places),
            part_words=self._part_words(places, words),
        )

    def _places(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Return where each word of the question stands: looked for, since most of a chunk's words are others."""
        places: dict[str, list[int]] = {}
        for text in self._rarity.keys() & set(words):
            found = [words.index(text)]
            while len(found) < _MOST_PLACES:
                try:
                    found.append(words.index(text, found[-1] + 1))
                except ValueError:
                    break
            places[text] = found
        return places

    def _phrase(self, places: Mapping[str, list[int]]) -> float:
        found = 0.0
        for first, second in self._pairs:
            if first in places and second in places:
                after = set(places[second])
                if any(place + 1 in after for place in places[first]):
                    found += self._rarity[first] + self._rarity[second]
        return min(found / (2.0 * self._whole), 1.0)

    def _proximity(self, held: Sequence[str], places: Mapping[str, list[int]]) -> float:
        found = 0.0
        for first, second in pairwise(held):
            distance = min(abs(one - other) for one in places[first] for other in places[second])
            found += (self._rarity[first] + self._rarity[second]) / 2.0 / max(distance, 1)
        return min(found / self._whole, 1.0)

    def _part_words(self, places: Mapping[str, list[int]], words: Sequence[str]) -> float:
        missing = [text for text in self._terms if text not in places and len(text) >= _SHORTEST_PART]
        if not missing:
            return 0.0
        joined = " ".join(words)
        return sum(self._rarity[text] for text in missing if text in joined) / self._whole
