"""Caches of a long-running process: replies to queries, and what reading their hits costs.

Replies are valid for one revision of the store. Revisions are opaque and never come back, so they are not ordered: a
caller with another revision clears the cache, and a reply made under another revision is not stored. A caller reads
the revision before it searches; a write in between makes the reply unusable, never stale.

- `AnswerCache` keeps whole replies by everything that determines them. They are certain to be the same, so there is
  no note.
- With `similar` it also reuses the reply of a near-repeat, with a note. A near-repeat has the same
  `normalize_wording` and at least that cosine. Cosines alone do not suffice: with the built-in model different
  queries reach .996 ("convert csv to json" and back), all Chinese queries of one length 1.0, and paraphrases are
  between .91 and .99. Of 112 pairs of judged Latin-script queries at .985 and more, one in five wants the same
  documents; the few with the same wording all ask the same thing.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from operator import mul
from struct import unpack
from threading import Lock
from typing import NamedTuple, Protocol
from weakref import WeakSet

from msgspec.structs import replace

from lorelog.core.document import FileStamp
from lorelog.core.options import CacheOptions, SearchOptions
from lorelog.core.ports import Vector
from lorelog.core.query import SearchReply
from lorelog.language.analyser import find_spans

_MEAN_HITS_PER_ANSWER = 16
"""Average hits per reply: replies with a thousand hits are large, and fewer of them are kept."""
_ARTICLES = frozenset({"a", "an", "the"})
_END_MARKS = re.compile(r"(?<=[\w)\]}\"'`”’»])(?:[?!.…。？！]+|\s[?!]+)$")
_MAX_QUERY_SHOWN = 80


class CacheCounters(NamedTuple):
    """Counters since the caches were created, and their current size."""

    lookups: int = 0
    exact: int = 0
    near: int = 0
    stale: int = 0
    """Replies dropped because the index was written."""
    evicted: int = 0
    """Replies evicted."""
    answers: int = 0
    """Replies held now."""


class AnswerKey(NamedTuple):
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


def normalize_wording(query: str) -> tuple[str, ...]:
    """Return the wording that near-repeats share: all words and symbols in order, without articles, case and the end
    mark.

    Word order is kept because it can reverse a question. Literal text (digits, inner capitals, other scripts) and
    symbols are kept unchanged.
    """
    text = _END_MARKS.sub("", query.strip())
    words: list[str] = []
    place = 0
    for start, end in find_spans(text):
        words += text[place:start].split()
        token = text[start:end]
        plain = token.isascii() and token.isalpha() and token[1:] == token[1:].lower()
        if not plain or token.lower() not in _ARTICLES:
            words.append(token.lower() if plain else token)
        place = end
    return (*words, *text[place:].split())


# -- answers -----------------------------------------------------------------------------------------------------------


class TextCache(Protocol):
    """A cache of what texts say, in the memory of the process."""

    def clear(self) -> None:
        """Drop everything."""


_CACHES: WeakSet[TextCache] = WeakSet()


def register_cache(cache: TextCache) -> None:
    """Have a cache emptied by `clear_all_caches`, as long as it exists."""
    _CACHES.add(cache)


class _CachedAnswer(NamedTuple):
    reply: SearchReply
    vector: Vector | None
    kin: AnswerKey | None
    """The part of its key that near-repeats share, if they are found."""


class AnswerCache:
    """Replies of one store, in order of last use. Threads may share it."""

    def __init__(self, options: CacheOptions) -> None:
        register_cache(self)
        self._options = options
        self._lock = Lock()
        self._revision = ""
        self._answers: OrderedDict[AnswerKey, _CachedAnswer] = OrderedDict()
        self._hits = 0
        self._counts: Counter[str] = Counter()

    @property
    def finds_near(self) -> bool:
        """True if near-repeats are answered too: only then is a query's vector needed before the search."""
        return self._options.similar > 0.0

    def get(self, inquiry: AnswerKey, revision: str) -> SearchReply | None:
        """Return the reply to exactly this query under this revision."""
        with self._lock:
            self._counts.update(lookups=1)
            self._use_revision(revision)
            answer = self._answers.get(inquiry) if _is_hashable(inquiry) else None
            if answer is None:
                return None
            self._answers.move_to_end(inquiry)
            self._counts.update(exact=1)
            return answer.reply

    def get_near(self, inquiry: AnswerKey, revision: str, vector: Vector) -> SearchReply | None:
        """Return the reply to a near-repeat of this query; a note names that query.

        It is not stored under this query: the next one is compared with queries that were really searched.
        """
        if not self.finds_near or not _is_hashable(inquiry):
            return None
        with self._lock:
            self._use_revision(revision)
            kin = _near_repeat_key(inquiry)
            for other, answer in reversed(self._answers.items()):
                if answer.kin != kin or _cosine(vector, answer.vector) < self._options.similar:
                    continue
                self._answers.move_to_end(other)
                self._counts.update(near=1)
                shown = other.query if len(other.query) <= _MAX_QUERY_SHOWN else f"{other.query[:_MAX_QUERY_SHOWN]}…"
                note = f"answered from the cache: the same question as {shown!r}"
                return replace(answer.reply, query=inquiry.query, notes=(*answer.reply.notes, note))
        return None

    def put(self, inquiry: AnswerKey, revision: str, reply: SearchReply, vector: Vector | None = None) -> None:
        """Store a reply. `revision` was read before the search began.

        Do not store replies that could differ without a write: of a model that failed or timed out.
        """
        if not _is_hashable(inquiry) or len(reply.hits) > self._most_hits:
            return
        with self._lock:
            if revision != self._revision:
                return
            self._drop(inquiry)
            kin = _near_repeat_key(inquiry) if self.finds_near and vector is not None else None
            self._answers[inquiry] = _CachedAnswer(reply, vector, kin)
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
        """Drop all replies."""
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
        if (answer := self._answers.pop(inquiry, None)) is not None:
            self._hits -= len(answer.reply.hits)


