"""Layout of text in columns: the terminal's width, line breaks with hanging indentation, and links to files.

Standard library only, and nothing that takes a millisecond to import: a warm search loads this module.
"""

from __future__ import annotations

import os
import sys

from lorelog.surfaces.cli.render import supports_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    Field = tuple[str, str, int]
    """Plain text, which is measured and never divided; the same with escape codes; the spaces before it."""

_DEFAULT_WIDTH = 100
"""Where the output is not a terminal, and nothing says how wide it is."""
_MIN_WIDTH, _MAX_WIDTH = 20, 120
"""Longer lines are hard to read, however wide the terminal is."""
_WIDE = (
    "\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6"
    "\U00020000-\U0003fffd"
)
"""Scripts without spaces between words: a line may end after each of these characters."""
_CLOSING = "\u3001\u3002\u300d\u300f\u3011\u3015\uff09\uff0c\uff0e\uff01\uff1a\uff1b\uff1f\u00bb"
_FIRST_WIDE, _FIRST_COMBINING, _SOFT_HYPHEN = _WIDE[0], "\u0300", "\u00ad"
_NARROW = "…–—“”‘’•●○"
"""Signs of one column in nearly every text, which need no table of characters: importing it takes longer than the layout."""
_LINK_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty"})
_LINK_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "contour"})
_MIN_VTE_VERSION = 5200
"""Earlier versions of VTE (GNOME Terminal and others) crashed on some links."""
_URL_CHARS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def known_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal, or of COLUMNS; None if the output goes elsewhere."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() else 0
    if not width:
        stream = stream or sys.stdout
        try:
            width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
        except (OSError, ValueError):  # closed, or no descriptor
            width = 0
    return min(max(width, _MIN_WIDTH), _MAX_WIDTH) if width else None


def text_width(stream: TextIO | None = None) -> int:
    """Return the columns for prose."""
    return known_width(stream) or _DEFAULT_WIDTH


def cell_width(text: str) -> int:
    """Return how many columns a text takes: two for each wide character, none for combining ones."""
    if text.isascii():
        return len(text)
    if all(character < _FIRST_COMBINING or character in _NARROW for character in text) and _SOFT_HYPHEN not in text:
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(character) in {"Mn", "Me", "Cf"} else 2 if east_asian_width(character) in {"W", "F"} else 1
        for character in text
    )


def break_lines(text: str, width: int) -> list[tuple[int, int]]:
    """Return the spans of a text's lines. No word is divided: one that is wider than the line stands alone."""
    lines: list[tuple[int, int]] = []
    start = end = used = 0
    for first, last in _units(text):
        unit = text[first:last]
        if unit.isspace():
            used += cell_width(unit) if end > start else 0
            start = start if end > start else last
            continue
        cells = cell_width(unit)
        if end > start and used + cells > width:
            lines.append((start, end))
            start, used = first, 0
        end = last
        used += cells
    return [*lines, (start, end)] if end > start else lines


def _units(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of spaces, and of what a line break does not divide: a word, or a wide character with the punctuation after it.

    Only a text that may have wide characters needs a regular expression: `re` takes 10 ms to import, and the pattern 10 more.
    """
    if text and max(text) >= _FIRST_WIDE:
        import re

        pattern = rf"\s+|«?[{_WIDE}][{_CLOSING}]*|(?:[^\s{_WIDE}«]|«(?![{_WIDE}]))+|«"
        yield from (unit.span() for unit in re.finditer(pattern, text))
        return
    end = 0
    for word in text.split():
        start = text.index(word, end)
        if start > end:
            yield end, start
        end = start + len(word)
        yield start, end
    if end < len(text):
        yield end, len(text)


def wrap(text: str, indent: str = "", *, width: int | None = None) -> str:
    """Return a text broken into lines that fit the terminal, each with this indentation."""
    room = (width or text_width()) - len(indent)
    return "\n".join(indent + text[start:end] for start, end in break_lines(text, room))


def join_fields(fields: Iterable[Field], indent: str, width: int | None) -> str:
    """Return fields side by side. If they do not fit on one line, the first one gets a line of its own.

    Without a width they are always on one line.
    """
    given = [field for field in fields if field[0]]
    if width is None:
        return "".join(f"{' ' * gap if number else ''}{styled}" for number, (_, styled, gap) in enumerate(given))
    total = len(indent) + sum(cell_width(plain) + gap for plain, _, gap in given) - (given[0][2] if given else 0)
    is_wide = total > width
    out, used = "", 0
    for number, (plain, styled, gap) in enumerate(given):
        cells = cell_width(plain)
        if not number:
            out, used = styled, len(indent) + cells
        elif is_wide and (number == 1 or used + gap + cells > width):
            out, used = f"{out}\n{indent}{styled}", len(indent) + cells
        else:
            out, used = f"{out}{' ' * gap}{styled}", used + gap + cells
    return out


def wrap_marked(text: str, spans: Sequence[Sequence[int]], indent: str) -> str:
    """Return a wrapped text with the spans marked: in colour on a terminal, in guillemets elsewhere."""
    from lorelog.surfaces.cli.render import highlight

    if not supports_colour(sys.stdout):
        return wrap(highlight(text, spans), indent)
    lines = []
    for start, end in break_lines(text, text_width() - len(indent)):
        inside = [(max(first, start) - start, min(last, end) - start) for first, last in spans]
        lines.append(indent + highlight(text[start:end], [span for span in inside if span[0] < span[1]]))
    return "\n".join(lines)


def shorten(text: str, width: int) -> str:
    """Return the beginning of a text that fits into a width: whole words, then an ellipsis."""
    if cell_width(text) <= width:
        return text
    lines = break_lines(text, width - 2)
    return f"{text[slice(*lines[0])]} …" if lines else ""


def link_file(path: str, text: str) -> str:
    """Return a text that a click opens as a file (OSC 8), where the terminal is known to support it."""
    if not path.startswith("/") or not supports_links(sys.stdout):
        return text
    # The host lets a terminal on another machine see that the path is not its own.
    host = os.uname().nodename if hasattr(os, "uname") else ""
    address = "".join(chr(byte) if byte in _URL_CHARS else f"%{byte:02X}" for byte in os.fsencode(path))
    return f"\x1b]8;;file://{host}{address}\x1b\\{text}\x1b]8;;\x1b\\"


def supports_links(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that is known to show links; FORCE_HYPERLINK decides for other terminals."""
    if not supports_colour(stream):
        return False
    environment = os.environ
    if forced := environment.get("FORCE_HYPERLINK"):
        return forced != "0"
    term = environment.get("TERM", "")
    if environment.get("TMUX") or term.startswith(("screen", "tmux")):
        return False
    version = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _LINK_PROGRAMS
        or term in _LINK_TERMS
        or bool(environment.get("WT_SESSION"))
        or (version.isascii() and version.isdigit() and int(version) >= _MIN_VTE_VERSION)
    )
