"""Replace the vectors of an index by those of another model, without a time in which there are none.

The new vectors are made beside the old ones, which keep answering. Then both are compared: for some chunks from all over the index
a question is made from the chunk's own text with words left out, and the rank of the chunk among the same others is measured with
each model's vectors. A model that is clearly worse is not used unless forced. The previous vectors are kept for a rollback.

The old vectors can only be queried with the model that made them. If it is no longer available, only the new one is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.memory import IndexReport, KnownItemScores, ReembedReport
from lorelog.core.ports import FORMER_BUILTIN_MODELS, Embedder, ReembedState, Store, StoreWriter, Vector
from lorelog.core.vectors import unit_vector

WORSE_MARGIN = 0.05
"""A model is clearly worse if its mean reciprocal rank is lower by more than this, and not by chance: the 95 % interval of the
paired difference is below zero.
"""
MIN_PROBES = 10
"""Fewer questions than this are no basis for a comparison."""

PreviousEmbedder = Callable[[str], Embedder | None]
"""Returns the embedder of a provider and model, or None if it is no longer available."""

_MAX_PROBES = 50
_MAX_CANDIDATES = 2_000
_HIT_DEPTH = 5
_TIE_TOLERANCE = 1e-6
_WAIT_FOR_RUN_S = 2.0
_MARKS = str.maketrans(dict.fromkeys("#>*`_|[]-", " "))
_MIN_WORDS = 4
_MIN_CHARS = 12
_MAX_SENTENCE_CHARS = 300


def is_reembed_due(state: ReembedState, *, requested: bool, patient: bool) -> bool:
    """Return whether a run makes its vectors beside those of the index.

    Not if the index has no vectors to lose. Without an explicit request only a patient run does: for another model than the index's, or
    to continue what was begun, unless that was declined. If nobody chose the other model, because an update replaced the built-in
    one, every run over roots does, the daemon's too.
    """
    if requested or not state.serves_vectors:
        return state.serves_vectors
    return (
        (patient or state.is_outdated)
        and state.declined != state.own
        and (state.served != state.own or state.begun == state.own)
    )


def explain_kept_vectors(state: ReembedState) -> str:
    """Return why an index keeps serving another model's vectors; empty if it does not."""
    if not state.serves_vectors or state.served == state.own or state.declined != state.own:
        return ""
    again = "'lorelog index --reembed' tries again"
    return f"the index keeps the vectors of {state.served}: {state.own} was declined ({again})"


def compare_and_switch(
    store: Store,
    embedder: Embedder,
    previous_embedder: PreviousEmbedder,
    writing: Callable[[], AbstractContextManager[StoreWriter]],
    *,
    anyway: bool,
) -> ReembedReport:
    """Compare the current vectors with the new ones, and switch unless those are clearly worse."""
    report = compare_vectors(store, embedder, previous_embedder)
    switch = anyway or not report.worse
    with writing() as writer:
        (writer.swap_vectors if switch else writer.decline_shadow_vectors)()
    return replace(report, swapped=switch)


