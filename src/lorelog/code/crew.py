"""Several processes that parse, fed and listened to: files go in, what became of them comes out, in whatever order it is done.

Memory is bounded: no more is asked for than is taken. A process that crashes or does not answer in time is replaced; the file
it was at is answered for with what happened, and the others that it had are given to the next.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from threading import Event, Lock, Thread
from typing import Any, Self

from lorelog.code.parsed import Asked, Parsed
from lorelog.code.worker import receive, send

_FILES_AT_ONCE = 32
_BYTES_AT_ONCE = 400_000
_WAITING = 64
"""Parsed files that wait to be written."""
_LARGE = 1_000_000
"""Files of more bytes are parsed one at a time: each may take eighty times its size in memory."""
_PATIENCE_S = 60.0
"""How long a file may take, and a large one for each megabyte more. Parsing itself is bounded; this is for what hangs all the same."""
_START = "import sys; sys.path.append(sys.argv.pop()); from lorelog.code.worker import main; main(sys.argv[1:])"
_MOST = 8
_MOST_FAILURES = 20


class _Stopped(Exception):
    """Nobody waits any more."""


class _Ended(Exception):
    """The process is gone, or did not answer in time; says which."""


class Crew:
    """Parses the files of one root. For one `with` block and one `parse`."""

    def __init__(self, root: str, *, processes: int = 0, nice: int = 5, patience_s: float = _PATIENCE_S) -> None:
        self._root = root
        self._count = processes or min(_cores(), _MOST)
        self._nice = nice
        self._patience_s = patience_s
        self._asked: Queue[list[Asked] | None] = Queue()
        self._answers: Queue[Parsed | BaseException | None] = Queue(_WAITING)
        self._stopped = Event()
        self._one_large = Lock()
        self._failures = 0
        """How many files in a row ended a process."""
        self._threads: list[Thread] = []
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(5.0)

    def parse(self, files: Sequence[Asked]) -> Iterator[Parsed]:
        """Yield what became of each file, as it comes. Raise OSError when no process can be started."""
        portions = list(_portions(files))
        for portion in portions:
            self._asked.put(portion)
        count = min(self._count, len(portions))
        for _ in range(count):
            self._asked.put(None)
            thread = Thread(target=self._tend, name="lorelog-parse", daemon=True)
            thread.start()
            self._threads.append(thread)
        while count:
            answer = self._answers.get()
            if answer is None:
                count -= 1
            elif isinstance(answer, BaseException):
                raise answer
            else:
                yield answer

    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Return the processes that parse at the moment."""
        return [worker.process for worker in self._workers if worker.process is not None]

    def _tend(self) -> None:
        """Have portions parsed by a process, and by another when that is gone, until there are no more."""
        worker = _Worker(self._nice)
        self._workers.append(worker)
        try:
            while (portion := self._asked.get()) is not None and not self._stopped.is_set():
                self._have_parsed(worker, portion)
            self._hand_over(None)
        except _Stopped:
            pass
        except Exception as error:  # noqa: BLE001  (whoever waits for answers must hear of it)
            with suppress(_Stopped):
                self._hand_over(error)
        finally:
            worker.end()

    def _have_parsed(self, worker: _Worker, portion: list[Asked]) -> None:
        if any(one.size > _LARGE for one in portion):
            with self._one_large:
                self._ask_for(worker, portion)
                worker.end()  # what it took is given back only with its end
        else:
            self._ask_for(worker, portion)

    def _ask_for(self, worker: _Worker, portion: list[Asked]) -> None:
        left = list(portion)
        while left:
            worker.begin()
            taken = 0
            try:
                worker.ask(self._root, left)
                for one in left:
                    patience_s = self._patience_s * (1 + one.size / _LARGE)
                    self._hand_over(worker.answer(patience_s, self._stopped))
                    self._failures = 0
                    taken += 1
            except _Ended as ended:
                worker.end()
                self._failures += 1
                if self._failures > _MOST_FAILURES:
                    raise OSError(errno.EAGAIN, "parsers end as soon as they begin") from ended
                bad = left[taken]
                self._hand_over(Parsed(bad.path, (0, 0, 0), "", problem=str(ended)))
                taken += 1
            left = left[taken:]

    def _hand_over(self, answer: Parsed | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(Full):
                return self._answers.put(answer, timeout=0.2)
        raise _Stopped


class _Worker:
    """One process at a time."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        if self.process is not None:
            return
        here = str(Path(__file__).resolve().parents[2])  # where this package lies, should nothing else lead there
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(self._nice), here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # who presses ^C at a terminal means us, and we end it
        )

    def ask(self, root: str, files: Sequence[Asked]) -> None:
        stdin, _ = self._pipes()
        try:
            send(stdin, (root, [tuple(file) for file in files]))
        except OSError as error:
            raise _Ended("could not be parsed: the parser crashed") from error

    def answer(self, patience_s: float, stopped: Event) -> Parsed:
        _, stdout = self._pipes()
        deadline = time.monotonic() + patience_s

        def read(most: int) -> bytes:
            while not select.select([stdout], [], [], 0.2)[0]:
                if stopped.is_set():
                    raise _Stopped
                if time.monotonic() > deadline:
                    raise _Ended(f"could not be parsed: it took longer than {patience_s:g} s")
            return os.read(stdout, most)

        said: Any = receive(read)
        if said is None:
            raise _Ended("could not be parsed: the parser crashed, or wanted too much memory")
        return Parsed(*said)

    def end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()

    def _pipes(self) -> tuple[int, int]:
        if self.process is None or self.process.stdin is None or self.process.stdout is None:
            raise _Ended("could not be parsed: there is no parser")
        return self.process.stdin.fileno(), self.process.stdout.fileno()


def _portions(files: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Yield a few files at a time, as many as keep a process busy for a moment."""
    portion: list[Asked] = []
    size = 0
    for file in files:
        portion.append(file)
        size += file.size
        if len(portion) >= _FILES_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
