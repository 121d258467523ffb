"""Extract the symbols, uses and imports of one source file.

No content makes this raise, and nothing recurses: trees of a hundred thousand nested brackets are real (fuzzing
corpora, generated parsers). A grammar can take minutes, or gigabytes over a hundred kilobytes, on input that is not
code. So a parser gets limits of time and memory by the size of the file. Beyond a limit the rest of the input is
withheld, as if the file ended there, and the tree so far is used. (The parser's own cancellation crashes in tree-sitter
0.26.0.)

Files that a grammar cannot parse are repaired; the repaired tree is used only if it has fewer errors. Constructs that a grammar is known to fail on (macros, newer
syntax) are blanked out by `LanguageHooks.repair`. Byte offsets never change.

Python needs its own way: inside brackets lines do not end, so a parser that meets `def f(` without its closing bracket
reads the following definitions as arguments, and files are in this state whenever someone types. Definitions start at
the margin of their block, though. So a broken file is cut at definitions, assignments and imports; each piece is parsed
alone, and pieces that fail are parsed apart from the others. The same is done once more inside of classes that fail.
"""

from __future__ import annotations

import importlib
import importlib.resources
import re
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks
from lorelog.code.languages.registry import LANGUAGES_BY_NAME
from lorelog.code.source import SourceText
from lorelog.core.code import FileExtract
from lorelog.core.processes import resident_bytes

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Point, Query, Tree


_CHUNK = 4096
_MIN_SECONDS, _SECONDS_PER_MB = 1.0, 1.0
"""Limit of processor time; real code takes a fifth of it."""
_MIN_MEMORY, _MEMORY_PER_BYTE, _MEMORY_CHECK_AFTER_S = 300_000_000, 60, 0.1
"""Limit of memory, and the delay before the first check. Some grammars take quadratic memory for `A<A<A<`."""
_MAX_OPEN_ANGLES = 2000
"""Limit of open `<`: at the end of such a file a grammar takes quadratic memory without asking for input."""
_ANGLES = re.compile(rb"<<|[<>;{}()]")
_MAX_REPAIR_BYTES = 1_000_000
"""Broken files up to this size are repaired; a larger one is hardly being edited."""


def extract(source: bytes, language: str, *, only_symbols: bool = False) -> FileExtract:
    """Extract a source file. `source` is UTF-8, as `decode_source` returns it; other bytes are accepted.

    With `only_symbols` the uses of most languages are left out, which takes a fifth less time.
    """
    if language not in LANGUAGES_BY_NAME:
        return FileExtract(language, (), (), (), SourceText(source).lines)
    # Loaded first: compiling the query of a large language takes a second that is not the file's.
    parser_language, query, hooks = load_grammar(language), load_query(language), load_hooks(language)
    parser = _BoundedParser(source)
    root, text = parser.parse(parser_language).root_node, SourceText(source)
    if language == "python":
        from lorelog.code.languages.python import extract_python

        roots: list[Node] = []
        if root.has_error and not parser.is_exhausted and len(source) <= _MAX_REPAIR_BYTES:
            roots = repair_python(source, lambda ranges: parser.parse(parser_language, ranges).root_node)
        symbols, uses, imports = extract_python(roots if roots and not parser.is_exhausted else [root], text)
    else:
        from lorelog.code.names import read_tokens
        from lorelog.code.symbols import assemble_symbols, run_query

        if query is None:
            return FileExtract(language, (), (), (), text.lines)
        if root.has_error and not parser.is_exhausted:

            def reparse(data: bytes) -> Node | None:
                """Parse another version of the file within the time limit of the first parse."""
                second = _BoundedParser(data, parser.end)
                tree = second.parse(parser_language)
                return None if second.is_exhausted else tree.root_node

            root = repair_tree(root, source, hooks, reparse)
        matches = run_query(query, root, text, hooks)
        imports, tokens = (
            tuple(matches.imports),
            read_tokens(root, text, hooks.comments, between=hooks.skipped_before_head),
        )
        symbols, uses = assemble_symbols(matches, text, hooks, *tokens, only_symbols=only_symbols)
    broken = _first_error_line(root) if root.has_error or parser.is_exhausted else 0
    return FileExtract(language, symbols, uses, imports, text.lines, broken)