def compare_vectors(store: Store, embedder: Embedder, previous_embedder: PreviousEmbedder) -> ReembedReport:
    """Measure the current and the new vectors. Raise ModelError if the new model cannot be used."""
    state = store.reembed_state()
    candidates = store.vector_pairs(_MAX_CANDIDATES)
    probes = [_Probe(make_question(pair.stored.chunk.text), position) for position, pair in enumerate(candidates)]
    probes = [probe for probe in probes if probe.question]
    probes = probes[:: max(1, -(-len(probes) // _MAX_PROBES))]
    report = ReembedReport(state.served, state.begun, len(probes))
    if not probes:
        return report
    new = _rank_probes(embedder, probes, [candidate.shadow for candidate in candidates])
    old: list[int] | None = None  # unless its model is available and fits its vectors
    previous = embedder if state.served == state.begun else previous_embedder(state.served)
    if previous is not None:
        with suppress(ModelError):
            old = _rank_probes(previous, probes, [candidate.served for candidate in candidates])
        if previous is not embedder:
            previous.close()
    is_worse = False
    if old is not None and len(new) >= MIN_PROBES:
        from lorelog.retrieval.ranking_metrics import paired_difference

        gained = paired_difference([1 / rank for rank in new], [1 / rank for rank in old])
        is_worse = gained.mean < -WORSE_MARGIN and gained.high < 0
    before = None if old is None else _measure_ranks(old)
    return replace(report, before=before, after=_measure_ranks(new), worse=is_worse)


def roll_back(store: Store) -> IndexReport:
    """Serve the vectors from before the last change. Raise NotFound if there are none."""
    with store.run(wait_s=_WAIT_FOR_RUN_S):
        left = store.reembed_state().served
        with store.writer() as writer:
            writer.roll_back()
    now = store.reembed_state().served
    note = f"searches use the vectors of {now} again"
    if not store.serves_model():
        provider, _, model = now.partition("/")
        chosen = f"a folder with the files of {model}" if now in FORMER_BUILTIN_MODELS else repr(model)
        note += (
            f"; set embedding.provider to {provider!r} and embedding.model to {chosen}, or searches use keywords only"
        )
        if "@" in model or "+" in model:
            note += " ('@' begins what was embedding.dimensions, '+' stands for a prefix of your own)"
    return IndexReport(notes=(note,), reembedding=ReembedReport(left, now, 0, swapped=True))


def drop_old_vectors(store: Store) -> IndexReport:
    """Delete all vectors but the current ones."""
    with store.run(wait_s=_WAIT_FOR_RUN_S), store.writer() as writer:
        dropped = writer.drop_other_vectors()
    note = f"dropped {dropped:,} vectors; those of {store.reembed_state().served or 'no model'} are left"
    return IndexReport(notes=(note,))


class _Probe(Struct, frozen=True):
    question: str
    position: int
    """Position of its chunk among the candidates."""


def make_question(text: str) -> str:
    """Return a question that a text answers: its first real sentence without every third word; empty if there is none."""
    from lorelog.language.sentences import split_sentences

    sentences = split_sentences(text)
    body = [sentence for sentence in sentences if not sentence.startswith("#")]
    for marked in (*body, *sentences):
        sentence = " ".join(marked.translate(_MARKS).split())
        words = sentence[:_MAX_SENTENCE_CHARS].split()
        if len(words) >= _MIN_WORDS:
            return " ".join(word for number, word in enumerate(words, 1) if number % 3)
        if len(words) == 1 and len(sentence) >= _MIN_CHARS:  # a script without spaces between words
            third = len(words[0][:_MAX_SENTENCE_CHARS]) // 3
            return words[0][:third] + words[0][2 * third : _MAX_SENTENCE_CHARS]
    return ""


def _rank_probes(model: Embedder, probes: Sequence[_Probe], vectors: Sequence[Vector]) -> list[int]:
    import numpy as np

    matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), -1)
    ranks = []
    for probe in probes:
        question = np.frombuffer(unit_vector(model.embed_query(probe.question)), dtype="<f4")
        if len(question) != matrix.shape[1]:
            raise ModelFault(
                f"{model.model} gives {len(question)} dimensions for questions, {matrix.shape[1]} for texts"
            )
        cosines = matrix @ question
        # Ties rank before it: a model that gives everything the same vector finds nothing.
        ranks.append(int((cosines >= cosines[probe.position] - _TIE_TOLERANCE).sum()))
    return ranks


def _measure_ranks(ranks: Sequence[int]) -> KnownItemScores:
    from statistics import fmean

    hits = fmean(rank <= _HIT_DEPTH for rank in ranks)
    return KnownItemScores(round(hits, 3), round(fmean(1 / rank for rank in ranks), 3))
