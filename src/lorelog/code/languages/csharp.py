"""C#: modifiers, default visibility, operators, and tags in documentation comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

_TAGS = re.compile(r"</?[a-z]\w*[^>\n]*>")
_TYPES = frozenset({"class", "interface", "enum", "type"})


class CSharpHooks(LanguageHooks):
    """Hooks for C#."""

    skipped_before_head = frozenset({"attribute_list"})
    annotation_nodes = frozenset({"attribute_list"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Mark `const` and `static readonly` fields as constants, and name destructors and operators."""
        words = _modifiers(candidate, source)
        if candidate.kind == "variable" and ("const" in words or {"static", "readonly"} <= words):
            candidate.kind = "constant"
        if candidate.node.type == "destructor_declaration":
            candidate.name = f"~{candidate.name}"
        elif candidate.node.type in {"operator_declaration", "conversion_operator_declaration"}:
            candidate.name = (
                f"operator{candidate.name}" if candidate.name[:1] in "+-*/%&|^!~<>=" else f"operator {candidate.name}"
            )
        return candidate

    def docstring(self, candidate: SymbolCandidate, source: SourceText) -> str:
        """Return the documentation without XML tags."""
        return _TAGS.sub("", super().docstring(candidate, source)).strip()

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Remove type arguments from an alias."""
        for statement in super().read_imports(captures, source):
            yield statement._replace(module=statement.module.partition("<")[0])

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the modifier; by default types are internal, interface and enum members public, others private."""
        words = _modifiers(candidate, source)
        for word in ("public", "protected", "private", "internal"):
            if word in words:
                return word
        owner = around[-1] if around else None
        if candidate.kind == "module" or (owner is not None and owner.kind in {"interface", "enum"}):
            return "public"
        if candidate.node.type == "parameter":
            return "public"
        return "private" if owner is not None and owner.kind in _TYPES else "internal"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop keywords; a capitalized name before a dot is a type."""
        if name in {"nameof", "var", "_"}:
            return None
        if (
            kind == "read"
            and not receiver
            and name[:1].isupper()
            and source.data[node.end_byte : node.end_byte + 1] == b"."
        ):
            return name, "type", receiver
        return name, kind, receiver


def _modifiers(candidate: SymbolCandidate, source: SourceText) -> set[str]:
    return {source.text(child) for child in candidate.node.children[:8] if child.type == "modifier"}


HOOKS = CSharpHooks()
