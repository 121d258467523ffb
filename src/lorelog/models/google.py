"""Google's Gemini API: a request for each text in one batch, with a task type to tell questions from texts.

The usual model gives 3,072 numbers; 768 are asked for unless the settings say otherwise. Only the full length comes at unit
length, which is no matter: vectors are brought to it before they are kept. A batch may hold 100 texts. The key goes into a
header and never into the address, where logs would keep it.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.account import KeyHeader
from lorelog.models.dialect import Ask, Dialect, Told, Unreadable

USUAL_DIMENSIONS = 768


def _path(ask: Ask) -> str:
    return f"{_resource(ask.model)}:batchEmbedContents"


def _resource(model: str) -> str:
    from urllib.parse import quote

    return f"models/{quote(model.removeprefix('models/'), safe='')}"


def _body(ask: Ask) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": _resource(ask.model)}
    if not _is_first(ask.model):
        asked["taskType"] = "RETRIEVAL_QUERY" if ask.is_query else "RETRIEVAL_DOCUMENT"
    if ask.dimensions:
        asked["outputDimensionality"] = ask.dimensions
    return {"requests": [{**asked, "content": {"parts": [{"text": text}]}} for text in ask.texts]}


def _is_first(model: str) -> bool:
    """Say whether it is their first model, which knows neither tasks nor lengths."""
    return model.removeprefix("models/") == "embedding-001"


def _read(answer: dict[str, Any]) -> Told:
    items = answer.get("embeddings")
    if not isinstance(items, list):
        raise Unreadable("JSON without a list of embeddings")
    if not all(isinstance(item, dict) for item in items):
        raise Unreadable("a list that does not hold embeddings")
    usage = answer.get("usageMetadata")
    return Told(
        [item.get("values") for item in items],
        tokens=usage.get("promptTokenCount") if isinstance(usage, dict) else 0,
    )


def _takes_dimensions(model: str) -> bool | None:
    return not _is_first(model)


def _usual_dimensions(model: str) -> int:
    return USUAL_DIMENSIONS if model.removeprefix("models/") == "gemini-embedding-001" else 0


DIALECT = Dialect(
    provider="google",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    most_texts=100,
    most_tokens=100_000,
    path=_path,
    body=_body,
    read=_read,
    takes_dimensions=_takes_dimensions,
    usual_dimensions=_usual_dimensions,
    key=KeyHeader("x-goog-api-key", ""),
)
