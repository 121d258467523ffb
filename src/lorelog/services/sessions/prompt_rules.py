"""Selects the standing rules that a prompt is about, by their words, while an agent waits.

No model and no regular expressions: words are stemmed, synonyms of software work are merged, and each word of a rule has a
weight. A rare word ("e2e") can carry a match; a word that stands in every second prompt ("test") needs another one;
the generic ones ("add", "file") only support. The subject of a rule is the verb or noun that it begins with, or that
follows "never", "no", "always" or "use" ("never *commit* to main"): it counts as a rare word, and a match of it needs
fewer of the other words. A rule is selected if enough of its weight is in one sentence of the prompt: in a long prompt,
words of different sentences match by accident.

Precision counts more than recall: a rule that does not fit costs attention at every prompt.
`tests/services/sessions/prompt_rules.txt` has labelled prompts.
"""

from __future__ import annotations

from math import log

from lorelog.language.lexicon import lexicon
from lorelog.light.delivery_log import read_deliveries, session_log

TYPE_CHECKING = False  # hooks import this module, and `typing` takes 10 ms
if TYPE_CHECKING:
    from typing import Any


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MAX_RULES, _MAX_CANDIDATES = 2_000, 400
"""Newest rules that are looked at, and those of them that are compared; more would take longer than a hook may."""
_PREFIX_CHARS = 4
_MAX_PROMPT_CHARS = 6_000
"""Characters of a prompt that are read, half from its beginning and half from its end: pasted logs are no request."""
_MAX_SENTENCE_TERMS = 40
_MIN_SCORE, _MIN_SHARE = 0.75, 0.4
_SUBJECT_SHARE, _ONE_WORD_SHARE = 0.2, 0.28
"""Enough if the prompt has the subject of the rule, and if that is only a part of a compound ("customer names")."""
_SURE_SCORE, _SURE_SHARE = 2.0, 0.25
"""Enough for a long rule, most of whose words explain it."""
_GENERIC, _COMMON, _SUBJECT, _RARE = 0.25, 0.5, 0.85, 1.0

_STOP_WORDS = lexicon("function_words")
_GENERIC_WORDS = lexicon("generic_task_words")
_COMMON_WORDS = lexicon("common_task_words")
_RULED_VERBS = lexicon("ruled_verbs")
_SYNONYMS = {
    "spec": "test", "dep": "dependency", "dependencies": "dependency",
    "package": "dependency", "library": "dependency", "lib": "dependency", "doc": "docs", "documentation": "docs",
    "document": "docs", "db": "database", "configuration": "config", "setting": "config", "authentication": "auth",
    "authenticate": "auth", "login": "auth", "signin": "auth", "repository": "repo", "ts": "typescript",
    "js": "javascript", "py": "python", "k8s": "kubernetes", "environment": "env", "remove": "delete", "drop": "delete",
    "erase": "delete", "deletion": "delete", "installation": "install", "msg": "message", "func": "function",
    "deployment": "deploy", "formatter": "format", "prettier": "format", "linter": "lint", "eslint": "lint", "ruff": "lint",
    "logging": "log", "logger": "log", "println": "print", "mocking": "mock", "migration": "migrate",
    "translation": "translate", "endtoend": "e2e", "mr": "pr", "pull_request": "pr", "color": "colour",
    "summary": "summarize", "summarise": "summarize", "db_migration": "migrate", "publication": "publish",
    "refactoring": "refactor", "bump": "upgrade", "commenting": "comment",
    "released": "release", "credential": "secret", "password": "secret", "annotation": "typehint",
}  # fmt: skip
_PHRASES = (
    ("end-to-end", "e2e"),
    ("end to end", "e2e"),
    ("pull request", "pr"),
    ("merge request", "pr"),
    ("type hint", "typehint"),
    ("type annotation", "typehint"),
    ("force push", "force-push"),
    ("use any ", "use any_type "),
    ("as any", "as any_type"),
    ("any type", "any_type"),
    ("log out", "logout"),
    ("sign in", "signin"),
    ("log in", "login"),
)
_SUBJECT_MARKS = _word_set("not never no don doesn avoid without stop use uses using always prefer must only instead")
_EDIT_STEMS = frozenset(("add", "writ", "creat", "edit", "chang", "updat", "modify", "read", "open"))
_MAX_SUBJECT_TERMS = 3
_MAX_ENDING_CHARS = 4
_IMPLIED = {
    **dict.fromkeys(_word_set("npm pnpm yarn bun pip uv poetry conda"), (("install",), ("dependency",))),
    **dict.fromkeys(_word_set("jest vitest pytest mocha"), (("test", "writ"), ("test", "add"), ("test", "creat"))),
    **dict.fromkeys(("black", "prettier"), (("format",),)),
}
"""Tools, and the words of prompts that lead to their use: all of one group."""
_SEPARATORS = str.maketrans(dict.fromkeys("\t'\"`()[]{}<>|/\\*#@$%^&+=~,:-–—“”‘’«»…·•、，：（）「」《》", " "))
_SENTENCE_ENDS = str.maketrans(dict.fromkeys(".!?;\r。！？；", "\n"))


