"""Counting what a process has done: how often, how long, and how often it failed."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from threading import Lock

_KEPT = 1_000
"""Durations kept of each operation: percentiles speak of the last ones, and memory stays bounded."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted of one operation."""

    op: str
    count: int
    errors: int
    seconds: float
    """In all."""
    last: tuple[float, ...]
    """Seconds of the last ones, in ascending order."""

    def quantile(self, share: float) -> float:
        """Return the duration that this share of the last ones stayed within."""
        return self.last[min(len(self.last) - 1, int(share * len(self.last)))] if self.last else 0.0


@dataclass(slots=True)
class Meter:
    """The counters of one process. May be shared by threads."""

    started: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _errors: Counter[str] = field(default_factory=Counter)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _last: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_KEPT)))

    def count(self, op: str, seconds: float, *, failed: bool) -> None:
        """Count one call."""
        with self._lock:
            self._counts[op] += 1
            self._errors[op] += failed
            self._seconds[op] += seconds
            self._last[op].append(seconds)

    def counted(self) -> list[Counted]:
        """Return what was counted, by operation."""
        with self._lock:
            return [
                Counted(op, self._counts[op], self._errors[op], self._seconds[op], tuple(sorted(self._last[op])))
                for op in sorted(self._counts)
            ]


def resident_bytes() -> int:
    """Return the memory this process has now, files it maps included; where that cannot be told, the most it ever had."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
