"""Hooks for Bash, Lua, PHP, Ruby and SQL.

- Shell: constants, and first assignments.
- Lua: local visibility, and variables that hold a module.
- PHP: properties with and without `$`, `define`, and promoted constructor parameters.
- Ruby: names defined by calls such as `attr_reader`, and the range of `private`.
- SQL: quoted names, and created objects that belong to the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from tree_sitter import Node

from lorelog.code.languages.hooks import Around, LanguageHooks, SymbolCandidate, UseParts, format_head
from lorelog.code.source import SourceText

# Shell


class BashHooks(LanguageHooks):
    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Keep the first assignment of a variable; `readonly` makes a constant."""
        if candidate.kind == "function":
            return candidate
        seen = _first_assignments(source)
        if seen.setdefault(candidate.name, candidate.name_node.start_byte) != candidate.name_node.start_byte:
            return None
        words = source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split()
        if words[:1] == ["readonly"] or (
            words and words[0] in {"declare", "typeset"} and any("r" in word for word in words[1:])
        ):
            candidate.kind = "constant"
        return candidate

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Drop `$1`, `$?`, `.`, `:` and `[`."""
        name = use[0]
        return use if name[:1].isalpha() or name[:1] == "_" or len(name) > 2 else None


@lru_cache(maxsize=1)
def _first_assignments(source: SourceText) -> dict[str, int]:
    """Return the start byte of each variable's first assignment; the caller fills it."""
    return {}


# Lua


class LuaHooks(LanguageHooks):
    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop variables that hold a required module."""
        called = candidate.captures.get("h.called")
        if called is not None and source.text(called[0]) == "require":
            return None
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return private after `local`."""
        before = source.data[max(0, candidate.node.start_byte - 8) : candidate.node.start_byte + 6]
        return "private" if b"local" in before.split(b"\n")[-1] and not candidate.of else "public"


# PHP

_WORDS = frozenset({"self", "static", "parent", "true", "false", "null", "mixed", "never", "void", "$this"})


_PHP_LEVELS = {word: word for word in ("public", "protected", "private")}


class PhpHooks(LanguageHooks):
    doc_marks = ("/**",)
    skipped_before_head = frozenset({"attribute_list"})
    annotation_nodes = frozenset({"attribute_list"})
    levels = _PHP_LEVELS

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Make `define("X", …)` global; promoted constructor parameters are members."""
        candidate.is_global = "h.define" in candidate.captures
        candidate.name = candidate.name.removeprefix("$")
        candidate.is_member = candidate.node.type == "property_promotion_parameter"
        return candidate

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Drop keywords, and the `$` of a property."""
        name, kind, receiver = use
        if name in _WORDS:
            return None
        return (name.removeprefix("$"), kind, receiver) if receiver else use


# Ruby

_LEVELS = frozenset({"public", "protected", "private"})
_WRITTEN = re.compile(rb"\s*(?:[-+*/|&]|\|\||&&|<<)?=(?![=~>])")
_MARKS, _LISTED = "h.levels", "h.listed"


class RubyHooks(LanguageHooks):
    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Remove the marks of a symbol in a call that defines a member."""
        if candidate.node.type == "call":
            candidate.name = candidate.name.removeprefix(":").rstrip("=")
        candidate.is_member = candidate.name_node.type in {"instance_variable", "class_variable"}
        return candidate

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Mark functions of a module or class as methods."""
        if candidate.kind == "function" and around and around[-1].kind in {"module", "class"}:
            candidate.kind = "method"
        return candidate

    def signature(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the head; for a class or a module its first line."""
        if candidate.kind in {"class", "module"}:
            return format_head(source.text(candidate.node).partition("\n")[0])
        return super().signature(candidate, source)

    def visibility(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> str:
        """Return the level before a method, on a line above it, or with its name."""
        if candidate.name_node.type in {"instance_variable", "class_variable"}:
            return "private"
        owner = around[-1] if around else None
        if owner is None or owner.body is None or candidate.kind not in {"method", "variable"}:
            return "public"
        if _MARKS not in owner.captures:
            _record_levels(owner, source)
        before = source.slice(max(0, candidate.node.start_byte - 12), candidate.node.start_byte).split()
        if before and before[-1] in _LEVELS and candidate.node.type == "method":
            return before[-1]
        for symbol in owner.captures[_LISTED]:
            if source.text(symbol).removeprefix(":") == candidate.name:
                return "private"
        if candidate.node.type == "singleton_method":
            return "public"
        marks = owner.captures[_MARKS]
        index = bisect_right(marks, candidate.node.start_byte, key=lambda mark: mark.start_byte)
        return source.text(marks[index - 1]) if index else "public"

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Read `self.name = x`, which calls `name=`, as a write."""
        name, kind, receiver = use
        is_write = kind == "call" and receiver and _WRITTEN.match(source.data, node.end_byte)
        return (name, "write", receiver) if is_write else use


def _record_levels(owner: SymbolCandidate, source: SourceText) -> None:
    """Record the bare levels (`private`) in a class, and the names that `private` is called with."""
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


# SQL

_QUOTES = '"`[]'


class SqlHooks(LanguageHooks):
    comments = frozenset({"comment", "marginalia"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Remove quotes; created objects belong to the file, not to the enclosing statement."""
        candidate.name = candidate.name.strip(_QUOTES)
        candidate.is_global = candidate.node.type != "column_definition" or bool(candidate.of)
        return candidate

    def adjust_nested(self, candidate: SymbolCandidate, around: Around, source: SourceText) -> SymbolCandidate | None:
        """Drop columns without a table, which are parameters."""
        return None if candidate.node.type == "column_definition" and not around and not candidate.of else candidate

    def adjust_use(self, use: UseParts, node: Node, source: SourceText) -> UseParts | None:
        """Remove quotes."""
        return use[0].strip(_QUOTES), *use[1:]
