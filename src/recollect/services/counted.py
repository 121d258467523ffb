"""An embedder over the wire whose tokens are written down, beside those of language models.

One line for each batch: a run that is interrupted has told what it cost. Nothing is reserved and nothing limited, since an
index is paid for once; a line that cannot be written costs no vector. Vendors do not say what a question costs, which is a
few tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from recollect.core.errors import StoreError
from recollect.core.ports import EmbeddedTexts, Embedder, Vector
from recollect.services.receipts import DONE, EMBEDDING, Errand, Outcome, Receipts


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
        reply = self._inner.embed_documents(texts)
        if reply.tokens:
            errand = Errand(EMBEDDING, self.provider, self.model, project=self._project)
            with suppress(StoreError):
                self._receipts.note(errand, Outcome(DONE, reply.tokens, 0, time.monotonic() - started))
        return reply

    def embed_query(self, text: str) -> Vector:
        """Embed a question."""
        return self._inner.embed_query(text)

    def close(self) -> None:
        """Let go of the model."""
        self._inner.close()
