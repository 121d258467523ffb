"""Shape the texts of a note: remove terminal escapes and Markdown, split an answer into pieces, shorten.

A long text loses its middle, not its end: answers begin with the subject and end with the conclusion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

_ESCAPE = re.compile(
    r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\^\[(?=\[))"
    r"(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|[PX^_][^\x1b\n]{0,500}\x1b\\|[ -/]*[0-Z\\^-~])"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_LONE_COLOR = re.compile(r"(?<![\w\])])\[(?:\d{1,3};){0,6}\d{1,3}m")
"""A colour code that lost its escape character when it was stored."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
_ITEM = re.compile(r"^(\s*)(?:[-*+\u2022]|\d{1,3}[.)])\s+(.*)$")
_FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$")
_TABLE_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_CODE_OR_EMPHASIS = re.compile(r"`[^`]*`|\*\*(\S.*?)\*\*|(?<!\w)__(\S[^_]*\s[^_]*)__(?!\w)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_IMAGE = re.compile(r"\bdata:[\w/+.-]+;base64,[A-Za-z0-9+/=]{40,}")
_MAX_CODE_LINES = 3
"""More lines of code are useless on one line."""
_MAX_CODE_CHARS = 200
_MAX_NESTED_BLOCKS = 4
_MIN_PIECE_CHARS = 40
_MIN_CUT_PIECE_CHARS = 160
_PIECE_COST = 4
"""Characters that a piece costs beside its text: its bullet and the end of its line."""

Piece = tuple[bool, str]
"""A text, and whether it is an item of a list or a row of a table."""


def strip_escapes(text: str) -> str:
    """Return a text without terminal escapes and control characters."""
    return _CONTROL.sub("", _LONE_COLOR.sub("", _ESCAPE.sub("", text)).replace("\r\n", "\n").replace("\r", "\n"))


def flatten_markdown(text: str) -> str:
    """Return a text on one line, without its Markdown syntax."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text))
    lines = (strip_markdown(line) for line in text.splitlines() if not _FENCE.match(line) and not _RULE.match(line))
    return " ".join(" ".join(lines).replace("\0", "").split())


def strip_markdown(line: str) -> str:
    """Return a line without the marks of a heading and of emphasis; code and names such as `__init__` are unchanged."""
    heading = _HEADING.match(line)
    bare = heading[1] if heading else line
    return _CODE_OR_EMPHASIS.sub(lambda match: match[1] or match[2] or match[0], bare).strip()


def shorten_text(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, cut between words if possible."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    space = cut.rfind(" ", limit * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:-") + "…"


def shorten_start(text: str, limit: int) -> str:
    """Return at most `limit` characters from the end of a text, cut between words if possible."""
    if len(text) <= limit:
        return text
    cut = text[len(text) - limit + 1 :]
    space = cut.find(" ", 0, limit // 3)
    return "…" + cut[space + 1 :].lstrip(" ,;:-")


def shorten_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text: its beginning and, after `…`, its end."""
    if len(text) <= limit:
        return text
    head = shorten_text(text, limit * 3 // 5)
    return f"{head} {shorten_start(text, limit - len(head) - 1).lstrip('…')}"


def is_block_line(line: str) -> bool:
    """Return True for a line that is not prose: an item, a row of a table, a heading, a fence or a rule."""
    patterns = (_ITEM, _HEADING, _FENCE, _RULE, _TABLE_RULE)
    return line.lstrip().startswith("|") or any(pattern.match(line) for pattern in patterns)


def split_pieces(text: str) -> Iterator[Piece]:
    """Yield the list items, table rows, short code and paragraphs of a text; longer code is left out."""
    text = _IMAGE.sub("[image]", _COMMENT.sub(" ", text)).replace("\0", "")
    for is_code, lines in _split_code(text.splitlines()):
        if is_code:
            code = " ".join(" ".join(lines).replace("`", "'").split())
            if code:
                yield False, f"`{shorten_text(code, _MAX_CODE_CHARS)}`"
        else:
            yield from _prose_pieces(lines)


def _split_code(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield runs of lines outside of code blocks and, with True, the code of each block of few lines.

    A fence with a language inside a block begins a nested one: agents show Markdown that contains fences. A block that
    is never closed counts as prose: losing text is worse than showing code.
    """
    prose: list[str] = []
    index = 0
    while index < len(lines):
        end = _find_block_end(lines, index) if _FENCE.match(lines[index]) else 0
        if not end:
            prose.append(lines[index])
            index += 1
            continue
        yield False, prose
        prose = []
        code = [line for line in lines[index + 1 : end] if line.strip() and not _FENCE.match(line)]
        if len(code) <= _MAX_CODE_LINES:
            yield True, code
        index = end + 1
    yield False, prose


def _find_block_end(lines: Sequence[str], start: int) -> int:
    """Return the index of the fence that closes the block opened at `start`; 0 if there is none."""
    opened: list[str] = []
    for index in range(start, len(lines)):
        match = _FENCE.match(lines[index])
        if not match:
            continue
        fence, info = match["fence"], match["info"].strip()
        if not opened or (info and fence[0] == opened[-1][0]):
            opened.append(fence)
            if len(opened) > _MAX_NESTED_BLOCKS:
                return 0
        elif not info and fence[0] == opened[-1][0] and len(fence) >= len(opened[-1]):
            opened.pop()
            if not opened:
                return index
    return 0


def _prose_pieces(lines: Sequence[str]) -> Iterator[Piece]:
    prose: list[str] = []
    for line in [*lines, ""]:
        item, row, heading = _ITEM.match(line), line.lstrip().startswith("|"), _HEADING.match(line)
        apart = not line.strip() or _FENCE.match(line) or _RULE.match(line) or _TABLE_RULE.match(line)
        if prose and (apart or item or row or heading):
            yield False, " ".join(prose)
            prose = []
        if apart:
            continue
        if item:
            yield True, strip_markdown(item[2])
        elif row:
            cells = (strip_markdown(cell) for cell in line.strip().strip("|").split("|"))
            yield True, " | ".join(cell for cell in cells if cell)
        elif heading:
            title = strip_markdown(line)
            yield False, title if title.endswith((":", ".", "!", "?")) or not title else f"{title}:"
        else:
            prose.append(strip_markdown(line))


def fit_pieces(pieces: Sequence[Piece], limit: int) -> tuple[list[Piece], list[Piece]]:
    """Return the first and the last pieces that fit the limit together; the second list is empty if all fit."""
    if sum(len(text) + _PIECE_COST for _, text in pieces) <= limit:
        return list(pieces), []
    if len(pieces) == 1:
        return [(pieces[0][0], shorten_middle(pieces[0][1], limit))], []
    head = _take_pieces(pieces, limit * 2 // 5, shorten_text)
    while len(head) > 1 and head[-1][1].endswith(":"):
        head.pop()  # a title without its text
    room = limit - sum(len(text) + _PIECE_COST for _, text in head)
    return head, _take_pieces(pieces[: len(head) - 1 : -1], room, shorten_start)[::-1]


def _take_pieces(pieces: Sequence[Piece], room: int, shorten: Callable[[str, int], str]) -> list[Piece]:
    """Return the first pieces that fit; the last one is shortened if it is the only one or much room is left."""
    taken: list[Piece] = []
    for is_item, text in pieces:
        cost = len(text) + _PIECE_COST
        if cost > room:
            if not taken or room > _MIN_CUT_PIECE_CHARS:
                taken.append((is_item, shorten(text, max(room - _PIECE_COST, _MIN_PIECE_CHARS))))
            break
        taken.append((is_item, text))
        room -= cost
    return taken
