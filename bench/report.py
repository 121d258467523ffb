"""What the numbers of a speed run mean: the lines of its table, beside the targets they are held to.

Responsible for judging and printing only. A target is met or MISSED by the numbers of this very run, never by numbers
written down earlier, because both contenders' times depend on the machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.contenders import HITS
from bench.measure import Measured, median
from bench.result import Figure
from bench.scenarios import CONTENTION, EDITS, Edited, Seen, WhileIndexing

RIVAL = "memsearch"
OURS = "lorelog"
LINEAR = 1.3
SAME_WORK = 0.05


@dataclass(frozen=True)
class Target:
    """A bound on our number, or on how many times the rival's is greater. Unset bounds do not count."""

    text: str
    ratio: float | None = None
    most: float | None = None
    exactly: float | None = None

    def met(self, rival: float | None, ours: float) -> bool | None:
        """None when it cannot be told: a ratio without the rival's number."""
        if self.ratio is not None:
            return None if rival is None else rival >= self.ratio * ours
        if self.most is not None:
            return ours <= self.most
        return ours == self.exactly


@dataclass(frozen=True)
class Line:
    """One row: the same thing measured on both."""

    what: str
    unit: str
    rival: float | None
    ours: float | None
    target: Target | None = None
    headline: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None or self.ours is None:
            return None
        return self.target.met(self.rival, self.ours)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return {True: "ok", False: "MISSED", None: "not judged"}[self.met]

    @property
    def ratio(self) -> str:
        if not self.rival or not self.ours:
            return ""
        return f"{self.rival / self.ours:.1f}x"

    def figure(self) -> Figure:
        """Return it as a figure of a stored result. A bound on a ratio is judged by the ratio."""
        of_ratio = self.target is not None and self.target.ratio is not None
        measured = shown(self.ours, self.unit)
        if of_ratio and self.ratio:
            measured = f"{measured} against {shown(self.rival, self.unit)}"
            if self.target != NO_MORE:
                measured = f"{self.ratio} ({measured})"
        return Figure(self.what, measured, self.target.text if self.target else "", self.met, self.headline)

    def cells(self) -> list[str]:
        target = self.target.text if self.target else ""
        return [self.what, shown(self.rival, self.unit), shown(self.ours, self.unit), self.ratio, target, self.verdict]


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"
    if unit == "MB":
        return f"{value / 1e6:.1f} MB"
    if unit == "ms/chunk":
        return f"{value * 1e3:.2f} ms"
    if unit == "x":
        return f"{value:.2f}x"
    return f"{value:g}"


def faster(times: float) -> Target:
    return Target(f">= {times:g}x faster", ratio=times)


HALF = Target("under half", ratio=2.0)
NO_MORE = Target("at most the rival's", ratio=1.0)


def side_by_side_lines(seen: Mapping[str, Seen], chunks: int) -> list[Line]:
    """The table of one corpus size, both contenders. A contender that did not run leaves its column empty."""
    rival, ours = seen.get(RIVAL), seen.get(OURS)

    def line(what: str, name: str, value: str, target: Target | None = None, *, headline: bool = False) -> Line:
        unit = "MB" if value == "peak_bytes" else "s"
        return Line(what, unit, _middle(rival, name, value), _middle(ours, name, value), target, headline)

    def both(what: str, unit: str, name: str, target: Target | None = None) -> Line:
        return Line(what, unit, _value(rival, name), _value(ours, name), target, target is not None)

    return [
        line("`--help`, wall", "helps", "wall_s", faster(10)),
        line("`--help`, CPU", "helps", "cpu_s"),
        line(f"first index of {chunks:,} entries, wall", "first", "wall_s", faster(20), headline=True),
        line("first index, CPU", "first", "cpu_s"),
        line("unchanged re-index, wall", "unchanged", "wall_s", faster(25), headline=True),
        line("unchanged re-index, CPU", "unchanged", "cpu_s"),
        line("cold `search --json`, wall", "searches", "wall_s", faster(12), headline=True),
        line("cold `search --json`, CPU", "searches", "cpu_s"),
        line("search, peak RSS", "searches", "peak_bytes", HALF),
        line("first index, peak RSS", "first", "peak_bytes", HALF),
        both("disk, vectors of 1,536 dimensions", "MB", "disk", NO_MORE),
        both("chunks, as the index command reports them", "", "chunks"),
        both("texts embedded, first index", "", "embedded_first"),
        both("texts embedded, unchanged", "", "embedded_unchanged"),
    ]


def _value(seen: Seen | WhileIndexing | None, name: str) -> float | None:
    value: float | None = getattr(seen, name) if seen is not None else None
    return value


def _middle(seen: Seen | None, name: str, value: str) -> float | None:
    if seen is None:
        return None
    samples: list[Measured] = getattr(seen, name)
    return median(getattr(measured, value) for measured in samples)


