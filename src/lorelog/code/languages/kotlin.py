"""Kotlin: modifiers, constants, and imports as one path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

_LEVELS = ("public", "protected", "private", "internal")
_WORDS = frozenset({"null", "true", "false", "this", "super", "it", "field", "_"})


class KotlinHooks(LanguageHooks):
    """Hooks for Kotlin."""

    doc_marks = ("/**",)
    annotation_nodes = frozenset({"annotation"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Mark `const val` as a constant."""
        if candidate.kind == "variable" and "const" in _modifiers(candidate, source):
            candidate.kind = "constant"
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the modifier; public by default."""
        words = _modifiers(candidate, source)
        return next((level for level in _LEVELS if level in words), "public")

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop keywords that the grammar reads as identifiers; a capitalized name before a dot is a type."""
        if name in _WORDS and not receiver:
            return None
        if (
            kind == "read"
            and not receiver
            and _is_type(name)
            and source.data[node.end_byte : node.end_byte + 1] == b"."
        ):
            return name, "type", receiver
        return name, kind, receiver

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import a.b.C as D` as module a.b, name C, alias D."""
        path, _, alias = source.text(captures["import"][0]).partition("import")[2].partition(" as ")
        module, _, name = "".join(path.split()).rstrip(";").rpartition(".")
        line, column = source.position(*captures["import.module"][0].start_point)
        alias = alias.split()[0].rstrip(";") if alias.split() else ""
        if name:
            yield ImportStatement(module or name, name if module else "", alias, line, column)


def _modifiers(candidate: SymbolCandidate, source: SourceText) -> list[str]:
    first = next((child for child in candidate.node.children[:1] if child.type == "modifiers"), None)
    return [source.text(child) for child in first.children] if first is not None else []


def _is_type(name: str) -> bool:
    return name[:1].isupper() and not name.isupper()


HOOKS = KotlinHooks()
