"""Java: who may use a member is written before it, or follows from where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_WRITTEN = frozenset({"public", "protected", "private"})


class JavaHooks(Hooks):
    """What Java's grammar does not say."""

    doc_marks = ("/**", "///")
    heralds = frozenset({"annotation", "marker_annotation"})

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; members of interfaces, constants of enums and components of records are public."""
        modifiers = next((child for child in found.node.children[:1] if child.type == "modifiers"), None)
        for word in modifiers.children if modifiers is not None else ():
            if word.type in _WRITTEN:
                return word.type
        if around and (around[-1].kind == "interface" or found.node.type in {"enum_constant", "formal_parameter"}):
            return "public"
        return "package"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`var` is no type; what looks like a class's name before a dot is one (LOG and MAX are constants)."""
        if kind == "type" and name == "var":
            return None
        if (
            kind == "read"
            and name[:1].isupper()
            and not name.isupper()
            and source.data[node.end_byte : node.end_byte + 1] in b".:"
        ):
            return name, "type", receiver
        return name, kind, receiver


HOOKS = JavaHooks()
