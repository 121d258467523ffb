"""The registry in which machines that share one Milvus publish their indexes: what they share, and how rare their words are.

Each index has a few rows in one collection of its tenant and model. An index in the registry shares its rows; after it leaves,
others no longer find them. Word counts are in pages by word, so that a query fetches a few pages and never the vocabulary of
another machine.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import urandom
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from msgspec import Struct

from lorelog.core.errors import StoreError
from lorelog.core.options import DEFAULT_COLLECTION
from lorelog.core.paths import is_below
from lorelog.stores.embedded.catalog_reader import CatalogReader
from lorelog.stores.milvus.client import is_missing_collection
from lorelog.stores.milvus.collections import Collections
from lorelog.stores.milvus.lexicon import Bm25Statistics, Lexicon
from lorelog.stores.milvus.rows import Row, row_key, text_row
from lorelog.stores.milvus.schema import UNKNOWN_WIDTH, in_values, is_collection_of, quote, registry_name
from lorelog.stores.milvus.state import MilvusState

_REPUBLISH_GROWTH = 0.05
"""Relative growth after which an index publishes its word counts again; BM25 uses only their logarithm."""
_PAGE_WORDS = 8_000
_PART_LETTERS = 60_000
_ROWS_PER_CALL = 500
_CACHED_PAGES = 2_000
_UNSAFE_IN_NAME = re.compile(r"[^\w.-]+")


class SharedProject(NamedTuple):
    """Where an index keeps the chunks of a shared project, and how many there are."""

    collection: str
    chunks: int
    vectors: int


class PeerIndex(Struct, frozen=True, kw_only=True):
    """The published description of an index."""

    machine: str
    analyser: str
    width: int
    count: int
    total: int
    projects: Mapping[str, SharedProject]
    """By shared name."""
    supersedes: Sequence[tuple[str, str, str]] = ()
    """Old memory id, new memory id, and the project's shared name."""
    home: str = ""
    revision: str = ""
    """Changes with every write."""
    pages: int = 0
    words: str = ""
    """Changes with the pages of words."""


class PeerRegistry:
    """The collection that holds the registry."""

    def __init__(self, collections: Collections, prefix: str, tenant: str, space: str) -> None:
        self.name = registry_name(prefix, tenant, space)
        self._is_ours = partial(is_collection_of, tenant=tenant, space=space)
        self._collections = collections
        self._lock = Lock()
        self._pages: OrderedDict[tuple[str, str, int], dict[str, int]] = OrderedDict()

    def publish(
        self, index: PeerIndex, vocabulary: Callable[[], Iterable[tuple[str, int]]], before: Mapping[str, int]
    ) -> dict[str, int]:
        """Replace the published description, and the word counts if they have changed. Return the sizes of what was published."""
        home = index.home
        is_new = self._collections.ensure(self.name, UNKNOWN_WIDTH)
        pages = before.get("pages", 0)
        stamp = before.get("stamp", 0)
        has_grown = abs(index.count - before.get("count", 0)) > _REPUBLISH_GROWTH * before.get("count", 0)
        if is_new or has_grown or not stamp:
            stamp = int.from_bytes(urandom(6))
            texts = _vocabulary_pages(vocabulary())
            self._send([_page_row(home, -1 - number, text, str(stamp)) for number, text in enumerate(texts)])
            pages = len(texts)
        description = json.dumps(_as_json(index, pages, str(stamp)))
        parts = [description[start : start + _PART_LETTERS] for start in range(0, len(description), _PART_LETTERS)]
        revision = urandom(8).hex()
        self._send([_page_row(home, number, text, revision, len(parts)) for number, text in enumerate(parts)])
        surplus = [
            *range(len(parts), before.get("parts", 0)),
            *(-1 - number for number in range(pages, before.get("pages", 0))),
        ]
        self._collections.delete(self.name, [row_key(home, number) for number in surplus])
        count = index.count if stamp != before.get("stamp") else before["count"]
        return {"parts": len(parts), "pages": pages, "stamp": stamp, "count": count}

    def is_published(self, home: str) -> bool:
        """Return True if the index is in the registry."""
        try:
            return bool(self._collections.read(self.name, in_values("key", [row_key(home, 0)]), ["key"]))
        except StoreError as fault:
            if is_missing_collection(fault):
                return False
            raise

    def peers(self, home: str) -> list[PeerIndex]:
        """Return the descriptions of all other indexes, without those that are being written or cannot be parsed."""
        rows = self._collections.read(
            self.name, f"home != {quote(home)} and row >= 0", ["home", "row", "text", "heading", "heading_level"]
        )
        by_home: dict[str, list[Row]] = {}
        for row in rows:
            by_home.setdefault(row["home"], []).append(row)
        peers = (self._parse_peer(peer_home, peer_rows) for peer_home, peer_rows in sorted(by_home.items()))
        return [peer for peer in peers if peer is not None]

    def statistics(self, peers: Sequence[PeerIndex], words: Sequence[str]) -> Bm25Statistics:
        """Return the BM25 statistics of other indexes for these words."""
        needed = {
            (peer.home, peer.words, page_number(word, peer.pages)) for peer in peers if peer.pages for word in words
        }
        with self._lock:
            missing = {page for page in needed if page not in self._pages}
        if missing:
            self._fetch(missing)
        total = Bm25Statistics()
        with self._lock:
            for peer in peers:
                counts = {}
                for word in words if peer.pages else ():
                    page = self._pages.get((peer.home, peer.words, page_number(word, peer.pages)))
                    counts[word] = page.get(word, 0) if page else 0
                total += Bm25Statistics(peer.count, peer.total, counts)
        return total

    def _fetch(self, missing: Iterable[tuple[str, str, int]]) -> None:
        stamps = {row_key(home, -1 - number): (home, stamp, number) for home, stamp, number in missing}
        rows = self._collections.read(self.name, in_values("key", stamps), ["key", "heading", "text"])
        with self._lock:
            for row in rows:
                page = stamps[row["key"]]
                if row["heading"] == page[1]:  # otherwise it is being rewritten, and read the next time
                    self._pages[page] = _read_page(row["text"])
            while len(self._pages) > _CACHED_PAGES:
                self._pages.popitem(last=False)

    def _send(self, rows: list[Row]) -> None:
        for start in range(0, len(rows), _ROWS_PER_CALL):
            self._collections.send(self.name, rows[start : start + _ROWS_PER_CALL])

    def _parse_peer(self, home: str, rows: list[Row]) -> PeerIndex | None:
        rows.sort(key=lambda row: int(row["row"]))
        revision = rows[0]["heading"]
        if len(rows) != rows[0]["heading_level"] or any(row["heading"] != revision for row in rows):
            return None
        try:
            description = json.loads("".join(row["text"] for row in rows))
            return _from_json(description, home, revision, self._is_ours)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def machine_name(name: str) -> str:
    """Return a machine's name in a form that is safe before a path."""
    return _UNSAFE_IN_NAME.sub("-", name).strip("-.")[:64] or "unnamed"


