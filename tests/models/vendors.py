"""How each vendor's servers speak, for tests: where a request goes, what it holds, and what is answered.

Written from the vendors' references, not from our adapters: a mistake there must not be repeated here.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.models.embedding_server import Answer, Behaviour, EmbeddingServer, Request, numbers_of

from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models.embed import open_embedder

KEY = "key-Secret+Key/0123456789"
Rows = list[Any]


def _inputs(request: Request) -> list[str]:
    texts: list[str] = request.body["input"]
    return texts


def _listed(rows: Rows, tokens: int) -> Any:
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": "m", "usage": usage}


def packed(row: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


def _packed_listed(rows: Rows, tokens: int) -> Any:
    ready = [
        packed(row) if isinstance(row, list) and all(isinstance(value, float) for value in row) else row for row in rows
    ]
    return {**_listed(ready, tokens), "usage": {"total_tokens": tokens}}


@dataclass(frozen=True)
class Vendor:
    name: str
    refusal: Callable[[int, str], Any] = lambda status, message: {"detail": message}
    path: str = "/v1/embeddings"
    key_header: str = "authorization"
    key_value: str = f"Bearer {KEY}"
    texts: Callable[[Request], list[str]] = _inputs
    reply: Callable[[Rows, int], Any] = _listed
    tokens: bool = True
    """Whether replies say how many there were."""

    def well(self, request: Request) -> Answer:
        """Reply with three numbers for each text."""
        rows = [numbers_of(text) for text in self.texts(request)]
        return Answer(body=self.reply(rows, 7))

    def answering(self, *rows: Any) -> Behaviour:
        """Reply with these embeddings to any request."""
        return lambda request: Answer(body=self.reply(list(rows), 7))

    def saying(self, status: int, message: str = "no", **more: Any) -> Behaviour:
        """Refuse with the vendor's error format."""
        return lambda request: Answer(status=status, body=self.refusal(status, message), **more)

    def base_url(self, server: EmbeddingServer) -> str:
        return server.url.removesuffix("/v1") if self.name == "ollama" else server.url


_DETAIL = {"type": "x", "param": None, "code": None}
VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor("openai", lambda status, message: {"error": {"message": message, **_DETAIL}}),
        Vendor(
            "google",
            lambda status, message: {"error": {"code": status, "message": message, "status": "UNAVAILABLE"}},
            path="/v1/models/gemini-embedding-001:batchEmbedContents",
            key_header="x-goog-api-key",
            key_value=KEY,
            texts=lambda request: [item["content"]["parts"][0]["text"] for item in request.body["requests"]],
            reply=lambda rows, tokens: {"embeddings": [{"values": row} for row in rows]},
            tokens=False,
        ),
        Vendor("voyage", reply=_packed_listed),
        Vendor("jina"),
        Vendor("mistral", lambda status, message: {"object": "error", "message": message, **_DETAIL}),
        Vendor(
            "ollama",
            lambda status, message: {"error": message},
            path="/api/embed",
            reply=lambda rows, tokens: {"model": "m", "embeddings": rows, "prompt_eval_count": tokens},
        ),
    )
}


class Rig:
    """Starts servers and embedders for a test, and stops them after it."""

    def __init__(self) -> None:
        self._stop: list[Callable[[], None]] = []

    def serve(self, *script: Behaviour) -> EmbeddingServer:
        server = EmbeddingServer(*script)
        self._stop.append(server.stop)
        return server

    def open(self, vendor: Vendor, server: EmbeddingServer, **options: Any) -> Embedder:
        """Open a vendor's embedder at a server; with Google, request the server's three dimensions."""
        # Google asks for 768 numbers unless it is told otherwise, and the server's vectors have three.
        usual: dict[str, Any] = {"dimensions": 3} if vendor.name == "google" else {}
        given = {"api_key": KEY, "base_url": vendor.base_url(server), "timeout_s": 10.0, **usual, **options}
        embedder = open_embedder(EmbedOptions(provider=vendor.name, **given))
        self._stop.insert(0, embedder.close)
        return embedder

    def stop(self) -> None:
        for stop in self._stop:
            stop()


def unpacked(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def cosine(one: bytes, other: bytes) -> float:
    """Return the product of two vectors of unit length."""
    return sum(a * b for a, b in zip(unpacked(one), unpacked(other), strict=True))


each_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
