"""Measure how well the embedding model fits a corpus, with the corpus itself.

Some chunks from all over the index are searched by one of their own sentences. If the model knows the language and the subject, the
sentence's vector is clearly closest to its own chunk; if it does not (Chinese for an English model), or if chunks cover many
subjects (whole sessions), it hardly is. The mean distance, in standard deviations of the sentence's cosines with other chunks,
is stored in the index, and searches weigh the lanes by it.

It costs a few short queries whenever the index has grown or shrunk by a quarter, and nothing in an index too small to measure.
"""

from __future__ import annotations

from contextlib import suppress
from math import fsum, isfinite, sqrt

from lorelog.core.errors import ModelError
from lorelog.core.ports import Embedder, Store
from lorelog.core.query import Filters
from lorelog.core.vectors import unit_vector

REMARK_NAME = "known"
MIN_CHUNKS = 200
USUAL_DISTANCE = 4.0
"""Distance of an English text on one subject with the built-in model: neither good nor bad."""
MAX_DEVIATION = 2.0
"""Limit of the deviation from the usual distance."""

_MAX_PROBES = 32
_OTHER_CHUNKS = 256
_GROWTH_FACTOR = 1.25
_MIN_SENTENCE_CHARS, _MAX_SENTENCE_CHARS = 12, 200


def refresh_model_fit(store: Store, embedder: Embedder) -> None:
    """Measure an index again that has changed much. If the model fails, the previous value stays."""
    chunks = store.coverage(Filters()).with_vectors
    if chunks < MIN_CHUNKS or not store.serves_model():
        return
    previous = store.get_note(REMARK_NAME).partition(" ")[2]
    if previous.isdigit() and int(previous) <= chunks * _GROWTH_FACTOR and chunks <= int(previous) * _GROWTH_FACTOR:
        return
    with suppress(ModelError):
        distance = measure_model_fit(store, embedder)
        if distance is not None:
            with store.writer() as writer:
                writer.set_note(REMARK_NAME, f"{distance:.3f} {chunks}")


def measure_model_fit(store: Store, embedder: Embedder) -> float | None:
    """Return how far, on average, a sentence stands out near its own chunk; None if nothing could be measured."""
    others = [stored.key for stored in store.sample(_OTHER_CHUNKS)]
    distances = []
    for stored in store.sample(_MAX_PROBES):
        sentence = _middle_sentence(stored.chunk.text)
        if not sentence:
            continue
        cosines = store.similarities(unit_vector(embedder.embed_query(sentence)), [*others, stored.key])
        own = cosines.pop(stored.key, None)
        if own is None or len(cosines) < 2:
            continue
        mean = fsum(cosines.values()) / len(cosines)
        deviation = sqrt(fsum((cosine - mean) ** 2 for cosine in cosines.values()) / len(cosines))
        if deviation > 1e-6:
            distances.append((own - mean) / deviation)
    return fsum(distances) / len(distances) if distances else None


def model_fit(store: Store) -> float:
    """Return how much better or worse than usual the model fits this index; 0 if unknown."""
    stored = store.get_note(REMARK_NAME).partition(" ")[0]
    try:
        distance = float(stored)
    except ValueError:
        return 0.0
    return min(max(distance - USUAL_DISTANCE, -MAX_DEVIATION), MAX_DEVIATION) if isfinite(distance) else 0.0


def _middle_sentence(text: str) -> str:
    from lorelog.language.sentences import split_sentences

    sentences = [part for part in split_sentences(text) if len(part) >= _MIN_SENTENCE_CHARS]
    return sentences[len(sentences) // 2][:_MAX_SENTENCE_CHARS] if sentences else ""
