"""Phrases that a question quotes, and which of them a text holds word for word.

Who puts words between quotation marks wants these words, in this order. So a text that has the phrase comes before all that
only have its words, whatever else speaks for them: the part outweighs lanes, entry and close reading together. Case and white space
do not count, and a phrase may run over the end of a line; it has to begin and end where words do. Backticks are no quotation
marks: they say that something is code, not that it stands there in one piece.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.core.query import Part
from lorelog.retrieval.tokens import is_unspaced

QUOTED = 1.0
"""What a text gets that holds every quoted phrase."""

_LONGEST_READ = 4_000
_MOST_PHRASES = 8
_MARKED = re.compile(r'"([^"\n]{2,200})"|[“„]([^“”„\n]{2,200})[”“]|«([^«»\n]{2,200})»|「([^「」\n]{2,200})」')


@dataclass(frozen=True, slots=True)
class Quoted:
    """How many phrases a question quotes, and how many of them a text holds."""

    held: int
    asked: int

    @property
    def value(self) -> float:
        """What it adds to the score."""
        return QUOTED * self.held / self.asked

    def parts(self) -> tuple[Part, ...]:
        """Return that by name."""
        phrases = "quoted phrase stands" if self.asked == 1 else "quoted phrases stand"
        return (Part("quoted", self.value, f"{self.held} of {self.asked} {phrases} here word for word"),)


def find_phrases(question: str) -> list[re.Pattern[str]]:
    """Return what to look for of each phrase that a question quotes."""
    found = ("".join(match.groups("")) for match in _MARKED.finditer(question[:_LONGEST_READ]))
    phrases = dict.fromkeys(_even(phrase) for phrase in found if any(map(str.isalnum, phrase)))
    return [_pattern(phrase) for phrase in list(phrases)[:_MOST_PHRASES]]


def look_for(phrases: Sequence[re.Pattern[str]], text: str) -> Quoted:
    """Return which of the phrases a text holds."""
    even = _even(text)
    return Quoted(sum(phrase.search(even) is not None for phrase in phrases), len(phrases))


def _pattern(phrase: str) -> re.Pattern[str]:
    before = r"(?<!\w)" if _is_bounded(phrase[0]) else ""
    after = r"(?!\w)" if _is_bounded(phrase[-1]) else ""
    return re.compile(before + re.escape(phrase) + after)


def _is_bounded(edge: str) -> bool:
    """Say whether a word ends here: neither a sign nor a script without spaces tells."""
    return edge.isalnum() and not is_unspaced(edge)


def _even(text: str) -> str:
    return " ".join(text.casefold().split())
