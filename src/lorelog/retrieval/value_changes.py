"""Recognizes among a few texts those that state different values of one thing: a newer value and an older one, or a contradiction.

"The timeout is 5 s" and a later "the timeout is 30 s" are a pair of now and was: the same subject, attribute and scope,
comparable values that differ, and a later date. If the dates do not tell which is later, or the later text is not the
user's or an agent's own, the two contradict each other; neither is called outdated.

Rules only, and precision first: a pair of values that is no pair makes a reader distrust the right note. A statement is a value after "is",
"=", ":", a preposition ("raised the limit from 5 to 30", "listens on port 8080") or a noun such as "port"; or a tool of a known purpose
after "use" or in place of another. All other words of its clause are the key that two statements must share: "the timeout in staging" and
"the timeout in production" are two subjects. Questions, guesses, examples, past values, commands, quotations and code blocks state nothing.
A text that gives one subject two values lists alternatives and states neither.

Texts of different projects are never compared. Headings, and for documents the file's name, are part of the subject: two files that say
"port: 8080" and "port: 3000" are about two ports, and two documents are never compared with each other, only with notes. Sections of one undated
document are of one time, so they are not compared either.
A subject of a single word ("timeout") is compared only between short texts and texts with mostly the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from lorelog.core.document import DATE_OF_FILE, StoredChunk
from lorelog.core.record import REPOSITORY_ORIGIN, UNTRUSTED_ORIGINS
from lorelog.language.lexicon import lexicon, tool_purposes
from lorelog.language.quantities import QUANTITY, UNIT, parse_quantity
from lorelog.language.sentences import first_clause, last_clause, split_sentences

MAX_TEXTS = 24
"""Texts that are compared: the best of a ranking."""
_SHORT_CHARS = 200
_MIN_SHARED_WORDS = 0.5
_DAY_OR_TIME = re.compile(r"(?:session\s+)?(?:\d{4}-\d\d-\d\d)?[T\s]*(?:\d{1,2}:\d\d(?::\d\d)?)?.{0,60}#?\d*", 2)
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
            chunk.anchor is not None or _DAY_OR_TIME.match(chunk.source.rpartition("/")[2]) is not None,
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
    values: dict[tuple[str, str], str] = {}
    documents = [(item.text.source, item.text.date, item.value.value) for item in group if not item.text.is_memory]
    if any(values.setdefault((source, date), value) != value for source, date, value in documents):
        return []  # one document gives the subject several values at one time: alternatives
    newest = group[0]
    for statement in group[1:]:
        if (statement.text.is_own, statement.text.date[:16]) > (newest.text.is_own, newest.text.date[:16]):
            newest = statement
    pairs = (_compare(statement, newest) for statement in group if statement.number != newest.number)
    return [pair for pair in pairs if pair is not None]


def _compare(statement: _Statement, newest: _Statement) -> ValuePair | None:
    value, current = statement.value.value, newest.value.value
    if value == current or not statement.is_about_same(newest) or not _is_specific(statement, newest):
        return None
    are_dated, is_noted = statement.text.date and newest.text.date, statement.text.is_memory or newest.text.is_memory
    if not (are_dated if statement.text.source == newest.text.source else is_noted):
        return None
    is_negated = value.startswith("not ") or current.startswith("not ")
    if is_negated and f"not {current}" != value and f"not {value}" != current:
        return None
    is_later = _is_later(newest.text.date, statement.text.date)
    return _make_pair(statement, newest, is_settled=is_later and (newest.text.is_own or not statement.text.is_own))


def _compare_replaced(older: _Statement, newer: _Statement) -> ValuePair | None:
    """Return a pair if the newer statement names the older one's value as replaced, for a wider subject."""
    is_specific = len(newer.value.key) > 1 or newer.value.kind.startswith("tool:")
    if not is_specific or older.value.value != newer.value.replaces or older.number == newer.number:
        return None
    if not _is_later(newer.text.date, older.text.date) or (older.text.is_own and not newer.text.is_own):
        return None
    return _make_pair(older, newer, is_settled=True)


def _make_pair(older: _Statement, newer: _Statement, *, is_settled: bool) -> ValuePair:
    was, now = older.value, newer.value
    about = now.about or was.about
    return ValuePair(older.number, newer.number, is_settled, about, was.shown, now.shown, was.sentence, now.sentence)


