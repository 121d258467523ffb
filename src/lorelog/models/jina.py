"""Jina's embeddings API: OpenAI's shape, with `task` to tell questions from texts where a model knows tasks (from v3 on).

Vectors come as numbers: what their base64 holds differs among models. `truncate` has texts that are too long cut there
instead of refused. A request may hold 2,048 texts; the bound on tokens is ours, so that one answer stays within seconds.
"""

from __future__ import annotations

import re
from typing import Any

from lorelog.models.dialect import Ask, Dialect, embeddings_path, read_listed

_WITH_TASKS = re.compile(r"jina-embeddings-v([3-9]|\d\d)")


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {"model": ask.model, "input": list(ask.texts)}
    if _WITH_TASKS.match(ask.model):
        body["task"] = "retrieval.query" if ask.is_query else "retrieval.passage"
        body["truncate"] = True
    return body | ({"dimensions": ask.dimensions} if ask.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if _WITH_TASKS.match(model) or model.startswith("jina-clip-v2"):
        return True
    return False if model.startswith(("jina-embeddings-v2", "jina-embeddings-v1", "jina-clip-v1")) else None


DIALECT = Dialect(
    provider="jina",
    base_url="https://api.jina.ai/v1",
    most_texts=2048,
    most_tokens=100_000,
    path=embeddings_path,
    body=_body,
    read=read_listed,
    takes_dimensions=_takes_dimensions,
)
