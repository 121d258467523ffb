"""How one vendor's embeddings API is spoken: where to, in which words, and how its answer is read.

Everything else (turns, retries, order, counts, checks) is the same for all and stands in `remote`. A dialect is a value:
a vendor's file holds one, and a new vendor is a new file with one.

No vendor's SDK is used. Importing one costs a second or more (openai 1.3 s, google-genai and voyageai as much), each has
retries of its own that know nothing of our time limit, and what is sent is one JSON object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lorelog.models.account import BEARER, KeyHeader
from lorelog.models.families import PLAIN, Forms


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    model: str
    texts: Sequence[str]
    is_query: bool = False
    dimensions: int = 0
    """What to ask for; 0 asks for nothing."""
    packed: bool = True
    """Whether base64 is to be asked for where a vendor knows it."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer holds, before it is believed."""

    embeddings: list[Any]
    places: list[Any] | None = None
    """Which text each belongs to, where the vendor says so."""
    tokens: object = 0


class Unreadable(Exception):
    """An answer is not in the shape it should have; the message goes on from "answered"."""


def no_forms(model: str) -> Forms:
    """Say that a vendor's models have no words in front that would be ours to write."""
    return PLAIN


def no_usual(model: str) -> int:
    """Say that nothing is asked for unless the settings do."""
    return 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """A vendor's way."""

    provider: str
    base_url: str
    most_texts: int
    most_tokens: int
    """What one request may hold at most."""
    path: Callable[[Ask], str]
    body: Callable[[Ask], dict[str, Any]]
    read: Callable[[dict[str, Any]], Told]
    takes_dimensions: Callable[[str], bool | None]
    usual_dimensions: Callable[[str], int] = no_usual
    """What a model is asked for unless the settings say otherwise."""
    usual_forms: Callable[[str], Forms] = no_forms
    """What stands in front of texts unless the settings say otherwise; such vectors bear no mark."""
    key: KeyHeader = BEARER


def embeddings_path(ask: Ask) -> str:
    """Return the path that OpenAI chose and others took over."""
    return "embeddings"


def read_listed(answer: dict[str, Any]) -> Told:
    """Read an answer in OpenAI's shape, which Voyage, Jina and Mistral share."""
    items = answer.get("data")
    if not isinstance(items, list):
        raise Unreadable("JSON without a list of embeddings")
    if not all(isinstance(item, dict) for item in items):
        raise Unreadable("a list that does not hold embeddings")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Told(
        [item.get("embedding") for item in items],
        [item.get("index") for item in items],
        usage.get("prompt_tokens") or usage.get("total_tokens"),
    )
