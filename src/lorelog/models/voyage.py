"""Voyage's embeddings API: OpenAI's shape, with `input_type` to tell questions from texts.

A request may hold 1,000 texts and, with the strictest of their models, 120,000 tokens. Texts that are too long are cut there
(`truncation`, on by default). Base64 holds 32-bit numbers, as with OpenAI.
"""

from __future__ import annotations

import re
from typing import Any

from lorelog.models.dialect import Ask, Dialect, embeddings_path, read_listed

_OF_SEVERAL_LENGTHS = re.compile(r"voyage-(3-large|3\.5|4|code-3)")
_OF_ONE_LENGTH = re.compile(r"voyage-(3-lite|3$|(code|finance|law|multilingual|large)-2|2|0)")


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": ask.model,
        "input": list(ask.texts),
        "input_type": "query" if ask.is_query else "document",
    }
    if ask.packed:
        body["encoding_format"] = "base64"  # numbers are what comes without it
    return body | ({"output_dimension": ask.dimensions} if ask.dimensions else {})


def _takes_dimensions(model: str) -> bool | None:
    if _OF_SEVERAL_LENGTHS.match(model):
        return True
    return False if _OF_ONE_LENGTH.match(model) else None


DIALECT = Dialect(
    provider="voyage",
    base_url="https://api.voyageai.com/v1",
    most_texts=1000,
    most_tokens=120_000,
    path=embeddings_path,
    body=_body,
    read=read_listed,
    takes_dimensions=_takes_dimensions,
)
