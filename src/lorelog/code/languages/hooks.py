"""Hooks for rules that a query cannot express: visibility, doc comments, receivers, use trees.

A language without its own module uses these defaults. No hook recurses, and none walks up with `Node.parent`, which
searches from the root and would make deep files quadratic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

CONTAINER = "container"
"""Kind of a node that is not a symbol but the container of its definitions: an `impl` block, an extension."""
MAX_SIGNATURE, MAX_DOCSTRING = 300, 2000
VARIABLES = frozenset({"variable", "constant"})
CALLABLES = frozenset({"function", "method"})
CLASSES = frozenset({"class", "interface", "enum", "type", CONTAINER})

_BODY_START = re.compile(r"\{|;|=>|\n")
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|//[/!]*|\*+/|\*(?!/)|#+!?|--\[=*\[|--+)?[ \t]?")
_COMMENT_END = re.compile(r"[ \t]*(?:\*+/|\]=*\])[ \t]*$")
_QUOTES = "\"'`<>"


class SymbolCandidate(Struct):
    """A definition that may become a symbol. Hooks change it in place."""

    kind: str
    name: str
    node: Node
    name_node: Node
    body: Node | None = None
    doc: Node | None = None
    bases: tuple[str, ...] = ()
    of: str = ""
    """A container that is written but does not enclose it: a receiver's type, the class of `A::b`."""
    visibility: str = ""
    signature: str | None = None
    docstring: str | None = None
    pattern: int = 0
    """Index of the matching pattern of the query; of several patterns the first decides."""
    is_member: bool = False
    """Whether it belongs to the enclosing class in spite of a method between: `this.x = …` in a constructor."""
    is_global: bool = False
    """Whether it belongs to the file wherever it is, like a macro."""
    above: tuple[Node, ...] = ()
    """Comments directly above it, topmost first."""
    captures: dict[str, list[Node]] = field(default_factory=dict)


Around = Sequence[SymbolCandidate]
"""Containers of a definition, outermost first."""
UseParts = tuple[str, str, str]
"""Name, kind and receiver of a use."""


class LanguageHooks:
    """Rules of a language, with defaults."""

    comments: frozenset[str] = frozenset({"comment", "line_comment", "block_comment", "doc_comment"})
    """Node types of comments."""
    skipped_before_head: frozenset[str] = frozenset({"attribute_item", "decorator"})
    """Node types that may be between a comment and its definition."""
    annotation_nodes: frozenset[str] = frozenset({"decorator"})
    """Node types of annotations, inside a definition or its modifiers, that precede its head."""
    doc_marks: tuple[str, ...] = ()
    """Prefixes of documentation comments; if empty, every comment documents the definition below."""
    has_tags: bool = False
    """Whether types have a separate namespace, and a parameter may be named like its type: `struct queue *queue`."""
    levels: Mapping[str, str] = {}
    """Visibility by the word before the name of a definition."""
    words: frozenset[str] = frozenset()
    """Keywords that the grammar reads as identifiers, and names that are not stored as uses."""
    class_marks: tuple[bytes, ...] = ()
    """Marks after a capitalized name that make it a type."""
    keeps_members = False
    """Whether a name after a receiver is not made a type."""
    keeps_capitals = False
    """Whether a name in capitals is a constant, and not made a type."""

    def repair(self, data: bytes) -> bytes:
        """Blank out constructs that the grammar is known to fail on; the length stays the same.

        Called only for a file with errors; the result is used if it has fewer.
        """
        return data

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Adjust a definition before its containers are known; return None to drop it."""
        return candidate

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Adjust a definition whose containers are known, outermost first; return None to drop it."""
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        return self.written_level(candidate, source) or "public"

    def written_level(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the visibility by a word before the name of a definition; empty if there is none."""
        words = source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split() if self.levels else ()
        found = (self.levels.get(re.split(r"[(\[]", word)[0], "") for word in words if "(set" not in word)
        return next(filter(None, found), "")

    def signature(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the head of a definition on one line."""
        start = self.head_start(candidate)
        if candidate.body is not None and candidate.body.start_byte > candidate.name_node.start_byte:
            return format_head(source.slice(start, min(candidate.body.start_byte, start + MAX_SIGNATURE * 8)))
        text = source.slice(start, min(candidate.node.end_byte, start + MAX_SIGNATURE * 8))
        if candidate.kind in VARIABLES:
            return format_head(text)
        name = candidate.name_node.end_byte - start
        end = _BODY_START.search(text, min(max(name, 0), len(text)))
        return format_head(text[: end.start()] if end else text)

    def head_start(self, candidate: SymbolCandidate) -> int:
        """Return the start byte of the head of a definition, after its annotations."""
        start, before = candidate.node.start_byte, candidate.name_node.start_byte
        nodes = [child for child in candidate.node.children[:8] if child.end_byte <= before]
        for node in nodes:
            if node.type not in self.annotation_nodes and node.type != "modifiers":
                break
            for mark in (node,) if node.type in self.annotation_nodes else node.children:
                if mark.type not in self.annotation_nodes:
                    return start
                start = mark.end_byte
        return start

    def docstring(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the documentation of a definition."""
        if candidate.doc is not None:
            return strip_comment_marks(source.text(candidate.doc))
        texts = [source.text(node) for node in candidate.above]
        if self.doc_marks:
            texts = [text for text in texts if text.lstrip().startswith(self.doc_marks)]
        return strip_comment_marks("\n".join(text.rstrip("\r\n") for text in texts))

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Adjust a use; return None to drop it."""
        name, kind, receiver = use
        if not receiver and name in self.words:
            return None
        is_kept = (receiver and self.keeps_members) or (self.keeps_capitals and name.isupper())
        is_class = kind == "read" and not is_kept and name[:1].isupper()
        is_class = is_class and source.data.startswith(self.class_marks, node.end_byte)
        return (name, "type", receiver) if is_class else use

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        modules = captures.get("import.module")
        if not modules:
            return
        names, aliases = captures.get("import.name"), captures.get("import.alias")
        name = source.text(names[0]) if names else ""
        alias = source.text(aliases[0]) if aliases else ""
        line, column = source.position(*(names or modules)[0].start_point)
        yield ImportStatement(
            source.text(modules[0]).strip(_QUOTES), name, "" if alias == name else alias, line, column
        )


def format_head(text: str) -> str:
    """Format the head of a definition on one line, without the start of its body."""
    line = " ".join(text.split()).rstrip("{;=,").rstrip()
    return line if len(line) <= MAX_SIGNATURE else f"{line[: MAX_SIGNATURE - 1]}…"


def strip_comment_marks(text: str) -> str:
    lines = [
        _COMMENT_END.sub("", _COMMENT_MARKS.sub("", line, count=1)).rstrip()
        for line in text[: MAX_DOCSTRING * 2].splitlines()
    ]
    stripped = "\n".join(lines).strip()
    return stripped if len(stripped) <= MAX_DOCSTRING else f"{stripped[: MAX_DOCSTRING - 1]}…"
