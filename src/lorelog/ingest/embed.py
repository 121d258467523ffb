"""Embed texts in batches small enough that an interruption costs little.

Replies of every provider are checked here before anything is stored: as many vectors as texts, one dimension, finite
numbers only. Each batch is passed on as soon as it is checked, so an interrupted run keeps its finished batches. The
longest texts go first: a batch then holds texts of similar length, which suits batching providers, and a run speeds up
towards its end instead of slowing down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.ports import Embedder, Vector

BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """Counts of one embedding run."""

    embedded: int = 0
    truncated: int = 0
    """Texts longer than the model's input limit; their vectors represent only the beginning."""
    tokens: int = 0
    dimension: int = 0
    """Length of the vectors; 0 when there was nothing to embed."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Texts that the model rejected: vector key to reason."""


def embed_texts(
    embedder: Embedder,
    texts: Mapping[str, str],
    on_batch: Callable[[Mapping[str, Vector]], None],
    *,
    batch_size: int = BATCH_SIZE,
) -> EmbedReport:
    """Embed texts by vector key and pass each checked batch of unit vectors to `on_batch` at once.

    Raise ModelError if the model fails or returns invalid vectors. Earlier batches stay valid, and the vectors that the
    failing call did compute are passed on too, because they were paid for.
    """
    report = EmbedReport()
    for keys in _batches(texts, batch_size):
        try:
            reply = embedder.embed_documents([texts[key] for key in keys])
        except ModelError as error:
            made = {keys[index]: vector for index, vector in error.done.items()}
            if made:
                _emit_batch(embedder, made, report.dimension, on_batch)
            raise
        if len(reply.vectors) != len(keys):
            raise _model_fault(embedder, f"returned {len(reply.vectors)} vectors for {len(keys)} texts")
        made = {key: reply.vectors[index] for index, key in enumerate(keys) if index not in reply.refused}
        report = EmbedReport(
            embedded=report.embedded + len(made),
            truncated=report.truncated + reply.truncated,
            tokens=report.tokens + reply.tokens,
            dimension=_emit_batch(embedder, made, report.dimension, on_batch),
            refused={**report.refused, **{keys[index]: why for index, why in reply.refused.items()}},
        )
    return report


def _emit_batch(
    embedder: Embedder,
    made: Mapping[str, Vector],
    known_dimension: int,
    on_batch: Callable[[Mapping[str, Vector]], None],
) -> int:
    """Check vectors and pass them on at unit length; return their dimension."""
    if not made:
        return known_dimension
    vectors = list(made.values())
    dimension = _check_dimension(embedder, vectors, known_dimension)
    on_batch(dict(zip(made, _unit_vectors(embedder, vectors, dimension), strict=True)))
    return dimension


def _batches(texts: Mapping[str, str], batch_size: int) -> Iterator[list[str]]:
    size = batch_size if batch_size > 0 else BATCH_SIZE
    keys = sorted(texts, key=lambda key: (-len(texts[key]), key))
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _check_dimension(embedder: Embedder, vectors: Sequence[Vector], known_dimension: int) -> int:
    """Return the dimension of a reply's vectors, which must match all earlier replies."""
    sizes = {len(vector) for vector in vectors}
    if 0 in sizes:
        raise _model_fault(embedder, "returned an empty vector")
    if any(size % 4 for size in sizes):
        raise _model_fault(embedder, "returned a vector that is not a sequence of 32-bit numbers")
    dimensions = {size // 4 for size in sizes} | ({known_dimension} if known_dimension else set())
    if len(dimensions) > 1:
        listed = ", ".join(str(dimension) for dimension in sorted(dimensions))
        raise _model_fault(embedder, f"returned vectors of different dimensions: {listed}")
    return dimensions.pop()


def _unit_vectors(embedder: Embedder, vectors: Sequence[Vector], dimension: int) -> list[Vector]:
    import numpy as np

    rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension).astype(np.float64)
    if not np.isfinite(rows).all():
        raise _model_fault(embedder, "returned a vector with numbers that are not finite")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0  # a zero vector has no direction and stays unchanged
    return [row.tobytes() for row in (rows / lengths).astype("<f4")]


def _model_fault(embedder: Embedder, problem: str) -> ModelFault:
    return ModelFault(f"the model {embedder.provider}/{embedder.model} {problem}")
