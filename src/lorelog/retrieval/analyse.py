"""Text to words: what the lexical lane indexes and what a question asks for.

Compounds are kept whole and by their parts (`identifiers`); English parts are stemmed; scripts without spaces become
single characters and pairs. Two decisions a reader may question:

- Documents keep their stop words and single characters, questions drop them unless nothing else is left. So a
  question of one stop word or of one Chinese character finds its text, and no other question pays for it.
- Words are remembered by what stands between white space, and by the raw token. Text repeats itself, so almost all of
  the work is one cut at white space and one dictionary look-up per piece, both in C: a third of the time that finding
  every token anew takes. No token has white space in it, so a piece gives the same words in any text. The memories are
  emptied when they are full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Protocol

from lorelog.core.query import Term
from lorelog.retrieval.identifiers import LONGEST, split_token
from lorelog.retrieval.stopwords import STOP_WORDS
from lorelog.retrieval.tokens import compose, find_matches, find_spans, find_tokens, fold, is_unspaced

MOST_TERMS = 1024
"""Unique terms of one query: a question that pastes a whole log still gets an answer soon."""

_MOST_REMEMBERED = 1 << 16
_LONGEST_REMEMBERED = 128
_LONGEST_PIECE = 40
_RULES = "2"
"""Raise when these rules change so that the same text may give other words."""


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class Span:
    """A token in its text, with the words it is found by."""

    start: int
    end: int
    words: tuple[str, ...]


class _Memory(dict[str, tuple[str, ...]]):
    """Raw token to words."""

    def __init__(self, stemmer: _Stemmer) -> None:
        super().__init__()
        self._stem = stemmer.stemWord

    def __missing__(self, token: str) -> tuple[str, ...]:
        if token.isalpha() and token.isascii() and len(token) <= LONGEST and token[1:].islower():
            words: tuple[str, ...] = (self._stem(token.lower()),)
        elif token.isascii() and token.isdigit() and len(token) <= LONGEST:
            words = (token,)
        elif is_unspaced(token):
            words = tuple(_unspaced_words(compose(token)))
        else:
            words = tuple(dict.fromkeys(word for word, _ in self.derive(token)))
        if len(token) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[token] = words
        return words

    def derive(self, token: str) -> Iterator[tuple[str, bool]]:
        """Yield the words of a spaced token, each with whether it is a stop word."""
        composed = compose(token)
        # Normalising can bring white space or symbols in (fractions, Arabic ligatures), so it is cut once more.
        tokens = (composed,) if token.isascii() else find_tokens(composed)
        for part in tokens:
            if is_unspaced(part):
                yield from ((word, False) for word in _unspaced_words(part))
                continue
            for text, is_part in split_token(part):
                folded = fold(text)[:LONGEST]
                if not folded:
                    continue
                stopped = folded in STOP_WORDS
                yield (self._stem(folded) if is_part and folded.isascii() and folded.isalpha() else folded), stopped


class _Pieces(dict[str, tuple[str, ...]]):
    """What stands between white space, to words; long ones, as a sentence of Chinese, are not remembered."""

    def __init__(self, memory: _Memory) -> None:
        super().__init__()
        self._memory = memory

    def __missing__(self, piece: str) -> tuple[str, ...]:
        if piece.isascii() and piece.isalpha():  # one token, most often
            words = self._memory[piece]
        else:
            words = tuple(chain.from_iterable(map(self._memory.__getitem__, find_tokens(piece))))
        if len(piece) <= _LONGEST_PIECE:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[piece] = words
        return words


class WordAnalyser:
    """The one analyser of lorelog; may be shared, since neither memory nor stemmer lets go of the interpreter."""

    def __init__(self) -> None:
        import Stemmer

        self._memory = _Memory(Stemmer.Stemmer("english", 0))
        self._pieces = _Pieces(self._memory)
        self.version = f"words-{_RULES}, stemmer {Stemmer.version()}"

    def words(self, text: str) -> list[str]:
        """Return the words of a text, in order, repeats kept. No word contains white space."""
        return list(chain.from_iterable(map(self._pieces.__getitem__, text.split())))

    def query_terms(self, text: str) -> list[Term]:
        """Return what a question asks for: each word once, stop words only when there is nothing else."""
        wanted: dict[str, None] = {}
        stopped: dict[str, None] = {}
        seen: set[str] = set()
        for start, end in find_spans(text):
            token = text[start:end]
            if token in seen:
                continue
            seen.add(token)
            for word, is_stopped in self._asked(token):
                (stopped if is_stopped else wanted)[word] = None
            if len(wanted) >= MOST_TERMS:
                break
        chosen = list(wanted or stopped)
        return [Term(word) for word in chosen[:MOST_TERMS]]

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the tokens of a text with their places and words; all of them together are `words(text)`."""
        for start, end in find_spans(text):
            yield Span(start, end, self._memory[text[start:end]])

    def matching_spans(self, text: str, wanted: frozenset[str]) -> Iterator[Span]:
        """Yield those of `spans` that have a wanted word."""
        # Most pieces are others: those are told in C.
        pieces = text.split(" ")
        others = list(map(wanted.isdisjoint, map(self._pieces.__getitem__, pieces)))
        if all(others):
            return
        start = 0
        for piece, is_other in zip(pieces, others, strict=True):
            if not is_other:
                for match in find_matches(piece):
                    words = self._memory[match[0]]
                    if not wanted.isdisjoint(words):
                        yield Span(start + match.start(), start + match.end(), words)
            start += len(piece) + 1

    def _asked(self, token: str) -> Iterator[tuple[str, bool]]:
        if not is_unspaced(token):
            yield from self._memory.derive(token)
            return
        run = compose(token)
        pairs = [run[i : i + 2] for i in range(min(len(run) - 1, MOST_TERMS))]
        yield from ((word, False) for word in pairs or [run])


def _unspaced_words(run: str) -> Iterator[str]:
    """Yield each character of a run and each pair of neighbours."""
    yield from run[:1]
    for first, second in pairwise(run):
        yield first + second
        yield second