def _is_later(other: str, date: str) -> bool:
    """Return whether a date is known to be later than another."""
    if not date or not other or date[:10] != other[:10]:
        return "" < date[:10] < other[:10]
    return len(date) > 10 < len(other) and date[:16] != other[:16] and date < other


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
    titles = [
        title
        for title in text.headings
        if title
        and not (title[:4].isdigit() or (title[0].isdigit() and ":" in title and _DAY_OR_TIME.fullmatch(title)))
    ]
    if not text.is_memory and text.source:
        folder, _, name = text.source.removeprefix(text.project).rpartition("/")
        titles += [folder.rpartition("/")[2], name.rpartition(".")[0]]
    if not titles:
        return frozenset()
    words = key_words(" ".join(titles).replace("_", " "))
    return words - lexicon("generic_titles")


# statements

SHORT_TEXT_CHARS = 400
"""A longer text is about more than one thing."""
MAX_TEXT_CHARS = 4_000
"""Statements are looked for in the first characters of a text."""
_MAX_SENTENCE_CHARS = 400
_MAX_KEY_WORDS = 9
_SWITCHES = {
    name: (axis, state)
    for axis, state, names in (
        ("switch", "on", "enabled on true active"),
        ("switch", "off", "disabled off false inactive"),
        ("need", "on", "required mandatory"),
        ("need", "off", "optional"),
        ("permission", "on", "allowed permitted"),
        ("permission", "off", "forbidden prohibited banned disallowed"),
        ("support", "on", "supported"),
        ("support", "off", "unsupported"),
    )
    for name in names.split()
}
_COPULAS = frozenset({"is", "are", "be", "=", ":=", "equals"})
_PREPOSITIONS = frozenset({"to", "at", "on", "in", "after", "every", "as", "under", "for", "with"})
_CHOICES = frozenset({"use", "uses", "using", "chose", "choose", "picked", "prefer", "adopted", "the"})
_ATTRIBUTES = frozenset(
    """
    timeout ttl port version limit interval delay retries size length depth threshold budget quota capacity concurrency workers replicas
    threads connections python node go ruby java php rust postgres redis mysql kubernetes django rails react
    """.split()
)
"""Nouns that a value may follow directly: "port 8080", "Python 3.12"."""
_FILLERS = frozenset(
    "now currently still just only always exactly already again a an the back up down out set value".split()
)
_PAST = frozenset(
    "was were previously formerly originally initially earlier once before old former previous ago until".split()
)
_REFUSED = frozenset(
    "when if unless whether once while except depending not longer never cannot how why who it this that there what which".split()
)
"""Words before a value with which the clause states nothing: a condition, a negation, a subject from another sentence."""
_SKIPPED_LABELS = ("- files:", "- commands:", "- errors:", "- user asked:", "- went on with:", "- ended:")
_LINE_START = re.compile(r"\s*(?:[-*+•]|\d+[.)])?\s*(?:\[[ xX]\]\s*)?")
_MARKUP = re.compile(r"[;{}(\[]\s*$|</|/>|^\s+[\w.-]+:(?:\s|$)|[{}]{2}|\{%")
"""Lines of code, of HTML, of templates, and of indented YAML; a piece of a code block may have no fence."""
_VALUE = re.compile(
    rf"`(?P<code>[^`\n]{{1,60}})`|\"(?P<quoted>[^\"\n]{{1,40}})\"|(?P<day>\b\d{{4}}-\d\d-\d\d\b)"
    rf"|(?<![\w.,:/#$€£@\\-])v?(?P<number>\d+(?:[.,_]\d+)*)(?P<unit>{UNIT})?(?![\w@°]|[./:-]\w|\s?[x×]\s?\d)"
    rf"|(?<![\w`\"./-])(?P<name>[A-Za-z][\w.-]*\w)(?![\w`\"/])",
    re.IGNORECASE,
)
_KEY_WORD = re.compile(r"[a-z0-9]+(?:[+#]+)?|[^\W\d_a-z]+")
_ALTERNATIVE = re.compile(r"\s*(?:,|/|or|and|\||-|–|to|\.\.+|…)\s*(?:or\s+)?[`\"\d]|\s*[=+*/]")
_SCOPE_START = re.compile(
    r"(?:in|on|for|with|without|under|during|at|inside|within|using|by|per|outside|behind)\b", re.IGNORECASE
)
_QUALIFIER = re.compile(r"\b(?:at (?:least|most)|(?:no )?(?:more|less|fewer) than|up to)$|[<>]=?$|[≤≥]$")
_REPLACED = re.compile(
    r"\b(?:from|replac\w+|instead of|rather than)\s+[`\"]?([^`\"]{1,40}?)[`\"]?(?:\s+(?:over\s+)?to|\s+(?:with|by))?$",
    re.IGNORECASE,
)


