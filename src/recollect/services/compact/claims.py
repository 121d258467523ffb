"""What a sentence claims so exactly that it can be looked up: numbers, paths, URLs, identifiers, quotations.

A model that sums up makes things up now and then, and what it makes up looks as exact as what it was told. Whether a sentence is
true cannot be checked without another reader; whether its numbers, names and quotations stand in what it rests on can. So that is
checked, and strictly: a line that an honest writer has rounded, renamed or counted out is thrown away with those that were
invented, and the reader is told. Words of ordinary language are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_QUOTED = re.compile(
    r"(`+)(?P<code>[^`\n]{1,400})\1"
    r'|"(?P<plain>[^"\n]{1,400})"|\u201c(?P<curly>[^\u201d\n]{1,400})\u201d|\u00ab(?P<french>[^\u00bb\n]{1,400})\u00bb'
    r"|\u201e(?P<german>[^\u201c\u201d\n]{1,400})[\u201c\u201d]|\u300c(?P<chinese>[^\u300d\n]{1,400})\u300d"
    r"|(?<!\w)['\u2018](?P<single>[^'\u2018\u2019\n]{2,400})['\u2019](?!\w)"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`\u201d)\]]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TOKEN = re.compile(r"[^\s,;()\[\]{}<>\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb\u300c\u300d\u3001\u3002\uff0c\u2026]+")
_EDGES = ".:!?*|=~^+&\u2013\u2014"
_ACRONYM = re.compile(r"[A-Z][A-Z0-9]+s?")
_IDENTIFIER = re.compile(
    r"\w*[^\W_]_+\w+|_\w+"  # snake_case, _private
    r"|[a-z][a-z0-9]*[A-Z]\w*|[A-Z]+[a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]+\w*|[A-Z][A-Z0-9]+"  # camelCase, HTTPServer, E42
    r"|\w[\w-]*(?:(?:\.|::?|->|[#@/\\=])[\w.-]+)+/?"  # dotted.names, a::b, src/app.py, host:port, KEY=value
    r"|(?:~|\.{1,2})?/[\w.@~/-]+|\.[A-Za-z][\w-]*"  # /etc/hosts, ./run, .gitignore
    r"|--?[A-Za-z][\w-]+|\$\w+|@\w[\w/-]*|%\w+%"  # --flag, $HOME, @scope/name
)
_ORDINARY = frozenset({"e.g", "i.e", "a.m", "p.m", "z.b", "u.a", "and/or", "n/a"})
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DAY = re.compile(r"\d{4}-\d\d(?:-\d\d)?")
_UNITS = {
    "ms": "ms msec millisecond milliseconds",
    "us": "us usec microsecond microseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
    "mo": "month months",
    "y": "y year years",
    "%": "% percent",
    "b": "b byte bytes",
    "kb": "kb kib kilobyte kilobytes",
    "mb": "mb mib megabyte megabytes",
    "gb": "gb gib gigabyte gigabytes",
    "tb": "tb tib terabyte terabytes",
    "thousand": "k thousand",
    "million": "m million millions",
    "billion": "bn billion billions",
    "times": "x times",
    "px": "px pixel pixels",
    "tokens": "token tokens",
    "qps": "qps rps",
}
_UNITS_BY_WORD: dict[str, frozenset[str]] = {
    word: frozenset(unit for unit, words in _UNITS.items() if word in words.split())
    for words in _UNITS.values()
    for word in words.split()
}
_AFTER_NUMBER = r"[ -]?(%|[^\W\d_]+)"
_MEASURED = re.compile(rf"(?<![\w.,:-])({_NUMBER.pattern}){_AFTER_NUMBER}(?!\w)")
_COUNTED = dict(
    zip(
        "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty ninety hundred".split(),  # noqa: SIM905
        "2 3 4 5 6 7 8 9 10 11 12 15 20 30 40 50 60 90 100".split(),  # noqa: SIM905
        strict=True,
    )
)


_COUNTED_WORD = re.compile(rf"\b(?:{'|'.join(_COUNTED)})\b", re.IGNORECASE)


class Ground:
    """What a line may rest on: some texts, looked up in as one."""

    def __init__(self, *texts: str) -> None:
        self._text = "\n".join(" ".join(_plain(text).split()) for text in texts)
        self._folded = self._text.casefold()
        self._urls = {_url(found[0]) for found in _URL.finditer(self._text)}
        self._numbers = {_even(found[0]) for found in _NUMBER.finditer(self._text)}
        self._numbers |= {number for word, number in _COUNTED.items() if self._stands(word, self._folded)}
        self._measures = {
            (_even(found[1]), unit)
            for found in _MEASURED.finditer(_in_digits(self._text))
            for unit in _UNITS_BY_WORD.get(found[2].casefold(), ())
        }

    def missing(self, line: str) -> list[str]:
        """Return what a line claims and the texts do not hold, in order."""
        return list(dict.fromkeys(one for one, known in self._claims(_plain(line)) if not known))

    def _claims(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield each claim, and whether the texts hold it."""
        for found in _QUOTED.finditer(line):
            said = " ".join(next(one for one in found.groupdict().values() if one is not None).split())
            if found["code"] is not None:
                yield said, self._stands(said.removesuffix("()"), self._text)
            elif any(map(str.isalnum, said)):
                yield said, self._stands(said.strip(" .,;:!?\u2026").casefold(), self._folded)
        rest = _QUOTED.sub(" ", line)
        for found in _URL.finditer(rest):
            yield found[0], _url(found[0]) in self._urls
        rest = _URL.sub(" ", rest)
        for found in _MAIL.finditer(rest):
            yield found[0], self._stands(found[0], self._text)
        rest = _MAIL.sub(" ", rest)
        for found in _MEASURED.finditer(_in_digits(rest)):  # 30 ms is not 30 s, though both say 30
            units = _UNITS_BY_WORD.get(found[2].casefold(), frozenset())
            if units:
                yield found[0], any((_even(found[1]), unit) in self._measures for unit in units)
        for found in _TOKEN.finditer(rest):
            token = found[0].strip(_EDGES)
            if token and token.casefold() not in _ORDINARY:
                yield token, self._holds(token)

    def _holds(self, token: str) -> bool:
        word = token.casefold()
        if word in _COUNTED:
            return _COUNTED[word] in self._numbers
        if _NUMBER.fullmatch(token):
            return _even(token) in self._numbers
        if _ACRONYM.fullmatch(token):  # it is one in small letters, too
            return any(self._stands(one, self._folded) for one in (word, word.removesuffix("s")))
        if _IDENTIFIER.fullmatch(token):
            return self._stands(token.rstrip("/") or token, self._text) or self._holds_parts(token)
        if any(map(str.isdigit, token)):
            return self._stands(token, self._text) or self._holds_number(token)
        return True

    def _holds_parts(self, token: str) -> bool:
        """Say whether words with a stroke between them, such as read/write, are all there; a path has other signs, too."""
        parts = token.split("/")
        return len(parts) > 1 and all(part.isalpha() and self._stands(part.casefold(), self._folded) for part in parts)

    def _holds_number(self, token: str) -> bool:
        if _DAY.search(token):
            return False
        unit = _NUMBER.sub("", token).strip("-+~<>=#$\u20ac\u00a3/.:\u2013")
        known = all(_even(one) in self._numbers for one in _NUMBER.findall(token))
        return known and (not unit or unit.casefold() in _UNITS_BY_WORD)

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


def _in_digits(text: str) -> str:
    return _COUNTED_WORD.sub(lambda found: _COUNTED[found[0].casefold()], text)


def _url(found: str) -> str:
    return found.rstrip(".,;:!?*_/")


def _even(number: str) -> str:
    """Return a number as it is compared: 1,000 is 1000, and zeros at the end of a fraction do not count."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        number = number.replace(",", "")
    if re.fullmatch(r"\d+\.\d+", number):
        number = number.rstrip("0").rstrip(".")
    return number


def _plain(text: str) -> str:
    """Return a text without emphasis and with one kind of hyphen, so that both sides are compared alike."""
    text = text.replace("\u2011", "-").replace("\u2010", "-").replace("\u00a0", " ").replace("**", "")
    return "".join(one if one.isprintable() or one.isspace() else " " for one in text)
