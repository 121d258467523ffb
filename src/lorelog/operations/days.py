"""Days as people write them in filters."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

from lorelog.core.errors import UsageError

if TYPE_CHECKING:
    from lorelog.operations.operation import Call

_AGO = re.compile(r"(\d{1,5})\s*([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def day_ahead(text: str, today: date | None = None) -> str:
    """Return an ISO day: given as such, as today or tomorrow, or as so many days, weeks, months or years from now."""
    today = today or date.today()  # noqa: DTZ011  (a person's own day)
    word = text.strip().lower()
    ahead = _AGO.fullmatch(word)
    try:
        if ahead:
            return (today + timedelta(days=int(ahead[1]) * _DAYS[ahead[2]])).isoformat()
        if word in {"today", "tomorrow"}:
            return (today + timedelta(days=word == "tomorrow")).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a day", hint="write 2026-03-05, today, tomorrow, or 14d, 2w, 3m, 1y for so long from now"
        ) from None


def day_of(text: str, today: date | None = None) -> str:
    """Return an ISO day: given as such, as today or yesterday, or as so many days, weeks, months or years ago."""
    today = today or date.today()  # noqa: DTZ011  (a person's own day)
    word = text.strip().lower()
    ago = _AGO.fullmatch(word)
    try:
        if ago:
            return (today - timedelta(days=int(ago[1]) * _DAYS[ago[2]])).isoformat()
        if word in {"today", "yesterday"}:
            return (today - timedelta(days=word == "yesterday")).isoformat()
        return date.fromisoformat(word).isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a day", hint="write 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y for so long ago"
        ) from None


def located(path: str, call: Call) -> str:
    """Return a path from where the caller stands; one that begins with `!` keeps its mark."""
    mark, bare = ("!", path[1:]) if path.startswith("!") else ("", path)
    if not bare:
        raise UsageError("an empty path was given", hint="an unset variable? '.' is the current directory")
    return mark + os.path.join(call.directory, os.path.expanduser(bare))  # noqa: PTH111, PTH118  (may not be a path yet)
