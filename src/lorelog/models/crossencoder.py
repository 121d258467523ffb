"""Cross-encoders: models that read a question and a text together and say how well one answers the other.

They are slow (145 ms of one Neoverse-N1 core for a pair of 178 tokens with ms-marco-MiniLM-L-12-v2 in int8), so they only
look at the first few candidates, and only when a model was chosen. Each pair is run alone, as many at a time as there
are threads, for the reason that `builtin` gives: in a batch an int8 model's answer depends on the neighbours. Pairs are
taken in the order given, best first, and the clock is looked at before each: when time is up, the rest stays unscored
and only the least promising are lost. Loading counts as time too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from lorelog.core.errors import ConfigError, ModelUnavailable
from lorelog.core.options import RERANKERS, RerankOptions
from lorelog.core.ports import Reranker

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

MAX_DEFAULT_THREADS = 4
"""An editor and an agent share the machine: more is taken only when asked for."""

PairScore = Callable[[str, str], float]


def open_reranker(options: RerankOptions) -> Reranker | None:
    """Return the reranker that the options name, or None when they name no model. Nothing is loaded yet."""
    if not options.model:
        return None
    if options.provider == "onnx":
        return OnnxReranker(options)
    if options.provider == "local":
        from lorelog.models.crossencoder_local import LocalReranker

        return LocalReranker(options)
    raise ConfigError(f"unknown reranker {options.provider!r}", hint=f"use one of: {', '.join(RERANKERS)}")


class OnnxReranker:
    """Any cross-encoder in ONNX form, run here."""

    provider = "onnx"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._lock = Lock()
        self._score: PairScore | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._refusal: ModelUnavailable | None = None

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if not texts:
            return []
        score, pool = self._open()

        def score_in_time(text: str) -> float | None:
            return None if deadline is not None and monotonic() >= deadline else score(query, text)

        return list(pool.map(score_in_time, texts))

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._score = self._pool, None, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _open(self) -> tuple[PairScore, ThreadPoolExecutor]:
        """Load on first use. A model that could not be had is not asked for again: that may mean a network each time."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._score is None:
                try:
                    self._score = _load(self.model)
                except ModelUnavailable as refusal:
                    self._refusal = refusal
                    raise
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-rerank")
            return self._score, self._pool


def _load(model: str) -> PairScore:
    from lorelog.models.onnx_files import find_files

    files = find_files(model)
    # As in `builtin`: from 1.29 on, onnxruntime reports to its maker's servers unless this is set before its import.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.crossencoder_onnx import PairScorer
    except ImportError as error:
        raise ModelUnavailable(
            f"the reranker cannot run: {error}",
            hint="install its packages: python -m pip install numpy onnxruntime tokenizers",
        ) from error
    return PairScorer(files).score