@cache
def load_grammar(name: str) -> Language:
    from tree_sitter import Language

    row = LANGUAGES_BY_NAME[name]
    return Language(getattr(importlib.import_module(f"tree_sitter_{row.grammar or name}"), row.entry)())


@cache
def load_query(name: str) -> Query | None:
    """Load the query of a language; None if it has none."""
    from tree_sitter import Query

    folder = importlib.resources.files("lorelog.code") / "queries"
    files = [folder / f"{query}.scm" for query in LANGUAGES_BY_NAME[name].queries.split()]
    if not files or not all(file.is_file() for file in files):
        return None
    return Query(load_grammar(name), "\n".join(file.read_text("utf-8") for file in files))


@cache
def load_hooks(name: str) -> LanguageHooks:
    module, _, hooks = LANGUAGES_BY_NAME[name].hooks.partition(".")
    kind: type[LanguageHooks] = getattr(importlib.import_module(f"lorelog.code.languages.{module}"), hooks)
    return kind()


class _BoundedParser:
    """Parses a file in chunks, within limits of time and memory."""

    def __init__(self, source: bytes, end: float = 0.0) -> None:
        self._source = source
        self.end = end or time.thread_time() + _MIN_SECONDS + _SECONDS_PER_MB * len(source) / 1e6
        self._max_memory = resident_bytes() + _MIN_MEMORY + _MEMORY_PER_BYTE * len(source)
        self._memory_check_at = time.thread_time() + _MEMORY_CHECK_AFTER_S
        self._stop = _parse_limit(source)
        self._is_parsing = True
        self.is_exhausted = False
        self._lines: list[int] | None = None

    def parse(self, language: Language, byte_ranges: list[tuple[int, int]] | None = None) -> Tree:
        """Parse the file, or ranges of it as if they were the whole file."""
        from tree_sitter import Parser, Range

        self._is_parsing = True
        ranges = [Range(self._point(start), self._point(end), start, end) for start, end in byte_ranges or ()]
        tree = (Parser(language, included_ranges=ranges) if ranges else Parser(language)).parse(self._read_chunk)
        self._is_parsing = False
        return tree

    def _point(self, offset: int) -> tuple[int, int]:
        if self._lines is None:
            self._lines = [0, *(match.end() for match in re.finditer(rb"\n", self._source))]
        row = bisect_right(self._lines, offset) - 1
        return row, offset - self._lines[row]

    def _read_chunk(self, offset: int, point: Point) -> bytes:
        """Return the bytes at an offset. Queries call it after parsing, to compare a name."""
        if not self._is_parsing:
            return self._source[offset : offset + 256]
        now = time.thread_time()
        if now > self.end or (now > self._memory_check_at and resident_bytes() > self._max_memory):
            self.is_exhausted = True
        return b"" if self.is_exhausted else self._source[offset : min(offset + _CHUNK, self._stop)]


def _parse_limit(source: bytes) -> int:
    """Return where to stop parsing: the end of the file, or where thousands of angle brackets are open."""
    if source.count(b"<") <= _MAX_OPEN_ANGLES:
        return len(source)
    depth = 0
    for match in _ANGLES.finditer(source):
        mark = match[0]
        if mark == b"<":
            depth += 1
            if depth > _MAX_OPEN_ANGLES:
                return match.start()
        elif mark == b">":
            depth = max(0, depth - 1)
        elif mark != b"<<":
            depth = 0
    return len(source)


def _first_error_line(root: Node) -> int:
    node = root
    while wrong := next((child for child in node.children if child.has_error or child.is_missing), None):
        node = wrong
    if node is not root or not node.children:
        return node.start_point[0] + 1
    stray = next((child for child in node.children if not child.is_named), node)
    return stray.start_point[0] + 1


