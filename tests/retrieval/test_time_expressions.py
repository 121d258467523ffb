"""Times that a query names or only seems to name, and the preference for dates."""

from __future__ import annotations

import sys
from datetime import date, timedelta
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lorelog.retrieval.time_expressions import NEUTRAL_PREFERENCE, TimeHint, find_time_hint

TODAY = date(2026, 11, 11)  # a Wednesday
DAYS = st.dates(date(1990, 1, 1), date(2060, 12, 31))

NAMED = [
    # days
    ("what did we do today", "2026-11-11", "2026-11-11"),
    ("what broke yesterday?", "2026-11-10", "2026-11-10"),
    ("what broke the day before yesterday", "2026-11-09", "2026-11-09"),
    ("this morning", "2026-11-11", "2026-11-11"),
    ("what did I cook last night", "2026-11-10", "2026-11-10"),
    ("who called last Monday", "2026-11-09", "2026-11-09"),
    ("who called on Tuesday", "2026-11-10", "2026-11-10"),
    ("who called on tuesday evening", "2026-11-10", "2026-11-10"),
    ("What broke Friday?", "2026-11-06", "2026-11-06"),
    ("Friday's deploy", "2026-11-06", "2026-11-06"),
    # dates
    ("What did we do on 2024-03-05?", "2024-03-05", "2024-03-05"),
    ("2024-03-05T14:30", "2024-03-05", "2024-03-05"),
    ("notes of 2024/03", "2024-03-01", "2024-03-31"),
    ("the March 5th call", "2026-03-05", "2026-03-05"),
    ("what happened on march 5", "2026-03-05", "2026-03-05"),
    ("5 March 2024", "2024-03-05", "2024-03-05"),
    ("the 5th of March", "2026-03-05", "2026-03-05"),
    ("on October 13, 2023?", "2023-10-13", "2023-10-13"),
    ("December 25", "2025-12-25", "2025-12-25"),
    # months, years
    ("what did we decide in March", "2026-03-01", "2026-03-31"),
    ("what did we decide in may", "2026-05-01", "2026-05-31"),
    ("in December", "2025-12-01", "2025-12-31"),
    ("in March 2024", "2024-03-01", "2024-03-31"),
    ("what was in the March release", "2026-03-01", "2026-03-31"),
    ("in the month of February", "2026-02-01", "2026-02-28"),
    ("last March", "2026-03-01", "2026-03-31"),
    ("in 2023", "2023-01-01", "2023-12-31"),
    # parts
    ("early 2024", "2024-01-01", "2024-05-01"),
    ("mid-March", "2026-03-11", "2026-03-20"),
    ("late March 2025", "2025-03-21", "2025-03-31"),
    ("at the beginning of last month", "2026-10-01", "2026-10-10"),
    # spans back
    ("three days ago", "2026-11-08", "2026-11-08"),
    ("a week ago", "2026-11-01", "2026-11-07"),
    ("10 days ago", "2026-10-31", "2026-11-02"),
    ("2 months ago", "2026-08-27", "2026-09-26"),
    ("a couple of days ago", "2026-11-08", "2026-11-09"),
    ("one year ago", "2025-05-13", "2026-05-12"),
    ("last week", "2026-11-02", "2026-11-08"),
    ("last week's review", "2026-11-02", "2026-11-08"),
    ("what changed in the last week", "2026-11-04", "2026-11-11"),
    ("this month", "2026-11-01", "2026-11-30"),
    ("last year", "2025-01-01", "2025-12-31"),
    ("past 3 days", "2026-11-08", "2026-11-11"),
    ("in the past few months", "2026-06-11", "2026-11-11"),
    ("last weekend", "2026-11-07", "2026-11-08"),
    ("what did we decide recently?", "2026-10-12", "2026-11-11"),
    # from one to another
    ("between March and May", "2026-03-01", "2026-05-31"),
    ("from November to January", "2025-11-01", "2026-01-31"),
    ("Jan-Mar 2025", "2025-01-01", "2025-03-31"),
    ("where was he between August 11 and August 15 2023?", "2023-08-11", "2023-08-15"),
    ("the two novels I finished in January and March", "2026-01-01", "2026-03-31"),
    ("compare March 2024 with January 2025", "2024-03-01", "2025-01-31"),
    ("around March 2024", "2024-03-01", "2024-03-31"),
    # open ends
    ("before March 2024", None, "2024-02-29"),
    ("prior to 2024", None, "2023-12-31"),
    ("after 2024-03-05", "2024-03-06", None),
    ("what changed since last Monday", "2026-11-09", None),
    ("until yesterday", None, "2026-11-10"),
    ("how many had I won by July 10, 2026", None, "2026-07-10"),
    # German
    ("was haben wir gestern gemacht", "2026-11-10", "2026-11-10"),
    ("letzte Woche", "2026-11-02", "2026-11-08"),
    ("letzten Montag", "2026-11-09", "2026-11-09"),
    ("vor drei Tagen", "2026-11-08", "2026-11-08"),
    ("in den letzten drei Tagen", "2026-11-08", "2026-11-11"),
    ("im März", "2026-03-01", "2026-03-31"),
    ("am 5. März 2024", "2024-03-05", "2024-03-05"),
    ("Anfang März", "2026-03-01", "2026-03-10"),
    ("seit März", "2026-03-01", None),
]

