"""Cross-encoders that sentence-transformers runs: any model id or folder that it can load, on whatever device it finds.

Its packages weigh gigabytes and load for seconds, so this is a choice for a process that stays, not for single commands.
A few pairs at a time go to the model, and the clock is looked at in between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import RerankOptions

_AT_ONCE = 4
_PACKAGE = "install it: python -m pip install 'sentence-transformers>=4'"


class LocalReranker:
    """A cross-encoder by sentence-transformers."""

    provider = "local"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self._lock = Lock()
        self._encoder: Any = None
        self._refusal: ModelUnavailable | None = None

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if not texts:
            return []
        query, *texts = (text.encode("utf-8", "replace").decode() for text in (query, *texts))
        scores: list[float | None] = []
        with self._lock:  # torch uses all cores for one call, and a second caller would only slow both down
            encoder = self._open()
            while len(scores) < len(texts) and (deadline is None or monotonic() < deadline):
                some = texts[len(scores) : len(scores) + _AT_ONCE]
                scores += _predict(encoder, [(query, text) for text in some])
        return scores + [None] * (len(texts) - len(scores))

    def close(self) -> None:
        with self._lock:
            self._encoder = None

    def _open(self) -> Any:
        """Load on first use; what could not be had is not asked for again, since that may mean a network each time."""
        if self._refusal is not None:
            raise self._refusal
        if self._encoder is None:
            try:
                self._encoder = _load(self.model)
            except ModelUnavailable as refusal:
                self._refusal = refusal
                raise
        return self._encoder


def _load(model: str) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        package = import_module("sentence_transformers")
    except ImportError as error:
        raise ModelUnavailable(f"the reranker cannot run: {error}", hint=_PACKAGE) from error
    try:
        return package.CrossEncoder(os.path.expanduser(model))  # noqa: PTH111  # an id is no path
    except Exception as error:  # torch, transformers and their HTTP client share no base class
        raise ModelUnavailable(
            f"the reranker model {model} cannot be loaded: {_first_line(error)}",
            hint="rerank.model is a folder or an id that sentence-transformers' CrossEncoder can load",
        ) from error


def _predict(encoder: Any, pairs: list[tuple[str, str]]) -> list[float]:
    try:
        identity = import_module("torch.nn").Identity()
        # Logits, not probabilities: a sigmoid would fold the distances among the good and among the bad ones away.
        answer = encoder.predict(pairs, activation_fn=identity, show_progress_bar=False)
        scores = [float(one) for one in answer]
    except Exception as error:  # see _load
        raise ModelFault(f"the reranker failed on {len(pairs)} texts: {_first_line(error)}") from error
    if len(scores) != len(pairs):
        raise ModelFault(f"the reranker gave {len(scores)} scores for {len(pairs)} texts")
    return scores


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
