"""What machines that share one Milvus tell each other: who they are, what they share, and how rare their words are.

Each index has a few rows in one collection of its tenant and model. Being in it is how an index says that its rows are for
others; one that leaves is found by nobody from then on. What is told of words lies in pages by word, so that a question fetches
a few of them and never the whole vocabulary of another machine.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import urandom
from threading import Lock
from typing import Any, NamedTuple

from lorelog.core.errors import StoreError
from lorelog.stores.milvus.bm25 import Statistics
from lorelog.stores.milvus.collections import Collections
from lorelog.stores.milvus.faults import is_gone
from lorelog.stores.milvus.filters import one_of, quoted
from lorelog.stores.milvus.rows import Row, key_of, text_row
from lorelog.stores.milvus.schema import UNKNOWN_WIDTH, is_of, registry_name

_TOLD_AGAIN = 0.05
"""By how much an index must have grown for others to be told anew how rare its words are: BM25 takes the logarithm of it."""
_PAGE = 8_000
_PART = 60_000
_ROWS_A_CALL = 500
_PAGES_KEPT = 2_000
_MACHINE = re.compile(r"[^\w.-]+")


class Place(NamedTuple):
    """Where an index keeps what it shares of a project, and how much that is."""

    collection: str
    chunks: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Told:
    """What an index says of itself."""

    machine: str
    analyser: str
    width: int
    count: int
    total: int
    projects: Mapping[str, Place]
    """By the name that all machines have for each."""
    supersedes: Sequence[tuple[str, str, str]] = ()
    """Old memory, new one, and the project's name."""
    home: str = ""
    revision: str = ""
    """Another one after every write."""
    pages: int = 0
    words: str = ""
    """Another one whenever the pages of words are."""


class Registry:
    """The collection in which it is told."""

    def __init__(self, collections: Collections, tenant: str, space: str) -> None:
        self.name = registry_name(tenant, space)
        self._is_ours = partial(is_of, tenant=tenant, space=space)
        self._collections = collections
        self._lock = Lock()
        self._pages: OrderedDict[tuple[str, str, int], dict[str, int]] = OrderedDict()

    def tell(
        self, told: Told, vocabulary: Callable[[], Iterable[tuple[str, int]]], before: Mapping[str, int]
    ) -> dict[str, int]:
        """Say it in the place of what was said before, and how rare words are where that has changed. Return how much was said."""
        home = told.home
        is_new = self._collections.ensure(self.name, UNKNOWN_WIDTH)
        pages = before.get("pages", 0)
        stamp = before.get("stamp", 0)
        grown = abs(told.count - before.get("count", 0)) > _TOLD_AGAIN * before.get("count", 0)
        if is_new or grown or not stamp:
            stamp = int.from_bytes(urandom(6))
            written = _paged(vocabulary())
            self._send([_page(home, -1 - number, text, str(stamp)) for number, text in enumerate(written)])
            pages = len(written)
        whole = json.dumps(_as_json(told, pages, str(stamp)))
        parts = [whole[start : start + _PART] for start in range(0, len(whole), _PART)]
        revision = urandom(8).hex()
        self._send([_page(home, number, text, revision, len(parts)) for number, text in enumerate(parts)])
        surplus = [
            *range(len(parts), before.get("parts", 0)),
            *(-1 - number for number in range(pages, before.get("pages", 0))),
        ]
        self._collections.delete(self.name, [key_of(home, number) for number in surplus])
        counted = told.count if stamp != before.get("stamp") else before["count"]
        return {"parts": len(parts), "pages": pages, "stamp": stamp, "count": counted}

    def has(self, home: str) -> bool:
        """Say whether it is told there what an index shares."""
        try:
            return bool(self._collections.read(self.name, one_of("key", [key_of(home, 0)]), ["key"]))
        except StoreError as fault:
            if is_gone(fault):
                return False
            raise

    def others(self, home: str) -> list[Told]:
        """Return what all others say of themselves. Who is just saying something, or says what nobody understands, is left out."""
        found = self._collections.read(
            self.name, f"home != {quoted(home)} and row >= 0", ["home", "row", "text", "heading", "heading_level"]
        )
        by_home: dict[str, list[Row]] = {}
        for row in found:
            by_home.setdefault(row["home"], []).append(row)
        told = (self._understood(whose, rows) for whose, rows in sorted(by_home.items()))
        return [one for one in told if one is not None]

    def statistics(self, told: Sequence[Told], words: Sequence[str]) -> Statistics:
        """Return what BM25 must know of others' chunks to weigh these words."""
        wanted = {(one.home, one.words, page_of(word, one.pages)) for one in told if one.pages for word in words}
        with self._lock:
            missing = {page for page in wanted if page not in self._pages}
        if missing:
            self._fetch(missing)
        known = Statistics()
        with self._lock:
            for one in told:
                holds = {}
                for word in words if one.pages else ():
                    page = self._pages.get((one.home, one.words, page_of(word, one.pages)))
                    holds[word] = page.get(word, 0) if page else 0
                known += Statistics(one.count, one.total, holds)
        return known

    def _fetch(self, missing: Iterable[tuple[str, str, int]]) -> None:
        stamps = {key_of(home, -1 - number): (home, stamp, number) for home, stamp, number in missing}
        rows = self._collections.read(self.name, one_of("key", stamps), ["key", "heading", "text"])
        with self._lock:
            for row in rows:
                page = stamps[row["key"]]
                if row["heading"] == page[1]:  # otherwise it is being written anew, and read the next time
                    self._pages[page] = _read_page(row["text"])
            while len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)

    def _send(self, rows: list[Row]) -> None:
        for start in range(0, len(rows), _ROWS_A_CALL):
            self._collections.send(self.name, rows[start : start + _ROWS_A_CALL])

    def _understood(self, home: str, rows: list[Row]) -> Told | None:
        rows.sort(key=lambda row: int(row["row"]))
        revision = rows[0]["heading"]
        if len(rows) != rows[0]["heading_level"] or any(row["heading"] != revision for row in rows):
            return None
        try:
            told = json.loads("".join(row["text"] for row in rows))
            return _from_json(told, home, revision, self._is_ours)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def machine_name(name: str) -> str:
    """Return a machine's name as it may stand before a path, whoever chose it."""
    return _MACHINE.sub("-", name).strip("-.")[:64] or "unnamed"


