"""Turns text into words: those that the lexical lane indexes, and the terms of a query.

Compounds are kept whole and by their parts (`tokens`); English parts are stemmed; scripts without spaces become
single characters and pairs. Decisions a reader may question:

- Stop words are dropped from queries only, never from documents: a query made of nothing else ("to be or not to be",
  "it") must still find its text, and BM25 compares a chunk's length with the average, which stop words raise alike.
  Single characters are treated the same way.
- Negations are stop words because OR semantics cannot honour them. `I`, `my`, `we` and `you` are not: in memories and
  dialogues they tell who speaks, and queries that keep them find more (measured; also against longer lists).
- A query of a script without spaces asks for single characters as well as pairs, at half the weight: a pair may span two words,
  and then its characters are what is left of both. Chinese questions, nDCG@10: .950 to .964 and .980 to .985.
- Words are cached by the text between white space, and by raw token. Text repeats itself, so almost all the work is
  one split at white space and one dictionary look-up per piece, both in C: a third of the time of tokenizing every
  time. No token contains white space, so a piece gives the same words in any text. Full caches are cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, compress, islice, pairwise
from operator import not_
from typing import NamedTuple

from lorelog.core.query import Term
from lorelog.language.lexicon import lexicon
from lorelog.language.tokens import (
    LETTERS_AND_NUMBER,
    MAX_TOKEN_CHARS,
    compose,
    find_matches,
    find_spans,
    find_tokens,
    fold,
    is_unspaced,
    split_token,
)

STOP_WORDS = lexicon("stop_words")

MAX_QUERY_TERMS = 1024
"""Unique terms of one query: a query that pastes a whole log is still answered quickly."""

UNSPACED_CHARACTER_WEIGHT = 0.5
"""Weight of a single character of a script without spaces, beside the pairs of it."""
_MAX_CACHED = 1 << 16
_MAX_CACHED_TOKEN_CHARS = 128
_MAX_CACHED_PIECE_CHARS = 40
_RULES_VERSION = "2"
"""Raise when these rules change so that the same text may give other words."""


Stem = Callable[[str], str]


class TokenSpan(NamedTuple):
    """A token at its position in the text, with its words."""

    start: int
    end: int
    words: tuple[str, ...]


class _TokenCache(dict[str, tuple[str, ...]]):
    """Cache of words by raw token."""

    def __init__(self, stem: Stem) -> None:
        super().__init__()
        self._stem = stem

    def __missing__(self, token: str) -> tuple[str, ...]:
        is_plain = token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN_CHARS
        if is_plain and token.isalpha() and token[1:].islower():
            words: tuple[str, ...] = (self._stem(token.lower()),)
        elif is_plain and token.isdigit():
            words = (token,)
        elif is_plain and token.islower():  # as `derive` in a third of the time: `utf8`, `a1b2`
            parts = LETTERS_AND_NUMBER.fullmatch(token)
            words = (token,) if parts is None else (token, *map(self._stem, filter(None, parts.groups())))
        elif is_unspaced(token):
            words = tuple(_unspaced_words(compose(token)))
        else:
            words = tuple(dict.fromkeys(word for word, _ in self.derive(token)))
        if len(token) <= _MAX_CACHED_TOKEN_CHARS:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[token] = words
        return words

    def derive(self, token: str) -> Iterator[tuple[str, bool]]:
        """Yield the words of a token of a script with spaces, each with whether it is a stop word."""
        composed = compose(token)
        # Normalisation can introduce white space or symbols (fractions, Arabic ligatures), so split again.
        tokens = (composed,) if token.isascii() else find_tokens(composed)
        for part in tokens:
            if is_unspaced(part):
                yield from ((word, False) for word in _unspaced_words(part))
                continue
            for text, is_part in split_token(part):
                folded = fold(text)[:MAX_TOKEN_CHARS]
                if not folded:
                    continue
                stopped = folded in STOP_WORDS
                yield (self._stem(folded) if is_part and folded.isascii() and folded.isalpha() else folded), stopped


class _PieceCache(dict[str, tuple[str, ...]]):
    """Cache of words by piece between white space; long pieces, such as a Chinese sentence, are not cached."""

    def __init__(self, memory: _TokenCache, stem: Stem) -> None:
        super().__init__()
        self._memory = memory
        self._stem = stem

    def __missing__(self, piece: str) -> tuple[str, ...]:
        if piece.isascii() and piece.isalpha():  # the usual case: a single token
            if piece[1:].islower() and len(piece) <= _MAX_CACHED_PIECE_CHARS:  # a plain word, kept here only
                words: tuple[str, ...] = (self._stem(piece.lower()),)
            else:
                words = self._memory[piece]
        else:
            words = tuple(chain.from_iterable(map(self._memory.__getitem__, find_tokens(piece))))
        if len(piece) <= _MAX_CACHED_PIECE_CHARS:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[piece] = words
        return words


class WordAnalyser:
    """The only analyser. Threads may share it: neither the caches nor the stemmer release the GIL."""

    def __init__(self) -> None:
        import Stemmer

        stemmer = Stemmer.Stemmer("english", 0)
        self._memory = _TokenCache(stemmer.stemWord)
        self._pieces = _PieceCache(self._memory, stemmer.stemWord)
        self.version = f"words-{_RULES_VERSION}, stemmer {Stemmer.version()}"

    def words(self, text: str) -> list[str]:
        """Return the words of a text in order, with repeats. No word contains white space."""
        return list(chain.from_iterable(map(self._pieces.__getitem__, text.split())))

    def query_terms(self, text: str) -> list[Term]:
        """Return the terms of a query: each word once, stop words only if there is nothing else."""
        wanted: dict[str, None] = {}
        stopped: dict[str, None] = {}
        seen: set[str] = set()
        for start, end in find_spans(text):
            token = text[start:end]
            if token in seen:
                continue
            seen.add(token)
            for word, is_stopped in self._query_words(token):
                (stopped if is_stopped else wanted)[word] = None
            if len(wanted) >= MAX_QUERY_TERMS:
                break
        chosen = list(wanted or stopped)
        return [Term(word, 1.0 if word in seen else _term_weight(word)) for word in chosen[:MAX_QUERY_TERMS]]

    def spans(self, text: str) -> Iterator[TokenSpan]:
        """Yield the tokens of a text with their positions and words; together they are `words(text)`."""
        for start, end in find_spans(text):
            yield TokenSpan(start, end, self._memory[text[start:end]])

    def matching_spans(self, text: str, wanted: frozenset[str]) -> Iterator[TokenSpan]:
        """Yield the `spans` that have a wanted word."""
        # Most pieces do not match: those are rejected in C.
        pieces = text.split(" ")
        matching = map(not_, map(wanted.isdisjoint, map(self._pieces.__getitem__, pieces)))
        start = passed = 0
        for place in compress(range(len(pieces)), matching):
            start += sum(map(len, pieces[passed:place])) + place - passed
            passed = place
            piece = pieces[place]
            if piece.isascii() and piece.isalpha():  # the usual case: a single token
                yield TokenSpan(start, start + len(piece), self._pieces[piece])
                continue
            for match in find_matches(piece):
                words = self._memory[match[0]]
                if not wanted.isdisjoint(words):
                    yield TokenSpan(start + match.start(), start + match.end(), words)

    def _query_words(self, token: str) -> Iterator[tuple[str, bool]]:
        if not is_unspaced(token):
            yield from self._memory.derive(token)
            return
        yield from ((word, False) for word in islice(_unspaced_words(compose(token)), MAX_QUERY_TERMS))


def _term_weight(word: str) -> float:
    """Return the weight of a word that is not a whole token of the query."""
    return UNSPACED_CHARACTER_WEIGHT if len(word) == 1 and is_unspaced(word) else 1.0


def _unspaced_words(run: str) -> Iterator[str]:
    """Yield each character of a run and each pair of adjacent characters."""
    yield from run[:1]
    for first, second in pairwise(run):
        yield first + second
        yield second
