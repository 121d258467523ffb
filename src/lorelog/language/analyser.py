"""Splits text into tokens, compound tokens into their parts, and turns them into words: those that the lexical lane indexes, and the terms of a query.

A token is a word, an identifier, a path, a version, or a run of a script without spaces. Tokens are found in the raw
text and normalised one by one afterwards, so that indexed words and the positions that a snippet marks come from the
same split and cannot disagree. The patterns are possessive and bounded: no input makes them backtrack.

docs/search.md ("Words") has the rules. Decisions a reader may question:

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

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, compress, islice, pairwise
from operator import not_

from msgspec import Struct

from lorelog.core.query import Term
from lorelog.language import lexicon

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # Han iteration marks and zero
    (0x3041, 0x309A),  # Hiragana
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # Katakana
    (0x30FC, 0x318F),  # its length mark, Bopomofo, Hangul letters
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul syllables
    (0xF900, 0xFAFF),
    (0xFF66, 0xFFDC),  # half-width kana and Hangul
    (0x20000, 0x3FFFF),
)
"""Scripts that are matched by pairs of characters because no space separates words (Hangul has spaces, but its
particles are attached to the words).
"""

_MARKS = (
    "\u00ad\u200c\u200d"  # soft hyphen and joiners: invisible, inside words
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0966-\u096f\u0971-\u0dff\u0f71-\u0f84\u0f90-\u0fbc"
    "\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
)
"""Characters inside words that are not letters, which `\\w` does not match."""

_MAX_JOINTS = 30
_SUFFIX = r"(?:\+\+|#(?!\w))?+"  # C++, C#
_ASCII_TOKEN = re.compile(rf"\w++(?:[-./:@']{{1,4}}\w++){{0,{_MAX_JOINTS}}}+{_SUFFIX}", re.ASCII)

_NAME_RUN = re.compile(r"[^\W_]+")
_WITHOUT_DIACRITICS = dict.fromkeys(range(0x300, 0x370))
_WITHOUT_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200c\u200d"))
_ODD_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
"""Latin letters that Unicode does not decompose into a letter and a mark."""


def find_tokens(text: str) -> list[str]:
    return _pattern_for(text).findall(text)


def find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each token of `find_tokens`."""
    return (match.span() for match in _pattern_for(text).finditer(text))


def find_matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the match object of each token of `find_tokens`."""
    return _pattern_for(text).finditer(text)


def find_names(token: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the runs of letters and digits inside a token."""
    return (match.span() for match in _NAME_RUN.finditer(token))


def is_unspaced(token: str) -> bool:
    """Return True for a run of a script without spaces."""
    code = ord(token[0])
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)


def compose(token: str) -> str:
    """Return a token in one Unicode form with its case: full width becomes narrow, ligatures become letters."""
    if token.isascii():
        return token
    token = unicodedata.normalize("NFKC", token.translate(_WITHOUT_INVISIBLE))
    return token.replace("’", "'").replace("ʼ", "'")


def fold(text: str) -> str:
    """Return a composed token without case and without accents.

    Only general combining marks are removed (accents of Latin, Greek and Cyrillic); kana, Hangul and the vowel signs
    of other scripts are kept.
    """
    if text.isascii():
        return text.lower()
    bare = unicodedata.normalize("NFD", text.casefold()).translate(_WITHOUT_DIACRITICS)
    return unicodedata.normalize("NFC", bare).translate(_ODD_LETTERS)


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ASCII_TOKEN if text.isascii() else _wide_pattern()


@cache
def _wide_pattern() -> re.Pattern[str]:
    """Return the pattern for all scripts; compiled on first use, which takes ten milliseconds."""
    unspaced = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)
    letters = rf"[^\W{unspaced}]++"
    joint = rf"[{_MARKS}./:@'’-]{{1,4}}"
    return re.compile(rf"[{unspaced}]++|{letters}(?:{joint}{letters}){{0,{_MAX_JOINTS}}}+[{_MARKS}]*+{_SUFFIX}")


MAX_TOKEN_CHARS = 64
"""Maximum length of a word: a SHA-256 in hex. Longer compounds are found by their parts, longer parts are cut."""

