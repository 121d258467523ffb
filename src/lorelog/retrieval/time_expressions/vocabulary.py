"""The words of time expressions, and the tokenizer for queries.

Small tables of English and German. Other meanings of the words are here too (`may`, `march`, `Spring`, `April` the
person), since a wrong date pushes the right answer down.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple


def word_set(text: str) -> frozenset[str]:
    """Return the words of a line as a set; shorter than quoted literals."""
    return frozenset(text.split())


_MONTH_NAMES = (
    "january jan januar jänner",
    "february feb februar",
    "march mar märz maerz",
    "april apr",
    "may mai",
    "june jun juni",
    "july jul juli",
    "august aug",
    "september sep sept",
    "october oct oktober okt",
    "november nov",
    "december dec dezember dez",
)
MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
SHORT_MONTHS = word_set("jan feb mar apr jun jul aug sep sept oct okt nov dec dez")
"""Count only with a capital letter: `dec` and `mar` are also instructions, columns and verbs."""
VERB_MONTHS = frozenset({"may", "march", "mar"})
NAMED_MONTHS = frozenset({"april", "may", "june", "august", "jan", "mai", "jun", "juli"})
"""Months that are also given names: a capital letter alone, or `by` and `from`, is not enough."""

_WEEKDAY_NAMES = (
    "monday montag",
    "tuesday dienstag",
    "wednesday mittwoch",
    "thursday donnerstag",
    "friday freitag",
    "saturday samstag sonnabend",
    "sunday sonntag",
)
WEEKDAYS = {name: number for number, names in enumerate(_WEEKDAY_NAMES) for name in names.split()}

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
SEASONS |= {"frühling": 3, "frühjahr": 3, "sommer": 6, "herbst": 9}
"""The first month of each season on the northern hemisphere."""

_UNIT_NAMES = {
    "minute": "minute minutes min mins minuten",
    "hour": "hour hours stunde stunden",
    "day": "day days tag tage tagen",
    "week": "week weeks woche wochen",
    "month": "month months monat monate monaten",
    "quarter": "quarter quarters quartal quartale quartalen",
    "year": "year years jahr jahre jahren",
}
UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
CALENDAR_UNITS = frozenset({"week", "month", "quarter", "year"})
WEEKENDS = frozenset({"weekend", "wochenende"})

_NUMBER_NAMES = (
    "one a an ein eine einer einem einen",
    "two zwei",
    "three drei",
    "four vier",
    "five fünf",
    "six sechs",
    "seven sieben",
    "eight acht",
    "nine neun",
    "ten zehn",
    "eleven elf",
    "twelve zwölf",
)
NUMBERS = {name: number for number, names in enumerate(_NUMBER_NAMES, 1) for name in names.split()}
VAGUE_NUMBERS = {
    "couple": (2, 3),
    "few": (2, 5),
    "several": (3, 8),
    "paar": (2, 5),
    "einigen": (2, 5),
    "mehreren": (3, 8),
}

BACKWARD_WORDS = word_set(
    "last past previous letzte letzten letztes letzter letztem vergangene vergangenen vergangenes"
)
ROLLING_WORDS = frozenset({"past", "vergangene", "vergangenen", "vergangenes"})
"""`the past month` ends today; `last month` is the calendar month."""
CURRENT_WORDS = word_set("this current diese diesen dieses dieser diesem")
FORWARD_WORDS = word_set("next coming upcoming nächste nächsten nächstes nächster kommende kommenden")

DAY_WORDS = {"today": 0, "tonight": 0, "yesterday": -1, "tomorrow": 1}
DAY_WORDS |= {"heute": 0, "gestern": -1, "vorgestern": -2, "übermorgen": 2}
DAY_PARTS = word_set("morning afternoon evening night noon morgen früh vormittag mittag nachmittag abend nacht")

EARLY = word_set("early beginning start anfang")
MIDDLE = word_set("mid middle mitte")
LATE = word_set("late end ende")
STANDALONE_PARTS = word_set("early mid late anfang mitte ende")
"""Precede a time without `of`."""
AROUND = word_set("around about circa ca roughly etwa")
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "last": -1}

STRONG_LEADS = word_set(
    "in on during since until till before after between throughout within around early mid late "
    "im am seit bis vor nach zwischen anfang mitte ende"
)
WEAK_LEADS = word_set("by from of vom von ab")
"""Precede a time, but as often a person or a place."""
RELATIONS = {"before": "before", "after": "after", "since": "since", "until": "until", "till": "until", "by": "until"}
RELATIONS |= {"vor": "before", "nach": "after", "seit": "since", "ab": "since", "bis": "until"}
RANGE_OPENERS = word_set("between from zwischen von vom")
CONNECTORS = word_set("to until till through and or bis und oder thru")
ARTICLES = word_set("the der die das den dem zum zur")

RECENTLY = word_set("recently lately kürzlich neulich")
DATE_AS_DATA = word_set("datetime timedelta strftime strptime timestamp timestamps dateutil timezone cron crontab")
"""A query with one of these asks how dates are computed, not about a time."""
HABIT_WORDS = word_set("mornings afternoons evenings nights")
DATE_NOUNS = word_set("date dates number datum format calendar")

_WORD = re.compile(r"\w++(?:[-./:'’]\w++)*+")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}", re.ASCII)
_QUOTED = re.compile(r'`[^`\n]{1,200}+`|"[^"\n]{1,200}+"|“[^”\n]{1,200}+”')
_JOINTS = frozenset(" \t\u00a0'\"‘’“”-–—")
_CLAUSE_ENDS = frozenset(".,;:?!()[]{}\n。，；：？！")
_SPLITTABLE_WORDS = frozenset(MONTHS) | STANDALONE_PARTS | frozenset(WEEKDAYS) | frozenset(SEASONS)


class QueryToken(NamedTuple):
    """A word of the query: as written, in lower case without `'s`, its position, and the text up to the next word."""

    text: str
    lower: str
    start: int
    end: int
    after: str

    @property
    def continues_phrase(self) -> bool:
        """True if the next word continues the phrase: only spaces, quotes and dashes are between them."""
        return bool(self.after) and _JOINTS.issuperset(self.after)

    @property
    def ends_clause(self) -> bool:
        return self.after == "" or not _CLAUSE_ENDS.isdisjoint(self.after)


def read_tokens(query: str) -> list[QueryToken]:
    """Split a query into words; dates, versions and paths stay whole."""
    places: list[tuple[int, int]] = []
    for match in _WORD.finditer(query):
        places.extend(_split_word(match.group(), match.start()))
    tokens = []
    for (start, end), (following, _) in pairwise([*places, (len(query), 0)]):
        text = query[start:end]
        low = text.lower()
        if low.endswith(("'s", "’s")):
            low = low[:-2]
        tokens.append(QueryToken(text, low, start, end, query[end:following]))
    return tokens


_DIGIT = re.compile(r"[0-9]")
_VOCABULARY = (
    frozenset(MONTHS)
    | frozenset(WEEKDAYS)
    | frozenset(SEASONS)
    | frozenset(UNITS)
    | frozenset(DAY_WORDS)
    | frozenset(RELATIONS)
    | DAY_PARTS
    | WEEKENDS
    | RECENTLY
    | frozenset({"prior"})
)


def may_name_time(query: str) -> bool:
    """Return False if a query has neither a digit nor a word of time: most queries need no parser of dates."""
    words = {token.lower for token in read_tokens(query)}
    return not words.isdisjoint(_VOCABULARY) or _DIGIT.search(query) is not None


def quoted_spans(query: str) -> list[tuple[int, int]]:
    """Return the spans in quotes or backticks, which are literal text."""
    return [match.span() for match in _QUOTED.finditer(query)]


def _split_word(word: str, start: int) -> list[tuple[int, int]]:
    """Split `mid-March` and `2021-2023` into two words; `2024-03-05` and `week-long` are one."""
    pieces = word.split("-")
    if len(pieces) == 2 and all(piece.lower() in _SPLITTABLE_WORDS or _YEAR.fullmatch(piece) for piece in pieces):
        cut = start + len(pieces[0])
        return [(start, cut), (cut + 1, start + len(word))]
    return [(start, start + len(word))]
