"""Go: exported names are capitalized; a single spec has the range of its declaration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = (
    "any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8"
    " uint16 uint32 uint64 uintptr true false nil iota"
)
_PREDECLARED = frozenset(_WORDS.split())
"""Predeclared identifiers, which are not stored as uses."""


class GoHooks(LanguageHooks):
    """Hooks for Go."""

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop the blank name; extend a single spec to its `type …`, `const …` or `var …`."""
        if candidate.name == "_":
            return None
        for whole in candidate.captures.get("h.whole", ()):
            if whole.child_count > 1 and whole.child(1) == candidate.node:
                candidate.node = whole
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return public for a capitalized name."""
        return "public" if candidate.name[:1].isupper() else "package"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop predeclared identifiers."""
        if not receiver and (name == "_" or (kind != "call" and name in _PREDECLARED)):
            return None
        return name, kind, receiver

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `import . "x"` as an import of all names."""
        for statement in super().read_imports(captures, source):
            yield statement._replace(name="*", alias="") if statement.alias == "." else statement


HOOKS = GoHooks()
