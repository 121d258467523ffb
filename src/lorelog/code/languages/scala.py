"""Scala: modifiers, constants, and import clauses with several, renamed or hidden names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node

_CLAUSE = re.compile(r"([\w$.`\s]+?)\s*(?:\.\s*(?:\{([^}]*)\}|([_*])))?\s*(?:\bas\s+([\w$]+))?\s*(?:,|$)")
_MAX_NAMES = 500


class ScalaHooks(LanguageHooks):
    """Hooks for Scala."""

    doc_marks = ("/**",)
    annotation_nodes = frozenset({"annotation"})

    def adjust_nested(
        self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText
    ) -> SymbolCandidate | None:
        """Mark a capitalized `val` as a constant."""
        is_value = candidate.node.type in {"val_definition", "val_declaration"}
        if candidate.kind == "variable" and is_value and candidate.name[:1].isupper():
            candidate.kind = "constant"
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return the modifier; public by default."""
        head = source.slice(candidate.node.start_byte, candidate.name_node.start_byte)
        if "private" in head:
            return "private"
        return "protected" if "protected" in head else "public"

    def adjust_use(
        self, name: str, kind: str, receiver: str, node: Node, source: SourceText
    ) -> tuple[str, str, str] | None:
        """Drop keywords that the grammar reads as identifiers."""
        return None if name in {"this", "_"} else (name, kind, receiver)

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Split a clause: `import a.{B, C => D, _}` is three imports."""
        node = captures["import"][0]
        line, column = source.position(*node.start_point)
        text = " ".join(
            source.slice(node.start_byte, min(node.end_byte, node.start_byte + 1_000)).partition("import")[2].split()
        )
        for match in list(_CLAUSE.finditer(text))[:_MAX_NAMES]:
            path = match[1].replace(" ", "")
            if not path:
                continue
            if match[2] is None and match[3] is None:
                module, _, name = path.rpartition(".")
                yield ImportStatement(module or name, name if module else "", match[4] or "", line, column)
            elif match[3] is not None:
                yield ImportStatement(path, "*", "", line, column)
            else:
                yield from _selected_imports(path, match[2], line, column)


def _selected_imports(path: str, names: str, line: int, column: int) -> Iterable[ImportStatement]:
    for part in names.split(",")[:_MAX_NAMES]:
        name, _, alias = (word.strip() for word in part.replace("=>", " as ").partition(" as "))
        if name and alias != "_":
            yield ImportStatement(path, "*" if name in {"_", "*"} else name, alias, line, column)


HOOKS = ScalaHooks()
