"""Any server that speaks OpenAI's embeddings API: OpenAI itself, or one on this machine or in this company.

Vectors are asked for as base64, which is a third of the size of JSON numbers and needs no parsing: the bytes are the
vectors as we keep them. A server that knows only numbers may answer those. Replies are put in order by their `index`,
since the API promises no other.

The API does not tell questions from texts. A model that does (nomic, e5, bge behind a compatible server) is given its words
in front, by its name, and its vectors bear a mark, since not every program does so.
"""

from __future__ import annotations

from typing import Any

from lorelog.models.dialect import Ask, Dialect, embeddings_path, read_listed

DEFAULT_BASE_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": ask.model,
        "input": list(ask.texts),
        "encoding_format": "base64" if ask.packed else "float",
    }
    return body | ({"dimensions": ask.dimensions} if ask.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if model.startswith("text-embedding-3"):
        return True
    return False if model.startswith("text-embedding-ada") else None


DIALECT = Dialect(
    provider="openai",
    base_url=DEFAULT_BASE_URL,
    most_texts=2048,
    most_tokens=300_000,
    path=embeddings_path,
    body=_body,
    read=read_listed,
    takes_dimensions=_takes_dimensions,
)
