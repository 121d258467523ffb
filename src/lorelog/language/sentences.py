"""Splits prose into sentences.

Line ends split too. A full stop ends a sentence only before something that can begin one, so that `e.g. this`, `1. item`
and `v1. then` stay whole; Chinese and Japanese full stops end one anywhere.
"""

from __future__ import annotations

import re

SENTENCE_END = re.compile(
    r"(?<=[.!?\u2026])(?<!\b[eEiI]\.[gGeE]\.)(?<!\bvs\.)(?<!\betc\.)(?<!\A\d\.)(?<!\A\d\d\.)[\"')\]*_\u201d]*\s+(?=[^a-z\s])"
    r"|(?<=[\u3002\uff01\uff1f])\s*(?=\S)"
)
"""White space between two sentences of a line."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the white space around them."""
    return [sentence.strip() for line in text.splitlines() for sentence in SENTENCE_END.split(line) if sentence.strip()]
