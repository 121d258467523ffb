"""Writes the generated parts of docs/benchmarks.md from stored results, and marks figures that are older than their code.

    python -m bench.page            write the page, and those of its parts that docs/comparison.md repeats
    python -m bench.page --check    exit with 1 if the page is not what would be written, or a mark is missing or wrong

A generated part stands between two comments in a page that is otherwise written by hand:

    <!-- bench: latency -->
    <!-- end bench: latency -->

`bench/results/latency.json` is shown there. Four names are special: `summary` repeats the rows of `SUMMARY` from the tables of the
results, `state` lists all results, `targets` the headline figures, `losses` the missed ones. Results of `bench.value` are on docs/value.md. `stale.py` tells which results are older than their code; the mark
names the first commit that made one so, and does not change with each further one.
"""

import argparse
import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.result import REPOSITORY, Result, read_results
from bench.stale import Change, find_change

PAGE = Path("docs") / "benchmarks.md"
COMPARISON = Path("docs") / "comparison.md"
"""A page that repeats parts of it."""
VALUE = Path("docs") / "value.md"
"""The page of the results that `VALUE_PREFIX` begins."""
VALUE_PREFIX = "value-"
MARKER = re.compile(
    r"^<!-- bench: (?P<name>[\w-]+) -->\n(?P<body>.*?)^<!-- end bench: (?P=name) -->\n", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^#+(?= )")
_ROW = re.compile(r"(?<!\\)\|")
_OURS = ("lorelog", "ours")
_NOT_RIVALS = ("", "ratio", "target", "reach at least", "best simple", "ours - better lane", "difference")
SUMMARY = (
    ("speed", "first index of 2,000 entries, wall", ""),
    ("speed", "unchanged re-index, wall", ""),
    ("speed", "cold `search --json`, wall", ""),
    ("speed", "first index, peak RSS", ""),
    ("speed", "search, peak RSS", ""),
    ("speed", "disk, vectors of 1,536 dimensions", ""),
    ("speed", "searches that returned hits", "searches that returned hits while another process indexed, of 8"),
    (
        "latency",
        "memsearch's search over lorelog's warm one",
        "search through the daemon: memsearch's time over lorelog's",
    ),
    ("scale-rivals", "cold first query, wall", "first query, 100,000 rows"),
    ("scale-rivals", "warm hybrid, median", "warm hybrid query, 100,000 rows, median"),
    ("scale-rivals", "RSS after the warm questions", "memory after warm queries, 100,000 rows"),
    ("scale-rivals", "disk", "disk, 100,000 rows"),
    ("scale-rivals", "recall@10 of dense search", "recall@10 of vector search, 100,000 rows"),
    ("quality", "average of sets", "nDCG@10, average of the judged sets"),
)
"""Results, the rows of their tables that compare lorelog with something else, and what the summary calls them."""
_NOT_MEASURED = "Not measured yet"
_STALE = re.compile(r",? \*\*[Ss]tale\*\*(:[^*|\n]*)?")
_LEVEL = 3
"""The highest heading of a section in the page."""


def render_page(text: str, results: Mapping[str, Result], repository: Path = REPOSITORY) -> str:
    """Return the page with its generated parts written anew. A result without a place gets a section at the end."""
    changes = {name: find_change(result, repository) for name, result in results.items()}
    places = {found["name"] for found in MARKER.finditer(text)}
    for name in results:
        if name not in places:
            text = f"{text.rstrip()}\n\n## {name.capitalize()}\n\n<!-- bench: {name} -->\n<!-- end bench: {name} -->\n"
    anchors = _find_anchors(text)

    def part(found: re.Match[str]) -> str:
        name = found["name"]
        if name == "summary":
            body = _summary(results, changes, anchors)
        elif name == "state":
            body = _state(results, changes, anchors)
        elif name == "targets":
            body = _targets(results, changes, anchors)
        elif name == "losses":
            body = _losses(results, anchors)
        elif name in results:
            body = _section(results[name], changes[name])
        else:
            body = f"{_NOT_MEASURED}: `python -m bench.all --only {name}`."
        return f"<!-- bench: {name} -->\n{body}\n<!-- end bench: {name} -->\n"

    return MARKER.sub(part, text)


def _section(result: Result, change: Change | None) -> str:
    return "\n".join([_status(result, change), "", *_lowered(result.section)]).rstrip()


def _status(result: Result, change: Change | None) -> str:
    """The line above a section: when, where, of which commit, and whether it still holds."""
    run = f" (`{result.command}`)" if result.command else ""
    commit = f"commit `{result.commit}`" if result.commit else "commit not recorded"
    if result.modified:
        commit += " with uncommitted changes"
    load = "" if result.load is None else f", load {result.load:.1f}"
    stale = f" {str(change).capitalize().replace('**stale**', '**Stale**')}." if change else ""
    return f"*Measured on {result.date}, {commit}, {result.machine}{load}{run}.{stale}*"


def _lowered(lines: tuple[str, ...]) -> list[str]:
    """Lines with headings below those of the page."""
    levels = [len(found[0]) for line in lines if (found := _HEADING.match(line))]
    more = "#" * max(0, _LEVEL - min(levels, default=_LEVEL))
    return [more + line if _HEADING.match(line) else line for line in lines]


def _summary(results: Mapping[str, Result], changes: Mapping[str, Change | None], anchors: Mapping[str, str]) -> str:
    """Rows of results, with lorelog's cell first. A row that a result lacks is left out."""
    lines = ["| figure | lorelog | others | benchmark |", "|---|--:|---|---|"]
    for name, label, title in SUMMARY:
        row = _find_row(results[name].section, label) if name in results else {}
        ours = next((row[column] for column in (*_OURS, "measured") if row.get(column)), "")
        if not ours:
            continue
        others = [
            f"{column} {cell}"
            for column, cell in list(row.items())[1:]
            if cell and column not in (*_OURS, *_NOT_RIVALS, "measured", "required")
        ]
        stale = ", **stale**" if changes[name] else ""
        place = f"[{name}](#{anchors[name]}), {results[name].date}{stale}"
        lines.append(f"| {title or label} | {ours} | {'; '.join(others)} | {place} |")
    return "\n".join(lines) if len(lines) > 2 else "No run has recorded these figures yet."


def _find_row(lines: Sequence[str], label: str) -> dict[str, str]:
    """Return the cells of the first table row that begins with a label, by the names of their columns; of two alike, the first."""
    header: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in _ROW.split(line.strip().strip("|"))] if line.startswith("|") else []
        if not cells or not header:
            header = cells
        elif cells[0] == label:
            row: dict[str, str] = {}
            for column, cell in zip(["figure", *header[1:]], cells, strict=False):
                row.setdefault(column, cell)
            return row
    return {}


