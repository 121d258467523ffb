"""Recognize quotations of forgotten text by keyed digests of its word sequences, without keeping the text.

A log line quotes a text if both contain the same `WINDOW` words in a row, or the same word that looks like a key. Case,
punctuation and JSON escapes do not matter. Sequences that are also in text that stays are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import Any
from zlib import crc32

from msgspec import Struct

WINDOW = 4
_REPEATED_WORDS = 5
_MIN_CHARS = 8
"""A shorter text is too common to be recognized; only its ids are removed."""
_WORD = re.compile(r"[^\W_]+")
_KEY_LIKE = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S{10,}")
"""Letters and digits in one word, such as a token or a password: recognized alone."""
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[nrtbf\"\\/])")


class Quotes(Struct, frozen=True):
    """Digests of the word sequences of forgotten texts."""

    key: bytes
    digests: frozenset[str]
    sizes: tuple[int, ...]
    """Lengths of the sequences, in words."""
    firsts: frozenset[int]
    """16-bit checksums of their first words: most words begin no sequence, and this is checked first."""

    def occur_in(self, text: str) -> bool:
        """Return True if a text quotes a forgotten one."""
        return self._occur_in(text) or ("\\" in text and self._occur_in(_ESCAPE.sub(_unescape, text)))

    def _occur_in(self, text: str) -> bool:
        words = _split_words(text)
        digest = partial(_digest, self.key)
        return any(
            digest(words[start : start + size]) in self.digests
            for start, word in enumerate(words)
            if _checksum(word) in self.firsts
            for size in self.sizes
            if start + size <= len(words)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the digests and their key."""
        return {
            "key": self.key.hex(),
            "digests": sorted(self.digests),
            "sizes": list(self.sizes),
            "firsts": sorted(self.firsts),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Quotes:
        """Return what `to_json` described."""
        sizes, firsts = tuple(map(int, values["sizes"])), frozenset(map(int, values["firsts"]))
        return cls(bytes.fromhex(values["key"]), frozenset(values["digests"]), sizes, firsts)


def make_quotes(texts: Iterable[str], kept: Iterable[str], key: bytes) -> Quotes:
    """Return the digests of texts, without those of sequences that a kept text contains, too."""
    finder = SequenceFinder(sequence for text in texts for sequence in _sequences(text))
    left = set(finder.sequences)
    for text in kept:
        left -= finder.find(text)
    digests = frozenset(_digest(key, sequence) for sequence in left)
    return Quotes(
        key, digests, tuple(sorted({*map(len, left)})), frozenset(_checksum(sequence[0]) for sequence in left)
    )


def repeated_parts(texts: Iterable[str]) -> SequenceFinder:
    """Return a finder of parts that another text may repeat: five words in a row, a word like a key, a short text."""
    sequences: set[tuple[str, ...]] = set()
    for text in texts:
        words = _split_words(text)
        sequences.update(tuple(words[at : at + _REPEATED_WORDS]) for at in range(len(words) - _REPEATED_WORDS + 1))
        pieces = [*_KEY_LIKE.findall(text), *([text] if len(words) < WINDOW else [])]
        sequences.update(
            own for piece in pieces if (own := tuple(_split_words(piece))) and sum(map(len, own)) >= _MIN_CHARS
        )
    return SequenceFinder(sequences)


class SequenceFinder:
    """Finds word sequences in texts. Most words of most texts begin none, which is checked first."""

    def __init__(self, sequences: Iterable[tuple[str, ...]]) -> None:
        self.sequences = frozenset(sequences)
        self._sizes = {*map(len, self.sequences)}
        self._firsts = {sequence[0] for sequence in self.sequences}

    def find(self, text: str) -> set[tuple[str, ...]]:
        """Return the sequences that a text contains."""
        words = _split_words(text)
        places = [at for at, word in enumerate(words) if word in self._firsts]
        windows = (tuple(words[at : at + size]) for at in places for size in self._sizes)
        return {window for window in windows if window in self.sequences}


def _sequences(text: str) -> Iterator[tuple[str, ...]]:
    words = _split_words(text)
    if len(words) >= WINDOW:
        yield from (tuple(words[start : start + WINDOW]) for start in range(len(words) - WINDOW + 1))
    elif sum(map(len, words)) >= _MIN_CHARS:
        yield tuple(words)
    for match in _KEY_LIKE.findall(text):
        key_words = _split_words(match)
        if 0 < len(key_words) < WINDOW:
            yield tuple(key_words)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _digest(key: bytes, words: Iterable[str]) -> str:
    return blake2b(" ".join(words).encode("utf-8", "replace"), key=key, digest_size=8).hexdigest()


def _checksum(word: str) -> int:
    return crc32(word.encode("utf-8", "replace")) & 0xFFFF


def _unescape(match: re.Match[str]) -> str:
    try:
        return str(json.loads(f'"{match[0]}"'))
    except ValueError:
        return " "
