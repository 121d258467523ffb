"""Adapter for a vendor's embeddings API: path, request body and response parsing.

Concurrency, retries, ordering and checks are the same for all vendors and are in `remote`. An adapter is a value: a new
vendor is a new module with one.

No vendor SDK is used. Importing one costs a second or more (openai 1.3 s, google-genai and voyageai as much), each has its
own retries that ignore our time limit, and a request is one JSON object.
"""

from __future__ import annotations

import array
import binascii
import sys
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct

from lorelog.core.ports import Vector
from lorelog.core.vectors import unit_vector
from lorelog.models.embed.families import NO_PREFIXES, PromptPrefixes
from lorelog.models.http import BEARER_HEADER, KeyHeader, MalformedReply


class EmbedRequest(Struct, frozen=True):
    """Texts to embed in one HTTP request."""

    model: str
    texts: Sequence[str]
    is_query: bool = False
    dimensions: int = 0
    """Dimensions to request; 0 leaves them to the vendor."""
    packed: bool = True
    """Whether to request base64 from a vendor that supports it."""


class EmbedResponse(Struct, frozen=True):
    """Unvalidated content of a response."""

    embeddings: list[Any]
    indexes: list[Any] | None = None
    """The text that each embedding belongs to, if the vendor returns it."""
    tokens: object = 0


def no_prefixes(model: str) -> PromptPrefixes:
    """Return no prefixes: the vendor's API adds its own."""
    return NO_PREFIXES


def no_default_dimensions(model: str) -> int:
    """Return 0: request no dimensions unless the settings do."""
    return 0


class EmbeddingAdapter(Struct, frozen=True, kw_only=True):
    """A vendor's API."""

    provider: str
    base_url: str
    max_texts: int
    max_tokens: int
    """Limit of one request."""
    path: Callable[[EmbedRequest], str]
    body: Callable[[EmbedRequest], dict[str, Any]]
    read: Callable[[dict[str, Any]], EmbedResponse]
    takes_dimensions: Callable[[str], bool | None]
    default_dimensions: Callable[[str], int] = no_default_dimensions
    """Dimensions to request unless the settings say otherwise."""
    default_prefixes: Callable[[str], PromptPrefixes] = no_prefixes
    """Prefixes unless the settings say otherwise; vectors made with them keep the plain model name."""
    key: KeyHeader = BEARER_HEADER


def embeddings_path(request: EmbedRequest) -> str:
    """Return OpenAI's path, which other vendors use too."""
    return "embeddings"


def read_openai_response(reply: dict[str, Any]) -> EmbedResponse:
    """Parse a response in OpenAI's format, which Voyage, Jina and Mistral share."""
    items = reply_items(reply, "data")
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return EmbedResponse(
        [item.get("embedding") for item in items],
        [item.get("index") for item in items],
        usage.get("prompt_tokens") or usage.get("total_tokens"),
    )


def reply_items(reply: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the list of objects in a field of a response. Raise MalformedReply if it is anything else."""
    items = reply.get(field)
    if not isinstance(items, list):
        raise MalformedReply("JSON without a list of embeddings")
    if not all(isinstance(item, dict) for item in items):
        raise MalformedReply("a list that does not hold embeddings")
    return items


class NonFiniteEmbedding(MalformedReply):
    """The model returned NaN or infinity for a text, so it has no embedding for that text."""


def order_embeddings(response: EmbedResponse, expected: int) -> list[Any]:
    """Return the embeddings in the order of their texts, exactly one for each."""
    embeddings, indexes = response.embeddings, response.indexes
    if len(embeddings) != expected:
        raise MalformedReply(f"{len(embeddings)} embeddings for {expected} texts")
    if indexes is None or all(index is None for index in indexes):
        return embeddings
    by_index = {index: item for index, item in zip(indexes, embeddings, strict=True) if isinstance(index, int)}
    if set(by_index) != set(range(expected)):
        raise MalformedReply("embeddings whose `index` does not name each text once")
    return [by_index[index] for index in range(expected)]


def decode_embedding(embedding: object) -> Vector:
    """Return the vector of an embedding given as a list of numbers or as base64 of their bytes."""
    try:
        if isinstance(embedding, str):
            vector = binascii.a2b_base64(embedding, strict_mode=True)
            numbers = _unpack_floats(vector)
        elif isinstance(embedding, list):
            numbers = array.array("f", embedding)
            vector = _pack_floats(numbers)
        else:
            raise MalformedReply("an embedding that is neither a list nor base64")
    except (ValueError, TypeError, OverflowError) as error:
        raise MalformedReply("an embedding that is not made of 32-bit numbers") from error
    if not numbers:
        raise MalformedReply("an empty embedding")
    # A sum of doubles made from finite 32-bit numbers is finite; a NaN or an infinity propagates into it.
    if not isfinite(sum(numbers)):
        raise NonFiniteEmbedding("an embedding with numbers that are not finite")
    return vector


def truncate_vectors(vectors: Sequence[Vector], dimensions: int) -> list[Vector]:
    """Return the first `dimensions` numbers of each vector, normalized to unit length."""
    short = min((len(vector) for vector in vectors), default=4 * dimensions)
    if short < 4 * dimensions:
        raise MalformedReply(f"vectors of {short // 4} dimensions, fewer than the {dimensions} to keep")
    return [unit_vector(vector[: 4 * dimensions]) for vector in vectors]


def _unpack_floats(vector: Vector) -> array.array[float]:
    numbers = array.array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _pack_floats(numbers: array.array[float]) -> Vector:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