def _state(results: Mapping[str, Result], changes: Mapping[str, Change | None], anchors: Mapping[str, str]) -> str:
    lines = ["| benchmark | measured on | commit | targets met | state |", "|---|---|---|--:|---|"]
    for name, result in results.items():
        judged = [figure.met for figure in result.figures if figure.met is not None]
        met = f"{sum(judged)} of {len(judged)}" if judged else ""
        commit = (f"`{result.commit[:7]}`" if result.commit else "not recorded") + (" +" if result.modified else "")
        state = str(changes[name] or "").partition(":")[0]
        lines.append(f"| [{name}](#{anchors[name]}) | {result.date} | {commit} | {met} | {state} |")
    return "\n".join(lines)


def _targets(results: Mapping[str, Result], changes: Mapping[str, Change | None], anchors: Mapping[str, str]) -> str:
    lines = ["| figure | measured | target | | benchmark |", "|---|--:|---|---|---|"]
    for name, result in results.items():
        stale = ", **stale**" if changes[name] else ""
        lines += [
            f"| {' | '.join(figure.cells())} | [{name}](#{anchors[name]}), {result.date}{stale} |"
            for figure in result.figures
            if figure.headline
        ]
    return "\n".join(lines) if len(lines) > 2 else "No run has recorded headline figures yet."


def _losses(results: Mapping[str, Result], anchors: Mapping[str, str]) -> str:
    """Every missed figure, headlines first."""
    missed = [(name, figure) for name, result in results.items() for figure in result.figures if figure.met is False]
    missed.sort(key=lambda item: not item[1].headline)
    lines = ["| figure | measured | target | part |", "|---|--:|---|---|"]
    lines += [
        f"| {figure.what} | {figure.measured} | {figure.target} | [{name}](#{anchors[name]}) |"
        for name, figure in missed
    ]
    return "\n".join(lines) if missed else "No target is missed."


def _find_anchors(text: str) -> dict[str, str]:
    """The anchor of the heading above each generated part."""
    anchors: dict[str, str] = {}
    anchor, inside = "", False
    for line in text.splitlines():
        if found := re.match(r"<!-- (end )?bench: ([\w-]+) -->", line):
            inside = not found[1]
            anchors.setdefault(found[2], anchor)
        elif not inside and (heading := re.match(r"#+ (.*)", line)):
            anchor = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
    return anchors


def write_page(repository: Path = REPOSITORY) -> bool:
    """Write the page and what the other one repeats; return whether something changed."""
    before, after = _read_pages(repository), _render_pages(repository)
    for path, text in after.items():
        (repository / path).write_text(text, encoding="utf-8", newline="\n")
    return after != before


def _read_pages(repository: Path) -> dict[Path, str]:
    paths = (path for path in (PAGE, COMPARISON, VALUE) if (repository / path).exists())
    return {path: (repository / path).read_text("utf-8") for path in paths}


def _render_pages(repository: Path = REPOSITORY) -> dict[Path, str]:
    pages = _read_pages(repository)
    results = read_results(repository / "bench" / "results")
    value = {name: result for name, result in results.items() if name.startswith(VALUE_PREFIX)}
    pages[PAGE] = render_page(
        pages[PAGE], {name: result for name, result in results.items() if name not in value}, repository
    )
    if VALUE in pages:
        pages[VALUE] = render_page(pages[VALUE], value, repository)
    if COMPARISON in pages:
        pages[COMPARISON] = repeat_parts(pages[PAGE], pages[COMPARISON])
    return pages


def repeat_parts(page: str, other: str) -> str:
    """Return another page with the parts of the first one that it has; readers who choose get the day of a figure, not our mark.

    Links lead to the first page. What was never run keeps what was written there by hand.
    """
    parts = {found["name"]: found[0] for found in MARKER.finditer(page) if not found["body"].startswith(_NOT_MEASURED)}

    def part(found: re.Match[str]) -> str:
        linked = parts.get(found["name"], found[0]).replace("](#", f"]({PAGE.name}#")
        return _STALE.sub("", linked)

    return MARKER.sub(part, other)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    options = parser.parse_args()
    if not options.check:
        print(f"{PAGE}: {'written' if write_page() else 'unchanged'}")
        return 0
    before, after = _read_pages(REPOSITORY), _render_pages()
    for path, text in after.items():
        lines = difflib.unified_diff(before[path].splitlines(True), text.splitlines(True), str(path), "expected", n=0)
        sys.stdout.writelines(lines)
        if before[path] != text:
            print(f"{path} is out of date: run 'python -m bench.page' (make bench-page)", file=sys.stderr)
    return int(before != after)


if __name__ == "__main__":
    sys.exit(main())
