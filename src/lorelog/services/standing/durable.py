"""Tells lasting rules from remarks about the work at hand, among the corrections that were captured from sessions.

Most of what users type when they stop an agent is about that moment: "same project and milestone?", "no, the other file".
Delivered to later sessions it would be noise. A correction stands only if it says that it lasts ("never", "from now
on", "we use"), or chooses between two ways of working ("pnpm, not npm"), and does not point at something that only
that conversation contains. Everything else is still kept and can be searched. Memories that a person adds are not
judged: whoever adds one means it to last. English and German; precision comes first.
"""

from __future__ import annotations

import re

from lorelog.core.patterns import lazy_pattern
from lorelog.services.cues.programs import PROGRAMS

MAX_RULE_CHARS = 250
"""A longer text is a task or an explanation, not a rule."""
_FLAGS = re.IGNORECASE
_LEAD = r"^(?:(?:no|nope|nah|wait|stop|hey)[,.!:]\s*|(?:no|please|bitte|ok|okay|but|and|also|so)\s+)*"
"""Words before the beginning of a sentence."""
_LASTING = lazy_pattern(
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
_LASTING_START = lazy_pattern(
    _LEAD
    + r"(?:remember (?:to|that|not|we|i)\b|stop \w+ing\b|prefer \w|(?:we|i) (?:only |always |never )?(?:use|avoid|write|commit|push)\b|"
    r"(?:when|if|whenever) you (?:see|run into|get|hit)\b|when the (?:build|tests?|ci|linter|compiler) (?:says|fails|complains)\b|"
    r"(?:we|i) (?:don'?t|do not) (?:use|write|commit|push|allow|merge|mock|add|do)\b|wir (?:nutzen|verwenden|benutzen)\b)",
    _FLAGS,
)
_CHOICE = lazy_pattern(
    r"\buse [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:not|instead of|rather than|over) |"
    r"\b(?:prefer|run|call) [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:instead of|rather than|over|to|not) |"
    r"\b[\w@./+-]+ statt [\w@./+-]+|\b(?:don'?t|do not) use [`'\"]?[\w@./+-]+",
    _FLAGS,
)
_NAMED_CHOICE = lazy_pattern(
    r"[`'\"]?([\w.+-]+)[`'\"]?(?:,? (?:instead of|in place of|rather than|statt)|, (?:not|nicht)) [`'\"]?([\w.+-]+)",
    _FLAGS,
)
"""A choice between two things, of which one must be a known program."""
_PROHIBITION = lazy_pattern(_LEAD + r"(?:don'?t|do not|never|avoid|no more)\b(?! worry| bother| mind)", _FLAGS)
_POINTING = lazy_pattern(
    r"\b(?:this|that|these|those|it|its|here|there|above|below|now|yet|again|first|second|last|previous|other one|same|earlier|"
    r"the (?:plan|change|changes|diff|file|files|issue|pr|ticket|error|question|test|tests|branch|commit|comment|one|part|line|output)|"
    r"diese[rsmn]?|jetzt|hier|das)\b",
    _FLAGS,
)
_USE_PROGRAM = lazy_pattern(_LEAD + r"use [`'\"]?([\w.+-]+?)[`'\"]?[.!]*$", _FLAGS)
_MOMENT = lazy_pattern(r"\b(?:this time|for now|now|yet|this one|that one)\b", _FLAGS)
_CLAUSE_END = lazy_pattern(r"[,;:(\u2013\u2014]|\s-\s")
_SENTENCE = lazy_pattern(r"(?<=[.!?;])\s+|\n+")


def is_lasting_rule(text: str) -> bool:
    """Return True if a sentence of a captured correction is a rule for later sessions."""
    if len(text) > MAX_RULE_CHARS:
        return False
    return any(map(_is_rule, _SENTENCE.split(text.strip())))


def _is_rule(sentence: str) -> bool:
    if not sentence or "?" in sentence or len(sentence.split()) < 3:
        return False
    if _LASTING.search(sentence):
        return len(_POINTING.findall(_LASTING.sub(" ", sentence))) <= 1
    names = [match.groups() for match in (*_NAMED_CHOICE.finditer(sentence), *_USE_PROGRAM.finditer(sentence))]
    if any(name and name.lower().strip(".") in PROGRAMS for pair in names for name in pair):
        return not _MOMENT.search(sentence)
    rule = _CLAUSE_END.split(_strip_lead(sentence), maxsplit=1)[0]  # what follows is the reason
    if _LASTING_START.match(rule) or _PROHIBITION.match(rule):
        return not _POINTING.search(rule)
    return bool(_CHOICE.search(sentence)) and not _POINTING.search(sentence)


def _strip_lead(sentence: str) -> str:
    return re.sub(_LEAD, "", sentence, count=1, flags=_FLAGS)
