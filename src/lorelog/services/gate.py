"""The one way to a language model: nothing is asked that was not allowed before, and nothing that is not written down.

A call is reserved with what it may cost at most, so that the day's limit holds before anything is sent; afterwards its
receipt says who was asked, for what, what came of it and what it cost. What may have been charged for counts in full where
nobody says how much it was. Time limits and retries are the model's own (`models/`): only it knows what was sent twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from lorelog.core.errors import LorelogError, ModelFault, ModelUnavailable, StoreError
from lorelog.core.ports import Completion, LanguageModel
from lorelog.retrieval.cost import estimate_tokens
from lorelog.services.receipts import DONE, Errand, Outcome, Receipts, Ticket

_SAFETY = 1.25
"""An estimate may be too low by this much; a model's real count settles it."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On whose behalf a model is asked, and within which limits."""

    daily_tokens: int
    timeout_s: float
    window_tokens: int = 0
    """What question and answer may hold together; 0 bounds nothing."""
    project: str = ""
    host: str = ""


class Gate:
    """A language model, with its limits. Threads may share it as far as they may share the model."""

    def __init__(self, model: LanguageModel, receipts: Receipts, terms: Terms) -> None:
        self._asked = model
        self._receipts = receipts
        self._terms = terms

    @property
    def provider(self) -> str:
        """Who is asked."""
        return self._asked.provider

    @property
    def model(self) -> str:
        """Which model is asked."""
        return self._asked.model

    @property
    def window_tokens(self) -> int:
        """What question and answer may hold together, as `most_cost` counts; 0 bounds nothing."""
        return self._terms.window_tokens

    def most_cost(self, system: str, text: str, most_tokens: int) -> int:
        """Return what a call may cost at most. It fits when that is no more than `window_tokens`."""
        asked = ceil(_SAFETY * (estimate_tokens(system) + estimate_tokens(text)))
        return asked + most_tokens + self._asked.extra_tokens

    def ask(
        self, purpose: str, system: str, text: str, most_tokens: int, *, suits: Callable[[str], bool] | None = None
    ) -> Completion:
        """Return what a model writes, within about `most_tokens`.

        `suits` says whether an answer is one; by default any that is not blank. Raise Capped when the day's tokens do not
        suffice and StoreError when it cannot be written down (nothing was asked then), ModelError when nothing came of it.
        """
        cost = self.most_cost(system, text, most_tokens)
        if 0 < self.window_tokens < cost:
            raise ModelFault(
                f"the text is about {cost:,} tokens with its answer, and {self.model} takes {self.window_tokens:,}",
                hint="give it less at once, or set llm.window_tokens to what the model can read",
            )
        errand = Errand(purpose, self.provider, self.model, self._terms.host, self._terms.project)
        ticket = self._receipts.reserve(cost, errand, self._terms.daily_tokens)
        started = time.monotonic()
        word, tokens_in, tokens_out = "failed", ticket.reserved, 0
        try:
            said = self._asked.complete(system, text, most_tokens)
            tokens_in, tokens_out = _counted(said, ticket.reserved, most_tokens)
            word = DONE if (suits or _says_something)(said.text) else "unusable"
        except ModelUnavailable:
            late = time.monotonic() - started >= 0.9 * self._terms.timeout_s
            word, tokens_in = ("timeout", ticket.reserved) if late else ("unavailable", 0)
            raise
        except ModelFault:
            word = "fault"
            raise
        except LorelogError:
            tokens_in = 0
            raise
        finally:
            self._settle(ticket, Outcome(word, tokens_in, tokens_out, time.monotonic() - started))
        if word != DONE:
            raise ModelFault(f"{self.model} answered nothing that could be used")
        return said

    def _settle(self, ticket: Ticket, outcome: Outcome) -> None:
        with suppress(StoreError):  # what was reserved goes on counting
            self._receipts.settle(ticket, outcome)


def _counted(said: Completion, reserved: int, most_tokens: int) -> tuple[int, int]:
    """Return what an answer cost. What a model does not say counts with what it might have been: all, or one side of it."""
    if said.tokens_in:
        return said.tokens_in, said.tokens_out or (most_tokens if said.text else 0)
    return (reserved - most_tokens, said.tokens_out) if said.tokens_out else (reserved, 0)


def _says_something(text: str) -> bool:
    return bool(text.strip())
