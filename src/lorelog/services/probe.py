"""How well the encoder knows a corpus: asked of the corpus itself, when it has grown.

Some chunks from all over the index are each asked for by one of their own sentences. Where the encoder knows the language and the
subject, a sentence's vector stands out clearly near its own chunk; where it does not (Chinese for an English model) or
where chunks speak of many things at once (whole sessions), it hardly does. The mean distance, in standard deviations of
a sentence's cosines with other chunks, is noted in the index, and searches weigh the lanes by it.

It costs a few short questions to the model each time the index has grown or shrunk by a quarter, and nothing in an index
that is too small to tell.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import isfinite, sqrt
from statistics import fmean

from lorelog.core.errors import ModelError
from lorelog.core.ports import Embedder, Store
from lorelog.core.query import Filters
from lorelog.core.vectors import unit

NAME = "known"
LEAST_CHUNKS = 200
USUAL = 4.0
"""The distance that an English text of one subject has with the built-in model, which counts as neither good nor bad."""
FURTHEST = 2.0
"""How far from the usual one it counts at most."""

_PROBES = 32
_OTHERS = 256
_GROWN = 1.25
_SENTENCES = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_SHORTEST, _LONGEST = 12, 200


def keep_fresh(store: Store, embedder: Embedder) -> None:
    """Probe an index that has changed much since it was last probed. A model that fails leaves it as it was."""
    chunks = store.coverage(Filters()).with_vectors
    if chunks < LEAST_CHUNKS or not store.serves_model():
        return
    before = store.remark(NAME).partition(" ")[2]
    if before.isdigit() and int(before) <= chunks * _GROWN and chunks <= int(before) * _GROWN:
        return
    with suppress(ModelError):
        distance = probe(store, embedder)
        if distance is not None:
            with store.writer() as writer:
                writer.remark(NAME, f"{distance:.3f} {chunks}")


def probe(store: Store, embedder: Embedder) -> float | None:
    """Return how far, on average, a sentence stands out near its own chunk; None where nothing could be asked."""
    others = [one.key for one in store.sample(_OTHERS)]
    distances = []
    for one in store.sample(_PROBES):
        sentence = _sentence(one.chunk.text)
        if not sentence:
            continue
        cosines = store.similarities(unit(embedder.embed_query(sentence)), [*others, one.key])
        own = cosines.pop(one.key, None)
        if own is None or len(cosines) < 2:
            continue
        mean = fmean(cosines.values())
        deviation = sqrt(fmean((cosine - mean) ** 2 for cosine in cosines.values()))
        if deviation > 1e-6:
            distances.append((own - mean) / deviation)
    return fmean(distances) if distances else None


def known(store: Store) -> float:
    """Return how much better or worse than usual the encoder knows this index; 0 where nobody has asked."""
    noted = store.remark(NAME).partition(" ")[0]
    try:
        distance = float(noted)
    except ValueError:
        return 0.0
    return min(max(distance - USUAL, -FURTHEST), FURTHEST) if isfinite(distance) else 0.0


def _sentence(text: str) -> str:
    """Return a sentence from the middle of a text."""
    sentences = [one.strip() for one in _SENTENCES.split(text) if len(one.strip()) >= _SHORTEST]
    return sentences[len(sentences) // 2][:_LONGEST] if sentences else ""
