"""Words as every Milvus takes them: one word of ours is one token there, whatever characters it has.

Milvus Lite knows no tokenizer that splits at blanks only, so words are written in small letters and digits, which none
splits. Words of other characters are named by a hash; so are those that begin with a "z", which marks the hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from lorelog.core.query import Term

ANALYSER = {"tokenizer": "standard"}
FILLER = "zz"
"""Brings a short text to the length it counts as; no word is written so."""

_PLAIN = re.compile(r"[a-y0-9][a-z0-9]{0,39}")
_MOST_BYTES = 65_000


@lru_cache(maxsize=65_536)
def token(word: str) -> str:
    """Return how a word is written."""
    if _PLAIN.fullmatch(word):
        return word
    return "z" + hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def asked_as(terms: Sequence[Term]) -> str:
    """Return a question as Milvus' BM25 is asked it: a word that weighs more is there more often."""
    least = min(term.weight for term in terms) or 1.0
    copies = [max(1, min(8, round(term.weight / least))) for term in terms]
    return " ".join(token(term.text) for term, many in zip(terms, copies, strict=True) for _ in range(many))


def written(words: Iterable[tuple[str, int]], fillers: int) -> str:
    """Return a text of so many of each word. One that would be too long for a field has each word once, the rest is cut."""
    counted = [(token(word), count) for word, count in words]
    text = " ".join([*(one for name, count in counted for one in [name] * count), *([FILLER] * fillers)])
    if len(text) <= _MOST_BYTES:
        return text
    once = " ".join(name for name, _ in counted)
    return once if len(once) <= _MOST_BYTES else once[:_MOST_BYTES].rpartition(" ")[0]
