"""Rust: visibility is written, use trees are taken apart, and `impl Trait for Type` says what a type is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lorelog.code.hooks import CONTAINER, Found, Hooks
from lorelog.code.matching import without_arguments
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_IMPLS = re.compile(rb"^[ \t]*(?:unsafe[ \t]+)?impl\b([^{;]{1,600}?)(?:\bwhere\b|[{;])", re.MULTILINE)
_MOST_NAMES = 2_000
"""Names that one `use` may take. Real ones take a dozen."""


class RustHooks(Hooks):
    """What Rust's grammar does not say."""

    doc_marks = ("///", "/**", "//!", "/*!")
    between = frozenset({"attribute_item"})

    def defined(self, found: Found, source: Source) -> Found | None:
        """What a type is, `impl Trait for Type` says."""
        if found.kind in {"class", "enum"}:
            found.bases = tuple(_traits(source).get(found.name, ()))
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """`pub` is public, `pub(crate)` and its kin are internal; variants and a trait's items are as their owner."""
        written = next((child for child in found.node.children if child.type == "visibility_modifier"), None)
        if written is not None:
            return "internal" if written.child_count > 1 else "public"
        owner = around[-1] if around else None
        if owner is None:
            return "private"
        if owner.kind == "interface" or found.node.type == "enum_variant" or owner.node.type == "enum_variant":
            return owner.visibility or self.visibility(owner, around[:-1], source)
        if owner.kind == CONTAINER and "h.trait" in owner.captures:
            return "public"
        return "private"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`Self` is the type around it, not a name; what begins with a capital letter before `::` is a type."""
        if name in {"Self", "_"}:
            return None
        if kind == "read" and name[:1].isupper() and source.data[node.end_byte : node.end_byte + 2] == b"::":
            return name, "type", receiver
        return name, kind, receiver

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """Take a use tree apart: `use a::{b, c as d, e::*}` is three imports."""
        modules = captures.get("import.module", ())
        if captures["import"][0].type != "use_declaration":
            yield from super().imported(captures, source)
            return
        stack: list[tuple[str, Node]] = [("", module) for module in modules]
        taken = 0
        while stack and taken < _MOST_NAMES:
            path, node = stack.pop()
            if node.type == "use_list":
                stack += [(path, child) for child in reversed(node.named_children)]
            elif node.type == "scoped_use_list":
                below, names = node.child_by_field_name("path"), node.child_by_field_name("list")
                if names is not None:
                    stack.append((_joined(path, source.text(below) if below is not None else ""), names))
            elif node.type not in self.comments:
                taken += 1
                yield _import(path, node, source)


@lru_cache(maxsize=1)
def _traits(source: Source) -> dict[str, list[str]]:
    """Return the traits that a file implements, by the type that it implements them for."""
    traits: dict[str, list[str]] = {}
    for head in _IMPLS.finditer(source.data):
        words = without_arguments(head[1].decode("utf-8", "replace").replace("->", " ")).split()
        if "for" in words[1:-1]:
            at = words.index("for", 1)
            name = words[at + 1 if words[at + 1] not in {"&", "mut", "&mut"} else -1].lstrip("&").rpartition("::")[2]
            traits.setdefault(name, []).append(words[at - 1])
    return traits


def _joined(path: str, below: str) -> str:
    return f"{path}::{below}" if path and below else path or below


def _import(path: str, node: Node, source: Source) -> Import:
    """Return one name of a use tree."""
    alias, text = "", source.text(node)
    if node.type == "use_as_clause":
        named, called = node.child_by_field_name("path"), node.child_by_field_name("alias")
        text = source.text(named) if named is not None else ""
        alias = source.text(called) if called is not None else ""
    line, column = source.place(*node.start_point)
    module, _, name = _joined(path, "".join(text.split())).rpartition("::")
    if not module and node.type != "use_wildcard":
        return Import(name, "", alias, line, column)
    if name == "self":
        return Import(module, "", alias, line, column)
    return Import(module, name, "" if alias == name else alias, line, column)


HOOKS = RustHooks()
