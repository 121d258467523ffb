"""Recognizes among a few texts those that state different values of one thing: a newer value and an older one, or a contradiction.

"The timeout is 5 s" and a later "the timeout is 30 s" are a pair of now and was: the same subject, attribute and scope
(`stated_values`), comparable values that differ, and a later date. If the dates do not tell which is later, or the later text is not the
user's or an agent's own, the two contradict each other; neither is called outdated.

Texts of different projects are never compared. Headings, and for documents the file's name, are part of the subject: two files that say
"port: 8080" and "port: 3000" are about two ports, and two documents are never compared with each other, only with notes. Sections of one undated
document are of one time, so they are not compared either.
A subject of a single word ("timeout") is compared only between short texts and texts with mostly the same words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from lorelog.core.document import DATE_OF_FILE, StoredChunk
from lorelog.core.record import REPOSITORY_ORIGIN, UNTRUSTED_ORIGINS
from lorelog.retrieval.stated_values import StatedValue, find_stated_values, key_words

MAX_TEXTS = 24
"""Texts that are compared: the best of a ranking."""
_SHORT_CHARS = 200
_MIN_SHARED_WORDS = 0.5
_DAY_OR_TIME = re.compile(r"(?:session\s+)?(?:\d{4}-\d\d-\d\d)?[T\s]*(?:\d{1,2}:\d\d(?::\d\d)?)?.{0,60}#?\d*", 2)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
"""Beginning of a journal's name."""
_GENERIC_TITLES = frozenset(
    """
    config configuration setting setup note notes decision decisions journal memory readme index docs doc documentation general overview
    update updates change changelog log misc default defaults usage reference guide project todo main introduction about adr option
    fact facts convention conventions rule rules md section detail details summary
    """.split()  # noqa: SIM905
)


_EXAMPLE_TITLES = frozenset(
    {"example", "sample", "alternative", "tutorial", "demo", "snippet", "troubleshooting", "faq", "benchmark"}
)


class DatedText(Struct, frozen=True):
    """A text that may state values, and what is known about it."""

    text: str
    date: str = ""
    """ISO day, or day and time; empty if the text's own date is not known."""
    project: str = ""
    source: str = ""
    headings: tuple[str, ...] = ()
    is_memory: bool = True
    """Whether it is an entry of its own; otherwise its file's name says what it is about."""
    is_own: bool = True
    """Whether it is the user's or an agent's own text."""

    @classmethod
    def from_chunk(cls, stored: StoredChunk) -> DatedText:
        """Return a chunk as a text."""
        chunk = stored.chunk
        origin = chunk.anchor.origin if chunk.anchor is not None else ""
        return cls(
            chunk.text,
            "" if chunk.date_source == DATE_OF_FILE else chunk.date,
            stored.project,
            chunk.source,
            chunk.heading_path,
            chunk.anchor is not None or _DAY.match(chunk.source.rpartition("/")[2]) is not None,
            origin not in UNTRUSTED_ORIGINS and origin != REPOSITORY_ORIGIN,
        )


class ValuePair(Struct, frozen=True):
    """Two texts, by number, that state different values of one thing."""

    older: int
    newer: int
    """If the pair is not settled, the order says nothing."""
    is_settled: bool
    """Whether the dates tell which value is current."""
    about: str
    was: str
    now: str
    was_sentence: str
    now_sentence: str


def find_value_pairs(texts: Sequence[DatedText], terms: Sequence[str] = ()) -> list[ValuePair]:
    """Return the pairs among the first texts: each outdated or contradicted statement with the newest about the same subject.

    `terms` are the words of the question that long texts must have near a statement.
    """
    subjects: dict[tuple[str, str, frozenset[str]], list[_Statement]] = {}
    replacing: list[_Statement] = []
    for number, text in enumerate(texts[:MAX_TEXTS]):
        values = find_stated_values(text.text, terms)
        context = context_words(text) if values else frozenset()
        if context & _EXAMPLE_TITLES:
            continue
        for value in values:
            statement = _Statement(number, text, value, value.key | context, context)
            subjects.setdefault((value.kind, text.project, statement.key), []).append(statement)
            if value.replaces:
                replacing.append(statement)
    pairs = [pair for group in subjects.values() if len(group) > 1 for pair in _compare_group(group)]
    known = {(pair.older, pair.was_sentence) for pair in pairs}
    for newer in replacing:
        for (kind, project, key), group in subjects.items():
            if kind == newer.value.kind and project == newer.text.project and newer.key < key:
                pairs += [
                    pair
                    for older in group
                    if (older.number, older.value.sentence) not in known and (pair := _compare_replaced(older, newer))
                ]
    return pairs


