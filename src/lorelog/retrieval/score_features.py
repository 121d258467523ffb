"""Features that adjust the scores of the first candidates: matched words, entry size, quoted phrases.

docs/search.md explains each ("Close reading", "Entries", "Quoted phrases"). Every word is weighted by its rarity. The weights are
learned on all sets together and sum to 1 with those of the lanes. Those below are for words alone; with vectors they
depend on the query (`fusion.weigh_lanes`). A word that only the listed commands of a captured entry have counts for less.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import compress, count, pairwise
from math import log

from msgspec import Struct
from msgspec.structs import astuple

from lorelog.core.query import ScorePart, Term
from lorelog.language.analyser import is_unspaced

LANES_WEIGHT = 0.56
"""The remaining weight for the lanes."""
COVERAGE_WEIGHT = 0.08
PHRASE_WEIGHT = 0.01
PROXIMITY_WEIGHT = 0.07
PART_WORDS_WEIGHT = 0.21

COMMANDS_WEIGHT = 0.25
"""What an entry loses that has the query's words in its list of commands only: its outcome says what came of them."""
NAME_WEIGHT = 0.4
"""Score of a document whose title and file name have every word of the query. For words alone half of it: BM25 has most of the score there."""
COMMANDS_LABEL = "\n- Commands:"

_MAX_POSITIONS = 8
_MIN_PART_CHARS = 4
_RUN_CHARS = 4
_MIN_INFLECTED_CHARS = 6
MIN_FOREIGN_SHARE = 0.5
"""Share of a query in other languages or scripts above which its words are taken as inflected."""


ENTRY_WEIGHT = 0.07
"""Score of an entry with one chunk. The learned weight is .11; with that, German queries lost half a point."""


class ReadingWeights(Struct, frozen=True):
    """Weights of the match features and of the entry's size."""

    coverage: float
    phrase: float
    proximity: float
    part_words: float
    entry: float

    @property
    def total(self) -> float:
        return float(sum(astuple(self)))

    def scaled(self, factor: float) -> ReadingWeights:
        return ReadingWeights(*(weight * factor for weight in astuple(self)))


WORDS_READING_WEIGHTS = ReadingWeights(
    COVERAGE_WEIGHT, PHRASE_WEIGHT, PROXIMITY_WEIGHT, PART_WORDS_WEIGHT, ENTRY_WEIGHT
)
"""For words alone."""


class MatchFeatures(Struct, frozen=True):
    """Match features of a chunk; each is 0 to 1."""

    coverage: float
    phrase: float
    proximity: float
    part_words: float

    def score(self, weights: ReadingWeights = WORDS_READING_WEIGHTS) -> float:
        matched = weights.coverage * self.coverage + weights.phrase * self.phrase
        return matched + weights.proximity * self.proximity + weights.part_words * self.part_words

    def parts(self, weights: ReadingWeights = WORDS_READING_WEIGHTS) -> tuple[ScorePart, ...]:
        """Return its named parts, without those that have no weight."""
        notes = (
            f"{self.coverage:.0%} of the question's words by rarity",
            f"adjacent words of the query are adjacent here: {self.phrase:.2f} of 1",
            f"words of the query are close together: {self.proximity:.2f} of 1",
            f"{self.part_words:.0%} are part of longer words here",
        )
        named = zip(self.__struct_fields__, astuple(weights), astuple(self), notes, strict=False)
        return tuple(
            ScorePart(name.replace("_", "-"), weight * value, note)
            for name, weight, value, note in named
            if weight > 0.0
        )


