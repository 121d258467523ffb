"""SQL: quoted names, and created objects that belong to the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTES = '"`[]'


class SqlHooks(LanguageHooks):
    """Hooks for SQL."""

    comments = frozenset({"comment", "marginalia"})

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Remove quotes; created objects belong to the file, not to the enclosing statement."""
        candidate.name = candidate.name.strip(_QUOTES)
        candidate.is_global = candidate.node.type != "column_definition" or bool(candidate.of)
        return candidate

    def adjust_nested(
        self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText
    ) -> SymbolCandidate | None:
        """Drop columns without a table, which are parameters."""
        return None if candidate.node.type == "column_definition" and not around and not candidate.of else candidate

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Remove quotes."""
        return name.strip(_QUOTES), kind, receiver


HOOKS: dict[str, LanguageHooks] = dict.fromkeys(("sql",), SqlHooks())
