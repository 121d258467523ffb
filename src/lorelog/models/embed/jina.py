"""Jina's embeddings API: OpenAI's format, with `task` to mark queries and documents for models that know tasks (from v3).

Vectors are requested as numbers, because the content of base64 differs between models. With `truncate` the server truncates
long texts instead of rejecting them. A request may hold 2,048 texts; the limit on tokens is ours, to keep a reply within
seconds.
"""

from __future__ import annotations

import re
from typing import Any

from lorelog.models.embed.adapter import EmbeddingAdapter, EmbedRequest, embeddings_path, read_openai_response

_WITH_TASKS = re.compile(r"jina-embeddings-v([3-9]|\d\d)")


def _body(request: EmbedRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model, "input": list(request.texts)}
    if _WITH_TASKS.match(request.model):
        body["task"] = "retrieval.query" if request.is_query else "retrieval.passage"
        body["truncate"] = True
    return body | ({"dimensions": request.dimensions} if request.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if _WITH_TASKS.match(model) or model.startswith("jina-clip-v2"):
        return True
    return False if model.startswith(("jina-embeddings-v2", "jina-embeddings-v1", "jina-clip-v1")) else None


ADAPTER = EmbeddingAdapter(
    provider="jina",
    base_url="https://api.jina.ai/v1",
    max_texts=2048,
    max_tokens=100_000,
    path=embeddings_path,
    body=_body,
    read=read_openai_response,
    takes_dimensions=_takes_dimensions,
)
