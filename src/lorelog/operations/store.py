"""The operation on the store itself: what it may be told, what it answers. The docstring's first line is its help everywhere."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from lorelog.core.errors import StoreBusy, StoreUnreachable, StoreUnwritable
from lorelog.core.ports import Comparison
from lorelog.engine import Engine
from lorelog.operations.operation import Call, Operation
from lorelog.operations.requests import Request


class StoreRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do about differences."""

    repair: Annotated[bool, Meta(description="Mend what differs, from the catalog; nothing is embedded again.")] = False


class StoreShape(TypedDict):
    """How what finds chunks differs from the catalog."""

    ok: bool
    place: str
    here: int
    there: int
    missing: int
    unlike: int
    surplus: int
    waiting: int
    repaired: bool


def check_store(engine: Engine, request: StoreRequest, call: Call) -> Comparison:
    """Compare the catalog with what finds its chunks: the rows in Milvus, or the lanes beside it.

    Every row is looked at. `repair` sends what is missing there and deletes what is too much.
    """
    return engine.check_store(repair=request.repair)


def store_shape(found: Comparison, request: StoreRequest) -> StoreShape:
    """Return what was found, as JSON."""
    return {
        "ok": found.is_whole or found.repaired,
        "place": found.place,
        "here": found.here,
        "there": found.there,
        "missing": found.missing,
        "unlike": found.unlike,
        "surplus": found.surplus,
        "waiting": found.waiting,
        "repaired": found.repaired,
    }


_UPKEEP = "it reads every row, and mending is upkeep of the machine it runs on"

STORE: tuple[Operation[Any, Any], ...] = (
    Operation(
        "memory.check_store",
        StoreRequest,
        StoreShape,
        check_store,
        store_shape,
        errors=(StoreUnreachable, StoreBusy, StoreUnwritable),
        writes=True,
        absent={"http": _UPKEEP, "mcp": _UPKEEP},
    ),
)
