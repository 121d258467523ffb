"""Judges rules by their words: whether a captured correction lasts, and which earlier rules a newer one contradicts.

Most of what users type when they stop an agent is about that moment: "same project and milestone?", "no, the other file".
Delivered to later sessions it would be noise. A correction stands only if it says that it lasts ("never", "from now
on", "we use"), or chooses between two ways of working ("pnpm, not npm"), and does not point at something that only
that conversation contains. Everything else is still kept and can be searched. Memories that a person adds are not
judged: whoever adds one means it to last. English and German; precision comes first.

Of two rules that contradict each other the newer one wins. A rule that is hidden by mistake is worse than two that
disagree, so a text is reduced to what it says to use, what it says not to use, and what it says always or never to do,
each with its scope ("in CI", "for tests"). Two texts contradict each other only if their scopes are equal and

- one says to use what the other says not to use,
- both choose different programs of one purpose ("use pnpm", "use yarn"), or
- one says to do what the other says not to do, in nearly the same words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.memory import NewMemory
from lorelog.language.sentences import split_sentences
from lorelog.light.shell_command import word_set
from lorelog.services.cues.directives import FAMILY_OF, PROGRAMS

MAX_RULE_CHARS = 250
"""A longer text is a task or an explanation, not a rule."""
_FLAGS = re.IGNORECASE
_LEAD = r"^(?:(?:no|nope|nah|wait|stop|hey)[,.!:]\s*|(?:no|please|bitte|ok|okay|but|and|also|so)\s+)*"
"""Words before the beginning of a sentence."""
_LASTING = re.compile(
    r"(?:^|[,;:\u2013\u2014-]\s*|\b(?:you|we|i|please|should|must|to|and|but|no)[, ]\s*)(?:always|never(?! mind))\s+\w+|"
    r"\b(?:from now on|from here on|going forward|every time (?:you|we|i)|each time (?:you|we|i)|whenever (?:you|we|i)|"
    r"wherever (?:we|you|possible)|as a rule|any ?more|ever again|don'?t ever|keep in mind|"
    r"unless i (?:ask|say|tell)\w*|without (?:asking|my (?:ok|approval|permission|consent))|until i (?:ask|say|tell)\w*|"
    r"(?:only|just) (?:when|if|after) i (?:ask|say|tell)\w*|in (?:this|our) (?:repo|repository|project|codebase|code base|team)|"
    r"before (?:you |we |every |each |any )?(?:commit|push|merg|releas|deploy)\w*|ask (?:me )?(?:first )?before|"
    r"must (?:not|never|stay|remain)|(?:is|are) (?:forbidden|banned|off limits|not allowed)|leave (?:it|them) alone|"
    r"i (?:prefer|hate|dislike|don'?t want you to|never want)|i(?:'d| would) prefer you|"
    r"immer|nie(?:mals)?|ab jetzt|von nun an|in zukunft|künftig|grundsätzlich)\b",
    _FLAGS,
)
_LASTING_START = re.compile(
    _LEAD
    + r"(?:remember (?:to|that|not|we|i)\b|stop \w+ing\b|prefer \w|(?:we|i) (?:only |always |never )?(?:use|avoid|write|commit|push)\b|"
    r"(?:when|if|whenever) you (?:see|run into|get|hit)\b|when the (?:build|tests?|ci|linter|compiler) (?:says|fails|complains)\b|"
    r"(?:we|i) (?:don'?t|do not) (?:use|write|commit|push|allow|merge|mock|add|do)\b|wir (?:nutzen|verwenden|benutzen)\b)",
    _FLAGS,
)
_CHOICE = re.compile(
    r"\buse [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:not|instead of|rather than|over) |"
    r"\b(?:prefer|run|call) [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:instead of|rather than|over|to|not) |"
    r"\b[\w@./+-]+ statt [\w@./+-]+|\b(?:don'?t|do not) use [`'\"]?[\w@./+-]+",
    _FLAGS,
)
_NAMED_CHOICE = re.compile(
    r"[`'\"]?([\w.+-]+)[`'\"]?(?:,? (?:instead of|in place of|rather than|statt)|, (?:not|nicht)) [`'\"]?([\w.+-]+)",
    _FLAGS,
)
"""A choice between two things, of which one must be a known program."""
_PROHIBITION = re.compile(_LEAD + r"(?:don'?t|do not|never|avoid|no more)\b(?! worry| bother| mind)", _FLAGS)
_POINTING = re.compile(
    r"\b(?:this|that|these|those|it|its|here|there|above|below|now|yet|again|first|second|last|previous|other one|same|earlier|"
    r"the (?:plan|change|changes|diff|file|files|issue|pr|ticket|error|question|test|tests|branch|commit|comment|one|part|line|output)|"
    r"diese[rsmn]?|jetzt|hier|das)\b",
    _FLAGS,
)
_USE_PROGRAM = re.compile(_LEAD + r"use [`'\"]?([\w.+-]+?)[`'\"]?[.!]*$", _FLAGS)
_MOMENT = re.compile(r"\b(?:this time|for now|now|yet|this one|that one)\b", _FLAGS)
_CLAUSE_END = re.compile(r"[,;:(\u2013\u2014]|\s-\s")


def is_lasting_rule(text: str) -> bool:
    """Return True if a sentence of a captured correction is a rule for later sessions."""
    if len(text) > MAX_RULE_CHARS:
        return False
    return any(map(_is_rule, split_sentences(text.replace("; ", "\n"))))


def _is_rule(sentence: str) -> bool:
    if not sentence or "?" in sentence or len(sentence.split()) < 3:
        return False
    if _LASTING.search(sentence):
        return len(_POINTING.findall(_LASTING.sub(" ", sentence))) <= 1
    names = [match.groups() for match in (*_NAMED_CHOICE.finditer(sentence), *_USE_PROGRAM.finditer(sentence))]
    if any(name and name.lower().strip(".") in PROGRAMS for pair in names for name in pair):
        return not _MOMENT.search(sentence)
    rule = _CLAUSE_END.split(re.sub(_LEAD, "", sentence, count=1, flags=_FLAGS), maxsplit=1)[
        0
    ]  # what follows is the reason
    if _LASTING_START.match(rule) or _PROHIBITION.match(rule):
        return not _POINTING.search(rule)
    return bool(_CHOICE.search(sentence)) and not _POINTING.search(sentence)


# -- contradictions --------------------------------------------------------------------------------------------------------

_MAX_TEXT_CHARS = 600
_MIN_ACTION_WORDS = 2
_MIN_SHARED_ACTION = 0.8
_QUOTES = str.maketrans({"\u2019": "'", "`": None, '"': None, "\u201c": None, "\u201d": None})
_CLAUSE = re.compile(r"[.;!?\n]+|,(?=\s)|\s[-\u2013\u2014]+\s|\s(?:but|and then)\s")
_FILLER = re.compile(
    r"^(?:(?:no|yes|ok|okay|well|please|actually|hey|again|and|so|also|from now on|in (?:the )?future|going forward|now|"
    r"i said|i meant|remember|remember to|you should|we should|you must|we must|let's|i want you to|i prefer to|we|you|i)\b[\s,:]*)+"
)
_NEGATIVE = re.compile(
    r"^(?:don't|dont|do not|never|stop|no more|avoid|must not|should not|shouldn't|no longer)\s+(?:ever\s+)?(.+)$"
)
_ALWAYS = re.compile(r"^(?:always|do|make sure to|be sure to|keep|start|continue)\s+(.+)$")
_USE = re.compile(
    r"^(?:always\s+)?(?:use|using|prefer|switch to|go with|stick (?:to|with)|take|choose|run|running)\s+(.+)$"
)
_INSTEAD = re.compile(r"^(.+?)(?:,)?\s+(?:instead of|rather than|over|not|in place of)\s+(?:using\s+|use\s+)?(.+)$")
_SCOPE = re.compile(
    r"\s+((?:in|for|on|when|while|if|during|inside|under|within|at|unless|except|before|after|to|as|with|via)\s.+)$"
)
_WORD = re.compile(r"[\w@./+#-]*\w[\w+#]*")
_SMALL_WORDS = word_set(
    """
    a an the any all every each your our my its it this that always ever again please just only really instead now
    anymore longer
    """
)
_SUFFIXES = ("ing", "es", "ed", "s", "e")

_Choice = tuple[str, frozenset[str]]
"""A thing, and the words of its scope."""


class _Directives(Struct, frozen=True):
    """Directives: tools and actions to use or avoid."""

    used: frozenset[_Choice]
    unused: frozenset[_Choice]
    done: frozenset[_Choice]
    undone: frozenset[_Choice]


def find_contradicted(text: str, standing: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of standing memories (`id` and `text`) that a newer text contradicts."""
    new = _read_directives(text)
    if not (new.used or new.unused or new.done or new.undone):
        return []
    return [
        memory["id"]
        for memory in standing
        if memory.get("id") and _contradict(new, _read_directives(str(memory.get("text", ""))))
    ]


