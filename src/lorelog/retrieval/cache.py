"""What a process that goes on need not do twice: answer a question again, and read and analyse a memory again.

Two caches, both valid for one revision of the store. Revisions are opaque and never come back, so nothing is compared for
being newer: whoever comes with another revision empties the cache, and an answer made under another one is not taken. A
caller reads the revision before it searches; a write in between makes the answer unusable, never stale.

- `AnswerCache` keeps whole answers by everything that decides them. That they are the same is certain, so nothing is said.
- On request (`similar`) it also answers a question from that of a near one, and says so. Near means two things at once:
  the same `wording`, and vectors of at least that cosine. Cosines alone do not tell: with the built-in model different
  questions reach .996 ("convert csv to json" and back), all Chinese questions of one length 1.0, and paraphrases lie between
  .91 and .99. Of 112 pairs of judged Latin-script questions at .985 and more, one in five wants the same documents; the few
  with the same wording all ask the same thing.
- `HotTier` keeps chunks with their words, so that the memories that come up again and again are not read from disk. It has
  two segments: what was wanted twice is protected from what was wanted once, so one unusual question, which reads
  forty chunks, does not push out those that every other question needs.

The values here are named tuples: as dataclasses they take three milliseconds longer to define, which a command that asks
once and keeps nothing would pay.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import mul
from struct import unpack
from sys import getsizeof
from threading import Lock
from time import monotonic
from typing import NamedTuple

from lorelog.core.document import Key, StoredChunk
from lorelog.core.options import CacheOptions, SearchOptions
from lorelog.core.ports import Vector
from lorelog.core.query import SearchReply
from lorelog.retrieval.tokens import find_spans

Clock = Callable[[], float]

_HITS_AN_ANSWER = 16
"""Hits that an answer may have on average: answers of a thousand hits are large, and are kept in smaller number."""
_PROTECTED = 0.8
"""The share of the hot tier for what was wanted more than once."""
_BYTES_A_CHUNK = 1_200
_BYTES_A_WORD = 9
"""A place in the tuple, and a little for words that nobody else holds: most are shared with the analyser's memory."""
_ARTICLES = frozenset({"a", "an", "the"})
_END_MARKS = re.compile(r"(?<=[\w)\]}\"'`”’»])(?:[?!.…。？！]+|\s[?!]+)$")
_LONGEST_SHOWN = 80


class CacheCounters(NamedTuple):
    """What the caches have done since they were made, and what they hold now."""

    lookups: int = 0
    exact: int = 0
    near: int = 0
    stale: int = 0
    """Answers dropped because the index was written."""
    expired: int = 0
    evicted: int = 0
    """Answers dropped to make room."""
    answers: int = 0
    """Answers held now."""
    hot_lookups: int = 0
    """Chunks asked for."""
    hot_hits: int = 0
    hot_stale: int = 0
    hot_evicted: int = 0
    hot_chunks: int = 0
    """Chunks held now."""
    hot_bytes: int = 0
    """What they take, estimated."""


class Inquiry(NamedTuple):
    """All that decides an answer besides the index: the question, how it is asked, by which model, and on which day."""

    query: str
    """As `tidy` leaves it, and as it is searched for."""
    options: SearchOptions
    model: str
    day: str
    """ISO day: "last week" is another week tomorrow."""


def tidy(query: str) -> str:
    """Return a question with single spaces. Search for this, and questions that differ in white space are one question."""
    return " ".join(query.split())


def wording(query: str) -> tuple[str, ...]:
    """Return what near-repeats have in common: every word and symbol in order, but articles, case and the end mark.

    Word order stays, since it can turn a question around. Whatever looks literal (digits, inner capitals, other scripts)
    stays as it is written, and so do symbols.
    """
    text = _END_MARKS.sub("", query.strip())
    said: list[str] = []
    place = 0
    for start, end in find_spans(text):
        said += text[place:start].split()
        token = text[start:end]
        plain = token.isascii() and token.isalpha() and token[1:] == token[1:].lower()
        if not plain or token.lower() not in _ARTICLES:
            said.append(token.lower() if plain else token)
        place = end
    return (*said, *text[place:].split())


# -- answers -----------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    reply: SearchReply
    vector: Vector | None
    ends: float