Piece = tuple[str, bool]
"""A text, and whether it is a part (to be stemmed) rather than a compound (kept unchanged)."""

_SPLIT_LEVELS = (r"[/:@]+|-\.|\.-", r"\.", r"[-_]+")
_DASHES = r"--+|\.\.+"  # between words, not inside one
_EDGES = "-_./:@'"
_VERSION = r"(?:^|(?<=[-_]))[vV]?(\d+(?:\.\d+)+)"
_NUMBERS = r"\d+(?:-\d+)+"
_TIMESTAMP = r"(\d{4}-\d\d-\d\d)[Tt](\d.*)"
_HUMPS = (
    r"[A-Z]{2,}s(?![a-z])"  # IDs, APIs
    r"|[A-Z0-9]+(?=[A-Z][a-z])"  # HTTP of HTTPServer
    r"|[A-Z0-9]++(?![a-z])"
    r"|[A-Z]?[a-z0-9]+"
    r"|[A-Z0-9]+"
)
LETTERS_AND_NUMBER = re.compile(r"([^\W\d_]{2,})(\d+)|(\d+)([^\W\d_]{2,})")
_CONTRACTION_ENDINGS = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_NEGATION_STEMS = {"ca": "can", "wo": "will", "sha": "shall"}


def split_token(token: str) -> Iterator[Piece]:
    """Yield the pieces of a composed token: itself first if it is a compound, then its parts."""
    if token.isalnum():  # the usual case: nothing to split at
        yield from _split_name(token)
        return
    for text in chain.from_iterable(map(_split_at_dashes, _without_contractions(token))):
        suffix = "++" if text.endswith("++") else "#" if text.endswith("#") else ""
        name = text.removesuffix(suffix)
        if suffix and (len(name) == 1 or suffix == "++"):  # C#, C++, notepad++
            yield from _whole_piece(name.strip(_EDGES) + suffix)
        yield from _split_at_level(name, 0)


def _split_at_dashes(text: str) -> list[str]:
    return re.split(_DASHES, text) if "--" in text or ".." in text else [text]


def find_humps(name: str) -> list[tuple[int, int]]:
    """Return the spans of the parts of a camelCase name; one span if it has no humps."""
    if name.islower() or name.isupper() or not name:
        return [(0, len(name))]
    shape = name
    if not name.isascii():
        shape = "".join("A" if char.isupper() else "0" if char.isdigit() else "a" for char in name)
    spans = [match.span() for match in re.finditer(_HUMPS, shape)]
    # Base64 and random ids are long, and change case constantly.
    is_blob = len(name) >= 20 and len(spans) * (4 if any(map(str.isdigit, name)) else 3) > len(name)
    return [(0, len(name))] if is_blob else spans


def _without_contractions(token: str) -> list[str]:
    if "'" not in token:
        return [token]
    first, *others = token.split("'")
    if len(others) == 1 and others[0].lower() == "t" and first.lower().endswith("n"):
        verb = first[:-1].lower()
        return [_NEGATION_STEMS.get(verb, verb), "not"]
    return [first, *(text for text in others if text.lower() not in _CONTRACTION_ENDINGS)]


def _split_at_level(text: str, level: int) -> Iterator[Piece]:
    text = text.strip(_EDGES)
    while level < len(_SPLIT_LEVELS) and not text.isalnum():  # letters and digits have nothing to split at
        if level == 1 and any(map(str.isdigit, text)):
            numbers = list(_split_numbers(text))
            if numbers:
                yield from numbers
                return
        parts = [part for part in re.split(_SPLIT_LEVELS[level], text) if part]
        level += 1
        if len(parts) != 1:
            if parts:
                yield from _whole_piece(text)
            for part in parts:
                yield from _split_at_level(part, level)
            return
        text = parts[0].strip(_EDGES)
    if text:
        yield from _split_name(text)


