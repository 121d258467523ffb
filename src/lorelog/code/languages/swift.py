"""Swift: access levels, constants, and imports of single declarations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

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


HOOKS = SwiftHooks()
