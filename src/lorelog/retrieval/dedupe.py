"""Folds duplicates: each text is one hit, which lists the other locations.

Texts are duplicates if they differ in white space only. Comments are ignored because `Chunk.text` has none, and so is
a heading that is only a time: the same note at 14:30 and at 16:05 is one.

Near duplicates are folded too, but carefully, since a small difference may matter: only if nine tenths of their
three-word shingles are shared (one other word among fewer than 57 is a difference), all numbers are the same, and
both have at least twenty words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from lorelog.core.document import StoredChunk
from lorelog.core.policy import may_replace
from lorelog.language.analyser import find_tokens, is_unspaced
from lorelog.retrieval.cache import ProcessCache
from lorelog.retrieval.fusion import FusedCandidate

NEAR_DUPLICATE_SHARE = 0.9
"""Minimum Jaccard similarity of the shingles of near duplicates."""
MIN_WORDS = 20
MAX_PIECES_APART = 3
"""Pieces of a section without an id that are further apart are shown as different passages."""
_KEY_WORDS = 8
_LONG_WORD_CHARS = 8
_MAX_COMPARED = 200


class RankedChunk(Struct, frozen=True):
    """A scored chunk, and the locations of its duplicates as `source:first-last`."""

    fused: FusedCandidate
    stored: StoredChunk
    duplicates: tuple[str, ...] = ()


def drop_duplicates(ranked: Iterable[tuple[FusedCandidate, StoredChunk]]) -> list[RankedChunk]:
    """Keep the first of each text in a ranking, of a person's if there is one; among equal best scores, the newest."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[FusedCandidate, StoredChunk]]] = {}
    for fused, stored in ranked:
        groups.setdefault(_FORMS.of_text(stored.chunk.text, _compared_form), []).append((fused, stored))
    kept: dict[str, list[tuple[FusedCandidate, StoredChunk]]] = {}
    nearly = _NearDuplicateFinder()
    for (text, longest), group in groups.items():
        kept.setdefault(nearly.first_like(text, longest), []).extend(group)
    return sorted(map(_merge_group, kept.values()), key=lambda ranked: -ranked.fused.score)


def fold_entries(ranked: Iterable[RankedChunk]) -> list[RankedChunk]:
    """Keep the best chunk of each entry of a ranking: of a memory, and of a section that was cut into a few pieces."""
    kept: list[RankedChunk] = []
    entries: dict[object, list[RankedChunk]] = {}
    for item in ranked:
        chunk = item.stored.chunk
        others = entries.setdefault(chunk.memory or chunk.heading_path, [])
        if not any(_are_of_one_entry(item, other, is_memory=bool(chunk.memory)) for other in others):
            others.append(item)
            kept.append(item)
    return kept


def _are_of_one_entry(item: RankedChunk, other: RankedChunk, *, is_memory: bool) -> bool:
    """Return whether two chunks under one memory id, or under the same headings, are of one entry.

    The id alone does not tell: a file of somebody else could use it to hide a memory. Sections under the same headings are told apart
    by their pieces, which count from 0 in each. Distant pieces of a long text without headings are different passages.
    """
    chunk, best = item.stored.chunk, other.stored.chunk
    if chunk.source != best.source and not _sources(item) & _sources(other):
        return False
    if is_memory:
        return True
    distance = chunk.piece - best.piece
    is_after = chunk.start_line > best.start_line if chunk.source == best.source else distance > 0
    return 0 < (distance if is_after else -distance) <= MAX_PIECES_APART


def _sources(item: RankedChunk) -> set[str]:
    return {item.stored.chunk.source, *(place.rpartition(":")[0] for place in item.duplicates)}


