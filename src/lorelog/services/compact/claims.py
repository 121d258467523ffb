"""Decide which lines of a model's answer are kept: those that cite their sources and claim nothing beyond them.

A language model that summarizes sometimes invents details that look as exact as the real ones. Whether a sentence is
true cannot be checked without another reader; whether its exact claims (numbers, paths, URLs, identifiers,
quotations) are in its sources can. The check is strict: a line that an honest writer rounded, renamed or counted is
dropped together with the invented ones, and the user is told. Only ordinary words are not checked: every token with a
character other than a letter must be in the sources, because nobody can list all forms of paths and identifiers.

Numbers are compared in digits, by value and unit: 1,000 equals 1000, 1 min equals 60 s, and 60 ms is not 60 s. Number words, numerals
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
from lorelog.language.lexicon import lexicon
from lorelog.language.quantities import NUMBER, UNIT, parse_quantity
from lorelog.services.compact.sources import SummarySource

_GAPLESS_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Letters of scripts that write words, or words and their endings, without spaces; for a character class of a pattern."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(r"\d{4}([-/])\d\d(?:\1\d\d)?(?!\d)")
_HASH = re.compile(
    r"(?<![0-9a-f])(?=[0-9-]{0,40}[a-f])(?=[a-f-]{0,40}\d)[0-9a-f]{7,128}(?:-[0-9a-f]{4,12}){0,4}(?![0-9a-z])"
)
"""Hashes and UUIDs."""
_MEASURE = re.compile(rf"(?<![\w.,:-])(?P<number>{NUMBER})(?P<unit>{UNIT})", re.IGNORECASE)
_NUMBERS_ONLY = re.compile(r"[-+~#$\u20ac\u00a3]*\d[\d.,:/x\u00d7-]*(?:%|st|nd|rd|th|x)?\+?", re.IGNORECASE)
_QUOTED = re.compile(
    r"(`+)(?P<code>[^`\n]{1,400})\1"
    r"|[\"\u201c\u201e](?P<plain>[^\"\u201c\u201d\n]{1,400})[\"\u201c\u201d]|\u00ab(?P<french>[^\u00bb\n]{1,400})\u00bb"
    r"|[\u300c\u300e\u300a](?P<chinese>[^\u300d\u300f\u300b\n]{1,400})[\u300d\u300f\u300b]"
    r"|(?<!\w)['\u2018](?P<single>[^'\u2018\u2019\n]{2,400})['\u2019](?!\w)"
)
_WHOLE = re.compile(
    rf"\b[a-z][a-z0-9+.-]{{1,20}}://[^\s<>\"'`\u201d\u3001\u3002)\]{_GAPLESS_SCRIPTS}]+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|</?[A-Za-z][\w:-]{0,40}/?>|[\w.:]*\w(?=\(\))",
    re.IGNORECASE,
)
"""URLs, addresses, tags and calls: punctuation is part of them."""
_CLAIM_TOKEN = re.compile(
    r"(?:(?<=\d),(?=\d)|[^\s,;()\[\]{}<>\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb"  # quotation marks and brackets
    r"\u3001\u3002\u3008-\u3011\u2026\u00b7\u2022\u2013\u2014\u2190-\u21ff\u2248\u2264\u2265])+"  # and separators
)
_PLAIN = re.compile(r"[^\W\d_][^\W\d_A-Z]*(?:-[^\W\d_A-Z]+)*")
"""An ordinary word, or several with hyphens."""
_SENTENCE_START = re.compile(r"(?:\A|[.:;!?\u3002\u2026\u2013\u2014(\[])\W*\Z")
_ABBREVIATIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "z.b", "u.a", "a.k.a", "and/or", "n/a", "w/o", "w/"})
_SCRIPT_BORDERS = re.compile(
    rf"(?<=[{_GAPLESS_SCRIPTS}])(?=[^\s{_GAPLESS_SCRIPTS}])|(?<=[^\s{_GAPLESS_SCRIPTS}/\\_-])(?=[{_GAPLESS_SCRIPTS}])"
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])")


class SourceFacts:
    """The texts that a line may rest on, searched together."""

    def __init__(self, *texts: str) -> None:
        self._text = "\n".join(" ".join(_normalize_text(text).split()) for text in texts)
        self._folded = self._text.casefold()
        self._wholes = {_trim_url(match[0]) for match in _WHOLE.finditer(self._text)}
        dated = _DATE.sub(lambda match: f" {match[0][:4]} ", _HASH.sub(" ", self._text))
        self._numbers = set(map(_plain_number, _NUMBER.findall(dated)))
        self._checks_names = len(lexicon("foreign_words").intersection(self._folded.split())) < 3
        self._measures = {parse_quantity(match["number"], match["unit"]) for match in _MEASURE.finditer(self._text)}

    def unsupported(self, line: str) -> list[str]:
        """Return the claims of a line that the texts do not contain, in order."""
        return list(dict.fromkeys(claim for claim, supported in self._claims(_normalize_text(line)) if not supported))

    def _claims(self, line: str) -> Iterator[tuple[str, bool]]:
        """Yield each claim, and whether the texts contain it."""
        for match in _QUOTED.finditer(line):
            claim = " ".join(next(text for text in match.groupdict().values() if text is not None).split())
            if match["code"] is not None:
                yield claim, self._contains(claim.removesuffix("()"), self._text)
            elif any(map(str.isalnum, claim)):
                yield claim, self._contains(claim.strip(" .,;:!?\u2026").casefold(), self._folded)
        rest = _QUOTED.sub(" ", line)
        for match in _WHOLE.finditer(rest):
            is_url = "://" in match[0]
            yield match[0], _trim_url(match[0]) in self._wholes if is_url else self._contains(match[0], self._text)
        rest = _WHOLE.sub(" ", rest)
        for match in _MEASURE.finditer(rest):  # 30 ms is not 30 s, though both have 30
            yield match[0], parse_quantity(match["number"], match["unit"]) in self._measures
        rest = _MEASURE.sub(" ", rest)
        for match in _CLAIM_TOKEN.finditer(rest):
            token = match[0].strip(".:!?*|=~^+&")
            if not any(map(str.isalnum, token)) or token.casefold() in _ABBREVIATIONS:
                continue
            if not _PLAIN.fullmatch(token) or self._is_name(token, rest[max(0, match.start() - 20) : match.start()]):
                yield token, self._holds(token)

    def _is_name(self, token: str, before: str) -> bool:
        """Return True for a capital letter inside a sentence, unless the language writes nouns so."""
        return len(token) > 2 and token[0].isupper() and self._checks_names and not _SENTENCE_START.search(before)

    def _holds(self, token: str) -> bool:
        if token.isalpha():  # PostgreSQL may be written postgresql, and API in the plural
            forms = {token.casefold(), token.casefold().removesuffix("s")}
            return any(self._contains(form, self._folded) for form in forms)
        if _NUMBERS_ONLY.fullmatch(token) and not _DATE.match(token):
            return set(map(_plain_number, _NUMBER.findall(token))) <= self._numbers
        return self._contains(token.rstrip("/") or token, self._text)

    @staticmethod
    def _contains(token: str, text: str) -> bool:
        """Return whether a text contains a whole token: app.py is in src/app.py but not in app.pyc."""
        start = text.find(token) if token else -1
        while start >= 0:
            before, after = text[max(0, start - 1) : start], text[start + len(token) : start + len(token) + 2]
            goes_on = _is_word_character(token[-1]) and re.match(r"\w|[.:-]\w", after)
            if not goes_on and not (_is_word_character(token[0]) and _is_word_character(before)):
                return True
            start = text.find(token, start + 1)
        return False


def _plain_number(number: str) -> str:
    """Return a number without trailing zeros of a fraction."""
    whole, point, fraction = number.partition(".")
    return f"{whole}.{fraction}".rstrip("0").rstrip(".") if point and fraction.isdigit() else number


def _is_word_character(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")  # other scripts may write words without spaces


def _trim_url(url: str) -> str:
    return url.rstrip(".,;:!?*_/")


def _normalize_text(text: str) -> str:
    """Return a text for comparison: unified punctuation, no emphasis, spaces between scripts."""
    text = unicodedata.normalize("NFKC", text).replace("\u2011", "-").replace("\u2010", "-").replace("\u2212", "-")
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    text = text.replace("/**", "\0").replace("**", "").replace("\0", "/**")
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
