"""Another model's vectors in the place of an index's own, without a time in which there are none.

They are made beside the old ones, which go on answering. Then both are asked the same: for some chunks from all over
the index a question is made of what the chunk itself says, with words left out, and it is looked how far up that
chunk stands among the same others by each model's vectors alone. A model that is clearly worse is not put in place unasked.
What was served before is kept, to be gone back to.

A question can only be put to the old vectors by the model that made them. Where that one cannot be asked any more, only
the new one is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import fmean

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.memory import IndexReport, KnownItems, Reembedding
from lorelog.core.ports import Changeover, Embedder, Store, StoreWriter, Twofold, Vector
from lorelog.core.vectors import unit
from lorelog.retrieval.measure import difference

MARGIN = 0.05
"""A model is clearly worse when its mean reciprocal rank is lower by more than this, and not by chance: the 95 % interval
of the difference, question by question, lies below zero."""
LEAST_PROBES = 10
"""Fewer questions than this judge nobody."""

Former = Callable[[str], Embedder | None]
"""Gives the embedder of a provider and model, or None where it cannot be asked any more."""

_PROBES = 50
_CANDIDATES = 2_000
_DEPTH = 5
_AS_NEAR = 1e-6
_WAIT_FOR_RUN_S = 2.0
_SENTENCES = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_MARKS = re.compile(r"[#>*`_|\[\]-]+")
_LEAST_WORDS = 4
_LEAST_CHARACTERS = 12
_LONGEST = 300


def is_due(known: Changeover, *, asked: bool, patient: bool) -> bool:
    """Say whether a run makes its vectors beside those of the index.

    Where there are none to lose it need not. Unasked, only a run that takes its time does: for another model than the
    index's, or to go on with what was begun, unless that was declined.
    """
    if asked or not known.serves_vectors:
        return known.serves_vectors
    return patient and known.declined != known.own and (known.served != known.own or known.begun == known.own)


def why_kept(known: Changeover) -> str:
    """Return why an index that serves another model goes on doing so; empty where it does not."""
    if not known.serves_vectors or known.served == known.own or known.declined != known.own:
        return ""
    again = "'lorelog index --reembed' tries again"
    return f"the index keeps the vectors of {known.served}: {known.own} was declined ({again})"


def settle(
    store: Store,
    embedder: Embedder,
    former: Former,
    writing: Callable[[], AbstractContextManager[StoreWriter]],
    *,
    anyway: bool,
) -> Reembedding:
    """Compare what is served with what is beside, and serve that unless it is clearly worse."""
    told = compare(store, embedder, former)
    swaps = anyway or not told.worse
    with writing() as writer:
        if swaps:
            writer.swap()
        else:
            writer.decline()
    return replace(told, swapped=swaps)


def compare(store: Store, embedder: Embedder, former: Former) -> Reembedding:
    """Measure the vectors served and those beside. Raise ModelError when the new model cannot be asked."""
    known = store.changeover()
    candidates = store.twofold(_CANDIDATES)
    probes = _probes(candidates)
    told = Reembedding(known.served, known.begun, len(probes))
    if not probes:
        return told
    new = _ranks(embedder, probes, [one.beside for one in candidates])
    old = _old_ranks(embedder if known.served == known.begun else former(known.served), probes, candidates, embedder)
    return replace(
        told, before=None if old is None else _known_items(old), after=_known_items(new), worse=_is_worse(old, new)
    )


def roll_back(store: Store) -> IndexReport:
    """Serve what was served before the last change. Raise NotFound where there is nothing to go back to."""
    with store.run(wait_s=_WAIT_FOR_RUN_S):
        left = store.changeover().served
        with store.writer() as writer:
            writer.roll_back()
    now = store.changeover().served
    note = f"the vectors of {now} answer again"
    if not store.serves_model():
        provider, _, model = now.partition("/")
        note += (
            f"; set embedding.provider to {provider!r} and embedding.model to {model!r}, or searches go by words alone"
        )
        if "@" in model or "+" in model:
            note += " ('@' begins what was embedding.dimensions, '+' stands for a prefix of your own)"
    return _report(note, Reembedding(left, now, 0, swapped=True))


def forget_old(store: Store) -> IndexReport:
    """Drop all vectors but those that answer."""
    with store.run(wait_s=_WAIT_FOR_RUN_S), store.writer() as writer:
        dropped = writer.forget_others()
    return _report(f"dropped {dropped:,} vectors; those of {store.changeover().served or 'no model'} are left")


def _report(note: str, told: Reembedding | None = None) -> IndexReport:
    return IndexReport(0, 0, 0, 0, 0, 0, 0, 0, 0, (), (note,), 0.0, told)


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Probe:
    question: str
    place: int
    """Of its chunk, among the candidates."""


def question_of(text: str) -> str:
    """Return a question that a text answers: its first real sentence without every third word; empty where there is none."""
    sentences = [_MARKS.sub(" ", one).strip() for one in _SENTENCES.split(text)]
    body = [one for one, line in zip(sentences, _SENTENCES.split(text), strict=True) if not line.startswith("#")]
    for sentence in (*body, *sentences):
        words = sentence[:_LONGEST].split()
        if len(words) >= _LEAST_WORDS:
            return " ".join(word for place, word in enumerate(words, 1) if place % 3)
        if len(words) == 1 and len(sentence) >= _LEAST_CHARACTERS:  # a script that sets no space between words
            third = len(words[0][:_LONGEST]) // 3
            return words[0][:third] + words[0][2 * third : _LONGEST]
    return ""


def _probes(candidates: Sequence[Twofold]) -> list[_Probe]:
    asked = [_Probe(question_of(one.stored.chunk.text), place) for place, one in enumerate(candidates)]
    asked = [one for one in asked if one.question]
    return asked[:: max(1, -(-len(asked) // _PROBES))]


def _old_ranks(
    model: Embedder | None, probes: Sequence[_Probe], candidates: Sequence[Twofold], kept: Embedder
) -> list[int] | None:
    """Return the ranks by the old vectors, or None where their model gives no answer, or one that does not fit them."""
    if model is None:
        return None
    try:
        return _ranks(model, probes, [one.served for one in candidates])
    except ModelError:
        return None
    finally:
        if model is not kept:
            model.close()


def _ranks(model: Embedder, probes: Sequence[_Probe], vectors: Sequence[Vector]) -> list[int]:
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    ranks = []
    for one in probes:
        asked = np.frombuffer(unit(model.embed_query(one.question)), dtype="<f4")
        if len(asked) != matrix.shape[1]:
            raise ModelFault(f"{model.model} gives {len(asked)} dimensions for questions, {matrix.shape[1]} for texts")
        cosines = matrix @ asked
        # Whatever is as near stands before it: a model that takes everything for the same finds nothing.
        ranks.append(int((cosines >= cosines[one.place] - _AS_NEAR).sum()))
    return ranks


def _known_items(ranks: Sequence[int]) -> KnownItems:
    hits = fmean(rank <= _DEPTH for rank in ranks)
    return KnownItems(round(hits, 3), round(fmean(1 / rank for rank in ranks), 3))


def _is_worse(old: Sequence[int] | None, new: Sequence[int]) -> bool:
    if old is None or len(new) < LEAST_PROBES:
        return False
    gained = difference([1 / rank for rank in new], [1 / rank for rank in old])
    return gained.mean < -MARGIN and gained.high < 0