class StatedValue(Struct, frozen=True):
    """A value that a sentence states for a subject."""

    key: frozenset[str]
    """Words of subject, attribute and scope."""
    kind: str
    """What values may be compared with: a unit, `number`, `code`, a switch, a tool's purpose."""
    value: str
    shown: str
    """The value as written."""
    about: str
    """The subject as written."""
    sentence: str
    replaces: str = ""
    """The value that the sentence itself says was replaced."""


def find_stated_values(text: str, terms: Sequence[str] = ()) -> tuple[StatedValue, ...]:
    """Return the values that a text states, each subject once.

    With the terms of a question, a long text is read only in the lines that have one of them: reading all of twenty hits would take
    longer than the search.
    """
    text = text[:MAX_TEXT_CHARS]
    if not terms or len(text) <= SHORT_TEXT_CHARS:
        return find_cached_values(text) if text else ()
    kept, is_code, is_skipped = [], False, False
    for line in text.split("\n"):
        lowered = line.lower()
        is_code ^= lowered.startswith("```")
        if line.startswith("- "):
            is_skipped = lowered.startswith(_SKIPPED_LABELS)
        if not is_code and not is_skipped and any(term in lowered for term in terms):
            kept.append(line)
    return find_cached_values("\n".join(kept)) if kept else ()


@lru_cache(maxsize=4096)
def find_cached_values(text: str) -> tuple[StatedValue, ...]:
    """Return the values that a text states, each subject once; remembered by text."""
    found: dict[tuple[str, frozenset[str]], StatedValue | None] = {}
    for sentence in _sentences(text):
        if lexicon("guesses").isdisjoint(_KEY_WORD.findall(sentence.lower())) and "such as" not in sentence:
            for stated in _values_of(sentence):
                place = (stated.kind, stated.key)
                earlier = found.get(place, stated)
                # Two values of one subject: a list of alternatives.
                found[place] = stated if earlier is not None and earlier.value == stated.value else None
    return tuple(stated for stated in found.values() if stated is not None)


def _sentences(text: str) -> Iterator[str]:
    is_skipped = False
    is_code = text.startswith("---\n")
    for line in text.removeprefix("---\n").split("\n"):
        stripped = line.lstrip()
        if is_code and line == "---":  # the end of the front matter
            is_code = False
            continue
        if stripped.startswith(("```", "~~~")):
            is_code = not is_code
            continue
        if is_code or not stripped or stripped[0] in "#|><{" or stripped.startswith("[ ") or _MARKUP.search(line):
            continue
        if line.startswith("- "):
            is_skipped = line.lower().startswith(_SKIPPED_LABELS)
        if is_skipped or "?" in line:
            continue
        start = _LINE_START.match(line)
        body = line[start.end() :] if start else line
        for sentence in split_sentences(body.replace("**", "").replace("__", "")):
            if 5 <= len(sentence) <= _MAX_SENTENCE_CHARS:
                yield sentence.rstrip(".;!")


def key_words(text: str) -> frozenset[str]:
    """Return the words of a text that tell subjects apart, in one form."""
    return frozenset(_singular(word) for word in _KEY_WORD.findall(text.lower()) if word not in _light_words())


@cache
def _light_words() -> frozenset[str]:
    return lexicon("stop_words") | lexicon("change_verbs") | lexicon("light_words")


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _values_of(sentence: str) -> Iterator[StatedValue]:
    if sentence.startswith(("If ", "When ", "Unless ", "if ", "when ", "unless ")):
        return
    for match in _VALUE.finditer(sentence):
        parsed = _parse_value(match)
        left, right = sentence[: match.start()].rstrip(), sentence[match.end() :]
        if parsed and not _ALTERNATIVE.match(right) and not left.endswith(("(", "[", "/", "-", "–", "+", "~", "|")):
            stated = _read_value(sentence, left, right, match[0].strip('`"'), parsed, match["unit"])
            if stated is not None:
                yield stated


