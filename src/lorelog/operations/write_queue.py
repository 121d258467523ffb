"""Queue of the short writes of each tenant within one process, in order of arrival and without polling.

The store's own lock protects the index; the queue only decides which thread requests that lock next. A writer therefore
releases its slot while it waits for a model, which may take arbitrarily long, and a waiting writer can be cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic

from lorelog.core.ports import EmbeddedTexts, Embedder, Progress, Vector

_POLL_S = 0.1
"""Interval at which a waiting writer checks whether it was cancelled."""


class WriteQueue:
    """The queues of all tenants. `_lock` guards them; each waiting writer blocks on a gate of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[Path, deque[Lock]] = {}
        self._holders: dict[Path, str] = {}

    @contextmanager
    def acquire(self, folder: Path, progress: Progress | None = None, name: str = "") -> Iterator[WriteSlot]:
        """Wait for the write slot. `progress` may raise while waiting; then nothing was written.

        `name` is the operation, which writers behind it name as what they wait for.
        """
        slot = WriteSlot(self, folder, name)
        slot.wait(progress)
        try:
            yield slot
        finally:
            slot.release()

    def queue_length(self, folder: Path) -> int:
        """Return the number of writers that hold the slot or wait for it."""
        with self._lock:
            return len(self._queues.get(folder, ()))

    def holder(self, folder: Path) -> str:
        """Return the operation that holds the slot, or `another write` if that is not known."""
        return self._holders.get(folder) or "another write"

    def set_holder(self, folder: Path, name: str) -> None:
        """Set the operation that holds the slot. Called by the writer that has just received it."""
        self._holders[folder] = name

    def enter(self, folder: Path) -> Lock:
        """Join the queue; return the gate that opens when the slot is free."""
        gate = Lock()
        gate.acquire()
        with self._lock:
            queue = self._queues.setdefault(folder, deque())
            queue.append(gate)
            if len(queue) == 1:
                gate.release()
        return gate

    def leave(self, folder: Path, gate: Lock) -> None:
        """Leave the queue from any position; open the next gate if the slot was held."""
        with self._lock:
            queue = self._queues[folder]
            held_slot = queue[0] is gate
            queue.remove(gate)
            if held_slot and queue:
                queue[0].release()
            if not queue:
                del self._queues[folder]
                self._holders.pop(folder, None)


class WriteSlot:
    """One writer's place in the queue. For one thread."""

    def __init__(self, queue: WriteQueue, folder: Path, name: str = "") -> None:
        self._queue = queue
        self._folder = folder
        self._name = name
        self._gate: Lock | None = None

    def wait(self, progress: Progress | None = None) -> None:
        """Join the queue and wait for the slot."""
        gate = self._queue.enter(self._folder)
        try:
            if not gate.acquire(blocking=False):
                started = monotonic()
                while not gate.acquire(timeout=_POLL_S if progress else -1):
                    self._report_wait(progress, started)
                self._report_wait(progress, started)  # it may have been cancelled since the last report
        except BaseException:
            self._queue.leave(self._folder, gate)
            raise
        self._gate = gate
        self._queue.set_holder(self._folder, self._name)

    def _report_wait(self, progress: Progress | None, started: float) -> None:
        if progress is not None:
            progress(f"waiting for {self._queue.holder(self._folder)}", int(monotonic() - started), 0)

    def release(self) -> None:
        """Release the slot to the next writer."""
        gate, self._gate = self._gate, None
        if gate is not None:
            self._queue.leave(self._folder, gate)

    def wrap_embedder(self, embedder: Embedder) -> Embedder:
        """Return an embedder that releases the slot while it works."""
        return YieldingEmbedder(embedder, self)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the slot during slow work, then wait for it again. That wait cannot be cancelled: work has begun."""
        self.release()
        try:
            yield
        finally:
            self.wait()


class YieldingEmbedder:
    """An embedder that releases the write slot while it works."""

    def __init__(self, inner: Embedder, slot: WriteSlot) -> None:
        self._inner = inner
        self._slot = slot
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        with self._slot.released():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        with self._slot.released():
            return self._inner.embed_query(text)

    def close(self) -> None:
        self._inner.close()
