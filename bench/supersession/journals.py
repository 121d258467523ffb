"""Pairs of made-up journal entries, and what is recognised in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lorelog.retrieval.value_changes import DatedText, find_value_pairs

FOLDER = Path(__file__).parent
EARLIER, LATER = "2026-10-02T09:00", "2026-10-09T16:30"
SAME_DAY = "2026-10-02"


@dataclass(frozen=True)
class JournalPair:
    """Two entries, and whether they are a pair of now and was (`now`), a contradiction (`open`) or neither (`none`)."""

    expected: str
    earlier: DatedText
    later: DatedText

    def recognise(self) -> str:
        """Return what is recognised, in both orders of the hits; `none` unless both give the same right direction."""
        found = {self._recognise((self.earlier, self.later)), self._recognise((self.later, self.earlier))}
        return found.pop() if len(found) == 1 else "unstable"

    def _recognise(self, texts: tuple[DatedText, DatedText]) -> str:
        pairs = find_value_pairs(texts)
        if not pairs:
            return "none"
        if any(not pair.is_settled for pair in pairs):
            return "open"
        return "now" if all(texts[pair.newer] is self.later for pair in pairs) else "reversed"


def read_pairs(name: str) -> Iterator[JournalPair]:
    """Yield the pairs of a file."""
    for line in (FOLDER / f"journals_{name}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            expected, earlier, later = line.split(" | ")
            days = (SAME_DAY, SAME_DAY) if expected == "open" else (EARLIER, LATER)
            yield JournalPair(expected.strip(), _entry(earlier, days[0]), _entry(later, days[1]))


def _entry(text: str, date: str) -> DatedText:
    heading: tuple[str, ...] = ()
    if text.startswith("["):
        title, _, text = text[1:].partition("] ")
        heading = (title,)
    return DatedText(text.replace("\\n", "\n").strip(), date, "/app", f"/app/.lorelog/memory/{date[:10]}.md", heading)
