"""The bench's embedding service, in a process of its own, spoken to over a real socket."""

import base64
import http.client
import json
import math
import struct
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from bench.measure import EmbeddingService, embedding_service


@pytest.fixture(scope="module")
def service() -> Iterator[EmbeddingService]:
    with embedding_service() as running:
        yield running


def ask(service: EmbeddingService, **request: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(service.root).netloc, timeout=10)
    try:
        connection.request("POST", "/v1/embeddings", json.dumps({"model": "bench", **request}))
        reply = connection.getresponse()
        return reply.status, json.load(reply)
    finally:
        connection.close()


def vectors(service: EmbeddingService, **request: Any) -> list[list[float]]:
    status, reply = ask(service, **request)
    assert status == 200
    assert [item["index"] for item in reply["data"]] == list(range(len(reply["data"])))
    return [unpacked(item["embedding"]) for item in reply["data"]]


def unpacked(embedding: str | list[float]) -> list[float]:
    if isinstance(embedding, list):
        return embedding
    packed = base64.b64decode(embedding)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def test_both_formats_carry_equal_vectors(service: EmbeddingService) -> None:
    """A client that asks for base64 gets the vectors that one asking for floats gets."""
    texts = ["cache", "der Index", "日本語"]
    floats = vectors(service, input=texts, encoding_format="float")
    packed = vectors(service, input=texts, encoding_format="base64")
    assert all(a == pytest.approx(b, abs=1e-7) for a, b in zip(floats, packed, strict=True))


def test_vectors_have_unit_length_and_1536_dimensions(service: EmbeddingService) -> None:
    """A vector is what the default model of the real service would send: 1,536 numbers of length one."""
    (vector,) = vectors(service, input="one text, not a list")
    assert len(vector) == 1536
    assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-4)


def test_a_vector_depends_on_the_text_alone(service: EmbeddingService) -> None:
    """Another process, another batch and another order give the same text the same vector, and no two texts share one."""
    first, second = vectors(service, input=["first", "second"])
    with embedding_service() as another:
        assert vectors(another, input=["second", "padding", "first"])[::2] == [second, first]
    assert first != second


def test_it_counts_the_texts_it_embedded_since_the_reset(service: EmbeddingService) -> None:
    """The count is of texts, not requests, and counts a text again when it is asked for again."""
    service.reset()
    vectors(service, input=["a", "b", "c"])
    vectors(service, input="a")
    assert service.texts() == 4
    service.reset()
    assert service.texts() == 0


@pytest.mark.parametrize(
    "request_body",
    [{}, {"input": []}, {"input": [""]}, {"input": ""}, {"input": [1, 2]}, {"input": "a", "encoding_format": "int8"}],
)
def test_what_the_real_service_refuses_is_refused(service: EmbeddingService, request_body: dict[str, Any]) -> None:
    """A request the real service would not embed gets status 400, is not counted, and leaves the service answering."""
    service.reset()
    status, reply = ask(service, **request_body)
    assert (status, service.texts()) == (400, 0)
    assert reply["error"]["message"]
    assert vectors(service, input="still here")