class CloseReader:
    """Computes the match features for one query."""

    def __init__(self, terms: Sequence[Term], rarity: Mapping[str, float], foreign_share: float = 0.0) -> None:
        self._is_inflected = foreign_share > MIN_FOREIGN_SHARE
        self._terms = list(dict.fromkeys(term.text for term in terms))
        self._rarity = {text: max(rarity.get(text, 0.0), 0.0) for text in self._terms}
        self._known = frozenset(self._rarity)
        self._whole = sum(self._rarity.values())
        self._pairs = list(dict.fromkeys(pairwise(self._terms)))

    def read(self, words: Sequence[str]) -> MatchFeatures:
        """Return the features of a chunk with these words, in order."""
        if self._whole <= 0.0:
            return MatchFeatures(0.0, 0.0, 0.0, 0.0)
        places = self._places(words)
        matched = [text for text in self._terms if text in places]
        return MatchFeatures(
            coverage=sum(self._rarity[text] for text in matched) / self._whole,
            phrase=self._phrase(places),
            proximity=self._proximity(matched, places),
            part_words=self._part_words(places, words),
        )

    def commands_share(self, text: str) -> float:
        """Return the share of the query's words that a journal entry has in its list of commands only, by rarity.

        Parts of words are compared, because analysing the text again would cost more than everything else here.
        """
        start = text.find(COMMANDS_LABEL)
        if start < 0 or self._whole <= 0.0:
            return 0.0
        end = start + 1
        while (end := text.find("\n", end)) >= 0 and text[end + 1 : end + 2].isspace():
            end += 1
        commands, rest = text[start : end if end >= 0 else len(text)].casefold(), text[:start].casefold()
        if end >= 0:
            rest += text[end:].casefold()
        return sum(self._rarity[term] for term in self._terms if term in commands and term not in rest) / self._whole

    def name_share(self, names: Iterable[str], headings: Callable[[], Iterable[str]]) -> float:
        """Return the square of the share of the query's words, by rarity, in the names of a document, and not in headings."""
        named = self._known.intersection(names)
        named = named.difference(headings()) if named else named
        found = sum(self._rarity[term] for term in self._terms if term in named)
        return (found / self._whole) ** 2 if found > 0.0 else 0.0

    def _places(self, words: Sequence[str]) -> dict[str, list[int]]:
        """Return the first positions of each query word. Most of a chunk's words are others, which are passed over in C."""
        places: dict[str, list[int]] = {}
        for place in compress(count(), map(self._known.__contains__, words)):
            found = places.setdefault(words[place], [])
            if len(found) < _MAX_POSITIONS:
                found.append(place)
        return places

    def _phrase(self, places: Mapping[str, list[int]]) -> float:
        found = 0.0
        for first, second in self._pairs:
            if first in places and second in places:
                after = set(places[second])
                if any(place + 1 in after for place in places[first]):
                    found += self._rarity[first] + self._rarity[second]
        return min(found / (2.0 * self._whole), 1.0)

    def _proximity(self, matched: Sequence[str], places: Mapping[str, list[int]]) -> float:
        found = 0.0
        for first, second in pairwise(matched):
            distance = min(abs(place - other) for place in places[first] for other in places[second])
            found += (self._rarity[first] + self._rarity[second]) / 2.0 / max(distance, 1)
        return min(found / self._whole, 1.0)

    def _part_words(self, places: Mapping[str, list[int]], words: Sequence[str]) -> float:
        missing = [text for text in self._terms if text not in places and len(text) >= _MIN_PART_CHARS]
        if not missing:
            return 0.0
        joined = " ".join(words)
        if self._is_inflected:
            return sum(self._rarity[text] * _found_share(text, joined) for text in missing) / self._whole
        return sum(self._rarity[text] for text in missing if text in joined) / self._whole


def _found_share(word: str, joined: str) -> float:
    """Return 1 if a word is part of the joined words, else how far more than half of its runs of letters are."""
    if word in joined:
        return 1.0
    if len(word) < _MIN_INFLECTED_CHARS:
        return 0.0
    runs = [word[start : start + _RUN_CHARS] for start in range(len(word) - _RUN_CHARS + 1)]
    return max(2.0 * sum(run in joined for run in runs) / len(runs) - 1.0, 0.0)


def explain_name(share: float, weight: float) -> tuple[ScorePart, ...]:
    """Return the part for words in a document's title and file name."""
    note = f"{share**0.5:.0%} of the question's words in title or file name"
    return (ScorePart("name", weight * share, note),)