_MAX_PIECES = 3000
_MAX_BROKEN_PIECES = 50
_STATEMENT_START = re.compile(
    rb"^([ \t]*)(@|(?:async[ \t]+def|def|class|if|import)\b|from[ \t]+[\w.]+[ \t]+import\b|[^\W\d]\w*[ \t]*(?::[^=\n]+)?=(?!=))",
    re.MULTILINE,
)
"""The start of a statement. Other words could as well be lines of a docstring."""
_FIRST_MEMBER = re.compile(rb"\n([ \t]+)(?=[^\s#])")

ByteRange = tuple[int, int]
RangeParser = Callable[[list[ByteRange]], "Node"]
"""Parses some ranges of the file as if they were the whole file."""


def repair_tree(root: Node, source: bytes, hooks: LanguageHooks, parse: Callable[[bytes], Node | None]) -> Node:
    """Return the best tree of a file whose first tree has errors. `parse` returns None when the time limit is exceeded."""
    repaired = hooks.repair(source)
    tree = parse(repaired) if repaired != source and len(repaired) == len(source) else None
    return tree if tree is not None and _error_bytes(tree) < _error_bytes(root) else root


def blank_bytes(data: bytes) -> bytes:
    """Return as many bytes of white space, with the same line breaks."""
    return bytes(byte if byte in b"\r\n" else 32 for byte in data)


def _error_bytes(root: Node) -> int:
    """Return the number of bytes in error nodes; a missing node counts as ten."""
    damage, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.is_missing:
            damage += 10
        elif node.is_error:
            damage += max(1, _node_size(node) - sum(_node_size(child) for child in node.named_children))
        if node.has_error:
            stack += node.children
    return damage


def _node_size(node: Node) -> int:
    return node.end_byte - node.start_byte


def repair_python(data: bytes, parse: RangeParser) -> list[Node]:
    """Return trees that together cover more of a broken file than a single one; none if there are no such trees."""
    pieces = _split_pieces(data, 0, len(data), b"")
    if len(pieces) > _MAX_PIECES:
        return []
    bad = [piece for piece in pieces if parse([piece]).has_error]
    if not bad or len(bad) > _MAX_BROKEN_PIECES or len(bad) == len(pieces) == 1:
        return []
    good = [piece for piece in pieces if piece not in bad]
    groups = [good] if good else []
    for piece in bad:
        groups += _split_class(data, piece, parse) or [[piece]]
    return [parse(group) for group in groups]


def _split_class(data: bytes, piece: ByteRange, parse: RangeParser) -> list[list[ByteRange]]:
    """Return a class without its broken members, and each of those with the class head; nothing for other pieces."""
    start, end = piece
    head = _STATEMENT_START.search(data, start, end)
    while head is not None and head[2] == b"@":
        head = _STATEMENT_START.search(data, head.end(), end)
    if head is None or head[2] != b"class":
        return []
    margin = _FIRST_MEMBER.search(data, head.end(), end)
    if margin is None:
        return []
    first, *members = _split_pieces(data, start, end, margin[1])
    opening = (start, data.find(b"\n", head.end()) + 1)
    if not members or len(members) > _MAX_PIECES:
        return []
    bad = [member for member in members if parse([opening, member]).has_error][:_MAX_BROKEN_PIECES]
    whole = [first, *(member for member in members if member not in bad)]
    return [whole, *([opening, member] for member in bad)]


def _split_pieces(data: bytes, start: int, end: int, margin: bytes) -> list[ByteRange]:
    """Cut at every statement that starts at a margin; decorators belong to their definition."""
    cuts, is_decorated = [start], False
    for match in _STATEMENT_START.finditer(data, start, end):
        if match[1] == margin:
            cuts += [match.start()] if not is_decorated else []
            is_decorated = match[2] == b"@"
    return [(first, last) for first, last in pairwise([*cuts, end]) if last > first]
