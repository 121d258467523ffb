"""Hooks for Go, Rust and Swift.

- Go: exported names are capitalized; a single spec has the range of its declaration.
- Rust: visibility, use trees, and bases from `impl Trait for Type`.
- Swift: access levels, constants, and imports of single declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import CONTAINER, LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.code.symbols import strip_type_arguments
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

# Go

_WORDS = (
    "any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8"
    " uint16 uint32 uint64 uintptr true false nil iota"
)
_PREDECLARED = frozenset(_WORDS.split())
"""Predeclared identifiers, which are not stored as uses."""


class GoHooks(LanguageHooks):
    """Hooks for Go."""

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop the blank name; extend a single spec to its `type …`, `const …` or `var …`."""
        if candidate.name == "_":
            return None
        for whole in candidate.captures.get("h.whole", ()):
            if whole.child_count > 1 and whole.child(1) == candidate.node:
                candidate.node = whole
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return public for a capitalized name."""
        return "public" if candidate.name[:1].isupper() else "package"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop predeclared identifiers."""
        if not receiver and (name == "_" or (kind != "call" and name in _PREDECLARED)):
            return None
        return name, kind, receiver

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import . "x"` as an import of all names."""
        for statement in super().read_imports(captures, source):
            yield statement._replace(name="*", alias="") if statement.alias == "." else statement


# Rust

_IMPLS = re.compile(rb"^[ \t]*(?:unsafe[ \t]+)?impl\b([^{;]{1,600}?)(?:\bwhere\b|[{;])", re.MULTILINE)
_MAX_NAMES = 2_000
"""Limit of names in one `use`. Real code has a dozen."""


class RustHooks(LanguageHooks):
    """Hooks for Rust."""

    doc_marks = ("///", "/**", "//!", "/*!")
    skipped_before_head = frozenset({"attribute_item"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Set the bases of a type from `impl Trait for Type`."""
        if candidate.kind in {"class", "enum"}:
            candidate.bases = tuple(_traits(source).get(candidate.name, ()))
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return public for `pub`, internal for `pub(crate)`; variants and trait items are as their owner."""
        written = next((child for child in candidate.node.children if child.type == "visibility_modifier"), None)
        if written is not None:
            return "internal" if written.child_count > 1 else "public"
        owner = around[-1] if around else None
        if owner is None:
            return "private"
        if owner.kind == "interface" or candidate.node.type == "enum_variant" or owner.node.type == "enum_variant":
            return owner.visibility or self.visibility(owner, around[:-1], source)
        if owner.kind == CONTAINER and "h.trait" in owner.captures:
            return "public"
        return "private"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop `Self`; a capitalized name before `::` is a type."""
        if name in {"Self", "_"}:
            return None
        if kind == "read" and name[:1].isupper() and source.data[node.end_byte : node.end_byte + 2] == b"::":
            return name, "type", receiver
        return name, kind, receiver

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Split a use tree: `use a::{b, c as d, e::*}` is three imports."""
        modules = captures.get("import.module", ())
        if captures["import"][0].type != "use_declaration":
            yield from super().read_imports(captures, source)
            return
        stack: list[tuple[str, Node]] = [("", module) for module in modules]
        count = 0
        while stack and count < _MAX_NAMES:
            path, node = stack.pop()
            if node.type == "use_list":
                stack += [(path, child) for child in reversed(node.named_children)]
            elif node.type == "scoped_use_list":
                below, names = node.child_by_field_name("path"), node.child_by_field_name("list")
                if names is not None:
                    stack.append((_join_path(path, source.text(below) if below is not None else ""), names))
            elif node.type not in self.comments:
                count += 1
                yield _build_import(path, node, source)


@lru_cache(maxsize=1)
def _traits(source: SourceText) -> dict[str, list[str]]:
    """Return the traits that a file implements, by type."""
    traits: dict[str, list[str]] = {}
    for head in _IMPLS.finditer(source.data):
        words = strip_type_arguments(head[1].decode("utf-8", "replace").replace("->", " ")).split()
        if "for" in words[1:-1]:
            at = words.index("for", 1)
            name = words[at + 1 if words[at + 1] not in {"&", "mut", "&mut"} else -1].lstrip("&").rpartition("::")[2]
            traits.setdefault(name, []).append(words[at - 1])
    return traits


def _join_path(path: str, below: str) -> str:
    return f"{path}::{below}" if path and below else path or below


def _build_import(path: str, node: Node, source: SourceText) -> ImportStatement:
    """Convert one name of a use tree."""
    alias, text = "", source.text(node)
    if node.type == "use_as_clause":
        named, called = node.child_by_field_name("path"), node.child_by_field_name("alias")
        text = source.text(named) if named is not None else ""
        alias = source.text(called) if called is not None else ""
    line, column = source.position(*node.start_point)
    module, _, name = _join_path(path, "".join(text.split())).rpartition("::")
    if not module and node.type != "use_wildcard":
        return ImportStatement(name, "", alias, line, column)
    if name == "self":
        return ImportStatement(module, "", alias, line, column)
    return ImportStatement(module, name, "" if alias == name else alias, line, column)


# Swift

_LEVELS = {"open": "public", "fileprivate": "private", "public": "public", "private": "private", "internal": "internal"}


class SwiftHooks(LanguageHooks):
    """Hooks for Swift."""

    comments = frozenset({"comment", "multiline_comment"})
    annotation_nodes = frozenset({"attribute"})

    def adjust_nested(
        self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText
    ) -> SymbolCandidate | None:
        """Mark a top-level `let` and `static let` as constants."""
        if candidate.kind == "variable":
            words = source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split()
            if "let" in words and (not around or "static" in words):
                candidate.kind = "constant"
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the access level; by default that of the owner for requirements and enum cases, else internal."""
        for word in source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split():
            level = _LEVELS.get(word.partition("(")[0])
            if level is not None and "(set" not in word:
                return level
        if around and (around[-1].kind == "interface" or candidate.node.type == "enum_entry"):
            return around[-1].visibility or self.visibility(around[-1], (), source)
        return "internal"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop `$0`; a capitalized name before a dot is a type."""
        if name.startswith("$") or name == "_":
            return None
        if (
            kind == "read"
            and not receiver
            and name[:1].isupper()
            and source.data[node.end_byte : node.end_byte + 1] == b"."
        ):
            return name, "type", receiver
        return name, kind, receiver

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import struct A.B` as name B from module A."""
        words = source.text(captures["import"][0]).split()
        for statement in super().read_imports(captures, source):
            module, _, name = statement.module.rpartition(".")
            is_declaration = len(words) > 2 and words[-3:-1][-1] not in {"import", "@testable"}
            yield (
                ImportStatement(module, name, "", statement.line, statement.column)
                if is_declaration and module
                else statement
            )


HOOKS: dict[str, LanguageHooks] = {"go": GoHooks(), "rust": RustHooks(), "swift": SwiftHooks()}