FALSE_FRIENDS = [
    # verbs, people, products
    "may I delete the branch",
    "it may fail",
    "this may 5 times fail",
    "ants march in line",
    "the March of the Penguins",
    "Women's March",
    "did April call",
    "a note by June",
    "an email from April",
    "Spring Boot configuration",
    "in Spring Boot",
    "the Spring Fling Market",
    "Black Friday",
    "the Sunday mass",
    "every Monday",
    "what time do I wake up on Saturday mornings?",
    "fall back to local",
    "dec 5 and mar 3 registers",
    "Audi Q3",
    "Q4_K_M quantization",
    # order, not time
    "the last commit",
    "the last test",
    "show the last 10 lines",
    "get the last column",
    "my last trip",
    "the first week of the project",
    "the last three minutes of the game",
    "first",
    "in a second",
    "which happened first, the trip or the party?",
    "which did I buy most recently",
    "least recently used cache",
    "that hostel you recommended last time",
    "how many have I played in the past?",
    # numbers that are not dates
    "version 1.2.2024",
    "in 2000 files",
    "in 2048",
    "in 1492",
    "im Oktober 1954",
    "3/5/2024",
    "2024-13-45",
    "src/2024-03-05/notes.md",
    "2026-01-06-cf564e14",
    "CVE-2024-03",
    "step 2024",
    # dates as data
    "python get yesterday's date",
    "datetime of last month",
    "date of last Monday in sql",
    '"last week" as a label',
    "parse `yesterday`",
    # a time is asked for
    "When did Caroline go to the support group?",
    "How many days ago did I meet Emma?",
    "how long before the release did we freeze?",
    "How many days before the launch did I attend the workshop?",
    # events, reasons, conditions, places
    "what did we decide before the release?",
    "bugs since we moved to Postgres",
    "what changed since v1.2?",
    "since it fails",
    "since we use Postgres, how do I connect",
    "Since we deleted the branch, how do I restore it",
    "since then",
    "microseconds since epoch",
    "wait until the queue is empty",
    "repeat until it succeeds",
    "take a string after the title",
    "how do I close a socket before the program exits",
    "how to run a hook before the deploy",
    "fixed test after rebase",
    "after all",
    "what could John do after his career and his studies?",
    "What did Melanie do after the road trip to relax?",
    "after 12 weeks of treatment",
    "keep open until tasks complete",
    "vor dem Haus",
    "nach Berlin",
    "guten Morgen",
    # how things are, and times to come
    "which fragments are still visible at the wall today?",
    "can you recommend a show to watch tonight?",
    "I'm planning my meals for next week, any tips?",
    "is it due tomorrow, next Friday or 3 weeks from now",
    "",
    "   ",
    "???",
]

_PIECES = [
    *"""
    in on since before after until between from to and of the a last past this next early mid late end first week
    month year day days two 3 5th 31 12 2024 9999 2024-03-05 2024-02-30 31.02.2024 March may Feb Monday summer ago
    today yesterday recently Q3 Jahr vor drei Tagen seit morgen we moved release v1.2 's ' - – , . ? ` "
    """.split()
]
QUERIES = st.one_of(
    st.text(), st.lists(st.sampled_from(_PIECES)).map(" ".join), st.lists(st.sampled_from(_PIECES)).map("".join)
)


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


@pytest.mark.parametrize(("query", "first", "last"), NAMED)
def test_named_times(query: str, first: str | None, last: str | None) -> None:
    """A time that a query names becomes a range of days."""
    hint = find_time_hint(query, TODAY)
    assert hint
    assert (hint.first, hint.last) == (_day(first), _day(last))