def _stem(word: str) -> str:
    """Return a word without its usual English endings, or the common name of its synonyms."""
    word = _SYNONYMS.get(word, word)
    if len(word) > 3 and word.isascii():
        for ending, replacement in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
            if word.endswith(ending) and len(word) > len(ending) + 1:
                word = word[: -len(ending)] + replacement
                break
        else:
            if word.endswith("s") and not word.endswith(("ss", "us", "is", "as", "os")):
                word = word[:-1]
        word = _SYNONYMS.get(word, word)
        for ending in ("ing", "ed", "er"):
            base = word[: -len(ending)]
            if word.endswith(ending) and len(base) >= 3 and any(vowel in base for vowel in "aeiouy"):
                is_doubled = len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
                if ending != "er" or is_doubled:
                    word = base[:-1] if is_doubled else base
                break
        if len(word) > 7 and word.endswith(("tion", "sion")):
            word = word[:-3]
        elif len(word) > 5 and word.endswith("ly"):
            word = word[:-2]
        word = word.removesuffix("e") if len(word) > 3 else word
    return word


def _in(stem: str, words: frozenset[str]) -> bool:
    """Return whether a stem is of one of the words. The lists have words, not stems: stemming them all takes 2 ms."""
    return stem in words or f"{stem}e" in words or f"{stem}ion" in words


class _Rule:
    """The stems of a rule, and those that it is about."""

    __slots__ = ("heads", "is_topic", "stems", "subjects")

    def __init__(self) -> None:
        self.stems: set[str] = set()
        self.heads: set[str] = set()
        self.subjects: set[str] = set()
        self.is_topic = False

    def matched(self, window: set[str]) -> set[str]:
        """Return the stems of the rule that a sentence has, or that its words imply."""
        tools = {
            stem for stem in self.stems & _IMPLIED.keys() if any(window.issuperset(words) for words in _IMPLIED[stem])
        }
        return self.stems & window | tools

    def needs_verb(self, matched: set[str]) -> bool:
        """Return whether only common nouns match, and none of the verbs that say what the rule is about."""
        if self.stems.isdisjoint(_EDIT_STEMS) or not matched.isdisjoint(_EDIT_STEMS):
            return False
        return not any(
            stem in self.subjects
            if _in(stem, _RULED_VERBS)
            else not (_in(stem, _COMMON_WORDS) or _in(stem, _GENERIC_WORDS))
            for stem in matched
        )


def _subjects(group: list[str], *, begins: bool) -> set[str]:
    """Return the subject of a clause: its verb, or its first and its rare words, or all if it has no rare ones."""
    if group and _in(group[0], _RULED_VERBS):
        return {group[0]}
    rare = {stem for stem in group if not _in(stem, _COMMON_WORDS)}
    if not begins:
        return rare
    return rare | set(group[:1]) if rare else set(group)


def _replace_phrases(text: str) -> str:
    text = text.casefold()
    for phrase, word in _PHRASES:
        if phrase in text:
            text = text.replace(phrase, word)
    return text


def _normalize(text: str) -> str:
    text = _replace_phrases(text)
    if "." in text:
        text = " ".join(_split_dots(word) for word in text.replace("\n", " \n ").split(" "))
    return text


def _split_dots(word: str) -> str:
    """Return a file name without its ending, which is a language and not a subject; a dot inside is not an end."""
    inner = word.rstrip(".")
    if "." not in inner:
        return word
    parts = inner.split(".")
    if len(parts[-1]) <= _MAX_ENDING_CHARS and parts[0]:
        parts.pop()
    return " ".join(parts) + word[len(inner) :]


class _Terms:
    """Splits text into stems, and remembers the stem of each word."""

    def __init__(self) -> None:
        self._stems: dict[str, str] = {}

    def sentences(self, text: str) -> list[list[str]]:
        """Return the stems of each sentence without stop words, in order."""
        lines = _normalize(text).translate(_SENTENCE_ENDS).split("\n")
        return [
            [stem for word in line.translate(_SEPARATORS).split() for stem in self._of_word(word)] for line in lines
        ]

    def rule(self, text: str) -> _Rule:
        """Return the stems of a rule and its subjects."""
        rule, is_first = _Rule(), True
        for clause in _normalize(text).replace(",", "\n").translate(_SENTENCE_ENDS).split("\n"):
            group: list[str] = []
            groups, last = [group], ""
            for word in clause.translate(_SEPARATORS).split():
                if word in _SUBJECT_MARKS:
                    group = []
                    groups.append(group)
                stems = self._of_word(word)
                if not stems and last:
                    rule.heads.add(last)  # the noun of a compound is its last word
                last = stems[-1] if stems else ""
                rule.stems.update(stems)
                group += [stem for stem in stems if not _in(stem, _GENERIC_WORDS)]
            rule.heads.add(last)
            for number, group in enumerate(groups):
                # A clause after a comma begins with a subject only if a word marks it.
                rule.subjects |= _subjects(group[:_MAX_SUBJECT_TERMS], begins=is_first or number > 0)
            is_first = False
        return rule

    def _of_word(self, word: str) -> tuple[str, ...]:
        if not word.isascii() and _is_unspaced(word):
            return tuple(word[start : start + 2] for start in range(max(len(word) - 1, 1)))
        stem = self._stems.get(word)
        if stem is None:
            stem = self._stems[word] = "" if word in _STOP_WORDS or len(word) < 2 else _stem(word)
        return (stem,) if stem and not _in(stem, _STOP_WORDS) else ()


