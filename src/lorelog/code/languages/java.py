"""Java: modifiers and default visibility, and class names before a dot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_WRITTEN = frozenset({"public", "protected", "private"})


class JavaHooks(LanguageHooks):
    """Hooks for Java."""

    doc_marks = ("/**", "///")
    annotation_nodes = frozenset({"annotation", "marker_annotation"})

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the modifier; by default members of interfaces, enum constants and record components are public."""
        modifiers = next((child for child in candidate.node.children[:1] if child.type == "modifiers"), None)
        for word in modifiers.children if modifiers is not None else ():
            if word.type in _WRITTEN:
                return word.type
        if around and (around[-1].kind == "interface" or candidate.node.type in {"enum_constant", "formal_parameter"}):
            return "public"
        return "package"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop the type `var`; a capitalized name before a dot is a type (LOG and MAX are constants)."""
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
