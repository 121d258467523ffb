"""Documents of a set as the Markdown files that a person would have, and the way back from lines to documents.

Turns of a conversation become journals: one file a session (a day, where sessions have no name), whose name begins with
the day, one section `## HH:MM` a turn, with an anchor below it where that is wanted (comments count towards a chunk's
size, so that anchors move cuts). Everything else becomes one file a document, with its title as heading. The text of a
document goes in as it is, headings and fences included: what a pipeline makes of them is part of what is measured.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.quality.sets import Text

_MONTHS = {
    name: number
    for number, name in enumerate(
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ],
        1,
    )
}
_SPOKEN = re.compile(r"(\d{1,2}):(\d\d) (am|pm) on (\d{1,2}) (\w+), (\d{4})")
_SLASHED = re.compile(r"(\d{4})/(\d\d)/(\d\d) \(\w+\) (\d\d:\d\d)")
_NAMED = re.compile(r"([A-Za-z]+)-(\d{1,2})-(\d{4})")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d))?")
_ODD = re.compile(r"[^\w.+-]+")


def when(date: str) -> tuple[str, str]:
    """Return the ISO day and time of a date in a set; empty if it has none."""
    if found := _SPOKEN.match(date):
        hour = int(found[1]) % 12 + (12 if found[3] == "pm" else 0)
        return _day(found[6], found[5], found[4]), f"{hour:02d}:{found[2]}"
    if found := _SLASHED.match(date):
        return f"{found[1]}-{found[2]}-{found[3]}", found[4]
    if found := _NAMED.match(date):
        return _day(found[3], found[1], found[2]), ""
    if found := _ISO.match(date):
        return found[1], found[2] or ""
    return "", ""


def _day(year: str, month: str, day: str) -> str:
    number = _MONTHS.get(month.lower())
    return f"{year}-{number:02d}-{int(day):02d}" if number else ""


@dataclass
class _Page:
    """A file being built: its lines, and the first line of each document."""

    day: str = ""
    lines: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def begin(self, document: str) -> None:
        self.firsts.append(len(self.lines) + 1)
        self.ids.append(document)

    def documents(self, first: int, last: int) -> list[str]:
        start = max(0, bisect_right(self.firsts, first) - 1)
        return self.ids[start : bisect_right(self.firsts, last)]


class Layout:
    """The files of a set by group, and the documents by line."""

    def __init__(self, folder: Path, *, anchors: bool = False) -> None:
        self._folder = folder.resolve()
        self._anchors = anchors
        self._pages: dict[str, _Page] = {}
        self.folders: dict[str, Path] = {}

    def documents(self, source: str, first: int, last: int) -> list[str]:
        """Return the documents with any of these lines, in the order of the file."""
        page = self._pages.get(source)
        return page.documents(first, last) if page else []

    def at(self, place: str) -> list[str]:
        """Return the documents at `source:first-last`, as a hit names its duplicates."""
        source, _, lines = place.rpartition(":")
        first, _, last = lines.partition("-")
        return self.documents(source, int(first), int(last or first))

    def pages(self) -> Iterable[_Page]:
        """Return all files."""
        return self._pages.values()

    def write(self, texts: Iterable[Text]) -> None:
        """Write all documents."""
        for number, (group, page) in enumerate(_pages(texts, anchors=self._anchors)):
            folder = self.folders.get(group)
            if folder is None:
                folder = self.folders[group] = self._folder / f"group{len(self.folders):04d}"
                folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{page.day}{'-' if page.day else ''}{number:05d}.md"
            data = ("\n".join(page.lines) + "\n").encode("utf-8", "replace")
            if (
                not path.exists() or path.read_bytes() != data
            ):  # what is kept from the last run need not be indexed again
                path.write_bytes(data)
            self._pages[str(path)] = page


def _pages(texts: Iterable[Text], *, anchors: bool) -> Iterator[tuple[str, _Page]]:
    pages: dict[tuple[str, ...], tuple[str, _Page]] = {}
    days: dict[str, str] = {}
    for number, text in enumerate(texts):
        day, clock = when(text.date)
        if text.is_turn:
            # A date marks where the next sitting begins; the turns after it need not repeat it.
            days[text.group] = day or days.get(text.group, "")
            sitting = text.session if text.session is not None else f"on {days[text.group]}"
            key: tuple[str, ...] = (text.group, sitting)
        else:
            key = (text.group, "", str(number))
        _, page = pages.setdefault(key, (text.group, _Page()))
        page.day = page.day or day
        page.begin(text.id)
        page.lines += _turn(text, clock, anchors=anchors) if text.is_turn else _document(text)
    yield from pages.values()


def _turn(text: Text, clock: str, *, anchors: bool) -> list[str]:
    session = _ODD.sub("_", text.session or text.group) or "all"
    anchor = [f"<!-- session:{session} turn:{_ODD.sub('_', text.id)} -->"] if anchors else []
    return [f"## {clock or '00:00'}", *anchor, "", *_lines(text.text), ""]


def _document(text: Text) -> list[str]:
    title = " ".join(text.title.split())
    return [*([f"# {title}", ""] if title else []), *_lines(text.text)]


def _lines(text: str) -> list[str]:
    # As the pipeline reads them: `\r\n` ends a line as `\n` does, and NUL would make the file no text.
    return text.replace("\r\n", "\n").replace("\0", " ").split("\n")
