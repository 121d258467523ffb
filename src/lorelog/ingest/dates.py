"""Which day, and which time of day, a text speaks of: from file names and headings.

Only ISO days (`2026-03-05`) and 24-hour or am/pm times are read: anything looser guesses. A time counts only beside a
day that the text itself names; the day of a file's last change says nothing about the `14:30` in one of its headings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import PurePath

_DAY = re.compile(r"(?<![0-9A-Za-z_.-])([0-9]{4})-([0-9]{2})-([0-9]{2})(?![0-9])")
_TIME = re.compile(
    r"[*_`\[(\s]*(?:session\s+)?([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})?(?![0-9:])(?:\s*([ap])\.?m\b)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A day and a time of day, either of which may be unknown."""

    day: str = ""
    time: str = ""

    def narrowed(self, title: str) -> Moment:
        """Return the moment of a heading that stands below this one."""
        found = _DAY.search(title)
        day = _real_day(found) if found else ""
        time = _find_time(title[found.end() :].lstrip("Tt ,@–—-")) if found and day else ""
        time = time or _find_time(title)
        if day:
            return Moment(day, time)
        return Moment(self.day, time or self.time)

    def stamp(self, fallback_day: str) -> str:
        """Return `YYYY-MM-DD`, or `YYYY-MM-DDTHH:MM`, or the fallback when no day is known."""
        if not self.day:
            return fallback_day
        return f"{self.day}T{self.time}" if self.time else self.day


def find_day(text: str) -> str:
    """Return the first ISO day in a text if it is a real one, else an empty string."""
    found = _DAY.search(text)
    return _real_day(found) if found else ""


def day_of_name(path: str) -> str:
    """Return the day that a journal's file name begins with, else an empty string."""
    found = _DAY.match(PurePath(path).name)
    return _real_day(found) if found else ""


def _real_day(found: re.Match[str]) -> str:
    try:
        return date(int(found[1]), int(found[2]), int(found[3])).isoformat()
    except ValueError:
        return ""


def _find_time(text: str) -> str:
    found = _TIME.match(text)
    if not found:
        return ""
    hour, minute = int(found[1]), int(found[2])
    if found[3]:
        hour = hour % 12 + (12 if found[3] in "pP" else 0)
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else ""