class _NearDuplicateFinder:
    """Finds the first near duplicate of a text.

    Splitting a text into words costs a third of a millisecond, so only texts that share most of their longest words
    are split, each once.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._having: dict[str, list[int]] = {}
        """Numbers of the texts that have a word among their longest."""
        self._cut: dict[str, list[str]] = {}

    def first_like(self, text: str, longest: Sequence[str]) -> str:
        """Return the first text that this one nearly repeats, or itself; `longest` are its longest words."""
        if len(self._texts) >= _MAX_COMPARED:
            return text
        having, number = self._having, len(self._texts)
        shared: dict[int, int] = {}
        for others in filter(None, map(having.get, longest)):
            for other in others:
                shared[other] = shared.get(other, 0) + 1
        for other in sorted(shared):
            if 2 * shared[other] > len(longest):
                first = self._texts[other]
                if _are_near_duplicates(self._words(text), self._words(first)):
                    return first
        self._texts.append(text)
        for word in longest:
            having.setdefault(word, []).append(number)
        return text

    def _words(self, text: str) -> list[str]:
        if text not in self._cut:
            self._cut[text] = split_words(text)
        return self._cut[text]


def _are_near_duplicates(words: list[str], others: list[str]) -> bool:
    fewer, more = sorted((len(words), len(others)))
    if fewer < MIN_WORDS or fewer < NEAR_DUPLICATE_SHARE * more:
        return False
    numbers, their_numbers = (
        sorted(word for word in text if any(map(str.isdecimal, word))) for text in (words, others)
    )
    if numbers != their_numbers:
        return False
    shingles, theirs = word_shingles(words), word_shingles(others)
    return len(shingles & theirs) >= NEAR_DUPLICATE_SHARE * len(shingles | theirs)


def word_shingles(words: list[str]) -> set[tuple[str, str, str]]:
    return set(zip(words, words[1:], words[2:], strict=False))


def split_words(text: str) -> list[str]:
    """Return the words with case folded, and each character of scripts without spaces."""
    return [word for token in find_tokens(text.casefold()) for word in (token if is_unspaced(token) else (token,))]


def _compared_form(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text in its normalized form, and its longest words."""
    words = without_clock(text).split()
    text = " ".join(words)
    if not text.isascii():
        words = [word.casefold() for word in words]  # which may make them longer
    # Most texts have enough long ones, and only those are folded and sorted.
    long = dict.fromkeys([word.casefold() for word in words if len(word) >= _LONG_WORD_CHARS])
    chosen = long if len(long) >= _KEY_WORDS else dict.fromkeys([word.casefold() for word in words])
    return text, tuple(sorted(chosen, key=len, reverse=True)[:_KEY_WORDS])


_FORMS: ProcessCache[tuple[str, tuple[str, ...]]] = ProcessCache(1_024)


def normalized_text(stored: StoredChunk) -> str:
    """Return a chunk's text with single spaces, without a clock."""
    return " ".join(without_clock(stored.chunk.text).split())


def without_clock(text: str) -> str:
    """Return a text without a heading that is only a time: the date of the hit has it."""
    if not text.startswith("#"):
        return text
    heading = text.partition("\n")[0]
    hour, _, minute = heading.lstrip("#").strip(" \t").partition(":")
    is_clock = hour.isdecimal() and minute.isdecimal() and len(hour) <= 2 == len(minute)
    return text[len(heading) :] if is_clock else text


def _origin(stored: StoredChunk) -> str:
    return stored.chunk.anchor.origin if stored.chunk.anchor else ""


def _merge_group(group: list[tuple[FusedCandidate, StoredChunk]]) -> RankedChunk:
    # A text of the user's own is not hidden behind an agent's that nearly repeats it.
    ranked = [member for member in group if may_replace(_origin(member[1]))] or group
    equals = [member for member in ranked if member[0].score == ranked[0][0].score]
    best = max(equals, key=lambda member: member[1].chunk.date)
    others = (stored.chunk for _, stored in group if stored.key != best[1].key)
    return RankedChunk(*best, tuple(f"{chunk.source}:{chunk.start_line}-{chunk.end_line}" for chunk in others))
