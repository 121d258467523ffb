"""Reader processes: they answer pure reads for the daemon while more are asked than one process can compute.

Python computes in one thread at a time, so a daemon uses one core. A reader is a process of its own with the same files mapped. One is
started when requests queue, as long as there is a core for it. It ends when it is idle, when a text is forgotten (nothing of it may stay in
memory), and with the daemon, even if that is killed.

A reader writes only to caches and logs that every process shares: an audit hook refuses all other files, and the daemon then answers
itself. It also does so if a reader was killed, hangs or fails.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lorelog.core.errors import LorelogError, error_from_code
from lorelog.core.processes import limit_heap, resident_bytes, usable_cores
from lorelog.operations.catalogue import find_operation
from lorelog.operations.dispatch import Dispatcher
from lorelog.retrieval.cache import register_cache
from lorelog.surfaces.daemon.connection import CLIENT_ERROR_CODES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from lorelog.core.ports import Progress
    from lorelog.engine import Engine
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.wiring import ResourcePool

_MODULE = "lorelog.surfaces.daemon.readers"
_MAX_READERS, _CHANNELS = 8, 8
"""More would not be fed by one daemon. A reader takes one request in each channel, and computes one at a time."""
_MIN_QUEUED, _MIN_BUSY_S = 8, 2
"""A reader is started when so many requests had to wait in each of so many seconds."""
_IDLE_S, _START_S, _ANSWER_S = 20.0, 20.0, 5.0
"""A reader hangs if it answers nothing for so long, or does not start."""
_RETRY_S, _PAUSE_S = 60.0, 1.0
"""None is started for this long after one failed, and none is asked for this long after one needed to write."""
_PRELOADED = ("lorelog.models", "lorelog.operations", "lorelog.retrieval", "lorelog.services.search", "lorelog.stores")
_LIBRARIES = ("numpy", "onnxruntime", "tantivy")
_SHARED_FILES = frozenset({"traces.spool", "receipts.jsonl", "records.db", "freshness.db", "null"})
_CHANGES = frozenset({"os.link", "os.remove", "os.rename", "os.truncate"})


class Reader(Struct, eq=False):
    """A reader process, as the daemon sees it."""

    process: subprocess.Popen[bytes]
    used_at: float
    """When it was started, got something to do, or last answered."""
    channels: list[Connection] = []
    """Those on which nothing is at work; none as long as it starts."""
    calls: int = 0
    rss_bytes: int = 0

    @property
    def at_work(self) -> int:
        return _CHANNELS - len(self.channels)

    @property
    def limit_s(self) -> float:
        return _ANSWER_S if self.calls else _START_S


class ReaderPool:
    """Calls operations, in the daemon itself or in readers. Thread-safe."""

    def __init__(
        self, dispatcher: Dispatcher, home: str, log: Callable[[str], None], note_place: Callable[[str, str], None]
    ) -> None:
        register_cache(self)
        self._dispatcher, self._home, self._log, self._note_place = dispatcher, home, log, note_place
        self._most = min(usable_cores() - 1, _MAX_READERS)
        self._lock = threading.Lock()
        self._readers: list[Reader] = []
        self._here = self._queued = self._busy_s = 0
        """Requests at work in the daemon itself; requests that had to wait since the last tick; seconds with many of them."""
        self._start_after = self._ask_after = 0.0

    def call(self, op: str, arguments: Any, caller: ClientIdentity, progress: Progress | None) -> dict[str, Any]:
        """Call an operation as the dispatcher does; a pure one where least is at work."""
        operation, reply = find_operation(op), None
        if not operation.pure:
            return self._dispatcher.call(op, arguments, caller, progress)
        with self._lock:
            reader = min(self._readers, key=lambda reader: reader.at_work, default=None)
            self._queued += bool(self._here and (reader is None or reader.at_work))
            if reader and 0 < self._here >= reader.at_work < _CHANNELS and time.monotonic() > self._ask_after:
                reader.used_at = reader.used_at if reader.at_work else time.monotonic()
                channel = reader.channels.pop()
            else:
                reader, self._here = None, self._here + 1
        if reader:
            reply = self._ask(reader, channel, (operation.name, arguments, caller))
        try:
            return reply or self._dispatcher.call(op, arguments, caller, progress)
        finally:
            with self._lock:
                self._here -= not reply

    def tick(self) -> None:
        """Start a reader if requests queue, and end those that are idle or dead. Called every second."""
        now = time.monotonic()
        with self._lock:
            self._busy_s = self._busy_s + 1 if self._queued >= _MIN_QUEUED else 0
            starts = self._busy_s >= _MIN_BUSY_S and len(self._readers) < self._most and now >= self._start_after
            self._busy_s, self._queued = 0 if starts else self._busy_s, 0
            idle = [reader for reader in self._readers if not reader.at_work and now - reader.used_at > _IDLE_S]
            failed = {
                reader: "hangs" for reader in self._readers if reader.at_work and now - reader.used_at > reader.limit_s
            }
            failed |= {reader: "was killed" for reader in self._readers if reader.process.poll() is not None}
        for reader, failure in (dict.fromkeys(idle, "") | failed).items():
            self._end(reader, failure)
        if starts:
            threading.Thread(target=self._start, name="lorelog-reader", daemon=True).start()

    def clear(self) -> None:
        """End all readers: nothing is left of what they hold in memory."""
        for reader in list(self._readers):
            self._end(reader)

    def status(self) -> list[dict[str, int]]:
        return [{"pid": it.process.pid, "calls": it.calls, "rss_bytes": it.rss_bytes} for it in tuple(self._readers)]

    def _ask(self, reader: Reader, channel: Connection, request: tuple[str, Any, ClientIdentity]) -> Any:
        """Return a reader's reply or raise its error. Return None if the daemon has to answer."""
        reply = fault = place = None
        started, failure = time.monotonic(), ""
        try:
            channel.send(request)
            reply, fault, place, reader.rss_bytes = channel.recv()
        except Exception as error:
            failure = f"did not answer: {error!r}"
        with self._lock:
            reader.channels.append(channel)
            reader.calls += 1
            reader.used_at = time.monotonic()
            if reply is None and fault is None:
                self._here += 1
                self._ask_after = reader.used_at + _PAUSE_S
        if failure:
            self._end(reader, failure)
        if place is not None:
            self._note_place(*place)
            self._dispatcher.meter.count(request[0], reader.used_at - started, failed=fault is not None)
        if fault is not None:
            raise error_from_code(*fault)
        return reply

    def _start(self) -> None:
        import subprocess
        from multiprocessing.connection import Pipe

        pairs = [Pipe() for _ in range(_CHANNELS)]
        descriptors = [theirs.fileno() for _, theirs in pairs]
        words = [sys.executable, "-P", "-B", "-m", _MODULE, "--home", self._home, *map(str, descriptors)]
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=descriptors)
        except OSError as error:
            self._start_after = time.monotonic() + _RETRY_S
            self._log(f"a reader cannot be started: {error}")
            return
        for _, theirs in pairs:
            theirs.close()
        channels = [ours for ours, _ in pairs]
        reader = Reader(process, time.monotonic())
        with self._lock:
            self._readers.append(reader)
        try:
            channels[0].send([name for name in sys.modules if name.startswith((*_PRELOADED, *_LIBRARIES))])
            channels[0].recv()
        except (OSError, EOFError):
            self._end(reader, "did not start")
        with self._lock:
            reader.channels, reader.used_at = channels, time.monotonic()

    def _end(self, reader: Reader, failure: str = "") -> None:
        with self._lock:
            if reader not in self._readers:
                return
            self._readers.remove(reader)
            if failure:
                self._start_after = time.monotonic() + _RETRY_S
        reader.process.kill()
        reader.process.wait()
        if failure:
            self._log(f"process {reader.process.pid}, a reader, {failure}")


