"""Reranker that runs any sentence-transformers cross-encoder, by id or folder, on the device that the library selects.

Its packages weigh gigabytes and take seconds to load: this suits a long-running process, not single commands. Pairs are
scored a few at a time, so that the deadline is checked in between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import Any

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.options import RerankOptions
from lorelog.models.onnx_files import first_line

_BATCH_SIZE = 4


class LocalReranker:
    """A sentence-transformers cross-encoder."""

    provider = "local"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self._lock = Lock()
        self._encoder: Any = None
        self._load_error: ModelUnavailable | None = None

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if not texts:
            return []
        query, *texts = (text.encode("utf-8", "replace").decode() for text in (query, *texts))
        scores: list[float | None] = []
        with self._lock:  # torch uses all cores for one call, and a second caller would only slow both down
            encoder = self._open()
            while len(scores) < len(texts) and (deadline is None or monotonic() < deadline):
                some = texts[len(scores) : len(scores) + _BATCH_SIZE]
                scores += _predict(encoder, [(query, text) for text in some])
        return scores + [None] * (len(texts) - len(scores))

    def close(self) -> None:
        with self._lock:
            self._encoder = None

    def _open(self) -> Any:
        """Load on first use. A failure is remembered: another attempt may use the network."""
        if self._load_error is not None:
            raise self._load_error
        if self._encoder is None:
            try:
                self._encoder = _load(self.model)
            except ModelUnavailable as error:
                self._load_error = error
                raise
        return self._encoder


def _load(model: str) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        package = import_module("sentence_transformers")
    except ImportError as error:
        raise ModelUnavailable(f"the reranker cannot run: {error}", hint=install_hint("local")) from error
    try:
        return package.CrossEncoder(os.path.expanduser(model))  # noqa: PTH111  # an id is not a path
    except Exception as error:  # torch, transformers and their HTTP client share no base class
        raise ModelUnavailable(
            f"the reranker model {model} cannot be loaded: {first_line(error)}",
            hint="rerank.model is a folder or an id that sentence-transformers' CrossEncoder can load",
        ) from error


def _predict(encoder: Any, pairs: list[tuple[str, str]]) -> list[float]:
    try:
        identity = import_module("torch.nn").Identity()
        # Logits, not probabilities: a sigmoid would flatten the differences among the best and among the worst.
        logits = encoder.predict(pairs, activation_fn=identity, show_progress_bar=False)
        scores = [float(logit) for logit in logits]
    except Exception as error:  # see _load
        raise ModelFault(f"the reranker failed on {len(pairs)} texts: {first_line(error)}") from error
    if len(scores) != len(pairs):
        raise ModelFault(f"the reranker returned {len(scores)} scores for {len(pairs)} texts")
    return scores
