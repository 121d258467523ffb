"""Queue of the short writes of each tenant within one process, in order of arrival and without polling.

The store's own lock protects the index; the queue only decides which thread requests that lock next. A writer therefore
releases its slot while it waits for a model, which may take arbitrarily long, and a waiting writer can be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from time import monotonic

from lorelog.core.ports import EmbeddedTexts, Embedder, Progress, Vector

_POLL_S = 0.1
"""Interval at which a waiting writer checks whether it was cancelled."""


class WriteQueue:
    """The queues of all tenants. The first writer of a queue holds the slot."""

    def __init__(self) -> None:
        self.changed = Condition()
        """Guards the queues, and is notified when one gets shorter."""
        self.waiting: dict[Path, list[WriteSlot]] = {}

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
        with self.changed:
            return len(self.waiting.get(folder, ()))


class WriteSlot:
    """One writer's place in the queue. For one thread."""

    def __init__(self, queue: WriteQueue, folder: Path, name: str = "") -> None:
        self._queue = queue
        self._folder = folder
        self.name = name or "another write"

    def wait(self, progress: Progress | None = None) -> None:
        """Join the queue and wait for the slot."""
        with self._queue.changed:
            writers = self._queue.waiting.setdefault(self._folder, [])
            writers.append(self)
            holder = writers[0]
        if holder is self:
            return
        started, first = monotonic(), False
        try:
            while not first:
                with self._queue.changed:
                    first = self._queue.changed.wait_for(lambda: writers[0] is self, _POLL_S if progress else None)
                    holder = holder if first else writers[0]
                if progress is not None:  # also at the end: it may have been cancelled since the last report
                    progress(f"waiting for {holder.name}", int(monotonic() - started), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> bool:
        """Leave the queue, from any position. Return whether the writer was in it."""
        with self._queue.changed:
            writers = self._queue.waiting.get(self._folder, [])
            was_queued = self in writers
            if was_queued:
                writers.remove(self)
                self._queue.changed.notify_all()
            if not writers:
                self._queue.waiting.pop(self._folder, None)
            return was_queued

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the slot during slow work, then wait for it again. That wait cannot be cancelled: work has begun.

        In work for which it is released already, such as embedding what a judge files, nothing changes.
        """
        was_queued = self.release()
        try:
            yield
        finally:
            if was_queued:
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
