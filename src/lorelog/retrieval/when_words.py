"""The words that time expressions are made of, and how a query is cut into them.

Small tables of English and German; Chinese is short enough to be patterns and has its own module. What a word may mean
besides a time is here too (`may`, `march`, `Spring`, `April` the person), since a wrong date pushes the right answer down.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple


def listed(text: str) -> frozenset[str]:
    """Return the words of a line, which reads better than as many quotes and commas."""
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
SHORT_MONTHS = listed("jan feb mar apr jun jul aug sep sept oct okt nov dec dez")
"""Count only with a capital letter: `dec` and `mar` are also instructions, columns and verbs."""
VERB_MONTHS = frozenset({"may", "march", "mar"})
NAMED_MONTHS = frozenset({"april", "may", "june", "august", "jan", "mai", "jun", "juli"})
"""Months that are also people: a capital letter alone, or `by` and `from`, says nothing."""

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
"""The month in which each begins, on the northern half of the world."""

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

BACK = listed("last past previous letzte letzten letztes letzter letztem vergangene vergangenen vergangenes")
ROLLING = frozenset({"past", "vergangene", "vergangenen", "vergangenes"})
"""`the past month` ends today; `last month` is the one in the calendar."""
HERE = listed("this current diese diesen dieses dieser diesem")
AHEAD = listed("next coming upcoming nächste nächsten nächstes nächster kommende kommenden")

DAY_WORDS = {"today": 0, "tonight": 0, "yesterday": -1, "tomorrow": 1}
DAY_WORDS |= {"heute": 0, "gestern": -1, "vorgestern": -2, "übermorgen": 2}
DAY_PARTS = listed("morning afternoon evening night noon morgen früh vormittag mittag nachmittag abend nacht")

EARLY = listed("early beginning start anfang")
MIDDLE = listed("mid middle mitte")
LATE = listed("late end ende")
ALONE_PARTS = listed("early mid late anfang mitte ende")
"""Stand before a time without `of`."""
AROUND = listed("around about circa ca roughly etwa")
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "last": -1}

STRONG_LEADS = listed(
    "in on during since until till before after between throughout within around early mid late "
    "im am seit bis vor nach zwischen anfang mitte ende"
)
WEAK_LEADS = listed("by from of vom von ab")
"""Lead to a time, but as often to a person or a place."""
RELATIONS = {"before": "before", "after": "after", "since": "since", "until": "until", "till": "until", "by": "until"}
RELATIONS |= {"vor": "before", "nach": "after", "seit": "since", "ab": "since", "bis": "until"}
RANGE_OPENERS = listed("between from zwischen von vom")
CONNECTORS = listed("to until till through and or bis und oder thru")
ARTICLES = listed("the der die das den dem zum zur")

RECENTLY = listed("recently lately kürzlich neulich")
DATE_AS_DATA = listed("datetime timedelta strftime strptime timestamp timestamps dateutil timezone cron crontab")
"""A query that names one of these asks how dates are computed, and is not itself about a time."""
HABITS = listed("mornings afternoons evenings nights")
DATE_NOUNS = listed("date dates number datum format calendar")

_WORD = re.compile(r"\w++(?:[-./:'’]\w++)*+")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}", re.ASCII)
_QUOTED = re.compile(r'`[^`\n]{1,200}+`|"[^"\n]{1,200}+"|“[^”\n]{1,200}+”')
_JOINTS = frozenset(" \t\u00a0'\"‘’“”-–—")
_CLAUSE_ENDS = frozenset(".,;:?!()[]{}\n。，；：？！")
_PARTED = frozenset(MONTHS) | ALONE_PARTS | frozenset(WEEKDAYS) | frozenset(SEASONS)


class Token(NamedTuple):
    """A word of the query: as written, in lower case without `'s`, where it is, and what stands before the next one."""

    text: str
    low: str
    start: int
    end: int
    after: str

    @property
    def joins(self) -> bool:
        """Tell whether the next word continues the phrase: only spaces, quotes and dashes stand between."""
        return bool(self.after) and _JOINTS.issuperset(self.after)

    @property
    def ends_clause(self) -> bool:
        return self.after == "" or not _CLAUSE_ENDS.isdisjoint(self.after)


def read_tokens(query: str) -> list[Token]:
    """Cut a query into words, in which dates, versions and paths stay whole."""
    places: list[tuple[int, int]] = []
    for match in _WORD.finditer(query):
        places.extend(_parts(match.group(), match.start()))
    tokens = []
    for (start, end), (following, _) in pairwise([*places, (len(query), 0)]):
        text = query[start:end]
        low = text.lower()
        if low.endswith(("'s", "’s")):
            low = low[:-2]
        tokens.append(Token(text, low, start, end, query[end:following]))
    return tokens


def quoted_places(query: str) -> list[tuple[int, int]]:
    """Return where text stands in quotes or backticks: it is meant literally, whatever it says."""
    return [match.span() for match in _QUOTED.finditer(query)]


def _parts(word: str, start: int) -> list[tuple[int, int]]:
    """`mid-March` and `2021-2023` are two words; `2024-03-05` and `week-long` are one."""
    pieces = word.split("-")
    if len(pieces) == 2 and all(piece.lower() in _PARTED or _YEAR.fullmatch(piece) for piece in pieces):
        cut = start + len(pieces[0])
        return [(start, cut), (cut + 1, start + len(word))]
    return [(start, start + len(word))]
