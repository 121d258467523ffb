"""Decide which lines of a model's answer are kept: those that cite their sources and claim nothing beyond them.

A language model that summarizes sometimes invents details that look as exact as the real ones. Whether a sentence is
true cannot be checked without another reader; whether its exact claims (numbers, paths, URLs, identifiers, names,
quotations) are in its sources can. The check is strict: a line that an honest writer rounded, renamed or counted is
dropped together with the invented ones, and the user is told. Only ordinary words are not checked: every token with a
character other than a letter must be in the sources, because nobody can list all forms of paths and identifiers.

Numbers are compared in digits, by value and unit: 1,000 equals 1000, and 60 ms is not 60 s. Number words and numerals
of other scripts are ordinary words. Parts of hashes and the month and day of a date do not count as numbers: nearly
every source has some.

The answer is redacted first. Our own comments and tags are removed, because a source could make a model write anchors;
so are checkboxes, which would become open tasks. Each dropped line is reported with the reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from lorelog.core.memory import DroppedLine
from lorelog.services.compact.sources import SummarySource

_GAPLESS_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Letters of scripts that write words, or words and their endings, without spaces; for a character class of a pattern."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(r"\d{4}([-/])\d\d(?:\1\d\d)?(?!\d)")
_HASH = re.compile(
    r"(?<![0-9a-f])(?=[0-9-]{0,40}[a-f])(?=[a-f-]{0,40}\d)[0-9a-f]{7,128}(?:-[0-9a-f]{4,12}){0,4}(?![0-9a-z])"
)
"""Hashes and UUIDs."""
_UNITS = {
    "ns": "ns nsec nanosecond nanoseconds",
    "us": "us \u03bcs usec microsecond microseconds",
    "ms": "ms msec millisecond milliseconds",
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
    "hz": "hz",
    "khz": "khz",
    "mhz": "mhz",
    "ghz": "ghz",
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
_MEASURE = re.compile(rf"(?<![\w.,:-])({_NUMBER.pattern})[ -]?(%|[^\W\d_]+)(?!\w)")
_NUMBER_TOKEN = re.compile(
    rf"[-+~#$\u20ac\u00a3]*{_NUMBER.pattern}(?:[-/x\u00d7]{_NUMBER.pattern})*-?(%|[^\W\d_]*)\+?", re.IGNORECASE
)
_ORDINALS = frozenset({"", "st", "nd", "rd", "th"})


def _find_numbers(text: str) -> set[str]:
    text = _DATE.sub(lambda match: f" {match[0][:4]} ", _HASH.sub(" ", text))
    return {_normalize_number(match[0]) for match in _NUMBER.finditer(text)}


def _find_measures(text: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield each number with a unit: as written, the number, and the units that the word may mean."""
    for match in _MEASURE.finditer(text):
        units = _UNITS_BY_WORD.get(match[2].casefold())
        if units:
            yield match[0], _normalize_number(match[1]), units


def _parse_number_token(token: str) -> list[str]:
    """Return the numbers of a token that consists only of numbers and a known unit; empty for any other token."""
    match = _NUMBER_TOKEN.fullmatch(token)
    if match is None or token[:2].casefold() == "0x" or _DATE.match(token):
        return []
    suffix = match[1].casefold()
    is_number = suffix in _ORDINALS or suffix in _UNITS_BY_WORD
    return [_normalize_number(number) for number in _NUMBER.findall(token)] if is_number else []


