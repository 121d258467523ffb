"""Google's Gemini API: a batch of requests, one per text, with a task type that marks queries and documents.

The default model returns 3,072 dimensions; 768 are requested unless the settings say otherwise. Only the full length comes
normalized, but vectors are normalized before they are stored anyway. A batch may hold 100 texts. The key goes into a header
and never into the URL, which logs would keep.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.embed.adapter import EmbeddingAdapter, EmbedRequest, EmbedResponse, reply_items
from lorelog.models.http import KeyHeader

DEFAULT_DIMENSIONS = 768


def _path(request: EmbedRequest) -> str:
    return f"{_model_resource(request.model)}:batchEmbedContents"


def _model_resource(model: str) -> str:
    from urllib.parse import quote

    return f"models/{quote(model.removeprefix('models/'), safe='')}"


def _body(request: EmbedRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"model": _model_resource(request.model)}
    if not _is_first_model(request.model):
        options["taskType"] = "RETRIEVAL_QUERY" if request.is_query else "RETRIEVAL_DOCUMENT"
    if request.dimensions:
        options["outputDimensionality"] = request.dimensions
    return {"requests": [{**options, "content": {"parts": [{"text": text}]}} for text in request.texts]}


def _is_first_model(model: str) -> bool:
    """Return True for Google's first model, which knows neither task types nor dimensions."""
    return model.removeprefix("models/") == "embedding-001"


def _read(reply: dict[str, Any]) -> EmbedResponse:
    items = reply_items(reply, "embeddings")
    usage = reply.get("usageMetadata")
    return EmbedResponse(
        [item.get("values") for item in items],
        tokens=usage.get("promptTokenCount") if isinstance(usage, dict) else 0,
    )


def _takes_dimensions(model: str) -> bool | None:
    return not _is_first_model(model)


def _default_dimensions(model: str) -> int:
    return DEFAULT_DIMENSIONS if model.removeprefix("models/") == "gemini-embedding-001" else 0


ADAPTER = EmbeddingAdapter(
    provider="google",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    max_texts=100,
    max_tokens=100_000,
    path=_path,
    body=_body,
    read=_read,
    takes_dimensions=_takes_dimensions,
    default_dimensions=_default_dimensions,
    key=KeyHeader("x-goog-api-key", ""),
)
