"""Requests to Milvus collections: create, upsert, delete, check, query, search. All of them may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.stores.milvus.client import (
    PUSH_HINT,
    TIMEOUT_S,
    MilvusConnection,
    is_missing_collection,
    is_unloaded_collection,
)
from lorelog.stores.milvus.rows import Row, row_key
from lorelog.stores.milvus.schema import in_values, make_collection, owned_by

if TYPE_CHECKING:
    from pymilvus import MilvusClient

ResultT = TypeVar("ResultT")

SEARCH_PATIENCE_S = 3.0
_MAX_PARALLEL_CALLS = 8
_KEYS_PER_CALL = 1000
_ROWS_PER_CALL = 1000


class CollectionQuery(Struct, frozen=True, kw_only=True):
    """A search of one field in several collections."""

    field: str
    query: Any
    limit: int
    expression: str = ""
    strong: bool = False
    """Whether the result must include everything written before."""
    fields: tuple[str, ...] = ("row",)
    distinct: str = ""
    """Return each value of this field once; empty for all rows."""


class Collections:
    """The collections at one address."""

    def __init__(self, remote: MilvusConnection) -> None:
        self._remote = remote

    def ensure(self, name: str, width: int) -> bool:
        """Create a collection if it does not exist; return True if it was created."""
        return self._remote.call(lambda client: _ensure_collection(client, name, width))

    def send(self, name: str, rows: list[Row]) -> None:
        """Upsert rows by key."""
        self._remote.call(lambda client: client.upsert(name, rows, timeout=TIMEOUT_S))

    def delete(self, name: str, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _KEYS_PER_CALL):
            self._delete(name, in_values("key", keys[start : start + _KEYS_PER_CALL]))

    def clear(self, name: str, home: str) -> None:
        """Delete all rows of an index."""
        self._delete(name, owned_by(home))

    def check_marks(self, names: Sequence[str], home: str, mark: str) -> None:
        """Raise StoreDamaged unless each of these collections exists and contains the index's mark."""

        def check(name: str) -> None:
            rows = self._with_loaded(
                name,
                lambda client: client.query(
                    name,
                    filter=in_values("key", [row_key(home, 0)]),
                    output_fields=["text"],
                    consistency_level="Strong",
                    timeout=TIMEOUT_S,
                ),
            )
            if [row["text"] for row in rows] != [mark]:
                raise StoreDamaged(
                    f"{name} at {self._remote.place} is not the collection that was written", hint=PUSH_HINT
                )

        run_parallel([partial(check, name) for name in names])

    def search(self, names: Sequence[str], query: CollectionQuery) -> list[Row]:
        """Return the best rows of all collections, searched in parallel, with each row's score in its own (`distance`)."""
        grouping = {"group_by_field": query.distinct} if query.distinct else {}

        def search(name: str) -> list[Row]:
            hits = self._with_loaded(
                name,
                lambda client: client.search(
                    name,
                    [query.query],
                    anns_field=query.field,
                    filter=query.expression,
                    limit=query.limit,
                    output_fields=list(query.fields),
                    consistency_level="Strong" if query.strong else "Bounded",
                    timeout=TIMEOUT_S,
                    **grouping,
                ),
                patience_s=SEARCH_PATIENCE_S,
            )
            return [
                {**{field: hit[field] for field in query.fields}, "distance": float(hit["distance"])} for hit in hits[0]
            ]

        return [row for rows in run_parallel([partial(search, name) for name in names]) for row in rows]

    def read(self, name: str, expression: str, fields: Sequence[str], *, limit: int = 0) -> list[Row]:
        """Return the rows that match an expression."""
        limits = {"limit": limit} if limit else {}
        rows = self._with_loaded(
            name,
            lambda client: client.query(
                name, filter=expression, output_fields=list(fields), timeout=TIMEOUT_S, **limits
            ),
            patience_s=SEARCH_PATIENCE_S,
        )
        return [dict(row) for row in rows]

    def rows(self, name: str, home: str) -> Iterator[tuple[int, bool]]:
        """Yield every row number of an index, without the mark, and whether the row has a vector."""

        def begin(client: MilvusClient) -> Any:
            return client.query_iterator(
                name,
                batch_size=_ROWS_PER_CALL,
                filter=f"{owned_by(home)} and row > 0",
                output_fields=["row", "has_vector"],
                consistency_level="Strong",
                timeout=TIMEOUT_S,
            )

        iterator = self._with_loaded(name, begin)
        while batch := self._remote.call(lambda client: iterator.next()):
            yield from ((int(row["row"]), bool(row["has_vector"])) for row in batch)
        iterator.close()

    def flush(self, names: Iterable[str]) -> None:
        """Flush Milvus Lite, which otherwise scans recent rows in every search. A server does this itself."""
        if self._remote.is_lite():
            for name in names:
                self._remote.call(partial(_flush, name))

    def drop_rows(self, name: str, home: str) -> bool:
        """Delete an index's rows, and the collection if it is then empty; return True on success."""
        try:
            self._with_loaded(name, lambda client: _drop_rows(client, name, home), patience_s=SEARCH_PATIENCE_S)
        except StoreError as fault:
            return is_missing_collection(fault)
        return True

    def _delete(self, name: str, expression: str) -> None:
        self._with_loaded(name, lambda client: client.delete(name, filter=expression, timeout=TIMEOUT_S))

    def _with_loaded(
        self, name: str, call: Callable[[MilvusClient], ResultT], *, patience_s: float | None = None
    ) -> ResultT:
        """Run a request on a collection, and load the collection first if necessary."""
        try:
            return self._remote.call(call, patience_s=patience_s)
        except StoreError as fault:
            if not is_unloaded_collection(fault):
                raise
            self._remote.call(lambda client: client.load_collection(name, timeout=TIMEOUT_S), patience_s=patience_s)
            return self._remote.call(call, patience_s=patience_s)


def _ensure_collection(client: MilvusClient, name: str, width: int) -> bool:
    from pymilvus.exceptions import MilvusException

    is_new = not client.has_collection(name, timeout=TIMEOUT_S)
    if is_new:
        try:
            make_collection(client, name, width)
        except MilvusException:
            # Another machine may have created it at the same moment.
            if not client.has_collection(name, timeout=TIMEOUT_S):
                raise
    client.load_collection(name, timeout=TIMEOUT_S)
    return is_new


def _flush(name: str, client: MilvusClient) -> None:
    client.flush(name, timeout=TIMEOUT_S)


def _drop_rows(client: MilvusClient, name: str, home: str) -> None:
    if not client.has_collection(name, timeout=TIMEOUT_S):
        return
    client.delete(name, filter=owned_by(home), timeout=TIMEOUT_S)
    count = client.query(
        name, filter='key != ""', output_fields=["count(*)"], consistency_level="Strong", timeout=TIMEOUT_S
    )
    if not count[0]["count(*)"]:
        client.drop_collection(name, timeout=TIMEOUT_S)


def run_parallel(calls: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
    """Return the results of all calls, run at the same time."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(len(calls), _MAX_PARALLEL_CALLS)) as pool:
        return list(pool.map(lambda call: call(), calls))
