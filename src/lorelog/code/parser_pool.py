"""A pool of parser processes: requests go in, parsed files come out in the order in which they are finished.

Memory is bounded: results wait in a queue of limited size. A process that crashes or times out is replaced; its current
file gets a problem as result, and the next process parses the remaining files.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from queue import Full, Queue
from threading import Event, Lock, Thread
from typing import Any, Self, TypeVar

from lorelog.code.parsed_file import ParsedFile, ParseRequest, receive, send

_MAX_BATCH_FILES = 32
_MAX_BATCH_BYTES = 400_000
_MAX_QUEUED = 64
"""Parsed files that wait to be written."""
_LARGE_FILE_BYTES = 1_000_000
"""Larger files are parsed one at a time: each may take eighty times its size in memory."""
_FILE_TIMEOUT_S = 60.0
"""Timeout of a file, and of each further megabyte of a large one. Parsing itself is bounded; this is for hangs."""
_WORKER_CODE = (
    "import sys; sys.path.append(sys.argv.pop()); from lorelog.code.parsed_file import main; main(sys.argv[1:])"
)
_MAX_PROCESSES = 8
_MAX_FAILURES = 20


Item = TypeVar("Item")


class _PoolStopped(Exception):
    """The consumer has left the `with` block."""


class _ParserFailed(Exception):
    """The process crashed or timed out; the message says which."""


class ParserPool:
    """Parses the files of one root. For one `with` block and one call of `parse`."""

    def __init__(
        self, root: str, *, processes: int = 0, nice: int = 5, file_timeout_s: float = _FILE_TIMEOUT_S
    ) -> None:
        self._root = root
        self._count = processes or min(_cpu_count(), _MAX_PROCESSES)
        self._nice = nice
        self._file_timeout_s = file_timeout_s
        self._requests: Queue[list[ParseRequest] | None] = Queue()
        self._results: Queue[ParsedFile | BaseException | None] = Queue(_MAX_QUEUED)
        self._stopped = Event()
        self._large_file_lock = Lock()
        self._failures = 0
        """Number of files in a row that ended a process."""
        self._threads: list[Thread] = []
        self._workers: list[_ParserProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(5.0)

    def parse(self, requests: Sequence[ParseRequest]) -> Iterator[ParsedFile]:
        """Yield the result of each request as it is finished. Raise OSError if no process can be started."""
        # Each batch keeps a process busy for a moment.
        batches = list(weighted_batches(requests, lambda request: request.size, _MAX_BATCH_FILES, _MAX_BATCH_BYTES))
        for batch in batches:
            self._requests.put(batch)
        count = min(self._count, len(batches))
        for _ in range(count):
            self._requests.put(None)
            thread = Thread(target=self._run_worker, name="lorelog-parse", daemon=True)
            thread.start()
            self._threads.append(thread)
        while count:
            result = self._results.get()
            if result is None:
                count -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result

    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Return the running processes."""
        return [worker.process for worker in self._workers if worker.process is not None]

    def _run_worker(self) -> None:
        """Parse batches in a process, and in a new one if that ends, until there are no more."""
        worker = _ParserProcess(self._nice)
        self._workers.append(worker)
        try:
            while (batch := self._requests.get()) is not None and not self._stopped.is_set():
                self._parse_batch(worker, batch)
            self._put_result(None)
        except _PoolStopped:
            pass
        except Exception as error:  # noqa: BLE001  (re-raised by the consumer in `parse`)
            with suppress(_PoolStopped):
                self._put_result(error)
        finally:
            worker.kill()

    def _parse_batch(self, worker: _ParserProcess, batch: list[ParseRequest]) -> None:
        is_large = any(request.size > _LARGE_FILE_BYTES for request in batch)
        with self._large_file_lock if is_large else nullcontext():
            remaining = list(batch)
            while remaining:
                done = 0
                try:
                    worker.send_batch(self._root, remaining)
                    for request in remaining:
                        timeout_s = self._file_timeout_s * (1 + request.size / _LARGE_FILE_BYTES)
                        self._put_result(worker.receive_result(timeout_s, self._stopped))
                        self._failures = 0
                        done += 1
                except _ParserFailed as failure:
                    worker.kill()
                    self._failures += 1
                    if self._failures > _MAX_FAILURES:
                        raise OSError(errno.EAGAIN, "parser processes end as soon as they start") from failure
                    self._put_result(ParsedFile(remaining[done].path, (0, 0, 0), "", problem=str(failure)))
                    done += 1
                remaining = remaining[done:]
            if is_large:
                worker.kill()  # its memory is freed only when it ends

    def _put_result(self, result: ParsedFile | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(Full):
                return self._results.put(result, timeout=0.2)
        raise _PoolStopped


class _ParserProcess:
    """A parser process that can be started again."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self.process: subprocess.Popen[bytes] | None = None

    def send_batch(self, root: str, requests: Sequence[ParseRequest]) -> None:
        """Send requests to the process; start it if there is none."""
        if self.process is None:
            package_parent = str(Path(__file__).resolve().parents[2])  # for when the package is not installed
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER_CODE, str(self._nice), package_parent],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # ^C at the terminal goes to us only, and we end it
            )
        assert self.process.stdin is not None
        try:
            send(self.process.stdin.fileno(), (root, [tuple(request) for request in requests]))
        except OSError as error:
            raise _ParserFailed("could not be parsed: the parser crashed") from error

    def receive_result(self, timeout_s: float, stopped: Event) -> ParsedFile:
        assert self.process is not None
        assert self.process.stdout is not None
        stdout = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout_s

        def read(max_bytes: int) -> bytes:
            while not select.select([stdout], [], [], 0.2)[0]:
                if stopped.is_set():
                    raise _PoolStopped
                if time.monotonic() > deadline:
                    raise _ParserFailed(f"could not be parsed: it took longer than {timeout_s:g} s")
            return os.read(stdout, max_bytes)

        message: Any = receive(read)
        if message is None:
            raise _ParserFailed("could not be parsed: the parser crashed or ran out of memory")
        return ParsedFile(*message)

    def kill(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # closes the pipes, and waits
                pass


def weighted_batches(
    items: Iterable[Item], weight: Callable[[Item], int], max_items: int, max_weight: int
) -> Iterator[list[Item]]:
    """Group items, so that each group but the last has a number or a total weight that is not less than a limit."""
    batch: list[Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += weight(item)
        if len(batch) >= max_items or total >= max_weight:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _cpu_count() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    else:  # noqa: RET505  (type checkers pass over a branch of another system)
        return os.cpu_count() or 1
