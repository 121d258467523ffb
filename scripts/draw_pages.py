"""Draw the pictures of docs/how-it-works.md and the logo: docs/assets/how-*.svg and docs/assets/logo.svg.

    python scripts/draw_pages.py

Each drawing has a ground of its own and both sets of colours, so it can be read on a light and on a dark page, whatever the page's
own switch says. The logo is the icon of `lorelog ui`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASSETS = ROOT / "docs" / "assets"
ICON = ROOT / "src" / "lorelog" / "surfaces" / "page" / "static" / "icon.svg"
WIDTH = 900
_STYLE = """
svg { --ground: #fbfbf9; --panel: #ffffff; --line: #c9c9c1; --ink: #1e2124; --soft: #565c62; --accent: #17665a; --accent-soft: #e2f0ec; --on: #ffffff }
@media (prefers-color-scheme: dark) {
  svg { --ground: #131517; --panel: #191c1f; --line: #434a51; --ink: #e2e5e7; --soft: #9ca5ad; --accent: #62c6b0; --accent-soft: #17332d; --on: #08211c }
}
text { font: 13.5px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: var(--soft) }
.title { font-size: 15px; font-weight: 650; fill: var(--ink) }
.code { font: 12.5px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: var(--ink) }
.number { font-size: 12px; font-weight: 650; fill: var(--on); text-anchor: middle }
.label { font-size: 12.5px; text-anchor: middle }
.ground { fill: var(--ground); stroke: var(--line) }
.box { fill: var(--panel); stroke: var(--line) } .strong { fill: var(--accent-soft); stroke: var(--accent) }
.dashed { fill: none; stroke: var(--line); stroke-dasharray: 5 4 }
.dot, .head { fill: var(--accent) } .arrow { fill: none; stroke: var(--accent); stroke-width: 1.6 }
"""


@dataclass
class Drawing:
    """A picture of boxes and arrows."""

    title: str
    height: int
    parts: list[str] = field(default_factory=list)

    def box(
        self, place: tuple[int, int, int, int], title: str, *lines: str, number: int = 0, strong: bool = False
    ) -> None:
        """Draw a box at (x, y, width, height). A line in grave accents is code."""
        x, y, width, height = place
        kind = "strong" if strong else "box"
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>')
        left = x + 14
        if number:
            self.parts.append(f'<circle class="dot" cx="{left + 9}" cy="{y + 23}" r="10"/>')
            self.parts.append(f'<text class="number" x="{left + 9}" y="{y + 27}">{number}</text>')
        self.text(left + (27 if number else 0), y + 28, title, "title")
        for row, line in enumerate(lines):
            self.text(left, y + 52 + 20 * row, line.strip("`"), "code" if line.startswith("`") else "")

    def text(self, x: int, y: int, words: str, kind: str = "") -> None:
        """Write words at a place."""
        self.parts.append(
            f'<text x="{x}" y="{y}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>{escape(words)}</text>'
        )

    def arrow(self, *points: tuple[int, int], label: str = "", above: int = 8) -> None:
        """Draw an arrow along points, with a label over the middle of its first part."""
        path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(points))
        (before_x, before_y), (x, y) = points[-2:]
        right, down = (x > before_x) - (x < before_x), (y > before_y) - (y < before_y)
        side, back = 5, 9
        corners = [
            (x, y),
            (x - back * right - side * down, y - back * down - side * right),
            (x - back * right + side * down, y - back * down + side * right),
        ]
        self.parts.append(f'<path class="arrow" d="{path}"/>')
        self.parts.append(f'<polygon class="head" points="{" ".join(f"{a},{b}" for a, b in corners)}"/>')
        if label:
            (x1, y1), (x2, y2) = points[:2]
            self.text((x1 + x2) // 2, (y1 + y2) // 2 - above, label, "label")

    def render(self) -> str:
        """Return the SVG."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" '
            f'role="img">\n<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n'
            f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{self.height - 1}" rx="10"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def draw_session() -> Drawing:
    """Return the way of a sentence, from who said it to the agent that is about to act against it."""
    drawing = Drawing("A sentence is captured, kept, and delivered to another agent before it acts", 372)
    left, middle, right, width, height = 24, 328, 632, 244, 120
    top, bottom = 28, 224
    drawing.box(
        (left, top, width, height),
        "Said",
        "You tell your agent:",
        '`"From now on, use pnpm,`',
        '` not npm: …"`',
        number=1,
        strong=True,
    )
    drawing.box(
        (middle, top, width, height),
        "Captured",
        "A hook notes that a turn ended.",
        "The daemon reads the turn",
        "and removes secrets.",
        number=2,
    )
    drawing.box(
        (right, top, width, height),
        "Kept",
        "One entry of a Markdown file:",
        "`.lorelog/memory/DAY.md`",
        "Yours to read, edit and delete.",
        number=3,
    )
    drawing.box(
        (right, bottom, width, height),
        "Whose word is it?",
        "Yours: a standing rule.",
        "An agent's or a repository's:",
        "quoted, until you approve it.",
        number=4,
    )
    drawing.box(
        (middle, bottom, width, height),
        "Delivered",
        "At the start of a session, with",
        "a prompt, or before a call that",
        "it names. No model is asked.",
        number=5,
    )
    drawing.box(
        (left, bottom, width, height),
        "Before the act",
        "Another agent is about to run",
        "`npm install zod`",
        "It reads your rule first.",
        number=6,
        strong=True,
    )
    row = top + height // 2
    drawing.arrow((left + width, row), (middle - 2, row))
    drawing.arrow((middle + width, row), (right - 2, row))
    drawing.arrow((right + width // 2, top + height), (right + width // 2, bottom - 2))
    row = bottom + height // 2
    drawing.arrow((right, row), (middle + width + 2, row))
    drawing.arrow((middle, row), (left + width + 2, row))
    drawing.arrow((left + width // 2, bottom), (left + width // 2, top + height + 2))
    drawing.text(left + width // 2 + 12, bottom - 36, "its turns are captured, too")
    return drawing


def draw_search() -> Drawing:
    """Return the way of a question."""
    drawing = Drawing("A question is searched by words and by meaning; both orders become one", 396)
    drawing.box((24, 92, 190, 100), "A question", '`"why did we pin`', '` numpy last week?"`', strong=True)
    drawing.box((268, 28, 236, 100), "By words", "Names, paths and error codes;", "Chinese and Japanese, too.")
    drawing.box((268, 158, 236, 100), "By meaning", "Vectors of the built-in model,", "made on this machine.")
    drawing.box((558, 86, 148, 112), "One order", "Both are weighed", "for this question;", "days in it count.")
    drawing.box((760, 92, 116, 100), "Hits", "●●● strong", "●●○ likely", strong=True)
    drawing.box((268, 300, 236, 72), "Index: a cache", "Delete it; it is built again.")
    drawing.box((24, 300, 190, 72), "Markdown files", "Journals, notes, docs.")
    drawing.box((558, 300, 318, 72), "Each hit names its source", "`notes/deploys.md:12-18  2026-11-12`")
    drawing.arrow((214, 122), (241, 122), (241, 78), (266, 78))
    drawing.arrow((214, 162), (241, 162), (241, 208), (266, 208))
    drawing.arrow((504, 78), (531, 78), (531, 122), (556, 122))
    drawing.arrow((504, 208), (531, 208), (531, 162), (556, 162))
    drawing.arrow((706, 142), (758, 142))
    drawing.arrow((214, 336), (266, 336))
    drawing.arrow((386, 300), (386, 260))
    drawing.arrow((818, 192), (818, 298))
    return drawing


def draw_rights() -> Drawing:
    """Return who may change what, and where it is."""
    drawing = Drawing("What you say is done, what an agent says is noted, what came from elsewhere is quoted", 428)
    drawing.parts.append(f'<rect class="dashed" x="14" y="44" width="{WIDTH - 28}" height="370" rx="10"/>')
    drawing.text(24, 30, "This machine. Nothing leaves it by default.", "title")
    rows = (66, 182, 298)
    asked = (
        ("You", "Your terminal and the page", "(lorelog ui)."),
        ("Your agents", "Their hooks, their shell,", "MCP."),
        ("Others", "A cloned repository,", "an import, a team."),
    )
    outcomes = (
        ("Your word: done", "A rule stands until you", "replace it; guards may block."),
        ("A note of an agent", "Labelled as such. A change of", "yours waits in the inbox."),
        ("Quoted as data", "It never stands, never blocks,", "and replaces nothing of yours."),
    )
    for number, (y, who, outcome) in enumerate(zip(rows, asked, outcomes, strict=True)):
        drawing.box((34, y, 216, 96), *who, strong=number == 0)
        drawing.box((302, y, 272, 96), *outcome)
        drawing.arrow((250, y + 48), (300, y + 48))
    drawing.box(
        (634, 66, 232, 156),
        "Files: the truth",
        "`.lorelog/memory/*.md`",
        "Journals, and your own notes.",
        "Secrets are removed first.",
        "Readable by you alone.",
        strong=True,
    )
    drawing.box(
        (634, 276, 232, 118),
        "Index: derived",
        "`~/.lorelog/cache`",
        "Words, vectors, symbols.",
        "Deleted? It is built again.",
    )
    drawing.arrow((574, 114), (632, 114))
    drawing.arrow((574, 214), (604, 214), (604, 150), (632, 150))
    drawing.arrow((574, 346), (618, 346), (618, 190), (632, 190))
    drawing.arrow((750, 222), (750, 274))
    return drawing


def main() -> int:
    """Write the drawings and the logo."""
    drawings = {"how-session": draw_session(), "how-search": draw_search(), "how-rights": draw_rights()}
    texts = {name: drawing.render() for name, drawing in drawings.items()}
    texts["logo"] = ICON.read_text("utf-8")
    for name, text in texts.items():
        (ASSETS / f"{name}.svg").write_text(text, "utf-8")
        print(f"wrote docs/assets/{name}.svg, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
