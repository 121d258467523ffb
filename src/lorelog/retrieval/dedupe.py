"""One text, one hit: repeats are named with the best of them instead of taking its neighbours' places.

Texts are the same when they differ in white space only. Comments do not count, because `Chunk.text` has none, and neither
does a heading that only tells the time: the same note at 14:30 and at 16:05 is one.

Texts that are nearly the same are folded too, but carefully, since a small difference may be all that matters: only where
nine tenths of their runs of three words are the same (one other word among fewer than 57 is a difference), where all
numbers are the same, and not below twenty words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lorelog.core.document import StoredChunk
from lorelog.retrieval.fuse import Fused
from lorelog.retrieval.tokens import find_tokens, is_unspaced

NEAR = 0.9
"""The share of common shingles, of all that either text has, from which two texts are nearly the same."""
LEAST_WORDS = 20
_TELLING = 8
_MOST_COMPARED = 200

_DIGIT = re.compile(r"\d").search
_CLOCK = re.compile(r"#{1,6}[ \t]+\d{1,2}:\d{2}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scored chunk, and the places that say the same or nearly so, as `source:first-last`."""

    fused: Fused
    stored: StoredChunk
    duplicates: tuple[str, ...] = ()


def drop_repeats(ranked: Iterable[tuple[Fused, StoredChunk]]) -> list[Ranked]:
    """Keep the first of each text in a ranking, best first; where the best scores are equal, the newest of these."""
    groups: dict[str, list[tuple[Fused, StoredChunk]]] = {}
    for fused, stored in ranked:
        groups.setdefault(said_by(stored), []).append((fused, stored))
    kept: dict[str, list[tuple[Fused, StoredChunk]]] = {}
    nearly = _Nearly()
    for text, group in groups.items():
        kept.setdefault(nearly.first_like(text), []).extend(group)
    return [_join(group) for group in kept.values()]


class _Nearly:
    """The texts so far, to be found by texts that are nearly the same.

    Cutting a text into words costs a third of a millisecond, so only those are cut that share most of their longest words,
    and each once.
    """

    def __init__(self) -> None:
        self._texts: list[tuple[str, frozenset[str]]] = []
        self._cut: dict[str, list[str]] = {}

    def first_like(self, text: str) -> str:
        """Return the first text that this one nearly repeats, or itself."""
        if len(self._texts) >= _MOST_COMPARED:
            return text
        longest = frozenset(sorted(dict.fromkeys(text.casefold().split()), key=len, reverse=True)[:_TELLING])
        for other, theirs in self._texts:
            if 2 * len(longest & theirs) > len(longest) and _are_near(self._words(text), self._words(other)):
                return other
        self._texts.append((text, longest))
        return text

    def _words(self, text: str) -> list[str]:
        if text not in self._cut:
            self._cut[text] = cut_words(text)
        return self._cut[text]


def _are_near(words: list[str], others: list[str]) -> bool:
    fewer, more = sorted((len(words), len(others)))
    if fewer < LEAST_WORDS or fewer < NEAR * more or _numbers(words) != _numbers(others):
        return False
    shingles, theirs = shingles_of(words), shingles_of(others)
    return len(shingles & theirs) >= NEAR * len(shingles | theirs)


def shingles_of(words: list[str]) -> set[tuple[str, str, str]]:
    """Return the runs of three words."""
    return set(zip(words, words[1:], words[2:], strict=False))


def _numbers(words: list[str]) -> list[str]:
    return sorted(filter(_DIGIT, words))


def cut_words(text: str) -> list[str]:
    """Return the words as they stand but for case, and each sign of a script without spaces."""
    return [word for token in find_tokens(text.casefold()) for word in (token if is_unspaced(token) else (token,))]


def said_by(stored: StoredChunk) -> str:
    """Return what a chunk says, with single spaces, and without a heading that only tells the time."""
    text = stored.chunk.text
    clock = _CLOCK.match(text)
    return " ".join((text[clock.end() :] if clock else text).split())


def place(stored: StoredChunk) -> str:
    """Return where a chunk stands, as `source:first-last`."""
    return f"{stored.chunk.source}:{stored.chunk.start_line}-{stored.chunk.end_line}"


def _join(group: list[tuple[Fused, StoredChunk]]) -> Ranked:
    best_score = group[0][0].score
    equals = [one for one in group if one[0].score == best_score]
    best = max(equals, key=lambda one: one[1].chunk.date)
    return Ranked(*best, duplicates=tuple(place(stored) for _, stored in group if stored is not best[1]))
