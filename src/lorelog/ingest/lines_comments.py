"""Where HTML comments begin and end, so that they can be hidden from what is matched and read for anchors.

The rules are CommonMark's with one decision of ours: a comment that is never closed is plain text, because a forgotten
`-->` must not hide the rest of a journal. It counts as never closed when another `<!--` stands on a later line before
any `-->`, when the text ends, or, for one that begins inside a paragraph, when the paragraph does. Each of these stops
the search where the next one starts, so ten thousand unclosed comments cost one pass.

Comments in inline code are text. Code spans are matched within a line; one that wraps is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

OPEN = "<!--"
CLOSE = "-->"

_BACKTICKS = re.compile("`+")
_TOKEN = re.compile("`+|<!--")


@dataclass(frozen=True, slots=True)
class Comment:
    """An HTML comment: the line it begins on (from 0), and what stands between its marks."""

    line: int
    text: str


class CommentReader:
    """Collects the comments of a text, line by line, and the columns they hide."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._spans: tuple[int, dict[int, int]] = (-1, {})
        self.comments: list[Comment] = []
        self.hidden: dict[int, list[tuple[int, int]]] = {}

    def read(self, number: int, *, one_line: bool = False) -> int:
        """Hide the comments that begin on a line; return the last line that any of them reaches."""
        position = 0
        while (start := self._next_open(number, position)) >= 0:
            line = self._lines[number]
            close = line.find(CLOSE, start + 2)  # `<!-->` and `<!--->` close themselves
            if close >= 0:
                self._hide(number, start, close + 3)
                self.comments.append(Comment(number, line[start + 4 : close]))
                position = close + 3
                continue
            last = -1 if one_line else self._closing_line(number, start)
            if last < 0:
                break
            position = self._hide_lines(number, start, last)
            number = last
        return number

    def _next_open(self, number: int, position: int) -> int:
        """Return the column of the next `<!--` that is not in inline code, or -1."""
        line = self._lines[number]
        if line.find(OPEN, position) < 0:
            return -1
        if self._spans[0] != number:
            self._spans = (number, _code_spans(line))
        spans = self._spans[1]
        while token := _TOKEN.search(line, position):
            if token[0] == OPEN:
                return token.start()
            position = spans.get(token.start(), token.end())
        return -1

    def _closing_line(self, number: int, start: int) -> int:
        """Return the line on which a comment that is open at the end of its line closes, or -1."""
        inline = bool(self._lines[number][:start].strip())
        for later in range(number + 1, len(self._lines)):
            line = self._lines[later]
            close = line.find(CLOSE)
            reopened = line.find(OPEN)
            if close >= 0 and (reopened < 0 or close < reopened):
                return later
            if reopened >= 0 or (inline and not line.strip()):
                return -1
        return -1

    def _hide_lines(self, first: int, start: int, last: int) -> int:
        """Hide from a column of one line to the first closing mark of another; return the column after it."""
        lines = self._lines
        end = lines[last].find(CLOSE)
        self._hide(first, start, len(lines[first]))
        for number in range(first + 1, last):
            self._hide(number, 0, len(lines[number]))
        self._hide(last, 0, end + 3)
        inner = [lines[first][start + 4 :], *lines[first + 1 : last], lines[last][:end]]
        self.comments.append(Comment(first, "\n".join(inner)))
        return end + 3

    def _hide(self, number: int, start: int, end: int) -> None:
        self.hidden.setdefault(number, []).append((start, end))


def _code_spans(line: str) -> dict[int, int]:
    """Return the end of the code span that each run of backticks would open, by the run's column."""
    following: dict[int, int] = {}
    spans: dict[int, int] = {}
    for run in reversed(list(_BACKTICKS.finditer(line))):
        length = run.end() - run.start()
        if length in following:
            spans[run.start()] = following[length]
        following[length] = run.end()
    return spans