def page_of(word: str, pages: int) -> int:
    """Return on which page a word stands."""
    return zlib.crc32(word.encode("utf-8", "replace")) % pages


def _paged(vocabulary: Iterable[tuple[str, int]]) -> list[str]:
    lines = [(word, f"{word} {holds}\n") for word, holds in vocabulary if len(word) < _PAGE // 40]
    size = sum(len(line.encode("utf-8", "replace")) for _, line in lines)
    pages: list[list[str]] = [[] for _ in range(size // _PAGE + 1)]
    for word, line in lines:
        pages[page_of(word, len(pages))].append(line)
    return ["".join(page) for page in pages]


def _read_page(text: str) -> dict[str, int]:
    parted = (line.rpartition(" ") for line in text.split("\n") if line)
    return {word: int(holds) for word, _, holds in parted if holds.isdecimal()}


def _page(home: str, number: int, text: str, stamp: str, parts: int = 0) -> Row:
    return {**text_row(home, number, text, UNKNOWN_WIDTH), "heading": stamp, "heading_level": parts}


def _as_json(told: Told, pages: int, words: str) -> dict[str, Any]:
    return {
        "machine": told.machine,
        "analyser": told.analyser,
        "width": told.width,
        "count": told.count,
        "total": told.total,
        "pages": pages,
        "words": words,
        "projects": told.projects,
        "supersedes": list(told.supersedes),
    }


def _from_json(told: Mapping[str, Any], home: str, revision: str, is_ours: Callable[[str], bool]) -> Told:
    """Return what another machine says. It names collections, and only those of our own tenant and model are believed."""
    projects = {
        str(name): Place(str(collection), int(chunks), int(vectors))
        for name, (collection, chunks, vectors) in told["projects"].items()
        if name and is_ours(str(collection))
    }
    return Told(
        machine_name(str(told["machine"])),
        str(told["analyser"]),
        int(told["width"]),
        max(0, int(told["count"])),
        max(0, int(told["total"])),
        projects,
        tuple((str(old), str(new), str(name)) for old, new, name in told["supersedes"]),
        home,
        str(revision),
        max(0, int(told["pages"])),
        str(told["words"]),
    )
