"""Milvus: the connection to a server or a Milvus Lite file, and the requests to collections.

The connection opens on demand, with retries and translated errors. Every request may be repeated: rows are written and deleted by
key, and an existing collection is not created again. So requests that fail because the server is unreachable are retried until
the time limit.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnreachable
from lorelog.core.extras import install_hint
from lorelog.core.options import StoreOptions
from lorelog.core.processes import try_file_lock
from lorelog.stores.milvus.schema import BM25_K1, Row, encode_word, in_values, make_collection, owned_by, row_key

if TYPE_CHECKING:
    from pymilvus import MilvusClient

PUSH_HINT = (
    "the local catalog is complete: 'lorelog doctor --store --repair' uploads it again, nothing is embedded again"
)
NOTHING_LOST_HINT = "nothing is lost, the catalog is local"

_TOKEN_HINT = "set store.token to the variable that holds it, such as env:MILVUS_TOKEN"  # noqa: S105  (not a secret)
_NOT_LOADED_HINT = "it is loaded by the next request"


class CollectionMissing(StoreDamaged, code=StoreDamaged.code):
    """A collection is missing or is not the one that was written."""


def missing_package_error(error: ImportError) -> StoreError:
    return StoreError(
        f"store.uri names a Milvus, but its client is not installed ({error.name})",
        hint=f"{install_hint('milvus')}, or unset store.uri to use the embedded store",
    )


_ERROR_KINDS: tuple[tuple[type[StoreError], set[str | int], str, str], ...] = (
    # Error type; gRPC status names, Milvus codes and phrases in the text; the message and the hint.
    (
        StoreUnreachable,
        {
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
            "unauthenticated",
            "auth check failure",
            "permission deny",
            "invalid token",
        },
        "{place} rejects the token",
        _TOKEN_HINT,
    ),
    (StoreError, {101, "not loaded", "call load()"}, "{place} has not loaded a collection: {text}", _NOT_LOADED_HINT),
    (
        CollectionMissing,
        {100, "can't find collection", "collection not found"},
        "a collection is missing from {place}: {text}",
        PUSH_HINT,
    ),
    (
        StoreBusy,
        {"RESOURCE_EXHAUSTED", 8, 9, "rate limit"},
        "{place} accepts no more requests at present: {text}",
        "try again in a moment, or raise its quota",
    ),
    (
        StoreUnreachable,
        {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", 2, "retry timeout", "closed channel", "fail connecting"},
        "{place} cannot be reached",
        f"check that it is running and that store.uri is right; {NOTHING_LOST_HINT}",
    ),
    (
        StoreIncompatible,
        {"expected dim", "dimension mismatch", "mismatch in its core dimension", "the dim ("},
        "a collection at {place} has vectors of another dimension: {text}",
        "another program created it under our name: drop it there, then 'lorelog doctor --store --repair' uploads it again",
    ),
)


def from_milvus(error: Exception, place: str) -> StoreError:
    """Return the StoreError for a Milvus error at `place`."""
    text = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    status = {_grpc_status(error), getattr(error, "code", None)}
    for error_type, signs, message, hint in _ERROR_KINDS:
        if status & signs or any(sign in text.lower() for sign in signs if isinstance(sign, str)):
            return error_type(message.format(place=place, text=text), hint=hint)
    return StoreError(f"the request to {place} failed: {text}", hint=NOTHING_LOST_HINT)


def _grpc_status(error: BaseException) -> str:
    """Return the gRPC status name of the error or of its causes: Milvus' client hides why it cannot connect."""
    chain: list[BaseException] = [error]
    for cause in chain:
        code = getattr(cause, "code", None)
        name = str(getattr(code() if callable(code) else code, "name", ""))
        if name:
            return name
        # The client also raises errors from themselves.
        if cause.__cause__ is not None and cause.__cause__ not in chain:
            chain.append(cause.__cause__)
    return ""


ResultT = TypeVar("ResultT")

TIMEOUT_S = 30.0
"""Of one request."""
_CONNECT_TIMEOUT_S = 5.0
_FIRST_PAUSE_S = 0.1
_MAX_PAUSE_S = 2.0
_UNKNOWN_ERROR_PATIENCE_S = 3.0
_GRPC_OPTIONS = {"grpc.use_local_subchannel_pool": 1}
"""Makes a new connection dial at once, no matter how long the previous one had been backing off."""
_ONE_PROCESS_HINT = (
    "Milvus Lite serves one process at a time: leave it to the daemon (lorelog daemon start), or run 'milvus-lite server' "
    "and set store.uri to its http:// address"
)

