"""A process with JSON lines as input and output; a thread reads, so that waits can have a limit."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from e2e.world import Failed, World

_LEAVE_S = 20.0
Line = dict[str, Any]


def json_lines(printed: str) -> Iterator[Line]:
    """Yield the JSON objects among printed lines."""
    for raw in printed.splitlines():
        line = _parse_line(raw)
        if line is not None:
            yield line


def _parse_line(raw: str) -> Line | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


class Lines:
    """The conversation with one process. On exit, its input is closed and its end awaited."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], world: World) -> None:
        self._log = (world.logs / f"lines-{len(list(world.logs.iterdir())):02d}.log").open("w")
        self.process = subprocess.Popen(
            command,
            cwd=world.project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._heard: queue.Queue[Line | None] = queue.Queue()
        self._recent: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()
        try:
            self.process.wait(_LEAVE_S if kind is None else 0.1)
        except subprocess.TimeoutExpired:
            self.kill()
        self._listener.join(5)
        self._log.close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def write(self, line: Line) -> None:
        if self.process.stdin is None or self.process.poll() is not None:
            raise Failed(f"the host ended with {self.process.poll()}: {self._recent[-3:]}")
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def until(self, wanted: Callable[[Line], bool], what: str, limit_s: float = 120.0) -> Line:
        """Return the next matching line. Raise Failed if none comes."""
        end = time.monotonic() + limit_s
        while True:
            try:
                line = self._heard.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no {what} within {limit_s:.0f} s; last lines: {self._recent[-5:]}") from None
            if line is None:
                raise Failed(f"the host ended before {what}; last lines: {self._recent[-5:]}")
            if wanted(line):
                return line

    def _listen(self) -> None:
        stream = self.process.stdout
        for raw in stream or ():
            self._log.write(raw)
            self._recent = [*self._recent[-9:], raw.strip()[:300]]
            line = _parse_line(raw)
            if line is not None:
                self._heard.put(line)
        self._heard.put(None)
