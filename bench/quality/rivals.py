r"""Rankings to compare with, over the very chunks and vectors that our own ranking has.

What is compared is therefore the ranking alone. BM25 alone is our lexical lane, dense alone our dense lane, both asked
directly. "memsearch" is the way memsearch 0.4 ranks: BM25 over lower-case `\w+` (k1 1.5, b 0.75, idf as Lucene has it)
and dense, each cut at ten chunks, fused by reciprocal rank with 60. Its own model and its own way of cutting are left
out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from lorelog.core.document import ChunkKey

K1, B = 1.5, 0.75
CUT = 10
RRF = 60
_WORD = re.compile(r"\w+")


class PlainBM25:
    """BM25 over the plain words of texts."""

    def __init__(self, texts: Mapping[ChunkKey, str]) -> None:
        self._keys = list(texts)
        counts = [Counter(_WORD.findall(text.lower())) for text in texts.values()]
        lengths = np.array([sum(count.values()) for count in counts], np.float64)
        average = lengths.mean() if len(lengths) and lengths.any() else 1.0
        damping = K1 * (1 - B + B * lengths / average)
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, count in enumerate(counts):
            for word, times in count.items():
                postings[word].append((row, times))
        self._postings: dict[str, tuple[Any, Any]] = {}
        for word, found in postings.items():
            rows, times = np.array(found).T
            idf = log(1 + (len(counts) - len(found) + 0.5) / (len(found) + 0.5))
            self._postings[word] = rows, idf * times / (times + damping[rows])

    def rank(self, query: str, limit: int) -> list[ChunkKey]:
        """Return the texts that share a word with the query, best first."""
        scores = np.zeros(len(self._keys))
        for word, times in Counter(_WORD.findall(query.lower())).items():
            if word in self._postings:
                rows, shares = self._postings[word]
                scores[rows] += times * shares
        best = np.argsort(-scores, kind="stable")[:limit]
        return [self._keys[row] for row in best if scores[row] > 0]


def memsearch(words: Sequence[ChunkKey], dense: Sequence[ChunkKey]) -> list[ChunkKey]:
    """Return the reciprocal rank fusion of two cut rankings."""
    scores: dict[ChunkKey, float] = {}
    for lane in (dense, words):
        for place, key in enumerate(lane[:CUT], 1):
            scores[key] = scores.get(key, 0.0) + 1.0 / (RRF + place)
    return sorted(scores, key=lambda key: -scores[key])
