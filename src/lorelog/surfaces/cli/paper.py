"""What people see: a little colour at a terminal, plain text anywhere else.

Six escape codes by hand, because rich takes longer to import than a warm search takes to answer. Rich draws what is
worth waiting for: progress bars.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, TextIO

    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from lorelog.core.ports import Progress

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_DRIVING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHOW_PROGRESS_AFTER_S = 0.4
_SHORT_ID = 8
"""Of 16 digits: one of a million chunks shares its first 8 with another by a chance of 1 in 4,000."""
_STAGES = {
    "words": "reading",
    "vectors": "embedding",
    "waiting": "waiting for another index run",
    "compact": "summing up",
    "code": "reading code",
}


def print_json(shape: Mapping[str, Any]) -> None:
    """Print one JSON object. What would drive a terminal is spelt out; it stands in strings only, and is the same to a parser."""
    import json

    text = json.dumps(shape, ensure_ascii=False, indent=2)
    print(_DRIVING.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def colourful(stream: TextIO | None) -> bool:
    """Say whether a stream wants colour: a terminal, unless NO_COLOR or a dumb terminal says otherwise."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return a text in a style, where the stream wants one."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and colourful(stream or sys.stdout) else text


def marked(text: str, spans: Sequence[Sequence[int]]) -> str:
    """Return a text with spans marked: in colour at a terminal, between guillemets elsewhere."""
    out, end = [], 0
    for start, stop in spans:
        word = text[start:stop]
        out += [text[end:start], styled(word, "yellow") if colourful(sys.stdout) else f"«{word}»"]
        end = stop
    return "".join([*out, text[end:]])


def labelled(kind: str, tags: Sequence[str]) -> str:
    """Return a memory's type and tags, fit to be printed."""
    return one_line(" ".join([*([kind] if kind else []), *(f"#{tag}" for tag in tags)]))


def origin_told(origin: str) -> str:
    """Return in words where a text comes from that nobody here has written."""
    return {"tool": "a tool", "import": "an import"}.get(origin, "elsewhere")


def fate_told(fate: Mapping[str, Any] | None) -> str:
    """Return what has become of a memory, fit to be printed; empty where there is nothing to tell."""
    if not fate:
        return ""
    told = []
    if fate["superseded_by"]:
        told.append(f"superseded by {fate['superseded_by']}")
    if fate["expires"]:
        told.append(f"{'expired: was shown' if fate['expired'] else 'shown'} until {fate['expires']}")
    if fate["review_after"]:
        told.append(f"to be looked at again {'since' if fate['due'] else 'from'} {fate['review_after']}")
    return one_line("; ".join(told))


def stale_told(freshness: Mapping[str, Any] | None) -> str:
    """Return what of the code that a text names is no longer as it was, fit to be printed; empty where all is."""
    if not freshness:
        return ""
    told = [f"{one['name']} {one['how']}" for one in freshness["findings"] if one["how"]]
    told = [f"on {freshness['unmerged']}, not merged", *told] if freshness["unmerged"] else told
    word = freshness["verdict"] if freshness["verdict"] in {"drifted", "gone"} else ""
    return one_line(": ".join(filter(None, (word, "; ".join(told)))))


def expandable(identity: str, tokens: int) -> str:
    """Return what it would cost to read on, and how."""
    return f"~{tokens:,} tokens: lorelog expand {identity[:_SHORT_ID]}"


def note(text: str) -> None:
    """Say something beside the answer."""
    print(styled(f"note: {one_line(text)}", "dim", sys.stderr), file=sys.stderr)


def problem(path: str, message: str, hint: str) -> None:
    """Say what did not work."""
    short = short_path(path)
    text = one_line(message).replace(one_line(path), short)
    print(f"{styled('problem:', 'red', sys.stderr)} {text if short in text else f'{short}: {text}'}", file=sys.stderr)
    if hint:
        print(f"  hint: {one_line(hint)}", file=sys.stderr)


def short_path(path: str) -> str:
    """Return a path as one would type it from here, fit to be printed."""
    bases = [(os.path.expanduser("~"), "~/")]  # noqa: PTH111  (pathlib takes longer to import than a warm search)
    with suppress(FileNotFoundError):  # the current directory may be gone
        bases.insert(0, (os.getcwd(), ""))  # noqa: PTH109
    for base, mark in bases:
        if base != "/" and path.startswith(base + "/"):
            return one_line(mark + path[len(base) + 1 :])
    return one_line(path)


def printable(text: str) -> str:
    """Return a text in which nothing drives a terminal: controls, and marks that turn the direction of writing.

    Each is replaced by one character, so that spans of the text stay where they are.
    """
    return _DRIVING.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Return a printable text on one line: a file's name may hold a line break."""
    return printable(text).replace("\n", "\ufffd").replace("\t", " ")


def plural(count: int, thing: str) -> str:
    """Return `1 file`, `2 files`."""
    if count == 1:
        return f"1 {thing}"
    return f"{count:,} {thing[:-1] + 'ies' if thing.endswith('y') else thing + 's'}"


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Give a progress callback that draws a bar once the work has taken long enough to be worth one."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    import time

    started = time.monotonic()
    bar = _LazyBar()

    def show(stage: str, done: int, total: int) -> None:
        if time.monotonic() - started > _SHOW_PROGRESS_AFTER_S:
            bar.show(stage, done, total)

    try:
        yield show
    finally:
        bar.stop()


class _LazyBar:
    """A rich progress bar that is imported when it is first drawn."""

    def __init__(self) -> None:
        self._drawn: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def show(self, stage: str, done: int, total: int) -> None:
        bars = self._drawn = self._drawn or self._draw()
        if stage not in self._tasks:
            self._tasks[stage] = bars.add_task(_STAGES.get(stage, stage), total=None)
        bars.update(self._tasks[stage], completed=done, total=total or None)

    def stop(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def _draw(self) -> Bars:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bars = Bars(*columns, console=Console(stderr=True), transient=True)
        bars.start()
        return bars