def supersede_contradicted(
    memories: Sequence[NewMemory], standing: Sequence[Mapping[str, Any]], types: Collection[str]
) -> list[NewMemory]:
    """Return memories of some types with the ids of the standing memories that they contradict as superseded.

    A memory that names what it supersedes is left as it is. An agent's memory never replaces a person's.
    """
    return [
        replace(memory, supersedes=tuple(find_contradicted(memory.text, replaceable_by(memory.origin, standing))))
        if memory.type in types and not memory.supersedes
        else memory
        for memory in memories
    ]


def replaceable_by(origin: str, standing: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the standing memories that a memory of this origin may replace."""
    return [memory for memory in standing if origin == "user" or memory.get("origin") == origin]


def _contradict(new: _Directives, old: _Directives) -> bool:
    if new.used & old.used and not new.unused & old.used:
        return False  # it repeats a choice
    return bool(
        new.used & old.unused
        or new.unused & old.used
        or any(_is_other_choice(choice, earlier) for choice in new.used for earlier in old.used)
        or any(_is_same_action(action, earlier) for action in new.done for earlier in old.undone)
        or any(_is_same_action(action, earlier) for action in new.undone for earlier in old.done)
    )


def _is_other_choice(new: _Choice, old: _Choice) -> bool:
    family = FAMILY_OF.get(new[0])
    return family is not None and old[0] in family and old[0] != new[0] and new[1] == old[1]


def _is_same_action(new: _Choice, old: _Choice) -> bool:
    words, others = frozenset(new[0].split()), frozenset(old[0].split())
    if min(len(words), len(others)) < _MIN_ACTION_WORDS and words != others:
        return False
    return new[1] == old[1] and len(words & others) >= _MIN_SHARED_ACTION * len(words | others)


def _read_directives(text: str) -> _Directives:
    used: set[_Choice] = set()
    unused: set[_Choice] = set()
    done: set[_Choice] = set()
    undone: set[_Choice] = set()
    for part in _CLAUSE.split(text[:_MAX_TEXT_CHARS].lower().translate(_QUOTES)):
        clause = _FILLER.sub("", part.strip(" :-*"))
        if negative := _NEGATIVE.match(clause):
            if use := _USE.match(negative[1]):
                _add_choice(unused, use[1])
            _add_action(undone, negative[1])
        elif use := _USE.match(clause):
            chosen, rejected = (both[1], both[2]) if (both := _INSTEAD.match(use[1])) else (use[1], "")
            scope = _split_scope(rejected)[1] if rejected else frozenset[str]()
            _add_choice(used, chosen, scope)
            if rejected:
                _add_choice(unused, rejected)
            _add_action(done, use[0].removeprefix("always "))
        elif always := _ALWAYS.match(clause):
            _add_action(done, always[1])
        elif clause.startswith("not "):
            _add_choice(unused, clause.removeprefix("not "))
    return _Directives(frozenset(used), frozenset(unused), frozenset(done), frozenset(undone))


def _add_choice(choices: set[_Choice], text: str, scope: frozenset[str] = frozenset()) -> None:
    """Add a thing that is named by one or two words; longer phrases are not comparable."""
    thing, own_scope = _split_scope(text)
    words = _content_words(thing)
    if 1 <= len(words) <= 2:
        choices.add((" ".join(words), own_scope or scope))


def _add_action(actions: set[_Choice], text: str) -> None:
    action, scope = _split_scope(text)
    words = sorted({_stem(word) for word in _content_words(action)})
    if words:
        actions.add((" ".join(words), scope))


def _split_scope(text: str) -> tuple[str, frozenset[str]]:
    match = _SCOPE.search(text)
    if match is None:
        return text, frozenset()
    return text[: match.start()], frozenset(_stem(word) for word in _content_words(match[1]))


def _content_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word not in _SMALL_WORDS]


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word.removesuffix(suffix)
    return word
