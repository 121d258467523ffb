"""What Milvus and gRPC raise becomes ours here, and only here, with what a person can do about it."""

from __future__ import annotations

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnreachable

PUSH = "the catalog here has everything: 'lorelog doctor --store --repair' pushes it anew, nothing is embedded again"
KEPT = "nothing that was indexed is lost, the catalog is here"
INSTALL = "pip install 'lorelog[milvus]', or set store.uri to nothing for the embedded store"


_REFUSED = "store.token names the variable that has it, such as env:MILVUS_TOKEN"
_ASLEEP = "it is loaded when it is next asked for"


def is_gone(fault: StoreError) -> bool:
    """Say whether a collection that should be there is not, or is not the one that was written."""
    return isinstance(fault, StoreDamaged) and fault.hint == PUSH


def is_asleep(fault: StoreError) -> bool:
    """Say whether a collection is there and not loaded: Milvus Lite loads none by itself when it starts again."""
    return fault.hint == _ASLEEP


def is_refusal(fault: StoreError) -> bool:
    """Say whether it answers and does not let us in: asking again does not help."""
    return fault.hint == _REFUSED


def missing_package(error: ImportError) -> StoreError:
    """Return that Milvus' client is not installed."""
    return StoreError(f"store.uri names a Milvus, and its client is not installed ({error.name})", hint=INSTALL)


_KINDS: tuple[tuple[type[StoreError], set[str], set[int], tuple[str, ...], str, str], ...] = (
    # What it is, gRPC's names of it, Milvus' codes, words that only this one says; the message and the hint.
    (
        StoreUnreachable,
        {"UNAUTHENTICATED", "PERMISSION_DENIED"},
        set(),
        ("unauthenticated", "auth check failure", "permission deny", "invalid token"),
        "{place} refuses the token",
        _REFUSED,
    ),
    (
        StoreError,
        set(),
        {101},
        ("not loaded", "call load()"),
        "{place} has not loaded a collection: {said}",
        _ASLEEP,
    ),
    (
        StoreDamaged,
        set(),
        {100},
        ("can't find collection", "collection not found"),
        "a collection is gone from {place}: {said}",
        PUSH,
    ),
    (
        StoreBusy,
        {"RESOURCE_EXHAUSTED"},
        {8, 9},
        ("rate limit",),
        "{place} takes no more at present: {said}",
        "try again in a moment, or raise its quota",
    ),
    (
        StoreUnreachable,
        {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"},
        {2},
        ("retry timeout", "closed channel", "fail connecting"),
        "{place} cannot be reached",
        f"is it running, and is store.uri right? {KEPT}",
    ),
    (
        StoreIncompatible,
        set(),
        set(),
        ("expected dim", "dimension mismatch", "mismatch in its core dimension", "the dim ("),
        "a collection at {place} has vectors of another dimension: {said}",
        "somebody else made it under our name: drop it there, then 'lorelog doctor --store --repair' pushes it anew",
    ),
)


def from_milvus(error: Exception, place: str) -> StoreError:
    """Return the StoreError that says what went wrong at `place`."""
    said = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    name, code = _grpc_name(error), getattr(error, "code", None)
    for kind, names, codes, phrases, told, hint in _KINDS:
        if name in names or code in codes or any(phrase in said.lower() for phrase in phrases):
            return kind(told.format(place=place, said=said), hint=hint)
    return StoreError(f"{place} could not do it: {said}", hint=KEPT)


def _grpc_name(error: BaseException) -> str:
    """Return the name of gRPC's status, of the error itself or of what it came from: Milvus' client hides why it cannot connect."""
    chain: list[BaseException] = [error]
    for one in chain:
        code = getattr(one, "code", None)
        name = str(getattr(code() if callable(code) else code, "name", ""))
        if name:
            return name
        # It raises errors from themselves, too.
        if one.__cause__ is not None and one.__cause__ not in chain:
            chain.append(one.__cause__)
    return ""
