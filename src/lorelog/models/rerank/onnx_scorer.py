"""Scores a query-text pair with any cross-encoder in ONNX form.

Imported by `rerank` at its first call, after onnxruntime's telemetry is switched off.

Query and text share the window. The text is truncated first; a query longer than half the window is truncated to half, so
that some of the text is always read. Only the beginning of a long text is read. Reading it window by window and taking the
best score was no better on long turns of dialogue (MRR .852 both ways, 18 questions), worse on whole sessions of coding
agents (.667 against .861, 6 questions), and up to four times the work. It is also rare: 22 of 3,746 pairs with chunks of the
default size did not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.models.embed.onnx_encoder import LOAD_ERRORS, RUN_ERRORS, input_types, open_session
from lorelog.models.onnx_files import ModelFiles

MAX_TOKENS = 512
_MIN_WINDOW_TOKENS = 32
_MAX_TEXT_LETTERS = 20_000
"""Characters passed to the tokenizer; no window holds more."""
_HINT = "rerank.model must be a cross-encoder exported to ONNX with its tokenizer.json"


class PairScorer:
    """A loaded tokenizer and session. Thread-safe."""

    def __init__(self, files: ModelFiles) -> None:
        self._name = str(files.weights)
        self._tokenizer, self._max_query_tokens = _load_tokenizer(files)
        self._session = _load_session(files)
        self._types = input_types(self._session)
        unknown = self._types.keys() - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ModelUnavailable(f"{self._name} needs the inputs {', '.join(sorted(unknown))}", hint=_HINT)

    def score(self, query: str, text: str) -> float:
        """Return the logit of a text as an answer to a query."""
        query, text = (part.encode("utf-8", "replace").decode() for part in (query, text))
        return self._logit(self._tokenizer.encode(self._truncate_query(query), text[:_MAX_TEXT_LETTERS]))

    def _truncate_query(self, query: str) -> str:
        # Encoded as the second text: a tokenizer that truncates only the second cannot encode a query alone.
        encoding = self._tokenizer.encode("", query[:_MAX_TEXT_LETTERS])
        ends = [end for (_, end), part in zip(encoding.offsets, encoding.sequence_ids, strict=True) if part == 1]
        limit = self._max_query_tokens
        return query[: ends[limit - 1]] if len(ends) > limit else query

    def _logit(self, pair: Any) -> float:
        inputs = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
        }
        feed = {name: np.array([inputs[name]], dtype=kind) for name, kind in self._types.items()}
        try:
            values = np.asarray(self._session.run(None, feed)[0], dtype=np.float64).ravel()
        except RUN_ERRORS as error:
            raise ModelFault(f"the reranker {self._name} failed on {len(pair.ids)} tokens: {error}") from error
        if values.size == 1:
            return float(values[0])
        if values.size == 2:  # a classifier with the classes "no" and "yes"
            return float(values[1] - values[0])
        raise ModelFault(f"the reranker {self._name} returned {values.size} numbers for a pair, not one", hint=_HINT)


def _load_tokenizer(files: ModelFiles) -> tuple[Any, int]:
    """Return the tokenizer, set to truncate the text and not the query, and the maximum tokens of a query."""
    try:
        tokenizer = Tokenizer.from_buffer(files.tokenizer.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"the reranker's {files.tokenizer} cannot be read: {error}", hint=_HINT) from error
    window = min(MAX_TOKENS, (tokenizer.truncation or {}).get("max_length", MAX_TOKENS))
    window = max(window, _MIN_WINDOW_TOKENS)
    tokenizer.no_padding()
    tokenizer.enable_truncation(window, strategy="only_second")
    return tokenizer, window // 2


def _load_session(files: ModelFiles) -> Any:
    try:
        return open_session(files.weights)
    except LOAD_ERRORS as error:
        raise ModelUnavailable(f"the reranker's {files.weights} cannot be loaded: {error}", hint=_HINT) from error
