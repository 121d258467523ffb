"""Embed texts in batches small enough that an interruption costs little and other callers of the model wait briefly.

Replies of every provider are checked here before anything is stored: as many vectors as texts, one dimension, finite
numbers only. Each batch is passed on as soon as it is checked, so an interrupted run keeps its finished batches. A
batch holds texts of similar length, which suits batching providers. Long and short batches alternate, so that the speed
of the first batches predicts the time that the rest takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.ports import Embedder, Vector
from lorelog.core.vectors import is_finite_vector, needs_numpy, unit_vector

BATCH_SIZE = 32
_FIRST_BATCH = 8
"""Also the smallest one: batches of four took the built-in model 5 to 16 % more CPU time than batches of 32, eight 3 %."""
_SLOW_BATCH_S = 1.5
_FAST_BATCH_S = 0.5
_GAIN = 1.3
"""Batches twice as large must be this much faster per character to be worth a longer wait."""
_GOLDEN_RATIO = 0.6180339887


class BatchSizer:
    """Chooses the size of batches: small at first, then as many texts as take about a second.

    A slow batch is halved, unless the model is faster with the larger one, such as a server with a long response time.
    """

    def __init__(self, limit: int = BATCH_SIZE) -> None:
        self.limit = limit if limit > 0 else BATCH_SIZE
        self.size = min(_FIRST_BATCH, self.limit)
        self._speeds: dict[int, float] = {}

    def record(self, characters: int, seconds: float) -> None:
        """Adjust the size after a batch of the current size."""
        half = self._speeds.get(self.size // 2, 0.0)
        speed = self._speeds[self.size] = characters / max(seconds, 1e-6)
        batching_pays = speed > _GAIN * half
        if seconds < _FAST_BATCH_S or (batching_pays and self.size * 2 not in self._speeds):
            self.size = min(self.size * 2, self.limit)
        elif seconds > _SLOW_BATCH_S and not (half and batching_pays):
            self.size = max(self.size // 2, min(_FIRST_BATCH, self.limit))


class EmbedReport(Struct, frozen=True):
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
    sizer: BatchSizer | None = None,
) -> EmbedReport:
    """Embed texts by vector key and pass each checked batch of unit vectors to `on_batch` at once.

    Raise ModelError if the model fails or returns invalid vectors. Earlier batches stay valid, and the vectors that the
    failing call did compute are passed on too, because they were paid for.
    """
    report = EmbedReport()
    sizer = sizer or BatchSizer()
    for keys in _batches(texts, sizer):
        started = time.monotonic()
        try:
            reply = embedder.embed_documents([texts[key] for key in keys])
        except ModelError as error:
            made = {keys[index]: vector for index, vector in error.done.items()}
            if made:
                _emit_batch(embedder, made, report.dimension, on_batch)
            raise
        if len(keys) == sizer.size:
            sizer.record(sum(len(texts[key]) for key in keys), time.monotonic() - started)
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


def _batches(texts: Mapping[str, str], sizer: BatchSizer) -> Iterator[list[str]]:
    """Yield keys in batches of the current size. Groups of like length come in an order that mixes long and short."""
    keys = sorted(texts, key=lambda key: (-len(texts[key]), key))
    groups = [keys[start : start + sizer.limit] for start in range(0, len(keys), sizer.limit)]
    order = sorted(range(len(groups)), key=lambda position: (position * _GOLDEN_RATIO) % 1.0)
    for group in (groups[position] for position in order):
        start = 0
        while start < len(group):
            size = sizer.size
            yield group[start : start + size]
            start += size


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
    fault = "returned a vector with numbers that are not finite"
    if not needs_numpy(len(vectors)):
        if not all(map(is_finite_vector, vectors)):
            raise _model_fault(embedder, fault)
        return list(map(unit_vector, vectors))
    import numpy as np

    rows = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(-1, dimension).astype(np.float64)
    if not np.isfinite(rows).all():
        raise _model_fault(embedder, fault)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0.0] = 1.0  # a zero vector has no direction and stays unchanged
    return [row.tobytes() for row in (rows / lengths).astype("<f4")]


def _model_fault(embedder: Embedder, problem: str) -> ModelFault:
    return ModelFault(f"the model {embedder.provider}/{embedder.model} {problem}")
