"""An embedder that several borrow, and that is let go while nobody uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from lorelog.core.ports import EmbeddedTexts, Embedder, Vector
from lorelog.core.ports_models import PricedQuestions


class LentEmbedder:
    """An embedder that knows when it was last used, so that it can be let go while nobody does."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._lock = Lock()
        self._users = 0
        self._used: float | None = None
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts."""
        with self._in_use():
            return self._inner.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a question."""
        with self._in_use():
            return self._inner.embed_query(text)

    def embed_question(self, text: str) -> EmbeddedTexts:
        """Embed a question, and say what it cost where the model knows."""
        with self._in_use():
            if isinstance(self._inner, PricedQuestions):
                return self._inner.embed_question(text)
            return EmbeddedTexts((self._inner.embed_query(text),))

    def rest(self, idle_s: float) -> bool:
        """Let go of the model unless it is in use or was lately; return whether it is at rest."""
        with self._lock:
            if self._used is None:
                return True
            if self._users or monotonic() - self._used < idle_s:
                return False
            self._used = None
            self._inner.close()
            return True

    def close(self) -> None:
        """Let go of the model."""
        self._inner.close()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
            self._used = monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                self._used = monotonic()