def _near_repeat_key(inquiry: AnswerKey) -> AnswerKey:
    """Return the part of a key that near-repeats share."""
    return inquiry._replace(query="\n".join(normalize_wording(inquiry.query)))


def _is_hashable(inquiry: AnswerKey) -> bool:
    """Return True if a reply can be looked up: Python callers may pass filters made of lists, which still work."""
    try:
        hash(inquiry)
    except TypeError:
        return False
    return True


def _cosine(one: Vector, other: Vector | None) -> float:
    """Return the cosine of two unit vectors; -1 if they cannot be compared."""
    if other is None or len(one) != len(other):
        return -1.0
    return float(sum(map(mul, unpack(f"<{len(one) // 4}f", one), unpack(f"<{len(other) // 4}f", other))))


_MAX_COSTS = 4_096


class CostCache:
    """Estimated tokens of the sections of hits, by chunk and state of its file. Holds no text. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._costs: OrderedDict[tuple[str, FileStamp], int] = OrderedDict()

    def get(self, chunk_id: str, stamp: FileStamp) -> int | None:
        """Return the cost of a chunk's section in a file of this stamp."""
        with self._lock:
            return self._costs.get((chunk_id, stamp))

    def put(self, chunk_id: str, stamp: FileStamp, tokens: int) -> None:
        """Keep a cost; the oldest is dropped."""
        with self._lock:
            self._costs[chunk_id, stamp] = tokens
            while len(self._costs) > _MAX_COSTS:
                self._costs.popitem(last=False)


# -- all ---------------------------------------------------------------------------------------------------------------


class Caches(NamedTuple):
    """The caches of one store; None is disabled."""

    answers: AnswerCache | None = None
    costs: CostCache | None = None

    @classmethod
    def from_options(cls, options: CacheOptions) -> Caches:
        """Return the caches that the options enable."""
        return cls(
            AnswerCache(options) if options.answers else None,
            CostCache() if options.answers else None,
        )

    def counters(self) -> CacheCounters:
        """Return the counters of the replies."""
        return self.answers.counters() if self.answers is not None else CacheCounters()


def clear_all_caches() -> None:
    """Drop what the caches of all engines hold: a forgotten text must not stay in the memory of a process."""
    for cache in list(_CACHES):
        cache.clear()
