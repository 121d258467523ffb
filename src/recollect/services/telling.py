"""The sentence of each text that says most of what all of them are about: a summary without a model.

A word weighs what it is used for: in how many of the texts. Of each text the sentence with the weightiest words is taken, and left
out again where earlier ones have said it. The same texts give the same sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.retrieval.dedupe import cut_words
from recollect.retrieval.stopwords import STOP_WORDS
from recollect.services.session.note import one_line, shorten

_SENTENCES = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+(?=\S)|\n+")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+|^#{1,6}\s+|^(?:User asked|Outcome|Went on with):\s*")
_LONGEST = 240
_SAID_BEFORE = 0.8
"""The share of a sentence's words that earlier ones hold, from which it adds nothing."""
_LEAST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Sentence:
    """What one of the texts says."""

    place: int
    """Which of them."""
    text: str
    weight: float


def telling(texts: Sequence[str]) -> list[Sentence]:
    """Return one sentence of each text, in order, as far as it adds something."""
    cut = [[_tidied(one) for one in _SENTENCES.split(_body(text))] for text in texts]
    weights: Counter[str] = Counter()
    for sentences in cut:
        weights.update({word for sentence in sentences for word in content_words(sentence)})
    said: set[str] = set()
    chosen: list[Sentence] = []
    for place, sentences in enumerate(cut):
        best = _best(sentences, weights)
        words = content_words(best)
        if best and (not words or len(words & said) < _SAID_BEFORE * len(words)):
            chosen.append(Sentence(place, shorten(best, _LONGEST), _weight(best, weights)))
            said |= words
    return chosen


def content_words(text: str) -> set[str]:
    """Return the words of a text that say something."""
    return {word for word in cut_words(text) if word not in STOP_WORDS and any(map(str.isalnum, word))}


def _best(sentences: Sequence[str], weights: Counter[str]) -> str:
    """Return the sentence whose words the texts use most, of equals the first; short ones only where there are no others."""
    full = [one for one in sentences if len(content_words(one)) >= _LEAST_WORDS] or [one for one in sentences if one]
    return max(full, key=lambda sentence: _weight(sentence, weights), default="")


def _weight(sentence: str, weights: Counter[str]) -> float:
    words = content_words(sentence)
    return sum(weights[word] for word in words) / (len(words) + 2) if words else 0.0


def _body(text: str) -> str:
    return text.partition("\n")[2] if text.startswith("#") and "\n" in text else text


def _tidied(sentence: str) -> str:
    bare = sentence.strip()
    while (stripped := _BULLET.sub("", bare, count=1)) != bare:
        bare = stripped
    return one_line(bare)
