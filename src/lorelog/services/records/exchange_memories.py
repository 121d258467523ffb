"""Memories of journals, out of a home and into another.

What comes in is text of another's: it goes the way of every new memory, with `import` as its origin. Its id is made of its text, so
that a file that is taken twice is remembered once, and what was deleted here stays deleted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lorelog.core.document import StoredChunk
from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.memory import NewMemory
from lorelog.core.paths import is_below
from lorelog.services.records.exchange_lines import Foreign, Kept

_AT_ONCE = 100
_MOST_TOLD = 100
_MOMENT = re.compile(r"\A#{1,6} [^\n]*\n")
_COMMENT = re.compile(r"\A\s*<!--.*?-->[ \t]*\n?", re.DOTALL)


class Remembering:
    """Takes memories in. `add` writes some, all or none; `knows` says whether an id is or was a memory's."""

    def __init__(self, add: Callable[[Sequence[NewMemory]], object], knows: Callable[[str], bool]) -> None:
        self._add = add
        self._knows = knows
        self.added = 0
        self.there = 0
        self.refused = 0
        self.problems: list[str] = []

    def take(self, memories: Sequence[Foreign]) -> None:
        """Remember what is not remembered yet."""
        fresh: dict[str, NewMemory] = {}
        for one in memories:
            identity = identity_of(one.text)
            if identity in fresh or self._knows(identity):
                self.there += 1
            else:
                fresh[identity] = NewMemory(one.text, one.type, one.tags, "import", identity)
        waiting = list(fresh.values())
        for first in range(0, len(waiting), _AT_ONCE):
            self._write(waiting[first : first + _AT_ONCE])

    def _write(self, some: Sequence[NewMemory]) -> None:
        try:
            self._add(some)
            self.added += len(some)
        except UsageError as error:
            if len(some) > 1:  # one of them is not to be had; which one, only asking for each tells
                for one in some:
                    self._write([one])
                return
            self.refused += 1
            if len(self.problems) < _MOST_TOLD:
                self.problems.append(f"{some[0].text[:60]!r}: {error.message}")


def identity_of(text: str) -> str:
    """Return the id that a text from elsewhere has, whenever it comes: shaped like a UUID of version 8."""
    digest = bytearray(hashlib.sha256(b"lorelog import\0" + text.strip().encode("utf-8", "replace")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    found = digest.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))


def kept(memories: Iterable[StoredChunk], whole: Callable[[str], str], pages: Path) -> Iterator[Kept]:
    """Yield the memories of journals, each as a whole; pages that are made of records are none."""
    for one in memories:
        chunk, anchor = one.chunk, one.chunk.anchor
        if anchor is None or not anchor.memory or is_below(chunk.source, str(pages)):
            continue
        try:
            text = whole(one.id)
        except LorelogError:  # its file is gone; the index still has its beginning
            text = chunk.content
        text = _COMMENT.sub("", _MOMENT.sub("", text, count=1), count=1).strip()
        if text:
            yield Kept(text, anchor.memory, chunk.type, chunk.tags, one.project, chunk.date)