# -- the reader's own process ------------------------------------------------------------------------------------------


class NeedsWriter(BaseException):
    """The request of this thread would change a file. Not an Exception: code that tolerates failed writes must not tolerate this."""


_refused = threading.local()


def _refuse_writes(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise NeedsWriter before a file is changed that not every process writes. An audit hook."""
    path, changes = "", event in _CHANGES
    if event == "open" and not isinstance(arguments[0], int):
        path, changes = os.fsdecode(arguments[0]), bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    elif event == "sqlite3.connect":
        path, _, options = os.fsdecode(arguments[0]).partition("?")
        changes = "mode=ro" not in options and path != ":memory:"
    # After the first one all are refused: the daemon answers, and traces the call.
    if changes and (path.rpartition("/")[2] not in _SHARED_FILES or _refused.__dict__):
        _refused.path = path
        raise NeedsWriter(event, path)


def _serve(channel: Connection, resources: ResourcePool) -> None:
    """Answer the requests of one channel. End the process when the daemon has closed it."""
    places: list[tuple[str, str]] = []

    def open_engine(*location: Any) -> Engine:
        engine = resources.engine(*location)
        places.append((engine.place.tenant, engine.place.project.root))
        return engine

    dispatcher = Dispatcher(open_engine)
    try:
        while True:
            request = channel.recv()
            reply = error = None
            places.clear()
            time.tzset()
            try:
                reply = dispatcher.call(*request)
            except LorelogError as raised:
                error = (raised.code, raised.message, raised.hint) if raised.code in CLIENT_ERROR_CODES else None
            except BaseException:  # the daemon answers, or fails and reports it
                reply = None
            if _refused.__dict__:
                reply = error = None
                _refused.__dict__.clear()
            channel.send((reply, error, places[0] if places and (reply or error) else None, resident_bytes()))
    finally:
        os._exit(0)


def main(descriptors: list[int]) -> None:
    """Answer requests on the channels, until the daemon ends."""
    gc.set_threshold(5_000, 10, 10)
    limit_heap()
    from multiprocessing.connection import Connection

    channels: list[Connection] = [Connection(descriptor) for descriptor in descriptors]
    for name in channels[0].recv():
        import_module(name)
    from lorelog.wiring import ResourcePool

    resources = ResourcePool()
    threading.excepthook = lambda failure: None  # of work beside requests that needs to write
    sys.addaudithook(_refuse_writes)
    channels[0].send(None)
    for channel in channels[1:]:
        threading.Thread(target=_serve, args=(channel, resources), daemon=True).start()
    _serve(channels[0], resources)


if __name__ == "__main__":
    main(list(map(int, sys.argv[3:])))
