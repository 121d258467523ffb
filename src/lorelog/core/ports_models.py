"""The seams to models: who makes vectors, who judges, who writes. `ports` has them all, beside those to stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

Vector = bytes
"""A vector of unit length (or all zeros): little-endian float32."""


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """What a model made of some texts, in their order."""

    vectors: tuple[Vector, ...]
    truncated: int = 0
    """How many of the texts were longer than the model reads."""
    tokens: int = 0
    refused: Mapping[int, str] = field(default_factory=dict)
    """Places of texts that the model did not take though it took others, and why; their vectors are empty."""


class Embedder(Protocol):
    """Turns text into vectors. Documents and queries are separate calls because many models tell them apart.

    Constructing one is cheap and never fails for want of a package, a key or a server; the first call may raise
    ModelUnavailable. Vectors need not be normalised. Same text, same vector.
    """

    provider: str
    model: str

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts, one vector each, in order.

        Raise ModelError when the model fails; what it made of some of them until then goes along, as the error's `done`.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a question. Raise ModelError when that cannot be done."""
        ...

    def close(self) -> None:
        """Let go of sessions and sockets. May be called twice."""
        ...


@runtime_checkable
class PricedQuestions(Protocol):
    """An embedder that knows what a question costs."""

    def embed_question(self, text: str) -> EmbeddedTexts:
        """Embed a question, as `embed_query` does, and say how many tokens it was."""
        ...


class Reranker(Protocol):
    """Judges how well each of a few texts answers a question, reading both together.

    Constructing one is cheap and never fails for want of a package or a file; the first call may raise
    ModelUnavailable. Scores are logits: 0 is even odds, higher is better.
    """

    provider: str
    model: str

    def score(self, query: str, texts: Sequence[str], deadline: float | None) -> list[float | None]:
        """Score texts, in order, the first ones first; None for those that `deadline` (of `time.monotonic`) left out.

        Raise ModelError when that cannot be done.
        """
        ...

    def close(self) -> None:
        """Let go of sessions. May be called twice, and a later call opens it again."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model wrote, and what it cost as far as it said so."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    is_cut: bool = False
    """Whether the limit ended it: its last, unfinished line is not in `text`."""


class LanguageModel(Protocol):
    """Writes text when told how.

    Constructing one is cheap and never fails for want of a program, a key or a server; the call may raise. What it reads
    is data: it has no tools, and nothing that it is asked for leaves a trace with its host.
    """

    provider: str
    model: str
    extra_tokens: int
    """Tokens that a call may cost beyond both texts and the answer: what a host puts around them, and thinking."""

    def complete(self, system: str, text: str, most_tokens: int) -> Completion:
        """Write at most about `most_tokens`. Raise ModelError when nothing comes of it within the model's own time limit.

        ModelUnavailable was not answered, and as a rule not charged; ModelFault may have been.
        """
        ...