def page_number(word: str, pages: int) -> int:
    """Return the page of a word."""
    return zlib.crc32(word.encode("utf-8", "replace")) % pages


def _vocabulary_pages(vocabulary: Iterable[tuple[str, int]]) -> list[str]:
    lines = [(word, f"{word} {count}\n") for word, count in vocabulary if len(word) < _PAGE_WORDS // 40]
    size = sum(len(line.encode("utf-8", "replace")) for _, line in lines)
    pages: list[list[str]] = [[] for _ in range(size // _PAGE_WORDS + 1)]
    for word, line in lines:
        pages[page_number(word, len(pages))].append(line)
    return ["".join(page) for page in pages]


def _read_page(text: str) -> dict[str, int]:
    pairs = (line.rpartition(" ") for line in text.split("\n") if line)
    return {word: int(count) for word, _, count in pairs if count.isdecimal()}


def _page_row(home: str, number: int, text: str, stamp: str, parts: int = 0) -> Row:
    return {**text_row(home, number, text, UNKNOWN_WIDTH), "heading": stamp, "heading_level": parts}


def _as_json(index: PeerIndex, pages: int, words: str) -> dict[str, Any]:
    return {
        "machine": index.machine,
        "analyser": index.analyser,
        "width": index.width,
        "count": index.count,
        "total": index.total,
        "pages": pages,
        "words": words,
        "projects": index.projects,
        "supersedes": list(index.supersedes),
    }


def _from_json(fields: Mapping[str, Any], home: str, revision: str, is_ours: Callable[[str], bool]) -> PeerIndex:
    """Return another machine's description. Only collections of our own tenant and model are accepted from it."""
    projects = {
        str(name): SharedProject(str(collection), int(chunks), int(vectors))
        for name, (collection, chunks, vectors) in fields["projects"].items()
        if name and is_ours(str(collection))
    }
    return PeerIndex(
        machine=machine_name(str(fields["machine"])),
        analyser=str(fields["analyser"]),
        width=int(fields["width"]),
        count=max(0, int(fields["count"])),
        total=max(0, int(fields["total"])),
        projects=projects,
        supersedes=tuple((str(old), str(new), str(name)) for old, new, name in fields["supersedes"]),
        home=home,
        revision=str(revision),
        pages=max(0, int(fields["pages"])),
        words=str(fields["words"]),
    )


def no_shared_name(project: str) -> str:
    """Return an empty name: the project is known to this machine only."""
    return ""


class IndexOwner(Struct, frozen=True, kw_only=True):
    """The tenant, model and machine that rows belong to."""

    tenant: str
    space: str
    analyser: str
    per_project: bool
    prefix: str = DEFAULT_COLLECTION
    """What the names of collections begin with."""
    shared_name_of: Callable[[str], str] = no_shared_name
    """Returns the name that all machines use for a project, or an empty one."""
    folder: Path = Path()
    """The index folder: files below it are derived and not shared."""
    machine: str = ""
    """This machine's name for others if it shares, otherwise empty."""

    def is_derived(self, source: str) -> bool:
        """Return True if a file is derived, and therefore not shared."""
        return is_below(source, str(self.folder))


def describe_index(
    catalog: CatalogReader, state: MilvusState, lexicon: Lexicon, owner: IndexOwner, home: str
) -> PeerIndex:
    """Return the description that an index publishes."""
    projects: dict[str, SharedProject] = {}
    for project, (chunks, waiting) in catalog.project_counts().items():
        name = state.names.get(project)
        if name and project in state.collections:
            # Two clones of one repository are one project to others.
            other = projects.get(name, SharedProject("", 0, 0))
            vectors = chunks - waiting if state.dimension else 0
            projects[name] = SharedProject(state.collections[project], other.chunks + chunks, other.vectors + vectors)
    superseding = [
        (supersession.old, supersession.new, name)
        for supersession in catalog.supersessions()
        if (name := state.names.get(supersession.project))
    ]
    words = lexicon.statistics(())
    return PeerIndex(
        machine=owner.machine,
        analyser=owner.analyser,
        width=state.dimension or UNKNOWN_WIDTH,
        count=words.count,
        total=words.total,
        projects=projects,
        supersedes=superseding,
        home=home,
    )
