"""What a scale run's numbers mean: one column a contender, and the targets they are held to.

Responsible for judging and printing only. Ratios are judged by the numbers of one run. A rival that was stopped at
fewer rows than the rest is judged by the numbers it has there: it had less to search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from bench.report import shown
from bench.result import Figure
from bench.scale.contender import CONTENDERS, OURS
from bench.scale.rounds import Outcome, Seen

JUDGED_FROM = 100_000
_AHEAD = 5.0
_LEXICAL_S, _OPENING_S = 0.005, 0.050


@dataclass(frozen=True)
class _Limits:
    """What is promised at one size."""

    hybrid_s: float
    recall: float
    insert_s: float | None = None
    disk_bytes: float | None = None


_LIMITS = {100_000: _Limits(0.006, 0.998), 1_000_000: _Limits(0.012, 0.98, 300.0, 3e9)}
"""Limits by size; a size between two is held to the larger one's."""


@dataclass(frozen=True)
class Judged:
    """One promise, what was seen of it, and whether it holds."""

    what: str
    rival: str
    ours: str
    ratio: str
    target: str
    met: bool
    headline: bool = False

    def figure(self) -> Figure:
        """Return it as a figure of a stored result."""
        measured = f"{self.ratio} ({self.ours} against {self.rival})" if self.ratio else self.ours
        return Figure(self.what, measured, self.target, self.met, self.headline)

    def cells(self) -> list[str]:
        return [self.what, self.rival, self.ours, self.ratio, self.target, "met" if self.met else "MISSED"]


def p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1] if len(values) > 1 else values[0]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


Measure = Callable[[Seen], str]

_MEASURES: Mapping[str, Measure] = {
    "rows": lambda seen: f"{seen.inserted.rows:,}",
    "insert, wall": lambda seen: _seconds(seen.inserted.seconds) + (" *" if seen.inserted.reused else ""),
    "insert, CPU": lambda seen: _seconds(seen.inserted.cpu) + (" *" if seen.inserted.reused else ""),
    "disk": lambda seen: shown(seen.inserted.disk, "MB"),
    "peak RSS while inserting": lambda seen: shown(seen.inserted.peak, "MB"),
    "RSS after the warm questions": lambda seen: shown(seen.memory.get("resident"), "MB"),
    "… of it anonymous": lambda seen: shown(seen.memory.get("anonymous"), "MB"),
    "… of it private": lambda seen: shown(seen.memory.get("private"), "MB"),
    "… of it the store's mapped files": lambda seen: shown(seen.memory.get("mapped_resident"), "MB"),
    "the store's files mapped": lambda seen: shown(seen.memory.get("mapped"), "MB"),
    "cold first query, wall": lambda seen: _seconds(median(seen.cold)),
    "cold first query, CPU": lambda seen: _seconds(median(seen.cold_cpu)),
    "warm hybrid, median": lambda seen: _seconds(median(seen.warm)),
    "warm hybrid, p99": lambda seen: _seconds(p99(seen.warm)),
    "warm hybrid, CPU median": lambda seen: _seconds(median(seen.warm_cpu)),
    "warm hybrid questions": lambda seen: f"{len(seen.warm)}",
    "warm dense search, median": lambda seen: _seconds(median(seen.dense)),
    "warm lexical lane alone, median": lambda seen: _seconds(median(seen.lexical)) if seen.lexical else "",
    "warm dense lane alone, median": lambda seen: _seconds(median(seen.dense_lane)) if seen.dense_lane else "",
    "recall@10 of dense search": lambda seen: f"{mean(seen.recalls):.4f}",
}


def _seconds(value: float) -> str:
    return f"{value * 1e3:.2f} ms" if value < 0.1 else shown(value, "s")


def contenders_table(outcome: Outcome) -> str:
    """Every number, a column a contender."""
    head = ["", *(CONTENDERS[name].title for name in outcome.seen)]
    rows = [[what, *(measure(seen) for seen in outcome.seen.values())] for what, measure in _MEASURES.items()]
    return markdown(head, rows, right=len(head) - 1)


def judge(outcome: Outcome, size: int) -> list[Judged]:
    """Hold a run against what was promised for its size; nothing is promised below 100,000."""
    ours = outcome.seen.get(OURS)
    if ours is None or size < JUDGED_FROM:
        return []
    lines = _limits(ours, size)
    for name, seen in outcome.seen.items():
        if name != OURS and not CONTENDERS[name].is_floor:
            lines += _beside(CONTENDERS[name].title, seen, ours)
    return lines


