"""Splits prose into sentences and clauses.

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
CLAUSE_END = re.compile(
    r"[.;!?\n()]+(?=\s|\Z)|,(?=\s|\Z)|\s[-\u2013\u2014]+\s|[\u2013\u2014]"
    r"|\s(?:and|but|so|then|or|because|since|while|which|where|until|instead|rather|therefore|thus|that)(?=\s)"
)
"""A separator of clauses, without the white space after it."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the white space around them."""
    return [sentence.strip() for line in text.splitlines() for sentence in SENTENCE_END.split(line) if sentence.strip()]


def first_clause(text: str) -> str:
    """Return a text up to the end of its first clause."""
    end = CLAUSE_END.search(text)
    return text[: end.start()] if end else text


def last_clause(text: str) -> str:
    """Return a text from the beginning of its last clause."""
    start = 0
    for end in CLAUSE_END.finditer(text):
        start = end.end()
    return text[start:]
