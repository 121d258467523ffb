"""An embedder over the wire whose tokens are written down, beside those of language models.

One line for each batch and each question: a run that is interrupted has told what it cost, and so has one that failed, as
far as it came. Nothing is reserved and nothing limited, since an index is paid for once; a line that cannot be written
costs no vector.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from lorelog.core.errors import ModelError, StoreError
from lorelog.core.ports import EmbeddedTexts, Embedder, Vector
from lorelog.core.ports_models import PricedQuestions
from lorelog.services.receipts import DONE, EMBEDDING, Errand, Outcome, Receipts


class CountedEmbedder:
    """An embedder with receipts."""

    def __init__(self, inner: Embedder, receipts: Receipts, project: str) -> None:
        self._inner = inner
        self._receipts = receipts
        self._project = project
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts."""
        started = time.monotonic()
        try:
            reply = self._inner.embed_documents(texts)
        except ModelError as error:
            self._note(error.tokens, started)
            raise
        self._note(reply.tokens, started)
        return reply

    def embed_query(self, text: str) -> Vector:
        """Embed a question."""
        if not isinstance(self._inner, PricedQuestions):
            return self._inner.embed_query(text)
        started = time.monotonic()
        reply = self._inner.embed_question(text)
        self._note(reply.tokens, started)
        return reply.vectors[0]

    def close(self) -> None:
        """Let go of the model."""
        self._inner.close()

    def _note(self, tokens: int, started: float) -> None:
        if not tokens:
            return
        errand = Errand(EMBEDDING, self.provider, self.model, project=self._project)
        with suppress(StoreError):
            self._receipts.note(errand, Outcome(DONE, tokens, 0, time.monotonic() - started))
