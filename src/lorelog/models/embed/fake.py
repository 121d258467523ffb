"""A fake embedder for tests and benchmarks of everything around models.

It compares spelling, not meaning. Words and their three-letter pieces are hashed into 64 numbers, so texts that share words
have near vectors, and the same text gives the same bytes on every machine and in every process. It is shipped, not part of
the tests, so that anyone can try lorelog without a model.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from math import sqrt

from lorelog.core.ports import EmbeddedTexts, Vector

DIMENSION = 64


class FakeEmbedder:
    """Deterministic embedder that compares spelling, not meaning."""

    provider = "fake"
    model = "fake-64"

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        return EmbeddedTexts(
            vectors=tuple(_hash_vector(text) for text in texts), tokens=sum(len(_words(text)) for text in texts)
        )

    def embed_query(self, text: str) -> Vector:
        return _hash_vector(text)

    def close(self) -> None:
        pass


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _words(text):
        yield word, 1.0
        padded = f"<{word}>"
        for start in range(len(padded) - 2):
            yield padded[start : start + 3], 0.3


def _hash_vector(text: str) -> Vector:
    sums = [0.0] * DIMENSION
    for feature, weight in _features(text):
        # Not hash(): its values differ between processes.
        code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
        # A sign from another bit of the code lets collisions cancel out instead of piling up.
        sums[code % DIMENSION] += weight if code & 0x10000 else -weight
    length = sqrt(sum(value * value for value in sums))
    return struct.pack(f"<{DIMENSION}f", *(value / length if length else 0.0 for value in sums))
