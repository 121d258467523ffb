"""What a sentence claims so exactly that it can be looked up: numbers, paths, URLs, identifiers, names, quotations.

A model that sums up makes things up now and then, and what it makes up looks as exact as what it was told. Whether a sentence is
true cannot be checked without another reader; whether its numbers, names and quotations stand in what it rests on can. So that is
checked, and strictly: a line that an honest writer has rounded, renamed or counted out is thrown away with those that were
invented, and the reader is told. Only words of ordinary language are not looked at: what has any other sign in it than letters must
stand there, since nobody can list what paths and identifiers look like.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from lorelog.services.compact.numerals import (
    GAPLESS,
    NUMBER,
    even,
    in_words,
    measures_of,
    number_with_unit,
    numbers_of,
)

_QUOTED = re.compile(
    r"(`+)(?P<code>[^`\n]{1,400})\1"
    r'|"(?P<plain>[^"\n]{1,400})"|\u201c(?P<curly>[^\u201d\n]{1,400})\u201d|\u00ab(?P<french>[^\u00bb\n]{1,400})\u00bb'
    r"|\u201e(?P<german>[^\u201c\u201d\n]{1,400})[\u201c\u201d]|\u300c(?P<chinese>[^\u300d\n]{1,400})\u300d"
    r"|\u300e(?P<inner>[^\u300f\n]{1,400})\u300f|\u300a(?P<title>[^\u300b\n]{1,400})\u300b"
    r"|(?<!\w)['\u2018](?P<single>[^'\u2018\u2019\n]{2,400})['\u2019](?!\w)"
)
_URL = re.compile(rf"\b[a-z][a-z0-9+.-]{{1,20}}://[^\s<>\"'`\u201d\u3001\u3002)\]{GAPLESS}]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TAG = re.compile(r"</?[A-Za-z][\w:-]{0,40}/?>")
_CALL = re.compile(r"[\w.:]*\w(?=\(\))")
_TOKEN = re.compile(
    r"(?:(?<=\d),(?=\d)|[^\s,;()\[\]{}<>\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"  # quotation marks and brackets of all kinds
    r"\u3001\u3002\u3008-\u3011\u2026\u00b7\u2022\u2013\u2014\u2190-\u21ff\u2248\u2264\u2265])+"  # and what stands between words
)
_EDGES = ".:!?*|=~^+&"
_ENDS = re.compile(r"[.:;!?\u3002\u2026\u2013\u2014(\[\"'`\u201c\u201e\u2018\u300a-\u3010]")
"""After one of these a word may begin with a capital letter that means nothing."""
_ACRONYM = re.compile(r"[A-Z][A-Z0-9]+s?")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CAMEL = re.compile(r"[^\W\d_]*[a-z\u00df-\u00ff][A-Z]|[A-Z]{2,}[a-z]{2}")
_NAME = re.compile(r"[A-Z][a-z\u00df-\u00ff]{2,}")
_STROKES = re.compile(r"[/+&|:]")
_ORDINARY = frozenset({"e.g", "i.e", "a.m", "p.m", "z.b", "u.a", "a.k.a", "and/or", "n/a", "w/o", "w/"})
_SMALL = frozenset("a and as at but by do end for from in it no non not of off on or out per re so the to up".split())  # noqa: SIM905
_GERMAN = re.compile(r"\b(?:der|die|das|und|nicht|ist|wird|mit|f\u00fcr|auf|eine?[nmrs]?)\b")
_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_GAPS = re.compile(rf"(?<=[{GAPLESS}])(?=[^\s{GAPLESS}])|(?<=[^\s{GAPLESS}/\\_-])(?=[{GAPLESS}])")
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_BOLD = re.compile(r"(?<!/)\*\*(?!/)")


class Ground:
    """What a line may rest on: some texts, looked up in as one."""

    def __init__(self, *texts: str) -> None:
        self._text = "\n".join(" ".join(_plain(text).split()) for text in texts)
        self._folded = self._text.casefold()
        self._urls = {_url(found[0]) for found in _URL.finditer(self._text)}
        self._numbers = numbers_of(self._text)
        self._measures = {(number, unit) for _, number, units in measures_of(self._text) for unit in units}
        # There every noun has a capital letter, and a name cannot be told by it.
        self._tells_names = len(set(_GERMAN.findall(self._folded))) < 3

    def missing(self, line: str) -> list[str]:
        """Return what a line claims and the texts do not hold, in order."""
        return list(dict.fromkeys(one for one, known in self._claims(_plain(line)) if not known))

    def _claims(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield each claim, and whether the texts hold it."""
        for found in _QUOTED.finditer(line):
            said = " ".join(next(one for one in found.groupdict().values() if one is not None).split())
            if not any(map(str.isalnum, said)):
                continue
            if found["code"] is not None:
                yield said, self._stands(said.removesuffix("()"), self._text)
            else:
                yield said, self._stands(said.strip(" .,;:!?\u2026").casefold(), self._folded)
        rest = _QUOTED.sub(" ", line)
        for pattern in (_URL, _MAIL, _TAG, _CALL):
            for found in pattern.finditer(rest):
                known = _url(found[0]) in self._urls if pattern is _URL else self._stands(found[0], self._text)
                yield found[0], known
            rest = pattern.sub(" ", rest)
        for said, number, units in measures_of(rest):  # 30 ms is not 30 s, though both say 30
            yield said, any((number, unit) in self._measures for unit in units)
        for found, number in in_words(rest):
            yield found[0], numbers_of(number) <= self._numbers
        yield from self._tokens(rest)

    def _tokens(self, rest: str) -> Iterator[tuple[str, bool]]:
        ended = 0
        for found in _TOKEN.finditer(rest):
            token = found[0].strip(_EDGES)
            begins = not rest[:ended].strip() or bool(_ENDS.search(rest[ended - 1 : found.start()]))
            ended = found.end()
            if any(map(str.isalnum, token)) and token.casefold() not in _ORDINARY:
                yield token, self._holds(token) and (begins or self._holds_name(token))

    def _holds(self, token: str) -> bool:
        word = token.casefold()
        if NUMBER.fullmatch(token):
            return even(token) in self._numbers
        if _ACRONYM.fullmatch(token):  # it is one in small letters, too
            return any(self._stands(one, self._folded) for one in (word, word.removesuffix("s")))
        if _WORD.fullmatch(token) and not _CAMEL.match(token):
            return self._holds_joined(token)
        if self._stands(token.rstrip("/") or token, self._text) or self._holds_parts(token):
            return True
        if token.isalpha() and token[0].isupper():  # PostgreSQL is a name, and postgresql is the same
            return self._stands(word, self._folded)
        numbers = number_with_unit(token)
        return bool(numbers) and set(numbers) <= self._numbers

    def _holds_joined(self, token: str) -> bool:
        """Say whether words with hyphens are ordinary, or there: end-to-end is, X-Auth-Token must be."""
        first, *others = token.split("-")
        named = any(map(str.isupper, (one[0] for one in others)))
        if not named and (len(others) < 2 or {first.casefold(), *others} & _SMALL):
            return True
        parts = [first, *others]
        return self._stands(token.casefold(), self._folded) or all(
            self._stands(part.casefold(), self._folded) for part in parts
        )

    def _holds_parts(self, token: str) -> bool:
        """Say whether words with a stroke between them, such as read/write, are all there; a path has other signs, too."""
        parts = _STROKES.split(token.strip("_") if token.count("_") == 2 else token)
        if parts == [token]:
            return False
        return all(not part or (part.isalpha() and self._stands(part.casefold(), self._folded)) for part in parts)

    def _holds_name(self, token: str) -> bool:
        """Say whether a word with a capital letter, which begins no sentence, is there; what is no such word needs not be."""
        if not self._tells_names or not _NAME.fullmatch(token):
            return True
        word = token.casefold()
        if word in _MONTHS and re.search(rf"\d{{4}}-{_MONTHS.index(word) + 1:02}\b", self._text):
            return True
        return word in self._folded if len(word) > 4 else self._stands(word, self._folded)

    @staticmethod
    def _stands(token: str, text: str) -> bool:
        """Say whether a token stands in a text by itself, not as a part of another: app.py is in src/app.py, not in app.pyc."""
        start = text.find(token) if token else -1
        while start >= 0:
            before, after = text[max(0, start - 1) : start], text[start + len(token) : start + len(token) + 2]
            goes_on = _is_of_word(token[-1]) and re.match(r"\w|[.:-]\w", after)
            if not goes_on and not (_is_of_word(token[0]) and _is_of_word(before)):
                return True
            start = text.find(token, start + 1)
        return False


def _is_of_word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")  # other scripts have no gaps between words


def _url(found: str) -> str:
    return found.rstrip(".,;:!?*_/")


def _plain(text: str) -> str:
    """Return a text as both sides are compared: one kind of each sign, no emphasis, gaps where scripts meet."""
    text = unicodedata.normalize("NFKC", text).replace("\u2011", "-").replace("\u2010", "-").replace("\u2212", "-")
    text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), _BOLD.sub("", text))
    text = "".join(one if one.isprintable() or one.isspace() else " " for one in text)
    return _GAPS.sub(" ", text)