def _split_numbers(text: str) -> Iterator[Piece]:
    """Yield the pieces of a version, a date or a time stamp; nothing for other texts."""
    if text[10:11] in ("T", "t") and (stamp := re.fullmatch(_TIMESTAMP, text)) is not None:
        yield from _whole_piece(text)
        yield from _prefixes(stamp[1], "-")
        yield from _split_at_level(stamp[2], 1)
    elif re.fullmatch(_NUMBERS, text):
        yield from _prefixes(text, "-")
    elif "." in text and (version := re.search(_VERSION, text)) is not None:
        yield from _whole_piece(text)
        yield from _split_at_level(text[: version.start()], 1)
        yield from _whole_piece(version.group())
        yield from _prefixes(version[1], ".")
        yield from _split_at_level(text[version.end() :], 1)


def _prefixes(text: str, separator: str) -> Iterator[Piece]:
    yield from _whole_piece(text)
    numbers = text.split(separator)
    for count in range(min(len(numbers) - 1, 3), 0, -1):
        prefix = separator.join(numbers[:count])
        if len(prefix) > 1:
            yield from _whole_piece(prefix)


def _split_name(name: str) -> Iterator[Piece]:
    if len(name) > MAX_TOKEN_CHARS:
        yield name[:MAX_TOKEN_CHARS], False
        return
    if name.isascii() and name.isalpha() and name.islower():  # the usual case: a plain word
        yield name, True
        return
    spans = find_humps(name)
    if len(spans) > 1:
        yield name, True  # stemmed like its lower-case spelling: getUserName is found by getusername
    for start, end in spans:
        part = name[start:end].casefold()  # before its length is measured: ß becomes two letters
        mixed = LETTERS_AND_NUMBER.fullmatch(part)
        if mixed is not None:
            yield part, False
            yield from ((text, True) for text in mixed.groups() if text)
        else:
            yield part, True


def _whole_piece(text: str) -> Iterator[Piece]:
    if len(text) <= MAX_TOKEN_CHARS:
        yield text, False


# words

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


class TokenSpan(Struct, frozen=True):
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
            words = ((word, False) for word in islice(_unspaced_words(compose(token)), MAX_QUERY_TERMS))
            for word, is_stopped in words if is_unspaced(token) else self._memory.derive(token):
                (stopped if is_stopped else wanted)[word] = None
            if len(wanted) >= MAX_QUERY_TERMS:
                break
        chosen = list(wanted or stopped)[:MAX_QUERY_TERMS]
        parts = {word for word in chosen if len(word) == 1 and word not in seen and is_unspaced(word)}
        return [Term(word, UNSPACED_CHARACTER_WEIGHT if word in parts else 1.0) for word in chosen]

    def spans(self, text: str) -> Iterator[TokenSpan]:
        """Yield the tokens of a text with their positions and words; together they are `words(text)`."""
        for start, end in find_spans(text):
            yield TokenSpan(start, end, self._memory[text[start:end]])

    def matching_spans(self, text: str, wanted: frozenset[str]) -> Iterator[TokenSpan]:
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


@cache
def word_analyser() -> WordAnalyser:
    """Return the analyser of this process."""
    return WordAnalyser()


def _unspaced_words(run: str) -> Iterator[str]:
    """Yield each character of a run and each pair of adjacent characters."""
    yield from run[:1]
    for first, second in pairwise(run):
        yield first + second
        yield second


# -- sentences -----------------------------------------------------------------------------------------------------------


@cache
def sentence_end() -> re.Pattern[str]:
    """Return the pattern of the white space between two sentences of a line.

    A full stop ends a sentence only before something that can begin one, so that `e.g. this`, `1. item` and `v1. then` stay
    whole; Chinese and Japanese full stops end one anywhere.
    """
    return re.compile(
        r"(?<=[.!?\u2026])(?<!\b[eEiI]\.[gGeE]\.)(?<!\bvs\.)(?<!\betc\.)(?<!\A\d\.)(?<!\A\d\d\.)[\"')\]*_\u201d]*\s+(?=[^a-z\s])"
        r"|(?<=[\u3002\uff01\uff1f])\s*(?=\S)"
    )


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the white space around them. Line ends split too."""
    return [
        sentence.strip() for line in text.splitlines() for sentence in sentence_end().split(line) if sentence.strip()
    ]
