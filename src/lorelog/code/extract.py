"""What does one file say? Its symbols, the names it uses, what it imports.

Nothing here raises because of what a file contains, and nothing recurses: trees of a hundred thousand nested brackets
are real (fuzzing corpora, generated parsers). Grammars can take minutes over bytes that are no code; so a parser is
given time and memory by the size of the file, and after it the rest of the file is withheld: it ends as if the file ended
there, and what was parsed by then is kept. (The parser's own way to be interrupted crashes in tree-sitter 0.26.0.)
"""

from __future__ import annotations

import importlib
import importlib.resources
import re
import time
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

from lorelog.code.hooks import Hooks
from lorelog.code.languages import BY_NAME
from lorelog.code.memory import resident
from lorelog.code.source import Source
from lorelog.core.code import Extract

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Point, Query, Range, Tree

_CHUNK = 4096
_FLOW = re.compile(rb"@flow\b")
_LEAST_SECONDS, _SECONDS_PER_MB = 1.0, 1.0
"""Processor time; real code takes a fifth of it."""
_LEAST_MEMORY, _MEMORY_PER_BYTE, _UNSUSPICIOUS = 300_000_000, 60, 0.1
"""What a parser may take, and after how long it is looked at. Some grammars take the square of `A<A<A<`."""
_MOST_OPEN = 2000
_ANGLES = re.compile(rb"<<|[<>;{}()]")
"""`<` that wait for their `>`: when such a file ends, a grammar takes the square of them in memory, unasked."""
_MOST_MENDED = 1_000_000
"""Bytes of a broken file that is worth cutting up; larger ones nobody is typing."""


def extract(source: bytes, language: str) -> Extract:
    """Return what a source file says. `source` is UTF-8, as `read_source` gives it; other bytes do no harm."""
    if language not in BY_NAME:
        return Extract(language, (), (), (), Source(source).lines)
    feeder, said = _Feeder(source), language
    if language == "javascript" and _FLOW.search(source, 0, 2_000):
        said = "tsx"  # types in JavaScript's files: TypeScript's grammar knows most of them
    tree = feeder.parse(grammar(said))
    root, text, left_out = tree.root_node, Source(source), 0
    if language == "python":
        from lorelog.code.python import read_python

        roots = _cut_up(source, feeder) if root.has_error else []
        symbols, uses, imports = read_python(roots or [root], text)
    else:
        from lorelog.code.matching import read_matches
        from lorelog.code.mending import mended
        from lorelog.code.nesting import put_together
        from lorelog.code.tokens import read_tokens

        hooks = hooks_of(said)
        query = query_of(said)
        if query is None:
            return Extract(language, (), (), (), text.lines)
        if root.has_error and not feeder.is_late:
            root, left_out = mended(root, source, hooks, lambda data: _again(data, said, feeder))
        matches = read_matches(query, root, text, hooks)
        imports = tuple(matches.imports)
        symbols, uses = put_together(matches, text, hooks, *read_tokens(root, text, hooks.comments, hooks.between))
    broken = left_out or (_first_error(root) if root.has_error or feeder.is_late else 0)
    return Extract(language, symbols, uses, imports, text.lines, broken)


@cache
def grammar(name: str) -> Language:
    """Return a language's grammar, from the wheel that brings it."""
    from tree_sitter import Language

    row = BY_NAME[name]
    return Language(getattr(importlib.import_module(row.grammar), row.entry)())


@cache
def query_of(name: str) -> Query | None:
    """Return what finds things in a language's trees; None for a language without."""
    from tree_sitter import Query

    folder = importlib.resources.files("lorelog.code") / "queries"
    files = [folder / f"{query}.scm" for query in BY_NAME[name].queries]
    if not files or not all(file.is_file() for file in files):
        return None
    return Query(grammar(name), "\n".join(file.read_text("utf-8") for file in files))


@cache
def hooks_of(name: str) -> Hooks:
    """Return what a language adds to its queries."""
    module = BY_NAME[name].hooks
    if not module:
        return Hooks()
    hooks: Hooks = importlib.import_module(module).HOOKS
    return hooks


class _Feeder:
    """Gives a parser its file in pieces, as long as there is time."""

    def __init__(self, source: bytes, end: float = 0.0) -> None:
        self._source = source
        self.end = end or time.thread_time() + _LEAST_SECONDS + _SECONDS_PER_MB * len(source) / 1e6
        self._most = resident() + _LEAST_MEMORY + _MEMORY_PER_BYTE * len(source)
        self._unsuspicious = time.thread_time() + _UNSUSPICIOUS
        self._stop = _end_of_sense(source)
        self._is_parsing = True
        self.is_late = False
        self._lines: list[int] | None = None

    def parse(self, language: Language, stretches: list[tuple[int, int]] | None = None) -> Tree:
        """Parse the file, or stretches of it as if they were all of it."""
        from tree_sitter import Parser

        self._is_parsing = True
        ranges = [] if stretches is None else [self._range(start, end) for start, end in stretches]
        tree = (Parser(language, included_ranges=ranges) if ranges else Parser(language)).parse(self._piece)
        self._is_parsing = False
        return tree

    def _range(self, start: int, end: int) -> Range:
        from tree_sitter import Range

        return Range(self._point(start), self._point(end), start, end)

    def _point(self, offset: int) -> tuple[int, int]:
        if self._lines is None:
            self._lines = [0, *(found.end() for found in re.finditer(rb"\n", self._source))]
        row = bisect_right(self._lines, offset) - 1
        return row, offset - self._lines[row]

    def _piece(self, offset: int, point: Point) -> bytes:
        """Return the bytes at an offset. Asked again after parsing, where a query compares a name."""
        if not self._is_parsing:
            return self._source[offset : offset + 256]
        now = time.thread_time()
        if now > self.end or (now > self._unsuspicious and resident() > self._most):
            self.is_late = True
        return b"" if self.is_late else self._source[offset : min(offset + _CHUNK, self._stop)]


def _end_of_sense(source: bytes) -> int:
    """Return where a file stops to be code: its end, or where thousands of angle brackets are open."""
    if source.count(b"<") <= _MOST_OPEN:
        return len(source)
    depth = 0
    for found in _ANGLES.finditer(source):
        mark = found[0]
        if mark == b"<":
            depth += 1
            if depth > _MOST_OPEN:
                return found.start()
        elif mark == b">":
            depth = max(0, depth - 1)
        elif mark != b"<<":
            depth = 0
    return len(source)


def _cut_up(source: bytes, feeder: _Feeder) -> list[Node]:
    """Return the trees of a broken Python file, if there is time for them."""
    from lorelog.code.python_mending import mended

    if feeder.is_late or len(source) > _MOST_MENDED:
        return []
    language = grammar("python")
    trees = mended(source, lambda stretches: feeder.parse(language, stretches).root_node)
    return [] if feeder.is_late else trees


def _again(data: bytes, language: str, first: _Feeder) -> Node | None:
    """Return another tree of a file, or of a part of it, within the time that the first one was given."""
    feeder = _Feeder(data, first.end)
    tree = feeder.parse(grammar(language))
    return None if feeder.is_late else tree.root_node


def _first_error(root: Node) -> int:
    """Return the first line that could not be parsed."""
    node = root
    while True:
        wrong = next((child for child in node.children if child.has_error or child.is_missing), None)
        if wrong is None:
            break
        node = wrong
    if node is not root or not node.children:
        return node.start_point[0] + 1
    stray = next((child for child in node.children if not child.is_named), node)
    return stray.start_point[0] + 1
