"""Mistral's embeddings API: OpenAI's shape. Its models make no difference between questions and texts.

A request may hold 512 texts and 16,384 tokens, which is far less than elsewhere: `batches` keeps within it.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.dialect import Ask, Dialect, embeddings_path, read_listed


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {"model": ask.model, "input": list(ask.texts), "encoding_format": "float"}
    return body | ({"output_dimension": ask.dimensions} if ask.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if model.startswith("codestral-embed"):
        return True
    return False if model.startswith("mistral-embed") else None


DIALECT = Dialect(
    provider="mistral",
    base_url="https://api.mistral.ai/v1",
    most_texts=512,
    most_tokens=16_000,
    path=embeddings_path,
    body=_body,
    read=read_listed,
    takes_dimensions=_takes_dimensions,
)
