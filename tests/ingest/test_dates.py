"""Days and times from names and headings."""

from __future__ import annotations

import pytest

from lorelog.ingest.dates import Moment, day_of_name

BASE = Moment("2026-01-01")


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("/m/2026-03-05.md", "2026-03-05"),
        ("/m/2026-03-05-standup.md", "2026-03-05"),
        ("/m/2026-03-05-2.md", "2026-03-05"),
        ("/m/2024-02-29.md", "2024-02-29"),
        ("/m/2026-02-29.md", ""),
        ("/m/2026-13-01.md", ""),
        ("/m/2026-03-051.md", ""),
        ("/m/notes-2026-03-05.md", ""),
        ("/2026-03-05/notes.md", ""),
        ("", ""),
    ],
)
def test_journal_names_give_a_day(name: str, day: str) -> None:
    """A file name that begins with a real ISO day is a journal of that day."""
    assert day_of_name(name) == day


@pytest.mark.parametrize(
    ("title", "stamp"),
    [
        ("Notes", "2026-01-01"),
        ("14:30", "2026-01-01T14:30"),
        ("9:05 – call", "2026-01-01T09:05"),
        ("Session 14:47", "2026-01-01T14:47"),
        ("**14:30**", "2026-01-01T14:30"),
        ("14:30:59", "2026-01-01T14:30"),
        ("2:30 pm", "2026-01-01T14:30"),
        ("12:05 AM", "2026-01-01T00:05"),
        ("24:00", "2026-01-01"),
        ("10:99", "2026-01-01"),
        ("16:9 screens", "2026-01-01"),
        ("Meet at 14:30", "2026-01-01"),
        ("2026-03-05", "2026-03-05"),
        ("[1.2.0] - 2026-03-05", "2026-03-05"),
        ("2026-03-05 14:30", "2026-03-05T14:30"),
        ("2026-03-05T14:30:00Z", "2026-03-05T14:30"),
        ("2026-02-30", "2026-01-01"),
        ("12026-03-05", "2026-01-01"),
    ],
)
def test_headings_narrow_the_moment(title: str, stamp: str) -> None:
    """A real day in a heading replaces the day, a time at its start adds the time; all else changes nothing."""
    assert BASE.narrowed(title).stamp("fallback") == stamp


def test_moments_are_inherited() -> None:
    """A subsection keeps day and time; a new day forgets the old time."""
    entry = BASE.narrowed("14:30")
    assert entry.narrowed("Details").stamp("") == "2026-01-01T14:30"
    assert entry.narrowed("2026-03-05").stamp("") == "2026-03-05"


def test_a_time_without_a_day_is_not_used() -> None:
    """A time is not attached to the fallback day, which the text does not speak of."""
    assert Moment().narrowed("14:30").stamp("2026-09-09") == "2026-09-09"
