"""Text output of the CLI: colour on a terminal, plain text elsewhere.

Escape codes are written by hand, because importing rich takes longer than a warm search. Rich draws only the progress bars
of long operations.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise

from lorelog.core.grammar import plural as plural
from lorelog.core.quick_json import dumps_indented

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, TextIO

    from lorelog.core.ports import Progress

_ANSI_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
RECORD_TIERS = ("canonical_record", "verified_record")
"""Tiers of trust of text that comes from a record."""
_CONTROL_CHARS = (
    *(*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)),
    *(0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
)
_REPLACED = dict.fromkeys(_CONTROL_CHARS, "\ufffd")
# Tables for `str.translate`: a regular expression would import `re`, which takes 10 ms.


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object. Control characters, which only occur in strings, are escaped to protect the terminal."""
    print(dumps_indented(value).translate({code: f"\\u{code:04x}" for code in _CONTROL_CHARS}))


def supports_colour(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal with colour (see NO_COLOR and TERM=dumb)."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def stylize(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return a text in a style if the stream supports colour."""
    return f"\x1b[{_ANSI_CODES[style]}m{text}\x1b[0m" if text and supports_colour(stream or sys.stdout) else text


def highlight(text: str, spans: Sequence[Sequence[int]]) -> str:
    """Return a text with the spans marked: in colour on a terminal, in guillemets elsewhere."""
    out, end = [], 0
    for start, stop in spans:
        word = text[start:stop]
        out += [text[end:start], stylize(word, "yellow") if supports_colour(sys.stdout) else f"«{word}»"]
        end = stop
    return "".join([*out, text[end:]])


def format_labels(kind: str, tags: Sequence[str]) -> str:
    """Return a memory's type and tags as printable text."""
    return one_line(" ".join([*([kind] if kind else []), *(f"#{tag}" for tag in tags)]))


def format_cues(anchor: Mapping[str, Any] | None) -> str:
    """Return the cues written by hand, as printable text."""
    cues = (anchor or {}).get("cues", ())
    return one_line(", ".join(map(str, cues)))


def format_origin(origin: str) -> str:
    """Return the origin of a tainted text in words."""
    return {"tool": "a tool", "import": "an import"}.get(origin, "elsewhere")


def format_repository(chunk: Mapping[str, Any]) -> str:
    """Return the label of text that came with the repository, or ''."""
    return "came with the repository" if chunk.get("origin") == "repository" else ""


def format_lifecycle(lifecycle: Mapping[str, Any] | None) -> str:
    """Return whether a memory was superseded, expires or is due for review, or ''."""
    if not lifecycle:
        return ""
    parts = []
    if lifecycle["superseded_by"]:
        parts.append(f"superseded by {lifecycle['superseded_by']}")
    if lifecycle["expires"]:
        parts.append(f"{'expired on' if lifecycle['expired'] else 'expires on'} {lifecycle['expires']}")
    if lifecycle["review_after"]:
        parts.append(f"{'review due since' if lifecycle['due'] else 'review on'} {lifecycle['review_after']}")
    return one_line("; ".join(parts))


def format_freshness(freshness: Mapping[str, Any] | None) -> str:
    """Return how the code that a text names has changed, or ''."""
    if not freshness:
        return ""
    changes = [f"{finding['name']} {finding['how']}" for finding in freshness["findings"] if finding["how"]]
    changes = [f"on {freshness['unmerged']}, not merged", *changes] if freshness["unmerged"] else changes
    verdict = freshness["verdict"] if freshness["verdict"] in {"drifted", "gone"} else ""
    return one_line(": ".join(filter(None, (verdict, "; ".join(changes)))))


def print_note(text: str) -> None:
    """Print a note to standard error."""
    from lorelog.surfaces.cli.render.layout import known_width, wrap

    width = known_width(sys.stderr)
    lines = wrap(one_line(f"note: {text}"), width=width - 2).split("\n") if width else [one_line(f"note: {text}")]
    for number, line in enumerate(lines):
        print(stylize(f"{'  ' if number else ''}{line}", "dim", sys.stderr), file=sys.stderr)


def print_problem(path: str, message: str, hint: str) -> None:
    """Print a problem with a file to standard error."""
    short = short_path(path)
    text = one_line(message).replace(one_line(path), short)
    print(f"{stylize('problem:', 'red', sys.stderr)} {text if short in text else f'{short}: {text}'}", file=sys.stderr)
    if hint:
        print(f"  hint: {one_line(hint)}", file=sys.stderr)


def short_path(path: str) -> str:
    """Return a printable path, relative to the current or home directory if possible."""
    bases = [(os.path.expanduser("~"), "~/")]  # noqa: PTH111  (pathlib takes longer to import than a warm search)
    try:  # noqa: SIM105  (importing contextlib takes longer than the layout of all hits)
        bases.insert(0, (os.getcwd(), ""))  # noqa: PTH109
    except FileNotFoundError:  # the current directory was deleted
        pass
    for base, mark in bases:
        if base != "/" and path.startswith(base + "/"):
            return one_line(mark + path[len(base) + 1 :])
    return one_line(path)


def printable(text: str) -> str:
    """Return a text without control and bidirectional formatting characters, which could manipulate the terminal.

    Each is replaced by one character, so that spans of the text stay valid.
    """
    return text.translate(_REPLACED)


def one_line(text: str) -> str:
    """Return a printable text on one line: even a file name may contain a line break."""
    return printable(text).replace("\n", "\ufffd").replace("\t", " ")


def without_comments(text: str) -> str:
    """Return a text without the HTML comments in it; one that does not end is text."""
    kept = ""
    while text:
        before, opening, after = text.partition("<!--")
        _, closing, rest = after.partition("-->")
        if not closing:
            return kept + before + opening + after
        kept, text = kept + before, rest
    return kept


def shorten_ids(ids: Iterable[str], min_chars: int) -> dict[str, str]:
    """Return the first characters of each id: `min_chars`, or as many as tell it from the others."""
    distinct = sorted(set(ids))
    lengths = dict.fromkeys(distinct, min_chars)
    for first, second in pairwise(distinct):
        same = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), len(first))
        for identity in (first, second):
            lengths[identity] = max(lengths[identity], same + 1)
    return {identity: identity[: lengths[identity]] for identity in distinct}


def progress_bar(*, daemon_finishes: bool = False) -> AbstractContextManager[Progress]:
    """Return a context with a progress callback: bars on a terminal, a line now and then elsewhere.

    `daemon_finishes`: the daemon continues the work if it is interrupted, and the user is told so.
    """
    from lorelog.surfaces.cli.render.progress import show_progress

    return show_progress(daemon_finishes=daemon_finishes)
