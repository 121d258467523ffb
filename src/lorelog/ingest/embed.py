"""Texts in, unit vectors out, in slices small enough that an interruption costs little.

Models are foreign: whatever one answers is checked here, once for all providers, before anything is stored: as many
vectors as texts, all of one dimension, all numbers finite. Each slice is handed on as soon as it is checked, so a run
that is interrupted keeps what was done. Longest texts go first: a slice then holds texts of like length, which is
what batching providers like, and a run speeds up towards its end instead of slowing down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.ports import Embedder, Vector

BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """What one run of embedding did."""

    embedded: int = 0
    truncated: int = 0
    """Texts longer than the model reads; their vectors speak for their beginnings."""
    tokens: int = 0
    dimension: int = 0
    """Length of the vectors; 0 when there was nothing to embed."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Texts that the model did not take, by their keys, and why."""


def embed_texts(
    embedder: Embedder,
    texts: Mapping[str, str],
    on_batch: Callable[[Mapping[str, Vector]], None],
    *,
    batch_size: int = BATCH_SIZE,
) -> EmbedReport:
    """Embed texts by vector key, handing each checked batch of unit vectors to `on_batch` at once.

    Raise ModelError when the model fails or answers nonsense; what was handed on before that stands, and what the failing
    call had made of some of its texts is handed on, too: it was paid for.
    """
    report = EmbedReport()
    for keys in _slices(texts, batch_size):
        try:
            reply = embedder.embed_documents([texts[key] for key in keys])
        except ModelError as error:
            made = {keys[place]: vector for place, vector in error.done.items()}
            if made:
                _hand_on(embedder, made, report.dimension, on_batch)
            raise
        if len(reply.vectors) != len(keys):
            raise _fault(embedder, f"answered {len(reply.vectors)} vectors for {len(keys)} texts")
        made = {key: reply.vectors[place] for place, key in enumerate(keys) if place not in reply.refused}
        report = EmbedReport(
            embedded=report.embedded + len(made),
            truncated=report.truncated + reply.truncated,
            tokens=report.tokens + reply.tokens,
            dimension=_hand_on(embedder, made, report.dimension, on_batch),
            refused={**report.refused, **{keys[place]: why for place, why in reply.refused.items()}},
        )
    return report


def _hand_on(
    embedder: Embedder,
    made: Mapping[str, Vector],
    known_dimension: int,
    on_batch: Callable[[Mapping[str, Vector]], None],
) -> int:
    """Check vectors, and hand them on at unit length; return their dimension."""
    if not made:
        return known_dimension
    vectors = list(made.values())
    dimension = _check(embedder, vectors, known_dimension)
    on_batch(dict(zip(made, _unit_vectors(embedder, vectors, dimension), strict=True)))
    return dimension


def _slices(texts: Mapping[str, str], batch_size: int) -> Iterator[list[str]]:
    size = batch_size if batch_size > 0 else BATCH_SIZE
    keys = sorted(texts, key=lambda key: (-len(texts[key]), key))
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _check(embedder: Embedder, vectors: Sequence[Vector], known_dimension: int) -> int:
    """Return the dimension of a reply's vectors, which is that of all replies before it."""
    sizes = {len(vector) for vector in vectors}
    if 0 in sizes:
        raise _fault(embedder, "answered an empty vector")
    if any(size % 4 for size in sizes):
        raise _fault(embedder, "answered a vector that is no row of 32-bit numbers")
    dimensions = {size // 4 for size in sizes} | ({known_dimension} if known_dimension else set())
    if len(dimensions) > 1:
        found = ", ".join(str(dimension) for dimension in sorted(dimensions))
        raise _fault(embedder, f"answered vectors of different dimensions: {found}")
    return dimensions.pop()


def _unit_vectors(embedder: Embedder, vectors: Sequence[Vector], dimension: int) -> list[Vector]:
    import numpy as np

    rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension).astype(np.float64)
    if not np.isfinite(rows).all():
        raise _fault(embedder, "answered a vector with numbers that are not finite")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0  # a vector of zeros has no direction and stays as it is
    return [row.tobytes() for row in (rows / lengths).astype("<f4")]


def _fault(embedder: Embedder, what: str) -> ModelFault:
    return ModelFault(f"the model {embedder.provider}/{embedder.model} {what}")
