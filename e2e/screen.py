"""What a terminal shows: a grid of characters, drawn by the escape sequences that terminal programs send.

Such programs redraw only the cells that changed, so a text that a person reads may never have been sent in one piece:
stripping the escape sequences is not enough. Colours, modes and the second screen make no difference to what can be
read, and are passed over. Programs also ask their terminal things (where the cursor is, what it can do) and some wait
for the answer: `feed` returns what a plain terminal would reply.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[(?P<marks>[<=>?]?)(?P<numbers>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\](?P<told>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b]*\x1b\\"
    r"|[ -/]+[0-~]"
    r"|(?P<plain>[0-Z\\^-~])"
    r")"
)
_BLANK = " "


class Screen:
    """The grid, the cursor, and the unparsed input."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[_BLANK] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._top, self._bottom = 0, rows - 1
        self._saved = (0, 0)
        self._unread = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def text(self) -> str:
        """Return the visible text, line by line."""
        return "\n".join("".join(cells).rstrip() for cells in self._cells)

    def feed(self, raw: bytes) -> bytes:
        """Draw the output, and return the replies to its queries."""
        text, self._unread = self._unread + self._decoder.decode(raw), ""
        replies, at = b"", 0
        while at < len(text):
            if text[at] != "\x1b":
                self._draw(text[at])
                at += 1
                continue
            found = _SEQUENCE.match(text, at)
            if found is None:  # the rest of it is still to come
                self._unread = text[at:]
                break
            replies += self._obey(found)
            at = found.end()
        return replies

    def _draw(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character in "\n\v\f":
            self._line_feed()
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character == "\t":
            self._column = min(self.columns - 1, self._column // 8 * 8 + 8)
        elif character >= " " and character != "\x7f" and not unicodedata.combining(character):
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self._column + width > self.columns:
                self._column = 0
                self._line_feed()
            self._cells[self._row][self._column] = character
            if width > 1:
                self._cells[self._row][self._column + 1] = ""
            self._column += width

    def _line_feed(self) -> None:
        if self._row == self._bottom:
            self._scroll(self._top, 1)
        else:
            self._row = min(self.rows - 1, self._row + 1)

    def _scroll(self, top: int, lines: int) -> None:
        """Scroll the region from top to bottom up, or down for a negative count."""
        for _ in range(min(abs(lines), self.rows)):
            out, into = (top, self._bottom) if lines > 0 else (self._bottom, top)
            del self._cells[out]
            self._cells.insert(into, [_BLANK] * self.columns)

    def _obey(self, found: re.Match[str]) -> bytes:
        if found["final"]:
            numbers = [int(part.split(":")[0] or 0) for part in found["numbers"].split(";")]
            if found["marks"] or found["between"]:
                return self._asked(found["marks"] + found["between"] + found["final"], numbers)
            return self._control(found["final"], numbers)
        if found["told"]:
            kind, _, rest = found["told"].partition(";")
            return f"\x1b]{kind};rgb:0000/0000/0000\x1b\\".encode() if rest == "?" and kind in ("10", "11") else b""
        if found["plain"] == "7":
            self._saved = (self._row, self._column)
        elif found["plain"] == "8":
            self._row, self._column = self._saved
        elif found["plain"] == "M":
            if self._row == self._top:
                self._scroll(self._top, -1)
            else:
                self._row = max(0, self._row - 1)
        elif found["plain"] == "c":
            self._erase(2)
            self._row = self._column = 0
        return b""

    def _asked(self, kind: str, numbers: list[int]) -> bytes:
        if kind == "?u":
            return b"\x1b[?0u"
        if kind == ">q":
            return b"\x1bP>|plain(1)\x1b\\"
        if kind == "?$p":
            return f"\x1b[?{numbers[0]};0$y".encode()
        if kind in ("?h", "?l") and 1049 in numbers:
            self._erase(2)
        return b""

    def _control(self, final: str, numbers: list[int]) -> bytes:
        first = numbers[0]
        count = first or 1
        if final == "n" and first == 6:
            return f"\x1b[{self._row + 1};{self._column + 1}R".encode()
        if final == "n" and first == 5:
            return b"\x1b[0n"
        if final == "c":
            return b"\x1b[?62;22c"
        if final in "ABCDEFGHdf`ae":
            self._move(final, count, numbers)
        elif final in "JK":
            self._erase(first, line_only=final == "K")
        elif final in "LMST":
            top = self._top if final in "ST" else self._row
            self._scroll(top, count if final in "MS" else -count)
        elif final in "P@X":
            self._shift(final, count)
        elif final == "r":
            self._top = max(0, count - 1)
            self._bottom = min(self.rows, (numbers[1:] or [0])[0] or self.rows) - 1
            self._row = self._column = 0
        elif final == "s":
            self._saved = (self._row, self._column)
        elif final == "u":
            self._row, self._column = self._saved
        return b""

    def _move(self, final: str, count: int, numbers: list[int]) -> None:
        if final in "Hf":
            self._row, self._column = count - 1, ((numbers[1:] or [1])[0] or 1) - 1
        elif final in "AF":
            self._row -= count
        elif final in "BEe":
            self._row += count
        elif final in "Ca":
            self._column += count
        elif final == "D":
            self._column -= count
        elif final in "G`":
            self._column = count - 1
        elif final == "d":
            self._row = count - 1
        if final in "EF":
            self._column = 0
        self._row = min(max(self._row, 0), self.rows - 1)
        self._column = min(max(self._column, 0), self.columns - 1)

    def _erase(self, which: int, *, line_only: bool = False) -> None:
        """Erase from the cursor (0), up to it (1), or all (2, 3), in the line or on the screen."""
        here, column = self._row, min(self._column, self.columns - 1)
        cells = self._cells[here]
        first, last = {0: (column, self.columns), 1: (0, column + 1)}.get(which, (0, self.columns))
        cells[first:last] = [_BLANK] * (last - first)
        if line_only:
            return
        others = {0: range(here + 1, self.rows), 1: range(here)}.get(which, range(self.rows))
        for row in others:
            self._cells[row] = [_BLANK] * self.columns

    def _shift(self, final: str, count: int) -> None:
        """Delete, insert or blank characters at the cursor."""
        cells, column = self._cells[self._row], min(self._column, self.columns - 1)
        count = min(count, self.columns - column)
        if final == "X":
            cells[column : column + count] = [_BLANK] * count
        elif final == "P":
            cells[column:] = cells[column + count :] + [_BLANK] * count
        else:
            cells[column:] = [_BLANK] * count + cells[column : self.columns - count]
