"""Tells lasting rules from remarks about the work at hand, among the corrections that were captured from sessions.

Most of what users type when they stop an agent is about that moment: "same project and milestone?", "no, the other file".
Delivered to later sessions it would be noise. A correction stands only if it says that it lasts ("never", "from now
on", "we use"), or chooses between two ways of working ("pnpm, not npm"), and does not point at something that only
that conversation contains. Everything else is still kept and can be searched. Memories that a person adds are not
judged: whoever adds one means it to last. English and German; precision comes first.
"""

from __future__ import annotations

import re

from lorelog.services.delivery.programs import PROGRAMS

MAX_RULE_CHARS = 250
"""A longer text is a task or an explanation, not a rule."""
_FLAGS = re.IGNORECASE
_LEAD = r"^(?:(?:no|nope|nah|wait|stop|hey|please|bitte|ok|okay|but|and|also|so)[,.!:]?\s+)*"
"""Words before the beginning of a sentence."""
_LASTING = re.compile(
    r"(?:^|[,;:\u2013\u2014-]\s*|\b(?:you|we|i|please|should|must|to|and|but|no)[, ]\s*)(?:always|never(?! mind))\s+\w+|"
    r"\b(?:from now on|from here on|going forward|every time (?:you|we|i)|each time (?:you|we|i)|whenever (?:you|we|i)|"
    r"wherever (?:we|you|possible)|as a rule|any ?more|ever again|don'?t ever|keep in mind|"
    r"unless i (?:ask|say|tell)\w*|without (?:asking|my (?:ok|approval|permission|consent))|until i (?:ask|say|tell)\w*|"
    r"(?:only|just) (?:when|if|after) i (?:ask|say|tell)\w*|in (?:this|our) (?:repo|repository|project|codebase|code base|team)|"
    r"i (?:prefer|hate|dislike|don'?t want you to|never want)|i(?:'d| would) prefer you|"
    r"immer|nie(?:mals)?|ab jetzt|von nun an|in zukunft|künftig|grundsätzlich)\b",
    _FLAGS,
)
_LASTING_START = re.compile(
    _LEAD
    + r"(?:remember (?:to|that|not|we|i)\b|stop \w+ing\b|prefer \w|(?:we|i) (?:only |always |never )?(?:use|avoid|write|commit|push)\b|"
    r"(?:we|i) (?:don'?t|do not) (?:use|write|commit|push|allow|merge|mock|add|do)\b|wir (?:nutzen|verwenden|benutzen)\b)",
    _FLAGS,
)
_CHOICE = re.compile(
    r"\buse [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:not|instead of|rather than|over) |"
    r"\b(?:prefer|run|call) [`'\"]?[\w@./+-]+[`'\"]?(?: [\w@./+-]+){0,3},? (?:instead of|rather than|over|to|not) |"
    r"\b[\w@./+-]+ statt [\w@./+-]+|\b(?:don'?t|do not) use [`'\"]?[\w@./+-]+",
    _FLAGS,
)
_PROHIBITION = re.compile(_LEAD + r"(?:don'?t|do not|never|avoid|no more)\b(?! worry| bother)", _FLAGS)
_POINTING = re.compile(
    r"\b(?:this|that|these|those|it|its|here|there|above|below|now|yet|again|first|second|last|previous|other one|same|earlier|"
    r"the (?:plan|change|changes|diff|file|files|issue|pr|ticket|error|question|test|tests|branch|commit|comment|one|part|line|output)|"
    r"diese[rsmn]?|jetzt|hier|das)\b",
    _FLAGS,
)
_USE_PROGRAM = re.compile(_LEAD + r"use [`'\"]?([\w.+-]+?)[`'\"]?[.!]*$", _FLAGS)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


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
    named = _USE_PROGRAM.match(sentence)
    if named and named[1].lower() in PROGRAMS:
        return True
    if _LASTING_START.match(sentence):
        return not _POINTING.search(sentence)
    return bool(_CHOICE.search(sentence) or _PROHIBITION.match(sentence)) and not _POINTING.search(sentence)