class AnswerCache:
    """Answers of one store, the latest used last. May be shared by threads."""

    def __init__(self, options: CacheOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or monotonic
        self._lock = Lock()
        self._revision = ""
        self._answers: OrderedDict[Inquiry, _Answer] = OrderedDict()
        self._kin: dict[Inquiry, list[Inquiry]] = {}
        self._hits = 0
        self._counts = CacheCounters()

    @property
    def finds_near(self) -> bool:
        """Whether near-repeats are answered too: only then is a question's vector worth making before the search."""
        return self._options.similar > 0.0

    def get(self, inquiry: Inquiry, revision: str) -> SearchReply | None:
        """Return the answer to this very question under this revision."""
        with self._lock:
            self._count(lookups=1)
            self._turn_to(revision)
            answer = self._valid(inquiry) if _is_hashable(inquiry) else None
            if answer is None:
                return None
            self._answers.move_to_end(inquiry)
            self._count(exact=1)
            return answer.reply

    def get_near(self, inquiry: Inquiry, revision: str, vector: Vector) -> SearchReply | None:
        """Return the answer to a question so near that it stands for this one too; a note names that question.

        It is not kept under this question: the next one is compared with what was really asked.
        """
        if not self.finds_near or not _is_hashable(inquiry):
            return None
        with self._lock:
            self._turn_to(revision)
            for other in reversed(self._kin.get(_kin_of(inquiry), ())):
                answer = self._valid(other)
                if answer is None or _cosine(vector, answer.vector) < self._options.similar:
                    continue
                self._answers.move_to_end(other)
                self._count(near=1)
                shown = other.query if len(other.query) <= _LONGEST_SHOWN else f"{other.query[:_LONGEST_SHOWN]}…"
                note = f"answered from the cache: the same question as {shown!r}"
                return replace(answer.reply, query=inquiry.query, notes=(*answer.reply.notes, note))
        return None

    def put(self, inquiry: Inquiry, revision: str, reply: SearchReply, vector: Vector | None = None) -> None:
        """Keep an answer. `revision` was read before the search began.

        Keep none that would come out otherwise without any write: of a model that failed, or ran out of time.
        """
        if not _is_hashable(inquiry) or len(reply.hits) > self._most_hits:
            return
        with self._lock:
            if revision != self._revision:
                return
            self._drop(inquiry)
            self._answers[inquiry] = _Answer(reply, vector, self._clock() + self._options.answers_ttl_s)
            self._hits += len(reply.hits)
            if self.finds_near and vector is not None:
                self._kin.setdefault(_kin_of(inquiry), []).append(inquiry)
            while len(self._answers) > self._options.answers_entries or self._hits > self._most_hits:
                self._drop(next(iter(self._answers)))
                self._count(evicted=1)

    def counters(self) -> CacheCounters:
        """Return what was counted so far."""
        with self._lock:
            return self._counts._replace(answers=len(self._answers))

    @property
    def _most_hits(self) -> int:
        return _HITS_AN_ANSWER * self._options.answers_entries

    def _turn_to(self, revision: str) -> None:
        if revision != self._revision:
            self._count(stale=len(self._answers))
            self._answers.clear()
            self._kin.clear()
            self._hits = 0
            self._revision = revision

    def _valid(self, inquiry: Inquiry) -> _Answer | None:
        answer = self._answers.get(inquiry)
        if answer is not None and self._clock() >= answer.ends:
            self._drop(inquiry)
            self._count(expired=1)
            return None
        return answer

    def _drop(self, inquiry: Inquiry) -> None:
        answer = self._answers.pop(inquiry, None)
        if answer is None:
            return
        self._hits -= len(answer.reply.hits)
        if self.finds_near and answer.vector is not None:
            kin = _kin_of(inquiry)
            # A new list: whoever looks for near questions goes through the old one.
            self._kin[kin] = [other for other in self._kin[kin] if other != inquiry]
            if not self._kin[kin]:
                del self._kin[kin]

    def _count(self, **more: int) -> None:
        self._counts = self._counts._replace(**{name: getattr(self._counts, name) + n for name, n in more.items()})


def _kin_of(inquiry: Inquiry) -> Inquiry:
    """Return what an inquiry shares with its near-repeats."""
    return inquiry._replace(query="\n".join(wording(inquiry.query)))


def _is_hashable(inquiry: Inquiry) -> bool:
    """Tell whether an answer can be looked up: a Python caller may hand in filters made of lists, which still work."""
    try:
        hash(inquiry)
    except TypeError:
        return False
    return True


def _cosine(one: Vector, other: Vector | None) -> float:
    """Return the cosine of two unit vectors; of vectors that cannot be compared, -1."""
    if other is None or len(one) != len(other):
        return -1.0
    return float(sum(map(mul, unpack(f"<{len(one) // 4}f", one), unpack(f"<{len(other) // 4}f", other))))


# -- memories ----------------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """A chunk as the store returned it, and the words of its text in order."""

    stored: StoredChunk
    words: Sequence[str]


class HotTier:
    """Chunks that come up again, in two segments: wanted once, and wanted more than once. May be shared by threads.

    Both are in the order of their last use, so what stays is recent, and what stays longest is both recent and often used.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._revision = ""
        self._once: OrderedDict[Key, tuple[Kept, int]] = OrderedDict()
        self._often: OrderedDict[Key, tuple[Kept, int]] = OrderedDict()
        self._bytes = 0
        self._often_bytes = 0
        self._counts = CacheCounters()

    def get_many(self, keys: Iterable[Key], revision: str) -> dict[Key, Kept]:
        """Return those of these chunks that are held under this revision."""
        found: dict[Key, Kept] = {}
        asked = 0
        with self._lock:
            self._turn_to(revision)
            for key in keys:
                asked += 1
                entry = self._often.get(key)
                if entry is not None:
                    self._often.move_to_end(key)
                elif (entry := self._once.pop(key, None)) is not None:
                    self._often[key] = entry
                    self._often_bytes += entry[1]
                else:
                    continue
                found[key] = entry[0]
            while self._often_bytes > _PROTECTED * self._most_bytes:
                key, entry = self._often.popitem(last=False)
                self._often_bytes -= entry[1]
                self._once[key] = entry  # once more as the newest of the others: a last chance
            counts = self._counts
            self._counts = counts._replace(
                hot_lookups=counts.hot_lookups + asked, hot_hits=counts.hot_hits + len(found)
            )
        return found

    def put_many(self, chunks: Iterable[Kept], revision: str) -> None:
        """Hold chunks that were fetched after this revision was read."""
        sized = [(kept, _size(kept)) for kept in chunks]
        with self._lock:
            if revision != self._revision:
                return
            for kept, size in sized:
                key = kept.stored.key
                if key not in self._once and key not in self._often and size <= self._most_bytes:
                    self._once[key] = (kept, size)
                    self._bytes += size
            evicted = 0
            while self._bytes > self._most_bytes:  # so there is one: the protected ones alone never are that many
                _, (_, size) = self._once.popitem(last=False)
                self._bytes -= size
                evicted += 1
            self._counts = self._counts._replace(hot_evicted=self._counts.hot_evicted + evicted)

    def counters(self) -> CacheCounters:
        """Return what was counted so far."""
        with self._lock:
            return self._counts._replace(hot_chunks=len(self._once) + len(self._often), hot_bytes=self._bytes)

    def _turn_to(self, revision: str) -> None:
        if revision != self._revision:
            held = len(self._once) + len(self._often)
            self._counts = self._counts._replace(hot_stale=self._counts.hot_stale + held)
            self._once.clear()
            self._often.clear()
            self._bytes = self._often_bytes = 0
            self._revision = revision


def _size(kept: Kept) -> int:
    chunk = kept.stored.chunk
    size = _BYTES_A_CHUNK + getsizeof(chunk.content) + _BYTES_A_WORD * len(kept.words)
    return size if chunk.text is chunk.content else size + getsizeof(chunk.text)


# -- both --------------------------------------------------------------------------------------------------------------


class Caches(NamedTuple):
    """The caches of one store; None is off."""

    answers: AnswerCache | None = None
    hot: HotTier | None = None

    @classmethod
    def chosen(cls, options: CacheOptions) -> Caches:
        """Return the caches that options ask for."""
        return cls(
            AnswerCache(options) if options.answers else None, HotTier(options.hot_bytes) if options.hot else None
        )

    @property
    def on(self) -> bool:
        """Whether there is any: only then must the store be asked for its revision."""
        return self.answers is not None or self.hot is not None

    def counters(self) -> CacheCounters:
        """Return what both have counted."""
        counts = self.answers.counters() if self.answers is not None else CacheCounters()
        if self.hot is None:
            return counts
        hot = self.hot.counters()
        return CacheCounters(*(one + other for one, other in zip(counts, hot, strict=True)))
