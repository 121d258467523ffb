"""OpenAI's embeddings API, or any compatible server.

Vectors are requested as base64, a third of the size of JSON numbers: the decoded bytes are the stored form. A server may
return numbers instead. Embeddings are sorted by `index`, since the API guarantees no order.

The API does not distinguish queries from documents. A model that does (nomic, e5, bge behind a compatible server) gets the
prefixes of its family, and its vectors are stored under a marked name, since other programs may not add prefixes.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.embed.adapter import EmbeddingAdapter, EmbedRequest, embeddings_path, read_openai_response

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


def _body(request: EmbedRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": request.model,
        "input": list(request.texts),
        "encoding_format": "base64" if request.packed else "float",
    }
    return body | ({"dimensions": request.dimensions} if request.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if model.startswith("text-embedding-3"):
        return True
    return False if model.startswith("text-embedding-ada") else None


ADAPTER = EmbeddingAdapter(
    provider="openai",
    base_url=DEFAULT_BASE_URL,
    max_texts=2048,
    max_tokens=300_000,
    path=embeddings_path,
    body=_body,
    read=read_openai_response,
    takes_dimensions=_takes_dimensions,
)
