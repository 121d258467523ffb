"""The embeddings APIs of vendors.

OpenAI's format, of OpenAI, Voyage, Jina, Mistral and any compatible server. Base64 is a third of the size of JSON numbers,
and the decoded bytes are the stored form; a server may return numbers instead. Embeddings are sorted by `index`, since the
API guarantees no order. OpenAI and Mistral do not distinguish queries from documents: a model that does (nomic, e5, bge behind
a compatible server) gets the prefixes of its family, and its vectors are stored under a marked name, since other programs may
not add prefixes. Voyage marks queries by `input_type`; Jina by `task`, for models from v3 on, and is asked for numbers,
because the content of base64 differs between its models. Long texts are truncated by Voyage (by default) and Jina (`truncate`).

Google takes a batch of requests, one per text, with a task type. Its default model returns 3,072 dimensions; 768 are requested
unless the settings say otherwise. Only the full length comes normalized, but vectors are normalized before they are stored
anyway. The key goes into a header and never into the URL, which logs would keep.

Limits are the vendors' (Voyage: those of its strictest model; Mistral allows far fewer tokens than others), except for Jina's
and Google's tokens: those keep a reply within seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from lorelog.models.embed.remote import EmbeddingAdapter, EmbedRequest, EmbedResponse
from lorelog.models.http import KeyHeader, MalformedReply, nested_object, sum_counts

OPENAI_BASE_URL = "https://api.openai.com/v1"
_JINA_WITH_TASKS = tuple(f"jina-embeddings-v{number}" for number in range(3, 100))


def _openai_body(
    dimensions_field: str, more: Callable[[EmbedRequest], dict[str, Any]]
) -> Callable[[EmbedRequest], dict[str, Any]]:
    """Return the function that makes a request in OpenAI's format, with more fields."""

    def make_body(request: EmbedRequest) -> dict[str, Any]:
        dimensions = {dimensions_field: request.dimensions} if request.dimensions else {}
        return {"model": request.model, "input": list(request.texts), **more(request), **dimensions}

    return make_body


def _voyage_fields(request: EmbedRequest) -> dict[str, Any]:
    kind = {"input_type": "query" if request.is_query else "document"}
    return {**kind, "encoding_format": "base64"} if request.packed else kind  # the default is numbers


def _jina_fields(request: EmbedRequest) -> dict[str, Any]:
    if not request.model.startswith(_JINA_WITH_TASKS):
        return {}
    return {"task": "retrieval.query" if request.is_query else "retrieval.passage", "truncate": True}


def _read_openai(reply: dict[str, Any]) -> EmbedResponse:
    items, usage = _reply_items(reply, "data"), nested_object(reply, "usage")
    return EmbedResponse(
        [item.get("embedding") for item in items],
        [item.get("index") for item in items],
        sum_counts(usage, "prompt_tokens") or sum_counts(usage, "total_tokens"),
    )


def _reply_items(reply: dict[str, Any], field: str) -> list[dict[str, Any]]:
    items = reply.get(field)
    if not isinstance(items, list):
        raise MalformedReply("JSON without a list of embeddings")
    if not all(isinstance(item, dict) for item in items):
        raise MalformedReply("a list that does not hold embeddings")
    return items


def _by_name(accepting: tuple[str, ...], fixed: tuple[str, ...]) -> Callable[[str], bool | None]:
    """Return whether dimensions can be requested, by how a model's name begins (`$` ends it); None for other names."""

    def takes_dimensions(model: str) -> bool | None:
        name = f"{model}$"
        return True if name.startswith(accepting) else False if name.startswith(fixed) else None

    return takes_dimensions


def _google_model(model: str) -> str:
    return f"models/{quote(model.removeprefix('models/'), safe='')}"


def _is_modern_google(model: str) -> bool:
    """Return False for Google's first model, which knows neither task types nor dimensions."""
    return model.removeprefix("models/") != "embedding-001"


def _google_body(request: EmbedRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"model": _google_model(request.model)}
    if _is_modern_google(request.model):
        options["taskType"] = "RETRIEVAL_QUERY" if request.is_query else "RETRIEVAL_DOCUMENT"
    if request.dimensions:
        options["outputDimensionality"] = request.dimensions
    return {"requests": [{**options, "content": {"parts": [{"text": text}]}} for text in request.texts]}


def _read_google(reply: dict[str, Any]) -> EmbedResponse:
    values = [item.get("values") for item in _reply_items(reply, "embeddings")]
    return EmbedResponse(values, tokens=sum_counts(nested_object(reply, "usageMetadata"), "promptTokenCount"))


ADAPTERS: Mapping[str, EmbeddingAdapter] = {
    "openai": EmbeddingAdapter(
        base_url=OPENAI_BASE_URL,
        max_texts=2048,
        max_tokens=300_000,
        body=_openai_body("dimensions", lambda request: {"encoding_format": "base64" if request.packed else "float"}),
        read=_read_openai,
        takes_dimensions=_by_name(("text-embedding-3",), ("text-embedding-ada",)),
    ),
    "google": EmbeddingAdapter(
        base_url="https://generativelanguage.googleapis.com/v1beta",
        max_texts=100,
        max_tokens=100_000,
        path=lambda model: f"{_google_model(model)}:batchEmbedContents",
        body=_google_body,
        read=_read_google,
        takes_dimensions=_is_modern_google,
        default_dimensions={"gemini-embedding-001": 768},
        key=KeyHeader("x-goog-api-key", ""),
    ),
    "voyage": EmbeddingAdapter(
        base_url="https://api.voyageai.com/v1",
        max_texts=1000,
        max_tokens=120_000,
        body=_openai_body("output_dimension", _voyage_fields),
        read=_read_openai,
        takes_dimensions=_by_name(
            ("voyage-3-large", "voyage-3.5", "voyage-4", "voyage-code-3"),
            (
                *("voyage-3-lite", "voyage-3$", "voyage-code-2", "voyage-finance-2", "voyage-law-2"),
                *("voyage-multilingual-2", "voyage-large-2", "voyage-2", "voyage-0"),
            ),
        ),
    ),
    "jina": EmbeddingAdapter(
        base_url="https://api.jina.ai/v1",
        max_texts=2048,
        max_tokens=100_000,
        body=_openai_body("dimensions", _jina_fields),
        read=_read_openai,
        takes_dimensions=_by_name(
            (*_JINA_WITH_TASKS, "jina-clip-v2"), ("jina-embeddings-v2", "jina-embeddings-v1", "jina-clip-v1")
        ),
    ),
    "mistral": EmbeddingAdapter(
        base_url="https://api.mistral.ai/v1",
        max_texts=512,
        max_tokens=16_000,
        body=_openai_body("output_dimension", lambda request: {"encoding_format": "float"}),
        read=_read_openai,
        takes_dimensions=_by_name(("codestral-embed",), ("mistral-embed",)),
    ),
}
