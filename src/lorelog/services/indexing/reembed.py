"""Replace the vectors of an index by those of another model, without a time in which there are none.

The new vectors are made beside the old ones, which keep answering, and replace them all at once. The previous vectors are kept for a
rollback.
"""

from __future__ import annotations

from lorelog.core.memory import IndexReport, ReembedReport
from lorelog.core.ports import ReembedState, Store

_WAIT_FOR_RUN_S = 2.0


def is_reembed_due(state: ReembedState, *, requested: bool, patient: bool) -> bool:
    """Return whether a run makes its vectors beside those of the index.

    Not if the index has no vectors to lose. Without an explicit request only a patient run does: for another model than the index's, or
    to continue what was begun, unless that was rolled back. If nobody chose the other model, because an update replaced the built-in
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
    return f"the index keeps the vectors of {state.served}: {state.own} was rolled back ({again})"


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
        chosen = f"{model!r} or a folder with its files" if provider == "builtin" else repr(model)
        note += (
            f"; set embedding.provider to {provider!r} and embedding.model to {chosen}, or searches use keywords only"
        )
        if "@" in model or "+" in model:
            note += " ('@' begins what was embedding.dimensions, '+' stands for a prefix of your own)"
    return IndexReport(notes=(note,), reembedding=ReembedReport(left, now, swapped=True))


def drop_old_vectors(store: Store) -> IndexReport:
    """Delete all vectors but the current ones."""
    with store.run(wait_s=_WAIT_FOR_RUN_S), store.writer() as writer:
        dropped = writer.drop_other_vectors()
    note = f"dropped {dropped:,} vectors; those of {store.reembed_state().served or 'no model'} are left"
    return IndexReport(notes=(note,))
