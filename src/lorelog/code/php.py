"""PHP: a property's name is written with a `$` here and without one there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = frozenset({"self", "static", "parent", "true", "false", "null", "mixed", "never", "void", "$this"})


class PhpHooks(Hooks):
    """What PHP's grammar does not say."""

    doc_marks = ("/**",)
    between = frozenset({"attribute_list"})
    heralds = frozenset({"attribute_list"})

    def defined(self, found: Found, source: Source) -> Found | None:
        """`define("X", …)` defines; other calls with a string do not. Constructor parameters may be properties."""
        called = found.captures.get("h.define")
        if called is not None and source.text(called[0]) != "define":
            return None
        found.is_global = called is not None
        found.name = found.name.removeprefix("$")
        found.is_member = found.node.type == "property_promotion_parameter"
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; else everybody may."""
        written = next((child for child in found.node.children[:6] if child.type == "visibility_modifier"), None)
        return source.text(written).split("(")[0] if written is not None else "public"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """A property's use is called as the property is."""
        if name in _WORDS:
            return None
        return (name.removeprefix("$") if receiver else name), kind, receiver


HOOKS = PhpHooks()
