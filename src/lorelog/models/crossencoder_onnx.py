"""One question and one text to one logit, with any cross-encoder in ONNX form.

Imported by nobody but `crossencoder` at its first call, after it has switched onnxruntime's telemetry off. The session
is that of `e5`, for its reasons.

Question and text share the window. The text gives way first; a question longer than half the window is cut to that
half, so that some of the text is always read. Of a text that is too long the beginning is read. Reading it window by
window and taking the best was no better on long turns of dialogue (MRR .852 both ways, 18 questions), worse on whole
sessions of coding agents (.667 against .861, 6 questions), and up to four times the work. It is also rare: 22 of 3,746
pairs with chunks of the usual size did not fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tokenizers import Tokenizer

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.models.e5 import LOAD_ERRORS, RUN_ERRORS, open_session
from lorelog.models.onnx_files import ModelFiles

MAX_TOKENS = 512
_LEAST_WINDOW = 32
_LONGEST_READ = 20_000
"""Characters that are cut into tokens at all; no window holds as many."""
_HINT = "rerank.model must be a cross-encoder exported to ONNX with its tokenizer.json"


class PairScorer:
    """A loaded tokenizer and session. Safe to call from several threads at once."""

    def __init__(self, files: ModelFiles) -> None:
        self._name = str(files.weights)
        self._tokenizer, self._most_question = _load_tokenizer(files)
        self._session = _load_session(files)
        self._types = {one.name: np.int32 if "int32" in one.type else np.int64 for one in self._session.get_inputs()}
        unknown = self._types.keys() - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ModelUnavailable(f"{self._name} asks for {', '.join(sorted(unknown))}", hint=_HINT)

    def score(self, question: str, text: str) -> float:
        """Return the logit of a text as an answer to a question."""
        question, text = (part.encode("utf-8", "replace").decode() for part in (question, text))
        return self._logit(self._tokenizer.encode(self._cut(question), text[:_LONGEST_READ]))

    def _cut(self, question: str) -> str:
        # Given as the text: a tokenizer that cuts the text alone refuses to encode a question by itself.
        encoding = self._tokenizer.encode("", question[:_LONGEST_READ])
        ends = [end for (_, end), part in zip(encoding.offsets, encoding.sequence_ids, strict=True) if part == 1]
        return question[: ends[self._most_question - 1]] if len(ends) > self._most_question else question

    def _logit(self, pair: Any) -> float:
        given = {
            "input_ids": pair.ids,
            "attention_mask": pair.attention_mask,
            "token_type_ids": pair.type_ids,
        }
        feed = {name: np.array([given[name]], dtype=kind) for name, kind in self._types.items()}
        try:
            values = np.asarray(self._session.run(None, feed)[0], dtype=np.float64).ravel()
        except RUN_ERRORS as error:
            raise ModelFault(f"the reranker {self._name} failed on {len(pair.ids)} tokens: {error}") from error
        if values.size == 1:
            return float(values[0])
        if values.size == 2:  # trained to tell "no" from "yes"
            return float(values[1] - values[0])
        raise ModelFault(f"the reranker {self._name} gave {values.size} numbers for a pair, not one", hint=_HINT)


def _load_tokenizer(files: ModelFiles) -> tuple[Any, int]:
    """Return the tokenizer, set to cut the text and not the question, and how many tokens a question may have."""
    try:
        tokenizer = Tokenizer.from_buffer(files.tokenizer.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"the reranker's {files.tokenizer} cannot be read: {error}", hint=_HINT) from error
    window = min(MAX_TOKENS, (tokenizer.truncation or {}).get("max_length", MAX_TOKENS))
    window = max(window, _LEAST_WINDOW)
    tokenizer.no_padding()
    tokenizer.enable_truncation(window, strategy="only_second")
    return tokenizer, window // 2


def _load_session(files: ModelFiles) -> Any:
    try:
        return open_session(files.weights)
    except LOAD_ERRORS as error:
        raise ModelUnavailable(f"the reranker's {files.weights} cannot be loaded: {error}", hint=_HINT) from error