def _is_unspaced(word: str) -> bool:
    """Return whether a script is written without spaces: Chinese, Japanese, Thai."""
    return any("\u3040" <= char <= "\u9fff" or "\u0e00" <= char <= "\u0e7f" for char in word)


def select_rules(rules: list[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Return the rules that a prompt is about, the best match first. The text of a rule is under `text`.

    With `is_topic` the text is a topic: a sentence must have all its words, because one of a few words says little.
    """
    if len(prompt) > _MAX_PROMPT_CHARS:
        prompt = f"{prompt[: _MAX_PROMPT_CHARS // 2]}\n{prompt[-_MAX_PROMPT_CHARS // 2 :]}"
    terms = _Terms()
    windows = [
        set(sentence[start : start + _MAX_SENTENCE_TERMS])  # a line of a pasted file can be long
        for sentence in terms.sentences(prompt)
        for start in range(0, len(sentence), _MAX_SENTENCE_TERMS)
    ]
    if not any(windows):
        return []
    total = min(len(rules), _MAX_RULES)
    rules = _candidates(rules[:_MAX_RULES], set().union(*windows))
    parsed = [terms.rule(str(rule["text"])) for rule in rules]
    for rule, given in zip(parsed, rules, strict=True):
        rule.is_topic = bool(given.get("is_topic"))
    frequency: dict[str, int] = {}
    for rule in parsed:
        for stem in rule.stems:
            frequency[stem] = frequency.get(stem, 0) + 1
    # From 0.7 to 1: a word of many rules distinguishes them less.
    rarity = {stem: 1.0 - 0.3 * log(count) / log(total) if total > 1 else 1.0 for stem, count in frequency.items()}
    scored = [(-_best_score(rule, windows, rarity), number) for number, rule in enumerate(parsed)]
    return [rules[number] for score, number in sorted(scored) if score < 0]


def _candidates(rules: list[dict[str, Any]], stems: set[str]) -> list[dict[str, Any]]:
    """Return the rules that have the beginning of a word of the prompt, or of a synonym: to parse all takes too long."""
    words = stems | {word for word, name in _SYNONYMS.items() if _stem(name) in stems}
    words |= {tool for tool, groups in _IMPLIED.items() if any(stems.issuperset(group) for group in groups)}
    generic = {word for word in words if _in(word, _GENERIC_WORDS)}  # not enough for a match
    prefixes = tuple({word[:_PREFIX_CHARS] for word in words - generic})
    chosen: list[dict[str, Any]] = []
    for rule in rules:
        text = _replace_phrases(str(rule["text"]))
        if any(prefix in text for prefix in prefixes):
            chosen.append(rule)
            if len(chosen) == _MAX_CANDIDATES:
                break
    return chosen


def _best_score(rule: _Rule, windows: list[set[str]], rarity: dict[str, float]) -> float:
    """Return how well the best sentence of a prompt matches a rule; 0 if not well enough, or not all words of a topic."""
    if rule.is_topic:
        return 1.0 if rule.stems and any(rule.stems <= window for window in windows) else 0.0
    weights = {stem: _weight(stem, rule) * rarity[stem] for stem in rule.stems}
    total = sum(weights.values())
    best = 0.0
    for window in windows:
        matched = rule.matched(window)
        if rule.needs_verb(matched):
            continue
        score = sum(weights[stem] for stem in matched)
        share = score / total if total else 0.0
        is_part = len(matched) == 1 and not any(stem in rule.heads or _in(stem, _RULED_VERBS) for stem in matched)
        subject_share = _ONE_WORD_SHARE if is_part else _SUBJECT_SHARE
        is_enough = share >= _MIN_SHARE or (share >= subject_share and not matched.isdisjoint(rule.subjects))
        if (score >= _MIN_SCORE and is_enough) or (score >= _SURE_SCORE and share >= _SURE_SHARE):
            best = max(best, score * (0.5 + share))
    return best


def _weight(stem: str, rule: _Rule) -> float:
    if _in(stem, _GENERIC_WORDS):
        return _GENERIC
    if _in(stem, _COMMON_WORDS):
        return _SUBJECT if stem in rule.subjects else _COMMON
    return _RARE


def prompted_memories(folder: str, host: str, session: str) -> frozenset[str]:
    """Return the memories that a session was shown after its start: with prompts and tool calls."""
    lines = read_deliveries(session_log(folder, host, session))
    later = (line for line in lines if line.get("moment") != "session-start")
    return frozenset(memory for line in later for memory in line["memories"] if isinstance(memory, str))
