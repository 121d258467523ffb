"""Shell: constants, first assignments, and commands that read another script."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node


class BashHooks(LanguageHooks):
    """Hooks for the shell."""

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Keep the first assignment of a variable; `readonly` makes a constant."""
        if candidate.kind == "function":
            return candidate
        seen = _first_assignments(source)
        if seen.setdefault(candidate.name, candidate.name_node.start_byte) != candidate.name_node.start_byte:
            return None
        words = source.slice(candidate.node.start_byte, candidate.name_node.start_byte).split()
        if words[:1] == ["readonly"] or (
            words and words[0] in {"declare", "typeset"} and any("r" in word for word in words[1:])
        ):
            candidate.kind = "constant"
        return candidate

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop `$1`, `$?`, `.`, `:` and `[`."""
        return (name, kind, receiver) if name[:1].isalpha() or name[:1] == "_" or len(name) > 2 else None

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `source` and `.` as imports."""
        if source.text(captures["h.command"][0]) in {"source", "."}:
            yield from super().read_imports(captures, source)


@lru_cache(maxsize=1)
def _first_assignments(source: SourceText) -> dict[str, int]:
    """Return the start byte of each variable's first assignment; the caller fills it."""
    return {}


HOOKS = BashHooks()