# A Milvus Lite file is served inside the process, shared by all connections to it, and released with the last of them.
_users: Counter[str] = Counter()
_users_lock = Lock()


class MilvusConnection:
    """A connection that opens itself. Thread-safe."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._client: MilvusClient | None = None
        self._answered = False
        self._lite: bool | None = None
        self._file = options.uri if options.is_file else ""
        self.place = options.uri

    def call(self, call: Callable[[MilvusClient], ResultT], *, patience_s: float | None = None) -> ResultT:
        """Return the result of a client call. Raise StoreError when the time limit is over.

        A server that has never answered is retried only briefly: usually its address is wrong.
        """
        patience_s = self._options.retry_s if patience_s is None else patience_s
        start = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                result = self._call_once(call)
            except (StoreUnreachable, StoreBusy) as fault:
                limit_s = patience_s if self._answered else min(patience_s, _UNKNOWN_ERROR_PATIENCE_S)
                if time.monotonic() + pause > start + limit_s or fault.hint == _TOKEN_HINT:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_S)
            else:
                self._answered = True
                return result

    def is_lite(self) -> bool:
        """Return True for Milvus Lite, as a file or as a server."""
        if self._lite is None:
            self._lite = bool(self._file) or "lite" in str(self.call(lambda client: client.get_server_version()))
        return self._lite

    def close(self) -> None:
        """Close the connection, and release the file if this process has no other connection to it. May be called twice."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                self._release(client)

    def _call_once(self, call: Callable[[MilvusClient], ResultT]) -> ResultT:
        with self._lock:
            if self._client is None:
                self._client = self._open_file() if self._file else self._connect(self._options.uri)
            client = self._client
        from grpc import RpcError
        from pymilvus.exceptions import MilvusException

        try:
            return call(client)
        except (MilvusException, RpcError, ValueError) as error:
            fault = from_milvus(error, self.place)
            if isinstance(fault, StoreUnreachable):
                # The next attempt dials again: gRPC itself would back off for longer and longer.
                with self._lock:
                    if self._client is client:
                        self._client = None
                        self._release(client)
            raise fault from error

    def _release(self, client: MilvusClient) -> None:
        client.close()
        if self._file:
            with _users_lock:
                _users[self._file] -= 1
                if not _users[self._file]:
                    from milvus_lite.server_manager import server_manager_instance

                    server_manager_instance.release_server(self._file)

    def _open_file(self) -> MilvusClient:
        path = Path(self._file)
        if path.is_file():
            raise StoreIncompatible(
                f"{path} is a file of Milvus Lite 2 or of another program",
                hint="move it away; the index is uploaded again",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{path} cannot be created: {error.strerror}", hint="check store.uri") from error
        with _users_lock:
            client = self._connect(str(path))
            _users[self._file] += 1
            return client

    def _connect(self, uri: str) -> MilvusClient:
        try:
            with _isolated_environment():
                from pymilvus import MilvusClient
                from pymilvus.exceptions import MilvusException
        except ImportError as error:
            raise missing_package_error(error) from error
        for name in ("pymilvus", "milvus_lite"):
            # Errors are reported through exceptions, not by tracebacks on the terminal.
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            return MilvusClient(
                uri=uri,
                token=str(self._options.token),
                timeout=_CONNECT_TIMEOUT_S,
                dedicated=True,
                grpc_options=_GRPC_OPTIONS,
            )
        except ImportError as error:
            raise missing_package_error(error) from error
        except MilvusException as error:
            if self._file:
                raise _lite_error(error, Path(self._file)) from error
            raise from_milvus(error, self.place) from error


@contextmanager
def _isolated_environment() -> Iterator[None]:
    """Keep Milvus' client from reading a nearby `.env` file when it is imported: a cloned repository may contain one."""
    name = "PYTHON_DOTENV_DISABLED"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _lite_error(error: Exception, path: Path) -> StoreError:
    """Return why a file could not be opened, which Milvus Lite does not say."""
    try:
        descriptor = os.open(path / "LOCK", os.O_RDWR)
    except OSError:
        return StoreError(f"{path} could not be opened: {getattr(error, 'message', error)}", hint="check store.uri")
    try:
        is_open = not try_file_lock(descriptor)
    except OSError:
        is_open = True
    finally:
        os.close(descriptor)
    if is_open:
        return StoreBusy(f"{path} is open in another process", hint=_ONE_PROCESS_HINT)
    return StoreError(
        f"{path} could not be opened: {getattr(error, 'message', error)}", hint="move it away and try again"
    )


SEARCH_PATIENCE_S = 3.0
_MAX_PARALLEL_CALLS = 8
_KEYS_PER_CALL = 1000
_ROWS_PER_CALL = 1000


class Collections:
    def __init__(self, remote: MilvusConnection) -> None:
        self._remote = remote

    def ensure(self, name: str, width: int) -> bool:
        """Create a collection if it does not exist; return True if it was created."""
        return self._remote.call(lambda client: _ensure_collection(client, name, width))

    def send(self, name: str, rows: list[Row]) -> None:
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
            rows = self.read(name, in_values("key", [row_key(home, 0)]), ["text"], strong=True)
            if [row["text"] for row in rows] != [mark]:
                raise CollectionMissing(
                    f"{name} at {self._remote.place} is not the collection that was written", hint=PUSH_HINT
                )

        run_parallel([partial(check, name) for name in names])

    def search(self, names: Sequence[str], field: str, query: Any, limit: int, **options: Any) -> list[Row]:
        """Return the best rows of all collections, searched in parallel, with each row's score in its own (`distance`).

        `options` are those of the client, such as a filter.
        """
        options = {"output_fields": ["row"], "consistency_level": "Bounded", "timeout": TIMEOUT_S, **options}

        def search(name: str) -> list[Row]:
            hits = self._with_loaded(
                name,
                lambda client: client.search(name, [query], anns_field=field, limit=limit, **options),
                patience_s=SEARCH_PATIENCE_S,
            )
            # Milvus Lite returns BM25 as a negative number.
            number = abs if field == "sparse_vector" else float
            return [
                {**{name: hit[name] for name in options["output_fields"]}, "distance": number(hit["distance"])}
                for hit in hits[0]
            ]

        return [row for rows in run_parallel([partial(search, name) for name in names]) for row in rows]

    def rarity(self, names: Iterable[str], words: Sequence[str]) -> dict[str, float]:
        """Return the weight that BM25 gives to each of these words that a collection has; of several, the lowest.

        Milvus does not return the number of rows with a word, and counting them takes seconds with Milvus Lite. The score of the
        best row with the word is its weight times a factor that follows from how often the row has it.
        """
        tokens = [encode_word(word) for word in words]

        def search(name: str) -> Any:
            options: dict[str, Any] = {"limit": 1, "output_fields": ["content"], "timeout": TIMEOUT_S}
            return self._with_loaded(
                name,
                lambda client: client.search(name, tokens, anns_field="sparse_vector", **options),
                patience_s=SEARCH_PATIENCE_S,
            )

        found: dict[str, float] = {}
        for hits in run_parallel([partial(search, name) for name in names]):
            for word, token, best in zip(words, tokens, hits, strict=True):
                if best:
                    count = str(best[0]["content"]).split().count(token) or 1
                    weight = abs(best[0]["distance"]) * (count + BM25_K1) / (count * (BM25_K1 + 1))
                    found[word] = min(weight, found.get(word, weight))
        return found

    def read(
        self, name: str, expression: str, fields: Sequence[str], *, limit: int = 0, strong: bool = False
    ) -> list[Row]:
        """Return rows; with `strong`, all that were written before, however long that takes."""
        options: dict[str, Any] = {"output_fields": list(fields), "timeout": TIMEOUT_S}
        options |= ({"limit": limit} if limit else {}) | ({"consistency_level": "Strong"} if strong else {})
        rows = self._with_loaded(
            name,
            lambda client: client.query(name, filter=expression, **options),
            patience_s=None if strong else SEARCH_PATIENCE_S,
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
                self._remote.call(methodcaller("flush", name, timeout=TIMEOUT_S))

    def drop_rows(self, name: str, home: str) -> bool:
        """Delete an index's rows, and the collection if it is then empty; return True on success."""
        try:
            self._with_loaded(name, lambda client: _drop_rows(client, name, home), patience_s=SEARCH_PATIENCE_S)
        except CollectionMissing:
            return True
        except StoreError:
            return False
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
            if fault.hint != _NOT_LOADED_HINT:  # Milvus Lite loads no collection when it restarts
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
