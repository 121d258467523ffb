"""The vectors that one index run makes: asked for, stored as they come, and reported when they do not.

A model that fails is not asked again in the same run; what it made before is kept. A single text that it refuses is another
matter: the others are no worse for it. Such a text is found by its words, its file is named, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from lorelog.core.errors import ModelError, ModelFault
from lorelog.core.memory import Problem
from lorelog.core.ports import Embedder, PendingText, Progress, Store, StoreWriter, Vector
from lorelog.core.query import Filters
from lorelog.ingest.embed import embed_texts
from lorelog.services.tally import Tally


class Embedding:
    """Makes vectors for one run."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        writing: Callable[[], AbstractContextManager[StoreWriter]],
        tally: Tally,
        progress: Progress,
        batch_size: int,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._writing = writing
        self._tally = tally
        self._progress = progress
        self._batch_size = batch_size
        self._refused: set[str] = set()
        self.error: ModelError | None = None
        """Why the model is not asked any more."""

    def make(self, texts: Sequence[PendingText], sources: Sequence[str], *, beside: bool = False) -> bool:
        """Embed texts, and say whether that went well; when the model fails, `sources` are named as lacking vectors."""
        wanted = {one.vector_key: one.text for one in texts if one.vector_key not in self._refused}
        if not wanted:
            return True
        if self.error is None:
            try:
                refused = self._embed(wanted, beside=beside)
            except ModelError as error:
                self.error = error
            else:
                self._refused |= refused.keys()
                self._tally.problems += [
                    Problem(
                        one.source,
                        f"no vector for one of its texts: {refused[one.vector_key]}",
                        "it is found by its words; another embedding.model may take it",
                    )
                    for one in texts
                    if one.vector_key in refused
                ]
                return True
        message = f"no vectors: {self.error.message}"
        self._tally.problems += [Problem(source, message, self.error.hint) for source in sources]
        return False

    def left(self, look: Callable[[int], Sequence[PendingText]], most: int) -> list[PendingText]:
        """Return texts that wait and were not refused, as `look` shows so many."""
        return [one for one in look(most + len(self._refused)) if one.vector_key not in self._refused]

    def waiting(self) -> int:
        """Return how many chunks have no vector."""
        coverage = self._store.coverage(Filters())
        return coverage.chunks - coverage.with_vectors

    def _embed(self, texts: Mapping[str, str], *, beside: bool) -> Mapping[str, str]:
        """Embed and store texts by key; return those that the model refused, with the reason."""
        if self._embedder is None:
            return {}
        done_before = self._tally.embedded
        # Chunks that share a text make this a little too many; it is a promise to a progress bar only.
        waiting = self._store.changeover().waiting if beside else self.waiting()
        total = done_before + max(len(texts), waiting)
        self._progress("vectors", done_before, total)

        def keep(vectors: Mapping[str, Vector]) -> None:
            with self._writing() as writer:
                (writer.put_beside if beside else writer.put_vectors)(vectors)
            self._tally.embedded += len(vectors)
            self._progress("vectors", self._tally.embedded, total)

        report = embed_texts(self._embedder, texts, keep, batch_size=self._batch_size)
        self._tally.truncated += report.truncated
        if self._tally.embedded - done_before + len(report.refused) != len(texts):
            raise ModelFault("the model left texts without vectors")
        return report.refused
