"""Finds the event that a query takes for a clock: `before the release`, `since we moved to Postgres`, `since v1.2`.

`before`, `after`, `since` and `until` seldom speak of a day in the past: instructions (`after the colon`), reasons (`since
it fails`) and conditions (`until the queue is empty`) use them too. So an event is a short phrase up to the end of its
clause, and either the query tells of something that happened, or the phrase is a kind of thing that has a day.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from lorelog.retrieval.when_words import RELATIONS, UNITS, Token, listed

_MOST_WORDS = 6
_ENGLISH = {
    word: relation for word, relation in RELATIONS.items() if word in {"before", "after", "since", "until", "till"}
}
_GERMAN = {"vor": "before", "nach": "after", "seit": "since"}
_VERSION = re.compile(r"v[0-9]+(?:\.[0-9]+)*|[0-9]+(?:\.[0-9]+)+")
_DETERMINERS = listed("the our my his her their its this that")
_GERMAN_DETERMINERS = listed("dem der den unserem unserer meinem meiner")
_PERSONS = listed("we i he she they")
_PAST = listed(
    "began bought broke built came chose cut found gave got grew left lost made met moved put ran said sold sent shut "
    "split spoke started switched took told went won wrote"
)
_TELLING = listed(
    "did didn't was wasn't were weren't had hadn't been happened changed decided discussed agreed chose said told broke "
    "went i've we've you've"
)
_PERFECT = listed("have has haven't hasn't")
_EVENT_NOUNS = listed(
    "accident cutover demo deploy deployment freeze hackathon incident interview kickoff launch meeting merge migration move "
    "offsite outage party postmortem redesign refactor refactoring relaunch release rename retro retrospective rewrite "
    "rollback rollout standup switch talk trip upgrade vacation wedding workshop "
    "ausfall besprechung einführung treffen umbau umstellung umzug urlaub vorfall"
)
_ASKS_FOR_TIME = frozenset({"long", "many", "much", "soon", "often"})
_BREAKS = listed(
    "and or but that which who is are was were be been did do does can could should would will must may might if when while "
    "because it not than so where what how why you"
)
_NO_EVENTS = listed(
    "fact first last next other same end beginning start one rest others latter former following previous way"
)


class Event(NamedTuple):
    """The words that name it, its relation, and the indices of the first word and of the one after the last."""

    text: str
    relation: str
    start: int
    end: int


def find_event(query: str, tokens: list[Token]) -> Event | None:
    """Return the first event that a query refers to, if it does."""
    if _asks_for_a_time(tokens):
        return None
    lows = {token.low for token in tokens}
    telling = not _TELLING.isdisjoint(lows) or _is_perfect(tokens)
    for at, token in enumerate(tokens[:-1]):
        if (token.low in _ENGLISH or token.low in _GERMAN) and token.joins:
            end = _clause_end(tokens, at + 1)
            if end and _is_event(tokens, at, end, telling=telling):
                relation = _ENGLISH.get(token.low) or _GERMAN[token.low]
                return Event(query[tokens[at + 1].start : tokens[end - 1].end], relation, at, end)
    return None


def phrase_before(tokens: list[Token], at: int) -> tuple[str, int] | None:
    """Return the relation, and where it stands, of a clause about persons that a time ends: `since we met last week`."""
    for place in range(at - 2, max(at - _MOST_WORDS, 0) - 1, -1):
        if not tokens[place + 1].joins or not tokens[place].joins:
            return None
        if tokens[place].low in _ENGLISH:
            return (_ENGLISH[tokens[place].low], place) if tokens[place + 1].low in _PERSONS else None
    return None


def _clause_end(tokens: list[Token], start: int) -> int:
    """Return the index after the last word of a clause, or 0 when it is too long."""
    for at in range(start, min(start + _MOST_WORDS, len(tokens))):
        if tokens[at].ends_clause:
            return at + 1
    return 0


def _is_event(tokens: list[Token], at: int, end: int, *, telling: bool) -> bool:
    relation, phrase = tokens[at].low, tokens[at + 1 : end]
    first, last = phrase[0], phrase[-1].low
    if _is_version(phrase):
        return True
    if len(phrase) < 2 or last in _NO_EVENTS or not _BREAKS.isdisjoint(token.low for token in phrase):
        return False
    if relation in _GERMAN:
        return first.low in _GERMAN_DETERMINERS and last in _EVENT_NOUNS
    if first.low in _PERSONS:
        happened = phrase[1].low in _PAST or phrase[1].low.endswith("ed")
        # "since we deleted the branch, how …" is a reason
        return happened and (at > 0 if relation == "since" else telling or at == 0)
    return not _has_infinitive(phrase) and _is_occasion(tokens, phrase, telling=telling)


def _is_occasion(tokens: list[Token], phrase: list[Token], *, telling: bool) -> bool:
    """`the release`, `our move to Berlin`, and in a query that tells of the past also `meeting Maria`."""
    first = phrase[0]
    if first.low in _DETERMINERS:
        known = phrase[-1].low in _EVENT_NOUNS or phrase[1].low in _EVENT_NOUNS
        return telling or (known and not _is_instruction(tokens))
    return telling and first.low.endswith("ing") and len(first.low) > 5 and first.text.islower()


def _is_version(phrase: list[Token]) -> bool:
    named = phrase[0].low in {"version", "release"} and len(phrase) == 2
    found = _VERSION.fullmatch(phrase[-1].low)
    if not found or len(phrase) > 1 + named:
        return False
    return named or phrase[-1].low.startswith("v") or phrase[-1].low.count(".") > 1


def _has_infinitive(phrase: list[Token]) -> bool:
    """`the road trip to relax` has an aim, `the trip to Berlin` a place."""
    return any(
        token.low == "to" and following.text.islower() and following.low not in _DETERMINERS | {"a", "an"}
        for token, following in pairwise(phrase)
    )


def _is_instruction(tokens: list[Token]) -> bool:
    """`how do I …`, `how to …`, `should we …` ask what to do, not what was."""
    lows = [token.low for token in tokens[:3]]
    return lows[0] in {"should", "can", "could", "must", "do", "does"} or (lows[:1] == ["how"] and lows[1:2] != ["did"])


def _is_perfect(tokens: list[Token]) -> bool:
    return any(token.low in _PERFECT and following.low != "to" for token, following in pairwise(tokens))


def _asks_for_a_time(tokens: list[Token]) -> bool:
    """`how many days before the launch …` wants both ends, and `which happened first` neither."""
    for at, token in enumerate(tokens[:-1]):
        following = tokens[at + 1].low
        if token.low == "how" and (
            following == "long"
            or (following in _ASKS_FOR_TIME and at + 2 < len(tokens) and tokens[at + 2].low in UNITS)
        ):
            return True
    lows = [token.low for token in tokens]
    return lows[:1] == ["which"] and "first" in lows
