"""Language models and embedders whose every call is recorded in the receipts.

A language model call first reserves its maximum cost, so that the daily limit holds before anything is sent; afterwards
a receipt records provider, purpose, outcome and cost. If a call may have been charged and the model does not report its
cost, the maximum is recorded. Timeouts and retries are in `models/`: only the model knows how often a request was sent.

An embedder records each batch and each query, so that an interrupted or failed run has recorded its cost. It has no
daily limit, because an index is paid for once. If a receipt cannot be written, the vectors are returned all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.errors import LorelogError, ModelError, ModelFault, ModelUnavailable, StoreError
from lorelog.core.ports import Completion, EmbeddedTexts, Embedder, LanguageModel, TokenReportingEmbedder, Vector
from lorelog.retrieval.token_estimate import estimate_tokens

if TYPE_CHECKING:
    from lorelog.services.llm.receipts import Receipts

ESTIMATE_MARGIN = 1.25
"""Estimates of prompt tokens are multiplied by this, since they may be too low. Receipts have the model's own count."""


class LlmBudget(Struct, frozen=True):
    """Limits of model calls, and on whose behalf they are made."""

    daily_tokens: int
    timeout_s: float
    window_tokens: int = 0
    """Context window: prompt and answer together; 0 sets no bound."""
    project: str = ""
    host: str = ""


class MeteredLlm:
    """A language model with its limits. Threads may share it as far as they may share the model."""

    def __init__(self, model: LanguageModel, receipts: Receipts, budget: LlmBudget) -> None:
        self._model, self._receipts, self._budget = model, receipts, budget
        self.provider, self.model = model.provider, model.model
        self.window_tokens = budget.window_tokens

    def max_cost(self, system: str, text: str, max_tokens: int) -> int:
        prompt_tokens = ceil(ESTIMATE_MARGIN * (estimate_tokens(system) + estimate_tokens(text)))
        return prompt_tokens + max_tokens + self._model.extra_tokens

    def fits(self, system: str, text: str, max_tokens: int) -> bool:
        """Return whether a call is within the context window."""
        return not 0 < self.window_tokens < self.max_cost(system, text, max_tokens)

    def ask(
        self, purpose: str, system: str, text: str, max_tokens: int, *, is_usable: Callable[[str], bool] | None = None
    ) -> Completion:
        """Return a model's answer of about `max_tokens` at most.

        `is_usable` checks the answer; by default it must not be blank. Raise DailyLimitReached if too few of the day's tokens are left
        and StoreError if the call cannot be recorded (no request was sent in either case), ModelError if there is no usable answer.
        """
        from lorelog.services.llm.receipts import OUTCOME_DONE, CallOutcome, ModelCall

        cost = self.max_cost(system, text, max_tokens)
        if not self.fits(system, text, max_tokens):
            raise ModelFault(
                f"the request needs about {cost:,} tokens, and the context window of {self.model} is {self.window_tokens:,}",
                hint="send less text at once, or set llm.window_tokens to the model's context window",
            )
        call = ModelCall(purpose, self.provider, self.model, self._budget.host, self._budget.project)
        reservation = self._receipts.reserve(cost, call, self._budget.daily_tokens)
        started = time.monotonic()
        status, tokens_in, tokens_out = "failed", reservation.reserved, 0
        try:
            completion = self._model.complete(system, text, max_tokens)
            # A count that the model does not report is replaced by its maximum.
            tokens_in, tokens_out = completion.tokens_in, completion.tokens_out
            if not tokens_in:
                tokens_in = cost - max_tokens if tokens_out else cost
            elif not tokens_out and completion.text:
                tokens_out = max_tokens
            usable = is_usable(completion.text) if is_usable else bool(completion.text.strip())
            status = OUTCOME_DONE if usable else "unusable"
        except ModelUnavailable:
            timed_out = time.monotonic() - started >= 0.9 * self._budget.timeout_s
            status, tokens_in = ("timeout", reservation.reserved) if timed_out else ("unavailable", 0)
            raise
        except ModelFault:
            status = "fault"
            raise
        except LorelogError:
            tokens_in = 0
            raise
        finally:
            with suppress(StoreError):  # the reservation keeps counting
                outcome = CallOutcome(status, tokens_in, tokens_out, time.monotonic() - started)
                self._receipts.settle(reservation, outcome)
        if status != OUTCOME_DONE:
            raise ModelFault(f"{self.model} returned no usable answer")
        return completion


class MeteredEmbedder:
    """An embedder that records its token usage."""

    def __init__(self, inner: Embedder, open_receipts: Callable[[], Receipts], project: str) -> None:
        self._inner = inner
        self._open_receipts = open_receipts
        self._project = project
        self.provider = inner.provider
        self.model = inner.model

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        started = time.monotonic()
        try:
            reply = self._inner.embed_documents(texts)
        except ModelError as error:
            self._record(error.tokens, started)
            raise
        self._record(reply.tokens, started)
        return reply

    def embed_query(self, text: str) -> Vector:
        if not isinstance(self._inner, TokenReportingEmbedder):
            return self._inner.embed_query(text)
        started = time.monotonic()
        reply = self._inner.embed_query_with_usage(text)
        self._record(reply.tokens, started)
        return reply.vectors[0]

    def close(self) -> None:
        self._inner.close()

    def _record(self, tokens: int, started: float) -> None:
        if not tokens:
            return
        from lorelog.services.llm.receipts import OUTCOME_DONE, PURPOSE_EMBEDDING, CallOutcome, ModelCall

        call = ModelCall(PURPOSE_EMBEDDING, self.provider, self.model, project=self._project)
        with suppress(StoreError):
            self._open_receipts().record(call, CallOutcome(OUTCOME_DONE, tokens, 0, time.monotonic() - started))
