"""Counters of a process: calls, failures and durations of each operation."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict, deque
from pathlib import Path
from threading import Lock

from msgspec import Struct, field

_MAX_DURATIONS = 1_000
"""Durations kept per operation. Percentiles cover the most recent calls, and memory stays bounded."""


class OperationCount(Struct, frozen=True):
    """Counters of one operation."""

    op: str
    count: int
    errors: int
    seconds: float
    """Total duration."""
    recent_seconds: tuple[float, ...]
    """Durations of the most recent calls, in ascending order."""

    def quantile(self, share: float) -> float:
        """Return the duration that this share of the recent calls did not exceed; 0 without calls."""
        durations = self.recent_seconds
        return durations[min(len(durations) - 1, int(share * len(durations)))] if durations else 0.0


class Meter(Struct):
    """The counters of one process. Thread-safe."""

    started: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _errors: Counter[str] = field(default_factory=Counter)
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _recent: defaultdict[str, deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=_MAX_DURATIONS))
    )

    def count(self, op: str, seconds: float, *, failed: bool) -> None:
        """Count one call."""
        with self._lock:
            self._counts[op] += 1
            self._errors[op] += failed
            self._seconds[op] += seconds
            self._recent[op].append(seconds)

    def counts(self) -> list[OperationCount]:
        """Return the counters by operation."""
        with self._lock:
            return [
                OperationCount(
                    op, self._counts[op], self._errors[op], self._seconds[op], tuple(sorted(self._recent[op]))
                )
                for op in sorted(self._counts)
            ]


def resident_bytes() -> int:
    """Return the resident memory of this process, mapped files included; its peak where only that is available."""
    try:
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
