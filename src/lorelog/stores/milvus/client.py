"""Connection to a Milvus server or Milvus Lite file: opened on demand, with retries and translated errors.

Every request may be repeated: rows are written and deleted by key, and an existing collection is not created again. So
requests that fail because the server is unreachable are retried until the time limit.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from lorelog.core.errors import StoreBusy, StoreDamaged, StoreError, StoreIncompatible, StoreUnreachable
from lorelog.core.extras import install_hint
from lorelog.core.options import StoreOptions

if TYPE_CHECKING:
    from pymilvus import MilvusClient

PUSH_HINT = (
    "the local catalog is complete: 'lorelog doctor --store --repair' uploads it again, nothing is embedded again"
)
NOTHING_LOST_HINT = "nothing is lost, the catalog is local"

_TOKEN_HINT = "set store.token to the variable that holds it, such as env:MILVUS_TOKEN"  # noqa: S105  (not a secret)
_NOT_LOADED_HINT = "it is loaded by the next request"


def is_missing_collection(fault: StoreError) -> bool:
    """Return True if a collection is missing or is not the one that was written."""
    return isinstance(fault, StoreDamaged) and fault.hint == PUSH_HINT


def is_unloaded_collection(fault: StoreError) -> bool:
    """Return True if a collection exists but is not loaded: Milvus Lite loads none when it restarts."""
    return fault.hint == _NOT_LOADED_HINT


def is_access_denied(fault: StoreError) -> bool:
    """Return True if the server rejects the token: a retry is useless."""
    return fault.hint == _TOKEN_HINT


def missing_package_error(error: ImportError) -> StoreError:
    return StoreError(
        f"store.uri names a Milvus, but its client is not installed ({error.name})",
        hint=f"{install_hint('milvus')}, or unset store.uri to use the embedded store",
    )


_ERROR_KINDS: tuple[tuple[type[StoreError], set[str], set[int], tuple[str, ...], str, str], ...] = (
    # Error type, gRPC status names, Milvus codes, phrases in the text; the message and the hint.
    (
        StoreUnreachable,
        {"UNAUTHENTICATED", "PERMISSION_DENIED"},
        set(),
        ("unauthenticated", "auth check failure", "permission deny", "invalid token"),
        "{place} rejects the token",
        _TOKEN_HINT,
    ),
    (
        StoreError,
        set(),
        {101},
        ("not loaded", "call load()"),
        "{place} has not loaded a collection: {text}",
        _NOT_LOADED_HINT,
    ),
    (
        StoreDamaged,
        set(),
        {100},
        ("can't find collection", "collection not found"),
        "a collection is missing from {place}: {text}",
        PUSH_HINT,
    ),
    (
        StoreBusy,
        {"RESOURCE_EXHAUSTED"},
        {8, 9},
        ("rate limit",),
        "{place} accepts no more requests at present: {text}",
        "try again in a moment, or raise its quota",
    ),
    (
        StoreUnreachable,
        {"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"},
        {2},
        ("retry timeout", "closed channel", "fail connecting"),
        "{place} cannot be reached",
        f"check that it is running and that store.uri is right; {NOTHING_LOST_HINT}",
    ),
    (
        StoreIncompatible,
        set(),
        set(),
        ("expected dim", "dimension mismatch", "mismatch in its core dimension", "the dim ("),
        "a collection at {place} has vectors of another dimension: {text}",
        "another program created it under our name: drop it there, then 'lorelog doctor --store --repair' uploads it again",
    ),
)


def from_milvus(error: Exception, place: str) -> StoreError:
    """Return the StoreError for a Milvus error at `place`."""
    text = " ".join(str(getattr(error, "message", "") or error).split())[:300]
    name, code = _grpc_status(error), getattr(error, "code", None)
    for error_type, names, codes, phrases, message, hint in _ERROR_KINDS:
        if name in names or code in codes or any(phrase in text.lower() for phrase in phrases):
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
                if time.monotonic() + pause > start + limit_s or is_access_denied(fault):
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
        client = self._open_client()
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

    def _open_client(self) -> MilvusClient:
        with self._lock:
            if self._client is None:
                self._client = self._open_file() if self._file else self._connect(self._options.uri)
            return self._client

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
    from lorelog.core.processes import try_file_lock

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
