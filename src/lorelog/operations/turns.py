"""Short writes of one tenant take turns: without polling, in the order they came, and without losing a lock to another process.

The store's own lock is what keeps the index whole; a turn only decides who asks for it next. So it can be given up while a
model is asked, which may take forever, and whoever waits for it can be called off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from lorelog.core.ports import EmbeddedTexts, Embedder, Progress, Vector

_LOOK_S = 0.1
"""How often someone who waits looks whether they are still wanted."""


class Turns:
    """The queues of all tenants."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[Path, deque[Lock]] = {}

    @contextmanager
    def take(self, folder: Path, progress: Progress | None = None) -> Iterator[Turn]:
        """Wait for a turn. `progress` may raise meanwhile; then nothing has been done, and nothing will be."""
        turn = Turn(self, folder)
        turn.wait(progress)
        try:
            yield turn
        finally:
            turn.end()

    def waiting(self, folder: Path) -> int:
        """Return how many have a turn or wait for one."""
        with self._lock:
            return len(self._queues.get(folder, ()))

    def enter(self, folder: Path) -> Lock:
        """Queue up; return the gate that opens when it is one's turn."""
        gate = Lock()
        gate.acquire()
        with self._lock:
            queue = self._queues.setdefault(folder, deque())
            queue.append(gate)
            if len(queue) == 1:
                gate.release()
        return gate

    def leave(self, folder: Path, gate: Lock) -> None:
        """Leave the queue, from wherever one stands in it."""
        with self._lock:
            queue = self._queues[folder]
            served = queue[0] is gate
            queue.remove(gate)
            if served and queue:
                queue[0].release()
            if not queue:
                del self._queues[folder]


class Turn:
    """One writer's place in the queue. For one thread."""

    def __init__(self, turns: Turns, folder: Path) -> None:
        self._turns = turns
        self._folder = folder
        self._gate: Lock | None = None

    def wait(self, progress: Progress | None = None) -> None:
        """Queue up and wait."""
        gate = self._turns.enter(self._folder)
        try:
            if not gate.acquire(blocking=False):
                while not gate.acquire(timeout=_LOOK_S if progress else -1):
                    _ask(progress)
                _ask(progress)  # nobody may have looked between the last time and now
        except BaseException:
            self._turns.leave(self._folder, gate)
            raise
        self._gate = gate

    def end(self) -> None:
        """Let the next one go."""
        gate, self._gate = self._gate, None
        if gate is not None:
            self._turns.leave(self._folder, gate)

    def polite(self, embedder: Embedder) -> Embedder:
        """Return the embedder, with which others go before while it works."""
        return _Polite(embedder, self)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let others go before while something takes its time; then queue up again. What is half done is finished."""
        self.end()
        try:
            yield
        finally:
            self.wait()


class _Polite:
    """An embedder that is never waited for with a turn in hand."""

    def __init__(self, inner: Embedder, turn: Turn) -> None:
        self._inner = inner
        self._turn = turn
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        with self._turn.aside():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        with self._turn.aside():
            return self._inner.embed_query(text)

    def close(self) -> None:
        self._inner.close()


def _ask(progress: Progress | None) -> None:
    if progress is not None:
        progress("waiting", 0, 0)
