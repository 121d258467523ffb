"""Ruby: what a class's calls define, what `private` covers, and files that `require` names."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks, one_line
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_FIELDS = frozenset({"attr_accessor", "attr_reader", "attr_writer", "cattr_accessor", "mattr_accessor"})
_METHODS = frozenset({"define_method", "alias_method", "delegate", "scope"})
_REQUIRES = frozenset({"require", "require_relative", "load", "autoload"})
_LEVELS = frozenset({"public", "protected", "private"})
_WRITTEN = re.compile(rb"\s*(?:[-+*/|&]|\|\||&&|<<)?=(?![=~>])")
_MARKS, _LISTED = "h.levels", "h.listed"


class RubyHooks(Hooks):
    """What Ruby's grammar does not say."""

    def defined(self, found: Found, source: Source) -> Found | None:
        """Tell the calls that define something from those that only take a symbol."""
        maker = found.captures.get("h.maker")
        if maker is not None:
            by = source.text(maker[0])
            found.name = found.name.removeprefix(":").rstrip("=")
            if by not in _FIELDS and not (by in _METHODS and _is_first(found)):
                return None
            found.kind = "variable" if by in _FIELDS else "method"
            return found
        if found.name_node.type in {"instance_variable", "class_variable"}:
            found.is_member = True
        struct = found.captures.get("h.struct")
        if struct is not None and source.text(struct[0]) in {"Struct", "Class", "Data", "Module"}:
            found.kind = "class"
        return found

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """What a module or a class defines is a method."""
        if found.kind == "function" and around and around[-1].kind in {"module", "class"}:
            found.kind = "method"
        return found

    def signature(self, found: Found, source: Source) -> str:
        """The head; a class's and a module's is its first line."""
        if found.kind in {"class", "module"}:
            return one_line(source.text(found.node).partition("\n")[0])
        return super().signature(found, source)

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """`private` before a method, on a line above it, or with its name."""
        if found.name_node.type in {"instance_variable", "class_variable"}:
            return "private"
        owner = around[-1] if around else None
        if owner is None or owner.body is None or found.kind not in {"method", "variable"}:
            return "public"
        if _MARKS not in owner.captures:
            _note_levels(owner, source)
        before = source.slice(max(0, found.node.start_byte - 12), found.node.start_byte).split()
        if before and before[-1] in _LEVELS and found.node.type == "method":
            return before[-1]
        for symbol in owner.captures[_LISTED]:
            if source.text(symbol).removeprefix(":") == found.name:
                return "private"
        if found.node.type == "singleton_method":
            return "public"
        marks = owner.captures[_MARKS]
        at = bisect_right(marks, found.node.start_byte, key=lambda mark: mark.start_byte)
        return source.text(marks[at - 1]) if at else "public"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`self.name = x` calls `name=`, and is meant as a write."""
        if kind == "call" and receiver and _WRITTEN.match(source.data, node.end_byte):
            return name, "write", receiver
        return name, kind, receiver

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """Only some of the calls that take a string load a file."""
        if source.text(captures["h.method"][0]) in _REQUIRES:
            yield from super().imported(captures, source)


def _is_first(found: Found) -> bool:
    """Tell whether a symbol is the first that its call takes: `alias_method :new, :old` defines one."""
    arguments = found.node.child_by_field_name("arguments")
    first = next(iter(arguments.named_children), None) if arguments is not None else None
    return first is not None and first.start_byte == found.name_node.start_byte


def _note_levels(owner: Found, source: Source) -> None:
    """Keep where `private` stands alone in a class, and the names that it is called with."""
    marks: list[Node] = []
    listed: list[Node] = []
    for child in owner.body.named_children if owner.body is not None else ():
        if child.type == "identifier" and source.text(child) in _LEVELS:
            marks.append(child)
        elif child.type == "call":
            method, arguments = child.child_by_field_name("method"), child.child_by_field_name("arguments")
            if (
                method is not None
                and arguments is not None
                and source.text(method) in {"private", "private_class_method"}
            ):
                listed += [node for node in arguments.named_children if node.type == "simple_symbol"]
    owner.captures[_MARKS], owner.captures[_LISTED] = marks, listed


HOOKS = RubyHooks()