def _normalize_number(number: str) -> str:
    """Return a number for comparison: without thousands separators and without trailing zeros of a fraction."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        number = number.replace(",", "")
    if re.fullmatch(r"\d+\.\d+", number):
        number = number.rstrip("0").rstrip(".")
    return number


_QUOTED = re.compile(
    r"(`+)(?P<code>[^`\n]{1,400})\1"
    r'|"(?P<plain>[^"\n]{1,400})"|\u201c(?P<curly>[^\u201d\n]{1,400})\u201d|\u00ab(?P<french>[^\u00bb\n]{1,400})\u00bb'
    r"|\u201e(?P<german>[^\u201c\u201d\n]{1,400})[\u201c\u201d]|\u300c(?P<chinese>[^\u300d\n]{1,400})\u300d"
    r"|\u300e(?P<inner>[^\u300f\n]{1,400})\u300f|\u300a(?P<title>[^\u300b\n]{1,400})\u300b"
    r"|(?<!\w)['\u2018](?P<single>[^'\u2018\u2019\n]{2,400})['\u2019](?!\w)"
)
_URL = re.compile(rf"\b[a-z][a-z0-9+.-]{{1,20}}://[^\s<>\"'`\u201d\u3001\u3002)\]{_GAPLESS_SCRIPTS}]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TAG = re.compile(r"</?[A-Za-z][\w:-]{0,40}/?>")
_CALL = re.compile(r"[\w.:]*\w(?=\(\))")
_CLAIM_TOKEN = re.compile(
    r"(?:(?<=\d),(?=\d)|[^\s,;()\[\]{}<>\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"  # quotation marks and brackets
    r"\u3001\u3002\u3008-\u3011\u2026\u00b7\u2022\u2013\u2014\u2190-\u21ff\u2248\u2264\u2265])+"  # and separators
)
_EDGES = ".:!?*|=~^+&"
_ENDS = re.compile(r"[.:;!?\u3002\u2026\u2013\u2014(\[\"'`\u201c\u201e\u2018\u300a-\u3010]")
"""After one of these a capital letter may only mark the beginning of a sentence."""
_ACRONYM = re.compile(r"[A-Z][A-Z0-9]+s?")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CAMEL = re.compile(r"[^\W\d_]*[a-z\u00df-\u00ff][A-Z]|[A-Z]{2,}[a-z]{2}")
_NAME = re.compile(r"[A-Z][a-z\u00df-\u00ff]{2,}")
_WORD_SEPARATORS = re.compile(r"[/+&|:]")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "z.b", "u.a", "a.k.a", "and/or", "n/a", "w/o", "w/"})
_FUNCTION_WORDS = frozenset(
    [
        "a",
        "and",
        "as",
        "at",
        "but",
        "by",
        "do",
        "end",
        "for",
        "from",
        "in",
        "it",
        "no",
        "non",
        "not",
        "of",
        "off",
        "on",
        "or",
        "out",
        "per",
        "re",
        "so",
        "the",
        "to",
        "up",
    ]
)
_GERMAN = re.compile(r"\b(?:der|die|das|und|nicht|ist|wird|mit|f\u00fcr|auf|eine?[nmrs]?)\b")
_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_SCRIPT_BORDERS = re.compile(
    rf"(?<=[{_GAPLESS_SCRIPTS}])(?=[^\s{_GAPLESS_SCRIPTS}])|(?<=[^\s{_GAPLESS_SCRIPTS}/\\_-])(?=[{_GAPLESS_SCRIPTS}])"
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")
_BOLD = re.compile(r"(?<!/)\*\*(?!/)")


class SourceFacts:
    """The texts that a line may rest on, searched together."""

    def __init__(self, *texts: str) -> None:
        self._text = "\n".join(" ".join(_normalize_text(text).split()) for text in texts)
        self._folded = self._text.casefold()
        self._urls = {_trim_url(match[0]) for match in _URL.finditer(self._text)}
        self._numbers = _find_numbers(self._text)
        self._measures = {(number, unit) for _, number, units in _find_measures(self._text) for unit in units}
        # In German every noun has a capital letter, so names cannot be recognized by it.
        self._checks_names = len(set(_GERMAN.findall(self._folded))) < 3

    def unsupported(self, line: str) -> list[str]:
        """Return the claims of a line that the texts do not contain, in order."""
        return list(dict.fromkeys(claim for claim, supported in self._claims(_normalize_text(line)) if not supported))

    def _claims(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield each claim, and whether the texts contain it."""
        for match in _QUOTED.finditer(line):
            claim = " ".join(next(text for text in match.groupdict().values() if text is not None).split())
            if not any(map(str.isalnum, claim)):
                continue
            if match["code"] is not None:
                yield claim, self._contains_token(claim.removesuffix("()"), self._text)
            else:
                yield claim, self._contains_token(claim.strip(" .,;:!?\u2026").casefold(), self._folded)
        rest = _QUOTED.sub(" ", line)
        for pattern in (_URL, _MAIL, _TAG, _CALL):
            for match in pattern.finditer(rest):
                supported = (
                    _trim_url(match[0]) in self._urls if pattern is _URL else self._contains_token(match[0], self._text)
                )
                yield match[0], supported
            rest = pattern.sub(" ", rest)
        for claim, number, units in _find_measures(rest):  # 30 ms is not 30 s, though both have 30
            yield claim, any((number, unit) in self._measures for unit in units)
        yield from self._tokens(rest)

    def _tokens(self, rest: str) -> Iterator[tuple[str, bool]]:
        ended = 0
        for match in _CLAIM_TOKEN.finditer(rest):
            token = match[0].strip(_EDGES)
            begins = not rest[:ended].strip() or bool(_ENDS.search(rest[ended - 1 : match.start()]))
            ended = match.end()
            if any(map(str.isalnum, token)) and token.casefold() not in _ABBREVIATIONS:
                yield token, self._holds(token) and (begins or self._holds_name(token))

    def _holds(self, token: str) -> bool:
        word = token.casefold()
        if _NUMBER.fullmatch(token):
            return _normalize_number(token) in self._numbers
        if _ACRONYM.fullmatch(token):  # also in lower case, and without the plural s
            return any(self._contains_token(form, self._folded) for form in (word, word.removesuffix("s")))
        if _WORD.fullmatch(token) and not _CAMEL.match(token):
            return self._holds_joined(token)
        if self._contains_token(token.rstrip("/") or token, self._text) or self._holds_parts(token):
            return True
        if token.isalpha() and token[0].isupper():  # PostgreSQL may be written postgresql
            return self._contains_token(word, self._folded)
        numbers = _parse_number_token(token)
        return bool(numbers) and set(numbers) <= self._numbers

    def _holds_joined(self, token: str) -> bool:
        """Return whether hyphenated words are ordinary (end-to-end) or in the texts (X-Auth-Token must be)."""
        first, *others = token.split("-")
        named = any(map(str.isupper, (other[0] for other in others)))
        if not named and (len(others) < 2 or {first.casefold(), *others} & _FUNCTION_WORDS):
            return True
        parts = [first, *others]
        return self._contains_token(token.casefold(), self._folded) or all(
            self._contains_token(part.casefold(), self._folded) for part in parts
        )

    def _holds_parts(self, token: str) -> bool:
        """Return whether words joined by a slash or the like, such as read/write, are all in the texts."""
        parts = _WORD_SEPARATORS.split(token.strip("_") if token.count("_") == 2 else token)
        if parts == [token]:
            return False
        return all(
            not part or (part.isalpha() and self._contains_token(part.casefold(), self._folded)) for part in parts
        )

    def _holds_name(self, token: str) -> bool:
        """Return whether a capitalized word inside a sentence is in the texts; True for any other word."""
        if not self._checks_names or not _NAME.fullmatch(token):
            return True
        word = token.casefold()
        if word in _MONTHS and re.search(rf"\d{{4}}-{_MONTHS.index(word) + 1:02}\b", self._text):
            return True
        return word in self._folded if len(word) > 4 else self._contains_token(word, self._folded)

    @staticmethod
    def _contains_token(token: str, text: str) -> bool:
        """Return whether a text contains a whole token: app.py is in src/app.py but not in app.pyc."""
        start = text.find(token) if token else -1
        while start >= 0:
            before, after = text[max(0, start - 1) : start], text[start + len(token) : start + len(token) + 2]
            goes_on = _is_word_character(token[-1]) and re.match(r"\w|[.:-]\w", after)
            if not goes_on and not (_is_word_character(token[0]) and _is_word_character(before)):
                return True
            start = text.find(token, start + 1)
        return False


