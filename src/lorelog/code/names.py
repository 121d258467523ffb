"""Names in code: split and compare them; and read the tokens and comments of a file.

Names of symbols, bases and modules are split, and names are compared with a typed query. A search runs SQL patterns
first, since SQLite scans a million names in a tenth of a second, and scores the matches. Names are compared as people
read them: case matters little, and camel case and underscores separate words.

Definitions get a digest from the tokens, without comments and layout. Bytes that no node covers (many grammars leave
the content of a string bare) are tokens too, unless they are white space. The own name of a definition is left out, so
that a renamed function keeps its digest.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node

    from lorelog.code.source import SourceText


_FILE_SUFFIX = re.compile(r"\.(?:h|hh|hpp|hxx|inc|[cm]?[jt]sx?|php|rb|css|json|vue|svelte)$")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_MAX_QUERY_CHARS = 100
"""Characters of a query that are compared."""


def module_tail(module: str) -> str:
    """Return the last part of a module's name, without a file suffix."""
    last = re.split(r"/|::|\\", module.rstrip("/"))[-1]
    if "/" in module or "\\" in module or _FILE_SUFFIX.search(last):
        return last.split(".", 1)[0] or last
    return last.rpartition(".")[2] or last


def module_ends_with(module: str, ending: str) -> bool:
    """Return True if the last parts of a module's name are those of `ending`; file suffixes do not count."""
    parts, ending_parts = _module_parts(module), _module_parts(ending)
    return bool(ending_parts) and parts[-len(ending_parts) :] == ending_parts


def _module_parts(module: str) -> list[str]:
    tail = module_tail(module)
    head = module[: module.rfind(tail)] if tail and tail in module else ""
    return [*name_parts(head), tail]


def name_parts(text: str) -> list[str]:
    """Split a qualified name, a module or a path at its separators."""
    return [part for part in re.split(r"/|::|->|\\|\.|#", text) if part]


class NamePattern(Struct, frozen=True):
    """A condition on the table of names."""

    where: str
    values: tuple[str, ...]
    typos_only: bool = False
    """Whether it only finds misspelled names."""


class Similarity:
    """Similarity of names to a query: 1 for equal names, 0 for nothing in common."""

    def __init__(self, text: str) -> None:
        self._text = text[:_MAX_QUERY_CHARS]
        self._folded = self._text.casefold()
        self._plain = self._folded.replace("_", "").replace("-", "").replace(" ", "")
        self._letters = frozenset(self._plain)

    def score(self, name: str) -> float:
        if name == self._text:
            return 1.0
        folded = name.casefold()
        plain = folded.replace("_", "").replace("-", "")
        if not self._plain or not plain:
            return 0.0
        if plain == self._plain:
            return 0.97 if folded == self._folded else 0.95
        share = min(1.0, len(self._plain) / len(plain))
        if plain.startswith(self._plain):
            return 0.8 + 0.12 * share
        return max(self._partial_score(name, plain, share), self._edit_score(plain))

    def typo_score(self, name: str) -> float:
        """Return the similarity of a name with a few typos; 0 if there are more."""
        return self._edit_score(name.casefold().replace("_", "").replace("-", ""))

    def _partial_score(self, name: str, plain: str, share: float) -> float:
        """Score adjacent words, word starts (`fdef` in `find_definition`), a substring, or letters in order."""
        words = [word.casefold() for word in _WORD.findall(name)]
        if any("".join(words[first:]).startswith(self._plain) for first in range(1, len(words))):
            return 0.68 + 0.1 * share
        if len(words) <= 2 * len(self._plain) and _matches_word_starts(self._plain, words):
            return 0.6 + 0.15 * share
        if self._plain in plain:
            return (0.5 if len(self._plain) > 2 else 0.35) + 0.15 * share
        end = 0
        for letter in self._plain if len(self._plain) >= 3 and len(plain) <= 4 * len(self._plain) else "":
            end = plain.find(letter, end) + 1
            if not end:
                break
        return 0.3 + 0.15 * share if end else 0.0

    def _edit_score(self, plain: str) -> float:
        limit = _max_typos(self._plain)
        # Most names have entirely different letters, so the distance is computed for the others only.
        if abs(len(plain) - len(self._plain)) > limit or len(self._letters.symmetric_difference(plain)) > 2 * limit:
            return 0.0
        distance = _edit_distance(self._plain, plain, limit) if limit else 1
        return 0.0 if distance > limit else 0.78 - 0.08 * distance


