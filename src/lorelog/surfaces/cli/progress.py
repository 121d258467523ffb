"""Progress of long work on standard error: bars on a terminal, at most one line in 30 seconds elsewhere.

What is waited for is said in both cases. Imports only light parts of the standard library until a bar is drawn.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

from lorelog.core.errors import LorelogError, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from lorelog.core.ports import Progress

WAIT_NOTICE_AFTER_S = 1
_BAR_AFTER_S = 0.4
_LINE_INTERVAL_S = 30.0
_MIN_ESTIMATE_S = 10.0
"""A shorter time is not announced; the bar shows it."""
_MIN_MEASURED_S, _MIN_STEPS = 10, 100
_STAGE_LABELS = {"words": "reading", "vectors": "embedding", "compact": "summarizing", "code": "reading code"}


class WaitNotice:
    """Says what is waited for: once after a second, then every 30 seconds."""

    def __init__(self) -> None:
        self._next_s = WAIT_NOTICE_AFTER_S

    def text(self, stage: str, waited_s: int) -> str:
        """Return the line to print now, or ''."""
        if waited_s < self._next_s:
            return ""
        self._next_s = waited_s + int(_LINE_INTERVAL_S)
        return f"{stage} ({waited_s} s so far)"


class TimeEstimate:
    """Time left of one stage, from 100 measured steps on, or 10 in 10 s; if another worker goes on, at the old rate until its 100th.

    The first report of a worker is not measured: it includes loading the model.
    """

    def __init__(self) -> None:
        self._start: int | None = None
        self._first: tuple[float, int] | None = None
        self._step_s, self._is_carried = 0.0, False

    def seconds_left(self, done: int, total: int, now: float) -> float | None:
        """Return the seconds left after a report, or None if they are not known yet."""
        if self._start is None or done < self._start or (self._first and done < self._first[1]):
            self._start, self._first, self._is_carried = done, None, self._step_s > 0
        if self._first is None:
            self._first = (now, done) if done > self._start else None
        else:
            elapsed_s, steps = now - self._first[0], done - self._first[1]
            if steps >= _MIN_STEPS or (elapsed_s >= _MIN_MEASURED_S <= steps and not self._is_carried):
                self._step_s = elapsed_s / steps
        return (total - done) * self._step_s if self._step_s and total >= done else None


class ProgressLines:
    """Progress without a terminal: what is waited for, how long vectors take, and a line every 30 seconds."""

    def __init__(self, *, daemon_finishes: bool = False) -> None:
        self._daemon_finishes = daemon_finishes
        self._notices: dict[str, WaitNotice] = {}
        self._estimates: dict[str, TimeEstimate] = {}
        self._announced = False
        self._printed_at = time.monotonic()

    def show(self, stage: str, done: int, total: int) -> None:
        if stage.startswith("waiting"):
            self.print_line(self._notices.setdefault(stage, WaitNotice()).text(stage, done))
            return
        now = time.monotonic()
        left_s = self._estimates.setdefault(stage, TimeEstimate()).seconds_left(done, total, now)
        self.draw(stage, done, total, left_s)
        if stage == "vectors" and left_s is not None and left_s > _MIN_ESTIMATE_S and not self._announced:
            self._announced = True
            leave = "; Ctrl-C leaves the rest to the daemon" if self._daemon_finishes and is_watched() else ""
            time_left = f"{plural(total, 'section')}; vectors take about {format_span(left_s)}"
            self.print_line(f"{time_left}; you can search by words already{leave}")

    def draw(self, stage: str, done: int, total: int, left_s: float | None) -> None:
        """Show where a stage is: here a line, at most every 30 seconds."""
        if time.monotonic() - self._printed_at >= _LINE_INTERVAL_S and total:
            left = f", about {format_span(left_s)} left" if left_s else ""
            self.print_line(f"{_STAGE_LABELS.get(stage, stage)}: {done:,} of {total:,}{left}")

    def print_line(self, text: str) -> None:
        """Print a line to standard error."""
        if text and sys.stderr is not None:
            self._printed_at = time.monotonic()
            print(text, file=sys.stderr, flush=True)

    def stop(self) -> None:
        """End the display."""


class ProgressBars(ProgressLines):
    """Progress on a terminal. Rich is imported when the first bar is drawn, after 0.4 s."""

    def __init__(self, *, daemon_finishes: bool = False) -> None:
        super().__init__(daemon_finishes=daemon_finishes)
        self._started = time.monotonic()
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last: dict[str, tuple[int, int, float | None]] = {}

    def draw(self, stage: str, done: int, total: int, left_s: float | None) -> None:
        """Show where a stage is: a bar each."""
        self._last[stage] = (done, total, left_s)
        if self._bars is None:
            if time.monotonic() - self._started <= _BAR_AFTER_S:
                return
            self._bars = self._draw()
        for name, (at, of, seconds) in self._last.items():  # with those that ended before the first bar
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(_STAGE_LABELS.get(name, name), total=None, left="")
            left = f"{format_span(seconds)} left" if seconds and at < of else ""
            self._bars.update(self._tasks[name], completed=at, total=of or None, left=left)

    def print_line(self, text: str) -> None:
        """Print a line above the bars."""
        if text and self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            super().print_line(text)

    def stop(self) -> None:
        """Remove the bars."""
        if self._bars is not None:
            self._bars.stop()

    def _draw(self) -> Bars:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        label, left = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
        bars = Bars(label, BarColumn(), MofNCompleteColumn(), left, console=Console(stderr=True), transient=True)
        bars.start()
        return bars


@contextmanager
def show_progress(*, daemon_finishes: bool) -> Iterator[Progress]:
    """Yield a progress callback. With `daemon_finishes`, an interruption says that the daemon goes on, if it does."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    display = (ProgressBars if on_terminal else ProgressLines)(daemon_finishes=daemon_finishes)
    try:
        yield display.show
    except KeyboardInterrupt:
        display.stop()
        if daemon_finishes and is_watched():
            raise KeyboardInterrupt(
                "interrupted; finished work is kept, and the daemon finishes the rest (lorelog daemon status)"
            ) from None
        raise
    finally:
        display.stop()


def is_watched() -> bool:
    """Return whether a daemon runs and watches files: then it makes the vectors that an interrupted run leaves."""
    from lorelog.light.daemon_client import call_daemon

    try:
        watch = call_daemon("daemon.status", {}, directory="/").get("watch")
    except (LorelogError, OSError):
        return False
    return bool(watch and watch.get("roots"))


def format_span(seconds: float) -> str:
    """Return a duration for a person: `40 s`, `7 min`, `1 h 20 min`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
