"""Any server that speaks OpenAI's embeddings API: OpenAI itself, or one on this machine or in this company.

Vectors are asked for as base64, which is a third of the size of JSON numbers and needs no parsing: the bytes are the
vectors as we keep them. A server that knows only numbers may answer those. Replies are put in order by their `index`,
since the API promises no other; anything but one vector for each text is refused.
"""

from __future__ import annotations

import array
import binascii
import json
import sys
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Any

from recollect.core.errors import ModelFault
from recollect.core.options import EmbedOptions
from recollect.core.ports import EmbeddedTexts, Vector
from recollect.models.account import Account
from recollect.models.endpoint import Endpoint, Reply

DEFAULT_MODEL = "text-embedding-3-small"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
BATCH_SIZE = 256
KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIEmbedder:
    """Embeds by asking a server. Documents and queries go the same way; this API does not tell them apart."""

    provider = "openai"

    def __init__(self, options: EmbedOptions) -> None:
        self.model = options.model or DEFAULT_MODEL
        self._endpoint = Endpoint(options.base_url or DEFAULT_BASE_URL, options.timeout_s)
        self._account = Account(self._endpoint, options.api_key, options.key_variable or KEY_VARIABLE)
        self._batch_size = options.batch_size if options.batch_size > 0 else BATCH_SIZE
        self._encoding_format = "base64"

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        vectors: list[Vector] = []
        tokens = 0
        for start in range(0, len(texts), self._batch_size):
            batch, spent = self._embed(texts[start : start + self._batch_size])
            vectors += batch
            tokens += spent
        if len({len(vector) for vector in vectors}) > 1:
            raise self._fault("answered vectors of different dimensions")
        return EmbeddedTexts(tuple(vectors), tokens=tokens)

    def embed_query(self, text: str) -> Vector:
        """Return the vector at unit length, which for one vector costs nothing worth numpy."""
        (vector,), _ = self._embed([text])
        numbers = _numbers(vector)
        length = sqrt(sum(number * number for number in numbers))
        return _packed(array.array("f", (number / length for number in numbers))) if length else vector

    def close(self) -> None:
        self._endpoint.close()

    def _embed(self, texts: Sequence[str]) -> tuple[list[Vector], int]:
        reply = self._ask(texts)
        if reply.status in {400, 422} and b"encoding_format" in reply.body and self._encoding_format == "base64":
            self._encoding_format = "float"  # an older server; remembered, so that it is asked this once
            reply = self._ask(texts)
        if reply.status != 200:
            raise self._account.refusal(reply, f"embed with {self.model}")
        try:
            answer = json.loads(reply.body)
        except ValueError as error:
            raise self._fault("answered something that is not JSON") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
            raise self._fault("answered JSON without a list of embeddings")
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        vectors = [self._vector(item.get("embedding")) for item in self._in_order(answer["data"], len(texts))]
        return vectors, tokens if isinstance(tokens, int) else 0

    def _ask(self, texts: Sequence[str]) -> Reply:
        # An empty text is an error to this API and a blank is not; a lone surrogate is no JSON to most servers.
        wanted = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        request = {"model": self.model, "input": wanted, "encoding_format": self._encoding_format}
        return self._endpoint.post("embeddings", json.dumps(request).encode(), self._account.headers())

    def _in_order(self, items: list[Any], expected: int) -> list[dict[str, Any]]:
        if len(items) != expected:
            raise self._fault(f"answered {len(items)} embeddings for {expected} texts")
        if not all(isinstance(item, dict) for item in items):
            raise self._fault("answered a list that does not hold embeddings")
        indices = [item.get("index") for item in items]
        if all(index is None for index in indices):
            return items
        places = {index: item for index, item in zip(indices, items, strict=True) if isinstance(index, int)}
        if set(places) != set(range(expected)):
            raise self._fault("answered embeddings whose `index` does not name each text once")
        return [places[place] for place in range(expected)]

    def _vector(self, embedding: object) -> Vector:
        try:
            if isinstance(embedding, str):
                vector = binascii.a2b_base64(embedding, strict_mode=True)
                numbers = _numbers(vector)
            elif isinstance(embedding, list):
                numbers = array.array("f", embedding)
                vector = _packed(numbers)
            else:
                raise self._fault("answered an embedding that is neither a list nor base64")
        except (ValueError, TypeError, OverflowError) as error:
            raise self._fault("answered an embedding that is not made of 32-bit numbers") from error
        if not numbers:
            raise self._fault("answered an empty embedding")
        # A sum of doubles made from finite 32-bit numbers is finite; one that is not infects it.
        if not isfinite(sum(numbers)):
            raise self._fault("answered an embedding with numbers that are not finite")
        return vector

    def _fault(self, what: str) -> ModelFault:
        return ModelFault(f"{self._endpoint.host} ({self.model}) {what}")


def _numbers(vector: Vector) -> array.array[float]:
    numbers = array.array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _packed(numbers: array.array[float]) -> Vector:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
