"""Draws lines of bench/history.jsonl as an SVG: one line for each command, commits from left to right, a logarithmic axis.

The picture follows the reader's light or dark scheme, uses no font of its own, and needs no package.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 960, 520
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 56, 92
LABEL_GAP = 17
TICKS = (0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
COLORS = (
    ("#4269d0", "#7c9cf5"),
    ("#b8860b", "#efb118"),
    ("#d6402b", "#ff725c"),
    ("#1f8a70", "#6cc5b0"),
    ("#3a7d1e", "#7ccf5a"),
    ("#c2558f", "#ff8ab7"),
    ("#7a44c9", "#a463f2"),
    ("#7d5a3c", "#c39b7b"),
    ("#57606a", "#9198a1"),
    ("#0b7285", "#4dd0e1"),
)
"""Colors of the lines, on a light and on a dark ground."""
_STYLE = """text { font: 12px system-ui, sans-serif; fill: #24292f } .soft { fill: #57606a } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #d0d7de; stroke-width: 1 } .ground { fill: #ffffff } .line { fill: none; stroke-width: 2; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .soft { fill: #9198a1 } .grid { stroke: #3d444d } .ground { fill: #0d1117 }
"""


def draw_chart(lines: Sequence[Mapping[str, Any]], bare: str) -> str:
    """Return the picture of all commands but the bare interpreter, which is the unit."""
    names = [name for name in dict.fromkeys(name for line in lines for name in line["cpu_ms"]) if name != bare]
    points = {name: _points(lines, name) for name in names}
    values = [value for of in points.values() for _, value in of]
    low, high = _bounds(values)
    across = _Axis(0, max(1, len(lines) - 1), LEFT + 12, WIDTH - RIGHT - 12)
    up = _Axis(math.log(low), math.log(high), HEIGHT - BOTTOM, TOP)
    parts = [*_frame(low, high, up), *_commits(lines, across)]
    ends = []
    for number, name in enumerate(names):
        places = [(across.at(at), up.at(math.log(value))) for at, value in points[name]]
        if not places:
            continue
        path = " ".join(f"{'M' if not at else 'L'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(places))
        parts.append(f'<path class="line c{number}" d="{path}"/>')
        parts += [f'<circle class="p{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
        ends.append((places[-1][1], number, f"{name} {points[name][-1][1]:.1f}x"))
    parts += _labels(ends)
    return _document(parts, len(names), f"CPU time of commands, as multiples of `{bare}`")


class _Axis:
    """A straight scale from values to places."""

    def __init__(self, first: float, last: float, start: float, end: float) -> None:
        self._first, self._start = first, start
        self._unit = (end - start) / ((last - first) or 1)

    def at(self, value: float) -> float:
        return self._start + (value - self._first) * self._unit


def _points(lines: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(at, float(line["cpu_ms"][name]["ratio"])) for at, line in enumerate(lines) if name in line["cpu_ms"]]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    """The ticks around all values."""
    least, most = min(values, default=1), max(values, default=100)
    low = max((tick for tick in TICKS if tick <= least), default=TICKS[0])
    high = min((tick for tick in TICKS if tick >= most), default=most)
    return low, high if high > low else low * 2


def _frame(low: float, high: float, up: _Axis) -> list[str]:
    parts = []
    for tick in TICKS:
        if low <= tick <= high:
            y = up.at(math.log(tick))
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}x</text>')
    return parts


def _commits(lines: Sequence[Mapping[str, Any]], across: _Axis) -> list[str]:
    """The commits below the axis: not more than about 25 of them are named."""
    parts = []
    step = max(1, math.ceil(len(lines) / 25))
    y = HEIGHT - BOTTOM + 14
    for at, line in enumerate(lines):
        if at % step and at != len(lines) - 1:
            continue
        x = across.at(at)
        said = f"{str(line['commit'])[:7]} {str(line['committed'])[5:10]}"
        turned = f'transform="rotate(-45 {x:.1f} {y})"'
        parts.append(
            f'<text class="soft" x="{x:.1f}" y="{y}" text-anchor="end" {turned}>{escape(said)}'
            f"<title>{escape(str(line.get('subject', '')))}</title></text>"
        )
    return parts


def _labels(ends: list[tuple[float, int, str]]) -> list[str]:
    """Names at the ends of the lines, moved apart where they would meet."""
    parts = []
    lowest = float("-inf")
    for y, number, said in sorted(ends):
        lowest = max(y, lowest + LABEL_GAP)
        parts.append(f'<text class="p{number}" x="{WIDTH - RIGHT + 6}" y="{lowest + 4:.1f}">{escape(said)}</text>')
    return parts


def _document(parts: Sequence[str], count: int, title: str) -> str:
    light = "".join(f".c{at} {{ stroke: {a} }} .p{at} {{ fill: {a} }}\n" for at, (a, _) in _colors(count))
    dark = "".join(f".c{at} {{ stroke: {b} }} .p{at} {{ fill: {b} }}\n" for at, (_, b) in _colors(count))
    style = _STYLE.replace("@media", light + "@media") + dark + "}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">\n<style>\n{style}\n</style>\n'
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>\n'
    said = f'<text class="title" x="{LEFT}" y="24">{escape(title.replace("`", ""))}</text>\n'
    more = f'<text class="soft" x="{LEFT}" y="42">minimum of several runs, logarithmic; less is better</text>\n'
    return head + ground + said + more + "\n".join(parts) + "\n</svg>\n"


def _colors(count: int) -> list[tuple[int, tuple[str, str]]]:
    return [(at, COLORS[at % len(COLORS)]) for at in range(count)]
