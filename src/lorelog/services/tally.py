"""Counting what an index run does, as it goes; the report is made of that at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from lorelog.core.memory import IndexReport, Problem, Reembedding


@dataclass(slots=True)
class Tally:
    """What has been done so far."""

    files: int = 0
    changed: int = 0
    unchanged: int = 0
    touched: int = 0
    removed: int = 0
    chunks: int = 0
    embedded: int = 0
    truncated: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reembedding: Reembedding | None = None

    def report(self, started: float, waiting: int) -> IndexReport:
        """Return what was done since `started`, of `time.monotonic`, and how many chunks wait for vectors now."""
        return IndexReport(
            files=self.files,
            changed=self.changed,
            unchanged=self.unchanged,
            touched=self.touched,
            removed=self.removed,
            chunks=self.chunks,
            embedded=self.embedded,
            truncated=self.truncated,
            waiting=waiting,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            seconds=round(time.monotonic() - started, 3),
            reembedding=self.reembedding,
        )
