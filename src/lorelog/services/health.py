"""Looking an index over: is all of it there, does it match the files, and what should a person do?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from lorelog.core.errors import LorelogError, StoreBusy, StoreError
from lorelog.core.memory import Check, HealthReply
from lorelog.core.ports import Embedder, Store
from lorelog.core.query import Coverage, Filters
from lorelog.services.roots import Root
from lorelog.services.tombstones import Tombstones

_MOST_CHUNKS = 50_000
"""Beyond these, texts that are there twice are not looked for: it reads every chunk."""


def health(
    store: Store,
    embedder: Embedder | None,
    roots: Sequence[Root],
    tombstones: Tombstones,
    *,
    duplicates: int,
    due: Callable[[], Sequence[str]] = tuple,
) -> HealthReply:
    """Return what was looked at. A fault of the index is a check that failed, not an error."""
    checks: list[Check] = []
    coverage = Coverage(0, 0)
    try:
        stats = store.stats()
        coverage = store.coverage(Filters())
        checks.append(Check("index", ok=True, message=f"{stats.documents:,} documents, {stats.chunks:,} chunks"))
        checks.append(_vectors(store, embedder, coverage))
        checks += _unfinished(store)
        twice = _twice(store, duplicates) if duplicates and stats.chunks <= _MOST_CHUNKS else ()
    except LorelogError as error:
        checks.append(Check("index", ok=False, message=error.message, hint=error.hint))
        twice = ()
    checks += _roots(roots)
    try:
        hidden = len(list(tombstones.all()))
        checks.append(Check("deletions", ok=True, message=f"{hidden:,} in force"))
    except LorelogError as error:
        checks.append(Check("deletions", ok=False, message=error.message, hint=error.hint))
    checks.append(_review(due))
    return HealthReply(tuple(checks), coverage, twice)


def _review(due: Callable[[], Sequence[str]]) -> Check:
    """Return what should be looked at again. That it is due is no fault of the index."""
    try:
        count = len(due())
    except LorelogError as error:
        return Check("review", ok=False, message=error.message, hint=error.hint)
    if not count:
        return Check("review", ok=True, message="no memory is due to be looked at again")
    told = "1 memory is" if count == 1 else f"{count:,} memories are"
    return Check("review", ok=True, message=f"{told} due to be looked at again", hint="lorelog list --due")


def _vectors(store: Store, embedder: Embedder | None, coverage: Coverage) -> Check:
    if embedder is None:
        return Check("vectors", ok=True, message="no model is chosen: words alone answer")
    if not store.serves_model():
        return Check(
            "vectors", ok=False, message="the index has vectors of another model", hint="lorelog index --reembed"
        )
    missing = coverage.chunks - coverage.with_vectors
    if missing:
        return Check("vectors", ok=False, message=f"{missing:,} chunks are found by words only", hint="lorelog index")
    return Check("vectors", ok=True, message="every chunk has one")


def _unfinished(store: Store) -> list[Check]:
    """Return what there is to say of a change of models that was begun and not ended."""
    known = store.changeover()
    if not known.begun or known.declined == known.begun:
        return []
    lacking = f"{known.waiting:,} texts have no vector of it yet" if known.waiting else "it is not in its place yet"
    what = f"the change to {known.begun} is not finished: {lacking}"
    try:
        with store.run(wait_s=0):
            pass
    except StoreBusy:
        return [Check("change", ok=True, message=f"{what}; a run is at it")]
    except StoreError:
        pass  # nobody can write here: then nobody is at it
    goes_on = "'lorelog index' goes on with it"
    if known.begun != known.own:
        provider, _, model = known.begun.partition("/")
        goes_on = f"{goes_on} under embedding.provider {provider!r} and embedding.model {model!r}"
    hint = f"{goes_on}, 'lorelog index --forget-old' lets it go"
    return [Check("change", ok=False, message=what, hint=hint)]


def _roots(roots: Sequence[Root]) -> list[Check]:
    gone = [
        Check(
            "root",
            ok=False,
            message=f"{root.path} is not there",
            hint=f"what was indexed from it is kept; 'lorelog roots remove {root.path}' drops it",
        )
        for root in roots
        if not root.exists()
    ]
    return gone or [Check("roots", ok=True, message=f"{len(roots):,} known, all there")]


def _twice(store: Store, limit: int) -> tuple[tuple[str, ...], ...]:
    """Return places that say the same: the same text under other headings counts, whole files that are copies too."""
    places: dict[str, list[str]] = defaultdict(list)
    for document in store.documents():
        for one in store.chunks_of(document.source):
            where = f"{one.chunk.source}:{one.chunk.start_line}-{one.chunk.end_line}"
            places[one.chunk.content_hash].append(where)
    found = [tuple(where) for where in places.values() if len(where) > 1]
    return tuple(sorted(found, key=len, reverse=True)[:limit])
