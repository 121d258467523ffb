"""PHP: properties with and without `$`, `define`, and promoted constructor parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = frozenset({"self", "static", "parent", "true", "false", "null", "mixed", "never", "void", "$this"})


class PhpHooks(LanguageHooks):
    """Hooks for PHP."""

    doc_marks = ("/**",)
    skipped_before_head = frozenset({"attribute_list"})
    annotation_nodes = frozenset({"attribute_list"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Keep `define("X", …)` and drop other calls; promoted constructor parameters are members."""
        called = candidate.captures.get("h.define")
        if called is not None and source.text(called[0]) != "define":
            return None
        candidate.is_global = called is not None
        candidate.name = candidate.name.removeprefix("$")
        candidate.is_member = candidate.node.type == "property_promotion_parameter"
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the modifier; public by default."""
        written = next((child for child in candidate.node.children[:6] if child.type == "visibility_modifier"), None)
        return source.text(written).split("(")[0] if written is not None else "public"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop keywords, and the `$` of a property."""
        if name in _WORDS:
            return None
        return (name.removeprefix("$") if receiver else name), kind, receiver


HOOKS = PhpHooks()