class _Statement(Struct, frozen=True):
    number: int
    text: DatedText
    value: StatedValue
    key: frozenset[str]
    """Words of the statement and of the headings above it."""
    context: frozenset[str]

    def is_about_same(self, other: _Statement) -> bool:
        """Return whether words that only one of the statements has are in the headings of only the other."""
        own, others = self.value.key, other.value.key
        return own == others or (
            bool(own & others)
            and own - others <= other.context - self.context
            and others - own <= self.context - other.context
        )


def _compare_group(group: list[_Statement]) -> list[ValuePair]:
    """Compare the statements about one subject with the newest of our own that has a date, or else with the first."""
    if _are_alternatives(group):
        return []
    newest = group[0]
    for statement in group[1:]:
        if (statement.text.is_own, statement.text.date[:16]) > (newest.text.is_own, newest.text.date[:16]):
            newest = statement
    pairs = (_compare(statement, newest) for statement in group if statement.number != newest.number)
    return [pair for pair in pairs if pair is not None]


def _are_alternatives(group: list[_Statement]) -> bool:
    """Return whether one document gives the subject several values at one time."""
    values: dict[tuple[str, str], str] = {}
    return any(
        values.setdefault((statement.text.source, statement.text.date), statement.value.value) != statement.value.value
        for statement in group
        if not statement.text.is_memory
    )


def _compare(statement: _Statement, newest: _Statement) -> ValuePair | None:
    value, current = statement.value.value, newest.value.value
    if value == current or not statement.is_about_same(newest) or not _is_specific(statement, newest):
        return None
    if statement.text.source == newest.text.source:
        if not (statement.text.date and newest.text.date):
            return None
    elif not (statement.text.is_memory or newest.text.is_memory):
        return None
    if (
        (value.startswith("not ") or current.startswith("not "))
        and value != f"not {current}"
        and current != f"not {value}"
    ):
        return None
    is_later = _later(statement.text.date, newest.text.date) > 0
    return _make_pair(statement, newest, is_settled=is_later and (newest.text.is_own or not statement.text.is_own))


def _compare_replaced(older: _Statement, newer: _Statement) -> ValuePair | None:
    """Return a pair if the newer statement names the older one's value as replaced, for a wider subject."""
    is_specific = len(newer.value.key) > 1 or newer.value.kind.startswith("tool:")
    if not is_specific or older.value.value != newer.value.replaces or older.number == newer.number:
        return None
    if _later(older.text.date, newer.text.date) <= 0 or (older.text.is_own and not newer.text.is_own):
        return None
    return _make_pair(older, newer, is_settled=True)


def _make_pair(older: _Statement, newer: _Statement, *, is_settled: bool) -> ValuePair:
    was, now = older.value, newer.value
    about = now.about or was.about
    return ValuePair(older.number, newer.number, is_settled, about, was.shown, now.shown, was.sentence, now.sentence)


def _later(date: str, other: str) -> int:
    """Return 1 if the other date is later, -1 if it is earlier, and 0 if that is not known."""
    if not date or not other:
        return 0
    if date[:10] != other[:10]:
        return 1 if date[:10] < other[:10] else -1
    if len(date) > 10 and len(other) > 10 and date[:16] != other[:16]:
        return 1 if date < other else -1
    return 0


def _is_specific(first: _Statement, second: _Statement) -> bool:
    if len(first.key) > 1 or first.value.kind.startswith("tool:"):
        return True
    one, two = first.text.text, second.text.text
    if len(one) <= _SHORT_CHARS and len(two) <= _SHORT_CHARS:
        return True
    words, others = key_words(one), key_words(two)
    return len(words & others) >= _MIN_SHARED_WORDS * len(words | others)


def context_words(text: DatedText) -> frozenset[str]:
    """Return the words of headings, and of a document's file, that say what its statements are about."""
    titles = [title for title in text.headings if not _is_time(title)]
    if not text.is_memory and text.source:
        folder, _, name = text.source.removeprefix(text.project).rpartition("/")
        titles += [folder.rpartition("/")[2], name.rpartition(".")[0]]
    if not titles:
        return frozenset()
    words = key_words(" ".join(titles).replace("_", " "))
    return words - _GENERIC_TITLES


def _is_time(title: str) -> bool:
    return not title or (
        (title[0].isdigit() and _DAY_OR_TIME.fullmatch(title) is not None and ":" in title) or title[:4].isdigit()
    )
