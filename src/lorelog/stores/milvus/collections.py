"""What is asked of collections, one call each: make, send, delete, look, search. All of it may be asked twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lorelog.core.errors import StoreDamaged, StoreError
from lorelog.stores.milvus.faults import PUSH, is_asleep, is_gone
from lorelog.stores.milvus.filters import one_of, owned
from lorelog.stores.milvus.remote import TIMEOUT_S, Remote
from lorelog.stores.milvus.rows import Row, key_of
from lorelog.stores.milvus.schema import make_collection

if TYPE_CHECKING:
    from pymilvus import MilvusClient

Answer = TypeVar("Answer")

SEARCH_PATIENCE_S = 3.0
_AT_ONCE = 8
_KEYS_A_CALL = 1000
_ROWS_A_CALL = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to one lane of several collections."""

    field: str
    question: Any
    admitted: str
    limit: int
    strong: bool = False
    """Whether the answer must know of everything that was written before."""
    fields: tuple[str, ...] = ("row",)
    distinct: str = ""
    """A field of which each value is to come up once; empty for all rows."""


class Collections:
    """The collections at one address."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def ensure(self, name: str, width: int) -> bool:
        """Make a collection where there is none; return whether it was made."""
        return self._remote.ask(lambda client: _ensure(client, name, width))

    def send(self, name: str, rows: list[Row]) -> None:
        """Write rows; those of the same keys are replaced."""
        self._remote.ask(lambda client: client.upsert(name, rows, timeout=TIMEOUT_S))

    def delete(self, name: str, keys: Sequence[str]) -> None:
        """Delete rows."""
        for start in range(0, len(keys), _KEYS_A_CALL):
            self._delete(name, one_of("key", keys[start : start + _KEYS_A_CALL]))

    def clear(self, name: str, home: str) -> None:
        """Delete all rows of an index."""
        self._delete(name, owned(home))

    def look(self, names: Sequence[str], home: str, mark: str) -> None:
        """Raise StoreDamaged unless every one of these is there and bears the index's mark."""

        def look(name: str) -> None:
            found = self._awake(
                name,
                lambda client: client.query(
                    name,
                    filter=one_of("key", [key_of(home, 0)]),
                    output_fields=["text"],
                    consistency_level="Strong",
                    timeout=TIMEOUT_S,
                ),
            )
            if [row["text"] for row in found] != [mark]:
                raise StoreDamaged(f"{name} at {self._remote.place} is not the collection that was written", hint=PUSH)

        at_once([partial(look, name) for name in names])

    def search(self, names: Sequence[str], asked: Asked) -> list[Row]:
        """Return the rows that these propose, with how good each is for its own collection (`distance`); all are asked at once."""
        more = {"group_by_field": asked.distinct} if asked.distinct else {}

        def search(name: str) -> list[Row]:
            found = self._awake(
                name,
                lambda client: client.search(
                    name,
                    [asked.question],
                    anns_field=asked.field,
                    filter=asked.admitted,
                    limit=asked.limit,
                    output_fields=list(asked.fields),
                    consistency_level="Strong" if asked.strong else "Bounded",
                    timeout=TIMEOUT_S,
                    **more,
                ),
                patience_s=SEARCH_PATIENCE_S,
            )
            return [
                {**{field: hit[field] for field in asked.fields}, "distance": float(hit["distance"])}
                for hit in found[0]
            ]

        return [hit for found in at_once([partial(search, name) for name in names]) for hit in found]

    def read(self, name: str, wanted: str, fields: Sequence[str], *, most: int = 0) -> list[Row]:
        """Return the rows of which something is true."""
        more = {"limit": most} if most else {}
        found = self._awake(
            name,
            lambda client: client.query(name, filter=wanted, output_fields=list(fields), timeout=TIMEOUT_S, **more),
            patience_s=SEARCH_PATIENCE_S,
        )
        return [dict(one) for one in found]

    def rows(self, name: str, home: str) -> Iterator[tuple[int, bool]]:
        """Yield every row of an index, and whether it has a vector; the mark is no row."""

        def begin(client: MilvusClient) -> Any:
            return client.query_iterator(
                name,
                batch_size=_ROWS_A_CALL,
                filter=f"{owned(home)} and row > 0",
                output_fields=["row", "has_vector"],
                consistency_level="Strong",
                timeout=TIMEOUT_S,
            )

        iterator = self._awake(name, begin)
        while batch := self._remote.ask(lambda client: iterator.next()):
            yield from ((int(one["row"]), bool(one["has_vector"])) for one in batch)
        iterator.close()

    def settle(self, names: Iterable[str]) -> None:
        """Have Milvus Lite index what it has taken: until then it reads every row for every search. A server sees to it itself."""
        if self._remote.is_lite():
            for name in names:
                self._remote.ask(partial(_flush, name))

    def vacate(self, name: str, home: str) -> bool:
        """Delete an index's rows, and the collection when nobody has any in it; return whether that went well."""
        try:
            self._awake(name, lambda client: _vacate(client, name, home), patience_s=SEARCH_PATIENCE_S)
        except StoreError as fault:
            return is_gone(fault)
        return True

    def _delete(self, name: str, doomed: str) -> None:
        self._awake(name, lambda client: client.delete(name, filter=doomed, timeout=TIMEOUT_S))

    def _awake(self, name: str, call: Callable[[MilvusClient], Answer], *, patience_s: float | None = None) -> Answer:
        """Return what Milvus answers about a collection, which is loaded first where it is not."""
        try:
            return self._remote.ask(call, patience_s=patience_s)
        except StoreError as fault:
            if not is_asleep(fault):
                raise
            self._remote.ask(lambda client: client.load_collection(name, timeout=TIMEOUT_S), patience_s=patience_s)
            return self._remote.ask(call, patience_s=patience_s)


def _ensure(client: MilvusClient, name: str, width: int) -> bool:
    from pymilvus.exceptions import MilvusException

    is_new = not client.has_collection(name, timeout=TIMEOUT_S)
    if is_new:
        try:
            make_collection(client, name, width)
        except MilvusException:
            # Another machine may have made it at the same moment.
            if not client.has_collection(name, timeout=TIMEOUT_S):
                raise
    client.load_collection(name, timeout=TIMEOUT_S)
    return is_new


def _flush(name: str, client: MilvusClient) -> None:
    client.flush(name, timeout=TIMEOUT_S)


def _vacate(client: MilvusClient, name: str, home: str) -> None:
    if not client.has_collection(name, timeout=TIMEOUT_S):
        return
    client.delete(name, filter=owned(home), timeout=TIMEOUT_S)
    counted = client.query(
        name, filter='key != ""', output_fields=["count(*)"], consistency_level="Strong", timeout=TIMEOUT_S
    )
    if not counted[0]["count(*)"]:
        client.drop_collection(name, timeout=TIMEOUT_S)


def at_once(asked: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Return what each answers, all asked at once: together they take as long as the slowest."""
    if len(asked) < 2:
        return [ask() for ask in asked]
    with ThreadPoolExecutor(min(len(asked), _AT_ONCE)) as pool:
        return list(pool.map(lambda ask: ask(), asked))