@pytest.mark.parametrize("query", FALSE_FRIENDS)
def test_false_friends(query: str) -> None:
    """Words that only look like a time are ignored."""
    assert find_time_hint(query, TODAY) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("What did Joanna just finish last Friday on 23 January, 2022?", "23 January, 2022"),
        ("what did we recently agree, was it last week?", "last week"),
        ("what did we do last week before the release?", "last week"),
        ("what did we decide before March 2024, roughly?", "before March 2024"),
    ],
)
def test_what_says_most_wins(query: str, words: str) -> None:
    """A date beats a relative time, and that beats a vague one; the span is that of the words in the query."""
    hint = find_time_hint(query, TODAY)
    assert hint
    assert hint.words == words == query[slice(*hint.span)]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("last week", '"last week" is 2026-11-02 to 2026-11-08'),
        ("what broke yesterday", '"yesterday" is 2026-11-10'),
        ("since March", '"since March" is 2026-03-01 or later'),
        ("before 2024", '"before 2024" is 2023-12-31 or earlier'),
        ("compare March 2024 with May 2024", '"March 2024 … May 2024" is 2024-03-01 to 2024-05-31'),
    ],
)
def test_descriptions(query: str, text: str) -> None:
    """A hint is formatted with its days."""
    hint = find_time_hint(query, TODAY)
    assert hint
    assert hint.description == text


@pytest.mark.parametrize("undated", ["", "someday", "2026-02-30", "12", "\ud800"])
def test_undated_chunks_are_neutral(undated: str) -> None:
    """A chunk without a valid day is neutral."""
    hint = find_time_hint("last week", TODAY)
    assert hint
    assert hint.preference(undated) == NEUTRAL_PREFERENCE


def test_a_time_of_day_does_not_matter() -> None:
    """The time of day is ignored."""
    hint = find_time_hint("last week", TODAY)
    assert hint
    assert hint.preference("2026-11-08T23:59") == 1.0
    assert hint.preference("2026-11-09T00:01") == hint.preference("2026-11-09") < 1.0


def test_wide_times_fall_off_slowly() -> None:
    """A week after a year is nearly in it; a week after a day is far away."""
    year, day = find_time_hint("in 2024", TODAY), find_time_hint("2024-12-31", TODAY)
    assert year
    assert day
    assert year.preference("2025-01-07") > 0.9
    assert day.preference("2025-01-07") < 0.25


def test_late_notes_fit_better_than_early_ones() -> None:
    """A day after the time counts more than a day before, because events are noted afterwards."""
    hint = find_time_hint("last week", TODAY)
    assert hint
    assert hint.preference("2026-11-10") > hint.preference("2026-10-31")


@given(QUERIES, DAYS)
@example("in March and", TODAY)
@example("9999 years ago", TODAY)
@example("29 February", date(2025, 3, 1))
def test_any_query_is_read(query: str, today: date) -> None:
    """No query fails, and a hint is ordered, inside the query, and can be formatted and weighed."""
    hint = find_time_hint(query, today)
    if hint is None:
        return
    said = query[slice(*hint.span)]
    assert all(part in said for part in hint.words.split(" … "))
    assert hint.first or hint.last
    assert not (hint.first and hint.last) or hint.first <= hint.last
    assert hint.description
    assert 0.0 <= hint.preference(today.isoformat()) <= 1.0


@given(QUERIES)
@example("last week")
def test_extreme_days_are_read(query: str) -> None:
    """The first and the last day of the calendar do not fail."""
    find_time_hint(query, date.min)
    find_time_hint(query, date.max)


@given(DAYS, st.integers(0, 4000), st.sampled_from(["closed", "from", "to"]), DAYS)
def test_preference_is_one_inside_and_falls_outside(first: date, width: int, ends: str, asked: date) -> None:
    """Every day inside gets 1; a farther day never gets more than a nearer one."""
    last = first + timedelta(width)
    hint = TimeHint("x", (0, 1), None if ends == "to" else first, None if ends == "from" else last, asked)
    assert hint.preference(first.isoformat()) == hint.preference(last.isoformat()) == 1.0
    steps = (1, 2, 5, 30, 400, 5000)
    before = [hint.preference((first - timedelta(step)).isoformat()) for step in steps]
    after = [hint.preference((last + timedelta(step)).isoformat()) for step in steps]
    for side, is_open in ((before, ends == "to"), (after, ends == "from")):
        assert side == [1.0] * len(steps) if is_open else side == sorted(side, reverse=True)
        assert all(0.0 <= preference <= 1.0 for preference in side)
        assert is_open or side[0] < 1.0


@pytest.mark.parametrize(
    "piece",
    [
        "recently ",
        "today ",
        "March to ",
        "March 2024 and ",
        '" March 5 2024 ',
        "“ in May 2024 ",
        "the week before ",
        "since we ",
        "before the release and ",
        "early ",
    ],
)
def test_work_grows_with_the_query_only(piece: str) -> None:
    """The work is linear in the query, counted in calls."""
    assert _calls(piece * 600) <= 2.2 * _calls(piece * 300)


def _calls(query: str) -> int:
    count = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        find_time_hint(query, TODAY)
    finally:
        sys.setprofile(before)
    return count
