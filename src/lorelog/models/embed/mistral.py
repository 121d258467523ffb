"""Mistral's embeddings API: OpenAI's format. Its models do not distinguish queries from documents.

A request may hold 512 texts and 16,384 tokens, far fewer than with other vendors.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.embed.adapter import EmbeddingAdapter, EmbedRequest, embeddings_path, read_openai_response


def _body(request: EmbedRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model, "input": list(request.texts), "encoding_format": "float"}
    return body | ({"output_dimension": request.dimensions} if request.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if model.startswith("codestral-embed"):
        return True
    return False if model.startswith("mistral-embed") else None


ADAPTER = EmbeddingAdapter(
    provider="mistral",
    base_url="https://api.mistral.ai/v1",
    max_texts=512,
    max_tokens=16_000,
    path=embeddings_path,
    body=_body,
    read=read_openai_response,
    takes_dimensions=_takes_dimensions,
)