def _read_value(
    sentence: str, left: str, right: str, shown: str, parsed: tuple[str, str], unit: str | None
) -> StatedValue | None:
    """Return the statement of a value between two parts of a sentence; None if nothing is stated there."""
    kind, value = parsed
    if left.count("(") > left.count(")"):
        return None
    qualifier = _QUALIFIER.search(left.lower())
    clause = left if _SCOPE_START.match(sentence) else _subject_clause(left)
    words = clause[: len(clause) - len(qualifier[0])].split() if qualifier else clause.split()
    while words and words[-1].lower() in _FILLERS:
        words.pop()
    if words and words[-1].lower() in {"not", "longer"} and kind in {"switch", "need", "permission", "support"}:
        words = words[: -2 if words[-1].lower() == "longer" else -1]
        value = "off" if value == "on" else "on"
    replaced = _REPLACED.search(" ".join(words))
    if not words or not _links(words[-1].lower(), kind, is_replacing=replaced is not None) or _is_refused(words):
        return None
    if replaced:
        words = " ".join(words)[: replaced.start()].split()
    key = key_words(" ".join(words))
    if frozenset(map(_singular, key)) <= _generic_words() and not (replaced or kind.startswith("tool:")):
        return None
    if kind.startswith("tool:"):
        purpose = key_words(kind[5:])
        following = right.lower().lstrip(" ,").split(maxsplit=1)
        is_list = right.lstrip().startswith(("and ", "or ", "/")) or (following and following[0] in tool_purposes())
        is_attributed = not left.lower().endswith((" is", " are", ":")) or key & purpose or "store" in key
        if is_list or not is_attributed:
            return None  # "the error is Postgres"
        key = frozenset(word for word in key - purpose if tool_purposes().get(word) != kind[5:]) | {kind}
    tail = first_clause(right)
    key |= key_words(f"{qualifier[0] if qualifier else ''} {tail}") - (
        key_words(kind[5:]) if kind[:5] == "tool:" else frozenset()
    )
    if not 0 < len(key) <= _MAX_KEY_WORDS:
        return None
    return StatedValue(key, kind, value, shown, _describe(words, kind), sentence, _old_value(replaced, unit))


def _subject_clause(left: str) -> str:
    """Return the last clause before a value, with a label in front of it that is not generic."""
    label, separator, rest = left.partition(": ")
    if not separator:
        return last_clause(left)
    is_generic = key_words(label) <= _generic_words()
    return last_clause(rest) if is_generic else f"{label} {last_clause(rest)}"


@cache
def _generic_words() -> frozenset[str]:
    return frozenset(map(_singular, lexicon("generic_subjects"))) | lexicon("generic_subjects")


def _links(word: str, kind: str, *, is_replacing: bool) -> bool:
    """Return True if the word before a value attributes it to the words in front."""
    if word in _COPULAS or (word.endswith(":") and len(word) > 1):
        return True
    if kind in {"switch", "need", "permission", "support"}:
        return False
    if kind.startswith("tool:"):
        return word in _CHOICES or is_replacing or word in {"on", "to", "with"}
    return word in _PREPOSITIONS or (word.strip("`") in _ATTRIBUTES and kind not in {"code", "day"})


def _is_refused(words: Sequence[str]) -> bool:
    lowered = frozenset(word.lower().strip(",;:`") for word in words)
    if not lowered.isdisjoint(_REFUSED) or any(word.endswith("n't") for word in lowered):
        return True
    is_past = not lowered.isdisjoint(_PAST) and lowered.isdisjoint(lexicon("change_verbs"))
    return is_past or not frozenset("[]{}<>$\\").isdisjoint(" ".join(words))


def _describe(words: Sequence[str], kind: str) -> str:
    """Return the subject as written: the words without verbs and articles at both ends."""
    if kind.startswith("tool:"):
        return kind[5:]
    light = _light_words()
    first = next((at for at, word in enumerate(words) if word.lower() not in light), 0)
    heavy = [at for at, word in enumerate(words) if word.lower().strip("=") not in light]
    last = heavy[-1] if heavy else len(words) - 1
    return " ".join(words[first : last + 1]).rstrip(":= ")


def _old_value(replaced: re.Match[str] | None, unit: str | None) -> str:
    if replaced is None:
        return ""
    quantity = QUANTITY.fullmatch(replaced[1])
    parsed = parse_quantity(quantity["number"], quantity["unit"] or unit) if quantity else None
    return parsed[1] if parsed else replaced[1].lower()


def _parse_value(match: re.Match[str]) -> tuple[str, str] | None:
    """Return a value's kind and its comparable form."""
    text = (match["code"] or match["quoted"] or match["name"] or "").strip()
    lowered = text.lower()
    if lowered in _SWITCHES:
        return _SWITCHES[lowered]
    if purpose := tool_purposes().get(lowered):
        return f"tool:{purpose}", "postgres" if lowered == "postgresql" else lowered
    if match["day"] or match["name"]:
        return ("day", match["day"]) if match["day"] else None
    text = text or f"{match['number'] or ''}{match['unit'] or ''}"
    if not text:  # blanks in quotes
        return None
    if quantity := QUANTITY.fullmatch(text):
        return parse_quantity(quantity["number"], quantity["unit"])
    return ("code", text) if " " not in text or match["code"] else None
