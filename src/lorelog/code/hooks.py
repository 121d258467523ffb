"""What a language adds where a query cannot say it: visibility, doc comments, receivers, use trees.

A language without a module of its own has these defaults. No hook recurses, and none walks up by `Node.parent`: that
is a search from the root, and would make deep files quadratic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

CONTAINER = "container"
"""Kind of what is no symbol, but gives its name to what is inside: an `impl` block, an extension."""
MOST_SIGNATURE, MOST_DOCSTRING = 300, 2000
VARIABLES = frozenset({"variable", "constant"})
CALLABLES = frozenset({"function", "method"})
CLASSES = frozenset({"class", "interface", "enum", "type", CONTAINER})

_SPACE = re.compile(r"\s+")
_OPENING = re.compile(r"\{|;|=>|\n")
_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|//[/!]*|\*+/|\*(?!/)|#+!?|--\[=*\[|--+)?[ \t]?")
_CLOSING = re.compile(r"[ \t]*(?:\*+/|\]=*\])[ \t]*$")
_QUOTES = "\"'`<>"


@dataclass(slots=True)
class Found:
    """A definition on its way to be a symbol. Hooks change it in place."""

    kind: str
    name: str
    node: Node
    name_node: Node
    body: Node | None = None
    doc: Node | None = None
    bases: tuple[str, ...] = ()
    of: str = ""
    """A container that is written and not around it: a receiver's type, the class of `A::b`."""
    visibility: str = ""
    signature: str | None = None
    docstring: str | None = None
    pattern: int = 0
    """Which pattern of the query found it: where several do, the first in the file says what it is."""
    is_member: bool = False
    """Whether it belongs to the class around, though a method is between: `this.x = …` in a constructor."""
    is_global: bool = False
    """Whether it belongs to the file, wherever it stands: a macro."""
    above: tuple[Node, ...] = ()
    """Comments directly above it, topmost first."""
    captures: dict[str, list[Node]] = field(default_factory=dict)


class Hooks:
    """What the engine asks of a language."""

    comments: frozenset[str] = frozenset({"comment", "line_comment", "block_comment", "doc_comment"})
    """Kinds of nodes that are comments."""
    between: frozenset[str] = frozenset({"attribute_item", "decorator"})
    """Kinds of nodes that may stand between a comment and what it is about."""
    heralds: frozenset[str] = frozenset({"decorator"})
    """Kinds of nodes inside a definition, or inside its modifiers, that stand before its head: annotations."""
    doc_marks: tuple[str, ...] = ()
    """How a comment begins that documents what is below it; none: every comment does."""
    tops: re.Pattern[bytes] | None = None
    """What a line begins with that begins a part of a file; none: files are never taken apart."""
    has_tags: bool = False
    """Whether types have names of their own, so that a parameter may be called as its type: `struct queue *queue`."""
    visible: str = "public"

    def mended(self, data: bytes) -> bytes:
        """Return a file without what its grammar is known to stumble over, byte for byte of the same length.

        Asked only for a file with errors; what it gives is parsed in its stead where it has fewer.
        """
        return data

    def stub(self, part: bytes) -> bytes:
        """Return a part of a file that cannot be parsed as no more than its name, of the same length."""
        return part

    def defined(self, found: Found, source: Source) -> Found | None:
        """Adjust a definition, before it is known what is around it; None drops it."""
        return found

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """Adjust a definition that knows what is around it, outermost first; None drops it."""
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """Return who may use it."""
        return self.visible

    def signature(self, found: Found, source: Source) -> str:
        """Return the head of a definition on one line."""
        start = self.head(found)
        if found.body is not None and found.body.start_byte > found.name_node.start_byte:
            return one_line(source.slice(start, min(found.body.start_byte, start + MOST_SIGNATURE * 8)))
        text = source.slice(start, min(found.node.end_byte, start + MOST_SIGNATURE * 8))
        if found.kind in VARIABLES:
            return one_line(text)
        name = found.name_node.end_byte - start
        end = _OPENING.search(text, min(max(name, 0), len(text)))
        return one_line(text[: end.start()] if end else text)

    def head(self, found: Found) -> int:
        """Return where the head of a definition begins: after what only decorates it."""
        start, before = found.node.start_byte, found.name_node.start_byte
        nodes = [child for child in found.node.children[:8] if child.end_byte <= before]
        for node in nodes:
            if node.type not in self.heralds and node.type != "modifiers":
                break
            for mark in (node,) if node.type in self.heralds else node.children:
                if mark.type not in self.heralds:
                    return start
                start = mark.end_byte
        return start

    def docstring(self, found: Found, source: Source) -> str:
        """Return what is said about it."""
        if found.doc is not None:
            return comment_text(source.text(found.doc))
        texts = [source.text(node) for node in found.above]
        if self.doc_marks:
            texts = [text for text in texts if text.lstrip().startswith(self.doc_marks)]
        return comment_text("\n".join(text.rstrip("\r\n") for text in texts))

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Return name, kind and receiver of a use as they shall be; None drops it. Asked only where it is overridden."""
        return name, kind, receiver

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """Return what an import takes. Without a module it takes nothing."""
        modules = captures.get("import.module")
        if not modules:
            return
        names, aliases = captures.get("import.name"), captures.get("import.alias")
        name = source.text(names[0]) if names else ""
        alias = source.text(aliases[0]) if aliases else ""
        line, column = source.place(*(names or modules)[0].start_point)
        yield Import(source.text(modules[0]).strip(_QUOTES), name, "" if alias == name else alias, line, column)


def one_line(text: str) -> str:
    """Return the head of a definition on one line, without what opens its body."""
    line = _SPACE.sub(" ", text).strip().rstrip("{;=,").rstrip()
    return line if len(line) <= MOST_SIGNATURE else f"{line[: MOST_SIGNATURE - 1]}…"


def comment_text(text: str) -> str:
    """Return what a comment says, without the marks that make it one."""
    lines = [
        _CLOSING.sub("", _MARKS.sub("", line, count=1)).rstrip() for line in text[: MOST_DOCSTRING * 2].splitlines()
    ]
    said = "\n".join(lines).strip()
    return said if len(said) <= MOST_DOCSTRING else f"{said[: MOST_DOCSTRING - 1]}…"
