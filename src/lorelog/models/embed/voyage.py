"""Voyage's embeddings API: OpenAI's format, with `input_type` to mark queries and documents.

A request may hold 1,000 texts and, with the strictest of their models, 120,000 tokens. The server truncates long texts
(`truncation`, on by default). Base64 holds 32-bit floats, as with OpenAI.
"""

from __future__ import annotations

import re
from typing import Any

from lorelog.models.embed.adapter import EmbeddingAdapter, EmbedRequest, embeddings_path, read_openai_response

_VARIABLE_DIMENSIONS = re.compile(r"voyage-(3-large|3\.5|4|code-3)")
_FIXED_DIMENSIONS = re.compile(r"voyage-(3-lite|3$|(code|finance|law|multilingual|large)-2|2|0)")


def _body(request: EmbedRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "input": list(request.texts),
        "input_type": "query" if request.is_query else "document",
    }
    if request.packed:
        body["encoding_format"] = "base64"  # the default is numbers
    return body | ({"output_dimension": request.dimensions} if request.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if _VARIABLE_DIMENSIONS.match(model):
        return True
    return False if _FIXED_DIMENSIONS.match(model) else None


ADAPTER = EmbeddingAdapter(
    provider="voyage",
    base_url="https://api.voyageai.com/v1",
    max_texts=1000,
    max_tokens=120_000,
    path=embeddings_path,
    body=_body,
    read=read_openai_response,
    takes_dimensions=_takes_dimensions,
)
