"""One Milvus, reached by its address: opened when first asked, asked again where it was not there for a moment.

Everything that is asked of it may be asked twice: rows are written and deleted by their key, and a collection that is
there is not made again. So whatever fails because nobody answered is tried again until patience ends.
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

from lorelog.core.errors import StoreBusy, StoreError, StoreIncompatible, StoreUnreachable
from lorelog.core.options import StoreOptions
from lorelog.stores.milvus.faults import from_milvus, is_refusal, missing_package

if TYPE_CHECKING:
    from pymilvus import MilvusClient

Answer = TypeVar("Answer")

TIMEOUT_S = 30.0
"""Of one call."""
_CONNECT_S = 5.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_STRANGE_S = 3.0
_GRPC = {"grpc.use_local_subchannel_pool": 1}
"""A connection that is made anew dials at once, however long the one before it had been waiting to dial."""
_ONE_PROCESS = (
    "Milvus Lite serves one process at a time: leave it to the daemon (lorelog warm start), or run 'milvus-lite server' "
    "and set store.uri to its http:// address"
)

# A file of Milvus Lite is served inside the process, to all who open it there, and let go with the last of them.
_users: Counter[str] = Counter()
_users_lock = Lock()


class Remote:
    """A connection that opens itself. Threads may share it."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._client: MilvusClient | None = None
        self._answered = False
        self._lite: bool | None = None
        self._file = options.uri if options.is_file else ""
        self.place = options.uri

    def ask(self, call: Callable[[MilvusClient], Answer], *, patience_s: float | None = None) -> Answer:
        """Return what a call of the client answers; raise StoreError when patience ends.

        One that never answered is asked again for a moment only: it is the address that is wrong, as a rule.
        """
        patience_s = self._options.patience_s if patience_s is None else patience_s
        start = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                answer = self._once(call)
            except (StoreUnreachable, StoreBusy) as fault:
                most = patience_s if self._answered else min(patience_s, _STRANGE_S)
                if time.monotonic() + pause > start + most or is_refusal(fault):
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self._answered = True
                return answer

    def is_lite(self) -> bool:
        """Say whether this is Milvus Lite, by a file or as a server."""
        if self._lite is None:
            self._lite = bool(self._file) or "lite" in str(self.ask(lambda client: client.get_server_version()))
        return self._lite

    def close(self) -> None:
        """Let go of the connection, and of the file if nobody else here has it open. May be called twice."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                self._release(client)

    def _once(self, call: Callable[[MilvusClient], Answer]) -> Answer:
        client = self._opened()
        from grpc import RpcError
        from pymilvus.exceptions import MilvusException

        try:
            return call(client)
        except (MilvusException, RpcError, ValueError) as error:
            fault = from_milvus(error, self.place)
            if isinstance(fault, StoreUnreachable):
                # The next try dials anew: gRPC itself would wait longer and longer before it does.
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

    def _opened(self) -> MilvusClient:
        with self._lock:
            if self._client is None:
                self._client = self._open_file() if self._file else self._connect(self._options.uri)
            return self._client

    def _open_file(self) -> MilvusClient:
        path = Path(self._file)
        if path.is_file():
            raise StoreIncompatible(
                f"{path} is a file of Milvus Lite 2 or of another program",
                hint="move it away; the index is pushed anew",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{path} cannot be made: {error.strerror}", hint="store.uri names it") from error
        with _users_lock:
            client = self._connect(str(path))
            _users[self._file] += 1
            return client

    def _connect(self, uri: str) -> MilvusClient:
        try:
            with _own_environment():
                from pymilvus import MilvusClient
                from pymilvus.exceptions import MilvusException
        except ImportError as error:
            raise missing_package(error) from error
        for name in ("pymilvus", "milvus_lite"):
            # What goes wrong is told by what we raise; tracebacks on a person's terminal are not.
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            return MilvusClient(
                uri=uri, token=str(self._options.token), timeout=_CONNECT_S, dedicated=True, grpc_options=_GRPC
            )
        except ImportError as error:
            raise missing_package(error) from error
        except MilvusException as error:
            if self._file:
                raise _from_lite(error, Path(self._file)) from error
            raise from_milvus(error, self.place) from error


@contextmanager
def _own_environment() -> Iterator[None]:
    """Keep Milvus' client from taking up what a `.env` file nearby says, as it does when it is imported: a clone may bring one."""
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


def _from_lite(error: Exception, path: Path) -> StoreError:
    """Return why a file could not be opened: Milvus Lite itself only says that it could not."""
    import fcntl

    try:
        descriptor = os.open(path / "LOCK", os.O_RDWR)
    except OSError:
        return StoreError(f"{path} could not be opened: {getattr(error, 'message', error)}", hint="store.uri names it")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return StoreBusy(f"{path} is open in another process", hint=_ONE_PROCESS)
    finally:
        os.close(descriptor)
    return StoreError(
        f"{path} could not be opened: {getattr(error, 'message', error)}", hint="move it away and try again"
    )