def name_patterns(text: str) -> Iterator[NamePattern]:
    """Yield conditions that find similar names, best matches first."""
    folded = text[:_MAX_QUERY_CHARS].strip()
    plain = re.sub(r"[_\-\s]", "", folded)
    if not plain:
        return
    yield NamePattern("name = ?", (folded,))
    letters = "%".join(_escape_like(letter) for letter in plain)
    # Letters in order match all but misspelled names.
    yield NamePattern("name LIKE ? ESCAPE '\\'", (f"%{letters}%",))
    if len(plain) >= 4:
        # One or two typos leave two of four pieces intact; in a short word one piece, or both ends. The first letter is
        # nearly always right, or swapped with the second.
        limit = _max_typos(plain)
        size = max(2, len(plain) // 4)
        pieces = [plain[first : first + size] for first in range(0, len(plain) - size + 1, size)]
        around = [f"%{''.join(map(_escape_like, piece))}%" for piece in pieces]
        around += [] if len(plain) >= 8 else [f"{_escape_like(plain[0])}%{_escape_like(plain[-1])}"]
        bare = "replace(name, '_', '')"
        whole = " + ".join(f"({bare} LIKE ? ESCAPE '\\')" for _ in around)
        length = f"length({bare}) BETWEEN {len(plain) - limit} AND {len(plain) + limit}"
        begin = f"{bare} LIKE ? ESCAPE '\\'"
        around[:0] = [f"{_escape_like(plain[0])}%", f"{_escape_like(plain[1])}%"]
        yield NamePattern(
            f"{length} AND ({begin} OR {begin}) AND {whole} >= {2 if len(plain) >= 8 else 1}",
            tuple(around),
            typos_only=True,
        )


def _max_typos(plain: str) -> int:
    return 0 if len(plain) < 4 else 1 if len(plain) < 7 else 2


def _escape_like(letter: str) -> str:
    return "\\" + letter if letter in "%_\\" else letter


def _matches_word_starts(letters: str, words: list[str]) -> bool:
    """Return True if letters consist of starts of words, in order; words may be skipped."""
    reached = {0}
    for word in words:
        prefixes = [word[:length] for length in range(1, len(word) + 1)]
        reached |= {at + len(part) for at in reached for part in prefixes if letters.startswith(part, at)}
    return len(letters) in reached


def _edit_distance(first: str, second: str, limit: int) -> int:
    """Return the number of letters to change, add, remove or swap with the next, or a number above `limit`."""
    while first and second and first[0] == second[0]:
        first, second = first[1:], second[1:]
    while first and second and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        older, before, row = before, row, [i]
        for j, other in enumerate(second, start=1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if older and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                best = min(best, older[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return row[-1]


class Tokens:
    """The tokens of a file in order, by start byte."""

    __slots__ = ("starts", "texts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.texts: list[bytes] = []

    @classmethod
    def merge(cls, parts: Iterable[Tokens]) -> Tokens:
        """Merge the tokens of several trees of one file."""
        merged = cls()
        by_start = {start: text for part in parts for start, text in zip(part.starts, part.texts, strict=True)}
        merged.starts = sorted(by_start)
        merged.texts = [by_start[start] for start in merged.starts]
        return merged

    def digest(self, start: int, end: int, name: str) -> str:
        """Return a digest of 16 hexadecimal digits of the tokens between two byte offsets, without `name`."""
        own = name.encode()
        first, last = bisect_left(self.starts, start), bisect_left(self.starts, end)
        tokens = [b"" if text == own else text for text in self.texts[first:last]]
        return hashlib.blake2b(b"\0".join(tokens), digest_size=8).hexdigest()


class Comments:
    """Comments that are alone on their lines, by the row they end on."""

    __slots__ = ("_between", "_by_end")

    def __init__(self) -> None:
        self._by_end: dict[int, Node] = {}
        self._between: dict[int, int] = {}

    def add(self, node: Node, source: SourceText) -> None:
        """Add a comment that may document the definition below it."""
        start, row = node.start_byte, node.start_point[0]
        line = source.data.rfind(b"\n", max(0, start - 1000), start) + 1
        if not source.data[line:start].strip():
            self._by_end.setdefault(_last_row(node, row), node)

    def skip(self, node: Node) -> None:
        """Add a node that may be between a comment and its definition."""
        row = node.start_point[0]
        self._between.setdefault(_last_row(node, row), row)

    def above(self, row: int) -> tuple[Node, ...]:
        """Return the comments directly above a row, topmost first."""
        comments: list[Node] = []
        while len(comments) < 200:
            row -= 1
            node = self._by_end.get(row)
            if node is not None:
                comments.append(node)
                row = node.start_point[0]
            elif row in self._between and not comments:
                row = self._between[row]
            else:
                break
        return tuple(reversed(comments))


def read_tokens(
    root: Node,
    source: SourceText,
    comments: frozenset[str],
    *,
    between: frozenset[str] = frozenset(),
    blocks: frozenset[str] = frozenset(),
    silent: Container[int] = (),
) -> tuple[Tokens, Comments]:
    """Return the tokens and the comments of a tree. Not recursive, so that any depth works.

    `blocks` are node types whose start and end are tokens, for languages that mark blocks by layout alone. Strings that
    start at one of the bytes `silent` are documentation, and are not tokens.
    """
    tokens, seen, data = Tokens(), Comments(), source.data
    add_start, add_text = tokens.starts.append, tokens.texts.append
    special = comments | between | blocks | ({"string", "concatenated_string"} if silent else set())
    last = 0
    stack: list[Node | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            add_start(last)
            add_text(b"}")
            continue
        kind = node.type
        if kind in special:
            if kind in comments or (kind not in blocks and node.start_byte in silent):
                seen.add(node, source)
                last = node.end_byte
                continue
            if kind in between:
                seen.skip(node)
            elif kind in blocks:
                add_start(last)
                add_text(b"{")
                stack.append(None)
        children = node.children
        if children:
            children.reverse()
            stack += children
            continue
        start, end = node.start_byte, node.end_byte
        if start > last:
            gap = data[last:start].strip()
            if gap:
                add_start(last)
                add_text(gap)
        if end > start:
            add_start(start)
            add_text(data[start:end])
        last = end
    return tokens, seen


def _last_row(node: Node, first: int) -> int:
    """Return the row a node ends on. Some grammars include the line break in a comment."""
    row, column = node.end_point
    return row - 1 if column == 0 and row > first else row