def explain_commands(share: float) -> tuple[ScorePart, ...]:
    """Return the part for words that are only in an entry's list of commands."""
    return (ScorePart("commands", -COMMANDS_WEIGHT * share, f"{share:.0%} of the question's words only in commands"),)


MAX_ENTRY_CHUNKS = 4
"""Number of chunks from which an entry gets nothing."""


@cache
def entry_share(size: int) -> float:
    """Return 1 for an entry of one chunk, falling to 0 at `MAX_ENTRY_CHUNKS`."""
    return 1.0 - log(min(max(size, 1), MAX_ENTRY_CHUNKS)) / log(MAX_ENTRY_CHUNKS)


def entry_mix(shares: Sequence[float]) -> float:
    """Return how far short and long entries are mixed: 1 if half are of each kind, 0 if all are alike and their sizes say nothing."""
    mean = sum(shares) / len(shares) if shares else 0.0
    return 4.0 * mean * (1.0 - mean)


def entry_score(size: int, weight: float = ENTRY_WEIGHT) -> float:
    return weight * entry_share(size)


def explain_entry(size: int, weight: float = ENTRY_WEIGHT) -> tuple[ScorePart, ...]:
    note = (
        "an entry of its own"
        if size == 1
        else f"its entry has {size}{' or more' if size >= MAX_ENTRY_CHUNKS else ''} chunks"
    )
    return (ScorePart("entry", entry_score(size, weight), note),)


QUOTED_WEIGHT = 1.0
"""Score of a text with every quoted phrase."""

_MAX_QUESTION_CHARS = 4_000
_MAX_PHRASES = 8
_MAX_QUOTING_CHARS, _MIN_QUOTED_SHARE = 300, 0.2
"""A longer text with few quotations is a report, whose code and messages have quotation marks; it asks for none of them."""
_QUOTE_PATTERN = r'"([^"\n]{2,200})"|[“„]([^“”„\n]{2,200})[”“]|«([^«»\n]{2,200})»|「([^「」\n]{2,200})」'
_QUOTE_MARKS = frozenset('"“„«「')
"""Every quoted phrase begins with one. Most queries have none, and the pattern is slow to compile."""


class QuoteMatch(Struct, frozen=True):
    """How many phrases a query quotes, and how many of them a text contains."""

    matched: int
    total: int

    @property
    def score(self) -> float:
        return QUOTED_WEIGHT * self.matched / self.total

    def parts(self) -> tuple[ScorePart, ...]:
        phrases = "quoted phrase is" if self.total == 1 else "quoted phrases are"
        return (ScorePart("quoted", self.score, f"{self.matched} of {self.total} {phrases} here word for word"),)


def find_quoted_phrases(question: str) -> list[re.Pattern[str]]:
    """Return the search forms of the phrases that a query quotes."""
    if _QUOTE_MARKS.isdisjoint(question):
        return []
    found = ("".join(match.groups("")) for match in re.finditer(_QUOTE_PATTERN, question[:_MAX_QUESTION_CHARS]))
    phrases = dict.fromkeys(_normalize_phrase(phrase) for phrase in found if any(map(str.isalnum, phrase)))
    if len(question) > _MAX_QUOTING_CHARS and sum(map(len, phrases)) < _MIN_QUOTED_SHARE * len(question):
        return []
    # A phrase begins and ends at word borders; symbols and scripts without spaces have none.
    borders = [
        (r"(?<!\w)" if _is_word_edge(phrase[0]) else "", phrase, r"(?!\w)" if _is_word_edge(phrase[-1]) else "")
        for phrase in list(phrases)[:_MAX_PHRASES]
    ]
    return [re.compile(before + re.escape(phrase) + after) for before, phrase, after in borders]


def match_phrases(phrases: Sequence[re.Pattern[str]], text: str) -> QuoteMatch:
    """Return how many of the phrases a text contains."""
    even = _normalize_phrase(text)
    return QuoteMatch(sum(phrase.search(even) is not None for phrase in phrases), len(phrases))


def _is_word_edge(edge: str) -> bool:
    return edge.isalnum() and not is_unspaced(edge)


def _normalize_phrase(text: str) -> str:
    return " ".join(text.casefold().split())
