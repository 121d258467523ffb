"""Caches of a long-running process: replies to queries, and what reading their hits costs.

Replies are valid for one revision of the store. Revisions are opaque and never come back, so they are not ordered: a
caller with another revision clears the cache, and a reply made under another revision is not stored. A caller reads
the revision before it searches; a write in between makes the reply unusable, never stale.

Whole replies are kept by everything that determines them, so they are certain to be the same, and there is no note.
"""

from __future__ import annotations

from _weakrefset import WeakSet  # `weakref` itself takes a millisecond
from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

from msgspec import Struct

from lorelog.core.options import CacheOptions, SearchOptions
from lorelog.core.query import SearchReply

_MEAN_HITS_PER_ANSWER = 16
"""Average hits per reply: replies with a thousand hits are large, and fewer of them are kept."""


class CacheCounters(Struct, frozen=True):
    """Counters since the caches were created, and their current size."""

    lookups: int = 0
    exact: int = 0
    stale: int = 0
    """Replies dropped because the index was written."""
    evicted: int = 0
    """Replies evicted."""
    answers: int = 0
    """Replies held now."""


CachedValue = TypeVar("CachedValue")


class AnswerKey(Struct, frozen=True):
    """Everything that determines a reply besides the index: query, options, model and day."""

    query: str
    """As `normalize_spaces` returns it, and as it is searched."""
    options: SearchOptions
    model: str
    day: str
    """ISO day: "last week" is another week tomorrow."""


def normalize_spaces(query: str) -> str:
    """Return a query with single spaces, so that queries that differ in white space are one query."""
    return " ".join(query.split())


_CACHES: WeakSet[Any] = WeakSet()
_MAX_KEPT_CHARS = 2_000


def register_cache(cache: Any) -> None:
    """Have `clear_all_caches` call the `clear` of what keeps texts in memory, as long as it exists."""
    _CACHES.add(cache)


class ProcessCache(Generic[CachedValue]):
    """Values by key for this process; the oldest is dropped first. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._values: dict[object, CachedValue] = {}
        register_cache(self)

    def get(self, key: object) -> CachedValue | None:
        """Return the value of a key; None if it is not kept."""
        return self._values.get(key)

    def of_text(self, text: str, make: Callable[[str], CachedValue]) -> CachedValue:
        """Return what a function makes of a text: kept by the text itself, so that no write makes it stale, unless that is long."""
        value = self._values.get(text)
        if value is None:
            value = make(text)
            if len(text) <= _MAX_KEPT_CHARS:
                self.put(text, value)
        return value

    def put(self, key: object, value: CachedValue) -> None:
        with self._lock:
            while len(self._values) >= self._limit:
                self._values.pop(next(iter(self._values)))
            self._values[key] = value

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


class AnswerCache:
    """Replies of one store, in order of last use; none if the options say so. Threads may share it."""

    def __init__(self, options: CacheOptions) -> None:
        register_cache(self)
        self._options = options
        self.is_enabled = options.answers
        self._lock = Lock()
        self._revision = ""
        self._answers: OrderedDict[AnswerKey, SearchReply] = OrderedDict()
        self._hits = 0
        self._counts: Counter[str] = Counter()

    def get(self, inquiry: AnswerKey, revision: str) -> SearchReply | None:
        """Return the reply to exactly this query under this revision."""
        if not self.is_enabled:
            return None
        with self._lock:
            self._counts.update(lookups=1)
            self._use_revision(revision)
            reply = self._answers.get(inquiry) if _is_hashable(inquiry) else None
            if reply is not None:
                self._answers.move_to_end(inquiry)
                self._counts.update(exact=1)
            return reply

    def put(self, inquiry: AnswerKey, revision: str, reply: SearchReply) -> None:
        """Store a reply. `revision` was read before the search began.

        Do not store replies that could differ without a write: of a model that failed or timed out.
        """
        if not self.is_enabled or not _is_hashable(inquiry) or len(reply.hits) > self._most_hits:
            return
        with self._lock:
            if revision != self._revision:
                return
            self._drop(inquiry)
            self._answers[inquiry] = reply
            self._hits += len(reply.hits)
            while len(self._answers) > self._options.answers_entries or self._hits > self._most_hits:
                self._drop(next(iter(self._answers)))
                self._counts.update(evicted=1)

    def counters(self) -> CacheCounters:
        with self._lock:
            return CacheCounters(**self._counts, answers=len(self._answers))

    @property
    def _most_hits(self) -> int:
        return _MEAN_HITS_PER_ANSWER * self._options.answers_entries

    def clear(self) -> None:
        with self._lock:
            self._answers.clear()
            self._hits = 0

    def _use_revision(self, revision: str) -> None:
        if revision != self._revision:
            self._counts.update(stale=len(self._answers))
            self._answers.clear()
            self._hits = 0
            self._revision = revision

    def _drop(self, inquiry: AnswerKey) -> None:
        if (reply := self._answers.pop(inquiry, None)) is not None:
            self._hits -= len(reply.hits)


def _is_hashable(inquiry: AnswerKey) -> bool:
    """Return True if a reply can be looked up: Python callers may pass filters made of lists, which still work."""
    try:
        hash(inquiry)
    except TypeError:
        return False
    return True


def clear_all_caches() -> None:
    """Drop what the caches of all engines hold: a forgotten text must not stay in the memory of a process."""
    for cache in list(_CACHES):
        cache.clear()
