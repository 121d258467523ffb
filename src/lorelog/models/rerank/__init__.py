"""Rerankers: cross-encoders that read a query and a text together and score how well the text answers the query.

A cross-encoder is slow (145 ms of one Neoverse-N1 core for a pair of 178 tokens with ms-marco-MiniLM-L-12-v2 in int8), so it
scores only the top candidates, and only if a model is configured. Pairs are run one at a time on several threads, for the
reason given in `models.embed.builtin`: in a batch an int8 model's score depends on the neighbours. Pairs are scored best
first and the deadline is checked before each, so only the least promising stay unscored. Loading counts as time too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from lorelog.core.errors import ConfigError, ModelUnavailable
from lorelog.core.extras import install_hint
from lorelog.core.options import RERANK_PROVIDERS, RerankOptions
from lorelog.core.ports import Reranker

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

MAX_DEFAULT_THREADS = 4
"""Default limit, because an editor and an agent share the machine; the `threads` setting may exceed it."""

PairScore = Callable[[str, str], float]


def open_reranker(options: RerankOptions) -> Reranker | None:
    """Return the reranker that the options select, or None if they name no model. Loads nothing."""
    if not options.model:
        return None
    if options.provider == "onnx":
        return OnnxReranker(options)
    if options.provider == "local":
        from lorelog.models.rerank.local import LocalReranker

        return LocalReranker(options)
    raise ConfigError(f"unknown reranker {options.provider!r}", hint=f"use one of: {', '.join(RERANK_PROVIDERS)}")


class OnnxReranker:
    """Any cross-encoder in ONNX form, run in this process."""

    provider = "onnx"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self.threads = options.threads if options.threads > 0 else min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)
        self._lock = Lock()
        self._score: PairScore | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._load_error: ModelUnavailable | None = None

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
        """Load on first use. A failure is remembered: another attempt may use the network."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._load_error is not None:
                raise self._load_error
            if self._score is None:
                try:
                    self._score = _load_scorer(self.model)
                except ModelUnavailable as error:
                    self._load_error = error
                    raise
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="lorelog-rerank")
            return self._score, self._pool


def _load_scorer(model: str) -> PairScore:
    from lorelog.models.onnx_files import find_files

    files = find_files(model)
    # Switches off telemetry, as in `models.embed.builtin`.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        from lorelog.models.rerank.onnx_scorer import PairScorer
    except ImportError as error:
        raise ModelUnavailable(
            f"the reranker cannot run: {error}",
            hint=install_hint("onnx"),
        ) from error
    return PairScorer(files).score
