"""Rerankers: cross-encoders that read a query and a text together and score how well the text answers the query.

A cross-encoder is slow (145 ms of one Neoverse-N1 core for a pair of 178 tokens with ms-marco-MiniLM-L-12-v2 in int8), so it
scores only the top candidates, and only if a model is configured. In ONNX form, pairs are run one at a time on several
threads, for the reason given in `models.embed.builtin`: in a batch an int8 model's score depends on the neighbours. Pairs are
scored best first and the deadline is checked before each, so only the least promising stay unscored. Loading counts as time
too. With sentence-transformers, whose packages weigh gigabytes and take seconds to load, pairs are scored a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from time import monotonic
from typing import Any

from lorelog.core.errors import ConfigError, ModelFault
from lorelog.core.extras import install_hint
from lorelog.core.options import RERANK_PROVIDERS, RerankOptions
from lorelog.core.ports import Reranker
from lorelog.models import in_process

_BATCH_SIZE = 4


def open_reranker(options: RerankOptions) -> Reranker | None:
    """Return the reranker that the options select, or None if they name no model. Loads nothing."""
    if not options.model:
        return None
    if options.provider == "onnx":
        return OnnxReranker(options)
    if options.provider == "local":
        return LocalReranker(options)
    raise ConfigError(f"unknown reranker {options.provider!r}", hint=f"use one of: {', '.join(RERANK_PROVIDERS)}")


class OnnxReranker:
    """Any cross-encoder in ONNX form, run in this process."""

    provider = "onnx"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self._scorer = in_process.LoadedModel(self._load, options.threads)
        self.threads = self._scorer.threads

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if not texts:
            return []
        score = self._scorer.open()

        def score_in_time(text: str) -> float | None:
            return None if deadline is not None and monotonic() >= deadline else score(query, text)

        return list(self._scorer.map(score_in_time, texts))

    def close(self) -> None:
        self._scorer.close()

    def _load(self) -> Callable[[str, str], float]:
        files = in_process.find_files(self.model, in_process.RERANK_PURPOSE)
        with in_process.onnx_import("the reranker", install_hint("onnx")):
            from lorelog.models.embed.onnx_encoder import PairScorer

            return PairScorer(files).score


class LocalReranker:
    """A sentence-transformers cross-encoder."""

    provider = "local"

    def __init__(self, options: RerankOptions) -> None:
        self.model = options.model
        self._lock = Lock()
        self._encoder = in_process.LoadedModel[Any](
            lambda: in_process.load_with_sentence_transformers("CrossEncoder", self.model, in_process.RERANK_PURPOSE)
        )

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        if not texts:
            return []
        query, *texts = (text.encode("utf-8", "replace").decode() for text in (query, *texts))
        scores: list[float | None] = []
        with self._lock:  # torch uses all cores for one call, and a second caller would only slow both down
            encoder = self._encoder.open()
            while len(scores) < len(texts) and (deadline is None or monotonic() < deadline):
                some = texts[len(scores) : len(scores) + _BATCH_SIZE]
                scores += _predict(encoder, [(query, text) for text in some])
        return scores + [None] * (len(texts) - len(scores))

    def close(self) -> None:
        self._encoder.close()


def _predict(encoder: Any, pairs: list[tuple[str, str]]) -> list[float]:
    try:
        identity = import_module("torch.nn").Identity()
        # Logits, not probabilities: a sigmoid would flatten the differences among the best and among the worst.
        logits = encoder.predict(pairs, activation_fn=identity, show_progress_bar=False)
        scores = [float(logit) for logit in logits]
    except Exception as error:  # torch, transformers and numpy share no base class
        raise ModelFault(f"the reranker failed on {len(pairs)} texts: {in_process.first_line(error)}") from error
    if len(scores) != len(pairs):
        raise ModelFault(f"the reranker returned {len(scores)} scores for {len(pairs)} texts")
    return scores