def _is_word_character(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")  # other scripts may write words without spaces


def _trim_url(url: str) -> str:
    return url.rstrip(".,;:!?*_/")


def _normalize_text(text: str) -> str:
    """Return a text for comparison: unified punctuation, no emphasis, spaces between scripts."""
    text = unicodedata.normalize("NFKC", text).replace("\u2011", "-").replace("\u2010", "-").replace("\u2212", "-")
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), _BOLD.sub("", text))
    text = "".join(char if char.isprintable() or char.isspace() else " " for char in text)
    return _SCRIPT_BORDERS.sub(" ", text)


MAX_LINE_CHARS = 700
MAX_ANSWER_CHARS = 100_000
"""Read limit of an answer: more than any requested length, and small enough for the patterns."""
_MAX_RAW_LINE_CHARS = 3000
"""A raw line above this limit is dropped as too long before any markup is removed."""
_ID = re.compile(r"[0-9a-f]{8,16}", re.IGNORECASE)
_CITATION = re.compile(
    r"""\s*(?P<opened>[\[\u3010\uff3b]+|[(\uff08])
    (?P<ids>(?:(?:ids?|sources?|chunks?|refs?|and|[\s,;:=\#^`"'\u3001\uff0c&])*\b[0-9a-f]{8,16}\b)+)
    [\s`"']*(?:[\]\u3011\uff3d]+|[)\uff09])""",
    re.IGNORECASE | re.VERBOSE,
)
"""Ids in brackets, in the forms that models use despite the instructions: `[ID]`, `[id: ID, ID]`, `(ID)`, in any case."""
_BULLET = re.compile(r"^\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
_CHECKBOX = re.compile(r"^(?:\[[ xX]?\]\s*)+")
_RESERVED_MARKUP = re.compile(
    r"<!--.{0,400}?-->|<!--|-->|</?(?:lorelog-memory|private|(?:source|lines)-[0-9a-f]{12})\b[^>]*>?", re.IGNORECASE
)
_MAX_SHOWN_CHARS = 200
_TOO_LONG = f"it is longer than {MAX_LINE_CHARS} characters"


class SummaryLine(Struct, frozen=True):
    """One line of a summary, and the ids of its sources."""

    text: str
    ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"- {self.text} [{', '.join(self.ids)}]"


class LineCheckResult(Struct, frozen=True):
    """The kept and dropped lines of an answer."""

    lines: tuple[SummaryLine, ...]
    dropped: tuple[DroppedLine, ...] = ()

    @property
    def is_mostly_dropped(self) -> bool:
        """Whether at least half of the lines were dropped: then the rest cannot be trusted either."""
        return len(self.lines) <= len(self.dropped)


class LineChecker(Struct, frozen=True):
    """Checks answers about some sources."""

    sources: Mapping[str, SummarySource]
    """By id."""
    clean: Callable[[str], str]
    _facts: dict[tuple[str, ...], SourceFacts] = field(default_factory=dict)

    def check(self, answer: str, max_lines: int = 60) -> LineCheckResult:
        """Return the checked lines of an answer; lines far beyond `max_lines` are dropped."""
        allowed = max(2 * max_lines, len(self.sources))
        kept: list[SummaryLine] = []
        dropped: list[DroppedLine] = []
        for text in _split_lines(self.clean(answer[:MAX_ANSWER_CHARS])):
            line, reason = None, "it is one of far too many lines"
            if len(kept) < allowed:
                line, reason = self._check_line(text) if len(text) <= _MAX_RAW_LINE_CHARS else (None, _TOO_LONG)
            if line is not None:
                kept.append(line)
            else:
                dropped.append(
                    DroppedLine(text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 1] + "…", reason)
                )
        if len(answer) > MAX_ANSWER_CHARS:
            dropped.append(
                DroppedLine(
                    self.clean(answer[MAX_ANSWER_CHARS : MAX_ANSWER_CHARS + _MAX_SHOWN_CHARS]),
                    "the answer is far too long",
                )
            )
        return LineCheckResult(tuple(dict.fromkeys(kept)), tuple(dropped))

    def _check_line(self, text: str) -> tuple[SummaryLine | None, str]:
        cited: dict[str, None] = {}
        claim = clean_line(_CITATION.sub(lambda match: self._collect_citations(match, cited), text), self.clean)
        if not any(map(str.isalnum, claim)):
            return None, "it is empty"
        if not cited:
            return None, "it cites nothing"
        ids = tuple(dict.fromkeys(map(self._resolve_citation, cited)))
        if "" in ids:
            unknown = next(id_ for id_ in cited if not self._resolve_citation(id_))
            return None, f"it cites {unknown}, which is not one of its sources"
        if len(claim) > MAX_LINE_CHARS:
            return None, _TOO_LONG
        missing = self._facts_of(ids).unsupported(claim)
        if missing:
            return None, f"its sources do not contain {missing[0][:80]}"
        return SummaryLine(claim, ids), ""

    def _collect_citations(self, match: re.Match[str], cited: dict[str, None]) -> str:
        """Add the ids of a bracket to `cited`, and return the text that stays. Parentheses may also hold a commit."""
        ids = [id_.lower() for id_ in _ID.findall(match["ids"])]
        if match["opened"] in "(\uff08" and not all(map(self._resolve_citation, ids)):
            return match[0]
        cited.update(dict.fromkeys(ids))
        return ""

    def _resolve_citation(self, cited: str) -> str:
        """Return the source id that a possibly shortened citation means; empty for none or several."""
        if cited in self.sources:
            return cited
        matches = [source for source in self.sources if source.startswith(cited) or cited.startswith(source)]
        if len(matches) != 1 or not self.sources[matches[0]].hash.startswith(cited):
            return ""
        return matches[0]

    def _facts_of(self, ids: tuple[str, ...]) -> SourceFacts:
        if ids not in self._facts:
            cited = [self.sources[id_] for id_ in ids]
            self._facts[ids] = SourceFacts(*(text for source in cited for text in (source.day, source.text)))
        return self._facts[ids]


def clean_line(text: str, clean: Callable[[str], str]) -> str:
    """Return a text safe for a journal line: printable, redacted, without our anchors, tags and checkboxes."""
    text = "".join(char if char.isprintable() else " " for char in text)
    before = ""
    while before != text:  # removing one may form another
        before = text
        text = _CHECKBOX.sub("", " ".join(clean(_RESERVED_MARKUP.sub("", text)).split()))
    return text


def _split_lines(answer: str) -> Iterator[str]:
    """Yield the lines of an answer, over-long ones truncated. An indented line without a bullet continues the one before."""
    current = ""
    for raw in answer.splitlines():
        line = raw.strip()
        if not line or line.startswith(("```", "~~~")):
            continue
        if current and raw[:1] in " \t" and not _BULLET.match(raw):
            current += f" {line}" if len(current) <= _MAX_RAW_LINE_CHARS else ""
            continue
        if current:
            yield current
        current = _BULLET.sub("", line, count=1)
    if current:
        yield current