def _beside(title: str, rival: Seen, ours: Seen) -> list[Judged]:
    behind = "" if rival.inserted.rows == ours.inserted.rows else f" ({rival.inserted.rows:,} rows)"
    lines = [
        _ahead(f"{what}, beside {title}{behind}", median(theirs), median(own))
        for what, theirs, own in (
            ("cold first query", rival.cold, ours.cold),
            ("warm hybrid median", rival.warm, ours.warm),
        )
    ]
    theirs, own = (round(mean(seen.recalls), 3) for seen in (rival, ours))
    what = f"recall@10, beside {title}{behind}"
    return [*lines, Judged(what, f"{theirs:.3f}", f"{own:.3f}", "", "equal or better", own >= theirs)]


def _ahead(what: str, rival: float, ours: float) -> Judged:
    ratio = rival / ours
    return Judged(what, _seconds(rival), _seconds(ours), f"{ratio:.1f}x", f">= {_AHEAD:g}x", ratio >= _AHEAD)


def _limits(ours: Seen, size: int) -> list[Judged]:
    lines = [
        _most("lexical lane, warm median", median(ours.lexical), _LEXICAL_S),
        _most("open to the lexical lane's first answer", median(ours.opening), _OPENING_S),
    ]
    allowed = next((limits for most, limits in _LIMITS.items() if size <= most), None)
    if allowed is None:
        return lines
    found = mean(ours.recalls)
    rows = f"{size:,} rows"
    lines += [
        _most(f"hybrid, {rows}, in process, warm median", median(ours.warm), allowed.hybrid_s, headline=True),
        Judged(f"recall@10, {rows}", "", f"{found:.4f}", "", f">= {allowed.recall}", found >= allowed.recall, True),
    ]
    if allowed.insert_s is not None:
        taken = ours.inserted.seconds
        lines.append(_below(f"insert of {rows}", _seconds(taken), f"{allowed.insert_s:g} s", taken <= allowed.insert_s))
    if allowed.disk_bytes is not None:
        disk = ours.inserted.disk
        limit = f"{allowed.disk_bytes / 1e9:g} GB"
        lines.append(_below(f"disk of {rows}", f"{disk / 1e9:.2f} GB", limit, disk <= allowed.disk_bytes))
    return lines


def _below(what: str, ours: str, limit: str, met: bool) -> Judged:  # noqa: FBT001  the last column
    return Judged(what, "", ours, "", f"<= {limit}", met, headline=True)


def _most(what: str, ours: float, limit: float, *, headline: bool = False) -> Judged:
    return Judged(what, "", _seconds(ours), "", f"<= {limit * 1e3:g} ms", ours <= limit, headline)


def judged_table(lines: Sequence[Judged]) -> str:
    head = ["", "rival", "lorelog", "ratio", "target", ""]
    return markdown(head, [line.cells() for line in lines], right=3)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> str:
    """A table whose columns after the first are set to the right, so many of them."""
    ruler = ["---", *["---:"] * right, *["---"] * (len(head) - right - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows])


def notes(outcome: Outcome, size: int) -> list[str]:
    """What a reader must know beside the numbers."""
    said = [f"{CONTENDERS[name].title}: {CONTENDERS[name].does}." for name in outcome.seen]
    for name, seen in outcome.seen.items():
        title, inserted = CONTENDERS[name].title, seen.inserted
        if inserted.rows < size:
            said.append(
                f"{title} was stopped at {inserted.rows:,} of {size:,} rows, after {inserted.limit_s:g} s of inserting; "
                "its other numbers are of that size."
            )
        if seen.fewest_hits < 10:
            said.append(f"NOT THE SAME WORK: a search of {title} returned {seen.fewest_hits} of 10 hits.")
    reused = sorted(
        {f"{CONTENDERS[name].title} ({of.inserted.on})" for name, of in outcome.seen.items() if of.inserted.reused}
    )
    if reused:
        said.append(f"* inserted by an earlier run on this machine: {', '.join(reused)}.")
    said += [f"{CONTENDERS[name].title} FAILED: `{why}`" for name, why in outcome.failed.items()]
    return said