def edit_lines(seen: Mapping[str, Mapping[str, Edited]]) -> list[Line]:
    """Index runs after small edits. A line of prose is itself one new text; nothing else may follow it."""
    names = {
        EDITS[0]: "blank line inserted at the top of a 20-section file",
        EDITS[1]: "line of prose inserted at its top",
        EDITS[2]: "one line changed in its middle",
        EDITS[3]: "entry appended at its end",
    }
    texts = {
        EDITS[0]: Target("0", exactly=0),
        EDITS[1]: Target("at most 1, the line itself", most=1),
        EDITS[2]: Target("exactly 1", exactly=1),
        EDITS[3]: Target("exactly 1", exactly=1),
    }
    lines = []
    for edit, of in seen.items():
        embedded = {name: edited.texts for name, edited in of.items()}
        fast = faster(15) if edit in EDITS[2:] else None

        def line(what: str, value: str, target: Target | None, of: Mapping[str, Edited] = of) -> Line:
            middles = {name: median(getattr(run, value) for run in edited.runs) for name, edited in of.items()}
            return Line(what, "s", middles.get(RIVAL), middles.get(OURS), target, target is not None)

        lines += [
            line(f"{names[edit]}: index, wall", "wall_s", fast),
            line(f"{names[edit]}: CPU", "cpu_s", None),
            Line(f"{names[edit]}: texts embedded", "", embedded.get(RIVAL), embedded.get(OURS), texts[edit]),
        ]
    return lines


def growth_lines(small: Seen, large: Seen, sizes: tuple[int, int], rival: Seen | None) -> list[Line]:
    """Ours at two sizes; the rival's only where it was run at the larger one too."""
    (few, many) = sizes
    each_few, each_many = (_wall(seen) / size for seen, size in ((small, few), (large, many)))
    return [
        Line(f"first index of {many:,} entries, wall", "s", _wall(rival) if rival else None, _wall(large)),
        Line(f"first index a chunk, at {few:,}", "ms/chunk", None, each_few),
        Line(f"first index a chunk, at {many:,}", "ms/chunk", _wall(rival) / many if rival else None, each_many),
        Line(
            "time a chunk, large against small", "x", None, each_many / each_few, Target(f"<= {LINEAR}x", most=LINEAR)
        ),
        Line(f"unchanged re-index at {many:,}, wall", "s", None, _middle(large, "unchanged", "wall_s")),
        Line(f"cold search at {many:,}, wall", "s", None, _middle(large, "searches", "wall_s")),
        Line(f"first index at {many:,}, peak RSS", "MB", None, _middle(large, "first", "peak_bytes")),
        Line(f"search at {many:,}, peak RSS", "MB", None, _middle(large, "searches", "peak_bytes")),
        Line(f"disk at {many:,}", "MB", None, large.disk),
    ]


def _wall(seen: Seen) -> float:
    return median(measured.wall_s for measured in seen.first)


def while_indexing_lines(seen: Mapping[str, WhileIndexing]) -> list[Line]:
    """Searches beside a running indexer. On two cores they share them with it; waiting for it would show as far more."""
    rival, ours = seen.get(RIVAL), seen.get(OURS)

    def both(what: str, unit: str, value: str, target: Target | None = None) -> Line:
        return Line(what, unit, _value(rival, value), _value(ours, value), target)

    every = Target("all of them", exactly=ours.tried if ours and ours.tried else -1)
    limit = Target(f"<= {CONTENTION:g}x idle", most=CONTENTION)
    return [
        both("searches tried while indexing", "", "tried"),
        both("searches that returned hits", "", "succeeded", every),
        both("searches that did not wait for the indexer", "", "unwaiting", every),
        both("search when idle, wall", "s", "idle_s"),
        Line("search while indexing, wall", "s", _during(rival), _during(ours)),
        Line("search while indexing, against idle", "x", _slowdown(rival), _slowdown(ours), limit),
    ]


def _during(seen: WhileIndexing | None) -> float | None:
    return median(seen.walls_s) if seen and seen.walls_s else None


def _slowdown(seen: WhileIndexing | None) -> float | None:
    during = _during(seen)
    return during / seen.idle_s if seen and during is not None else None


def unlike_work(seen: Mapping[str, Seen]) -> list[str]:
    """Why the contenders' times may not be compared; empty when they did the same work."""
    reasons = [
        f"a search of {name} returned {of.fewest_hits} of {HITS} hits"
        for name, of in seen.items()
        if of.fewest_hits < HITS
    ]
    embedded = [of.embedded_first for of in seen.values()]
    if min(embedded) < max(embedded) * (1 - SAME_WORK):
        counts = ", ".join(f"{name} {of.embedded_first}" for name, of in seen.items())
        reasons.append(f"the texts embedded differ by more than {SAME_WORK:.0%}: {counts}")
    return reasons


def table(lines: Sequence[Line]) -> str:
    """Lines as Markdown."""
    head = ["", RIVAL, OURS, "ratio", "target", ""]
    rows = [head, ["---"] + ["---:"] * 3 + ["---"] * 2, *(line.cells() for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
