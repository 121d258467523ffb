"""Scala: modifiers, and import clauses that take several names, rename or hide them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_CLAUSE = re.compile(r"([\w$.`\s]+?)\s*(?:\.\s*(?:\{([^}]*)\}|([_*])))?\s*(?:\bas\s+([\w$]+))?\s*(?:,|$)")
_MOST_NAMES = 500


class ScalaHooks(Hooks):
    """What Scala's grammar does not say."""

    doc_marks = ("/**",)
    heralds = frozenset({"annotation"})

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """What begins with a capital letter and cannot be set is a constant."""
        is_value = found.node.type in {"val_definition", "val_declaration"}
        if found.kind == "variable" and is_value and found.name[:1].isupper():
            found.kind = "constant"
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; else everybody may."""
        head = source.slice(found.node.start_byte, found.name_node.start_byte)
        if "private" in head:
            return "private"
        return "protected" if "protected" in head else "public"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Some words of the language are identifiers in its grammar."""
        return None if name in {"this", "_"} else (name, kind, receiver)

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """`import a.{B, C => D, _}` is three imports."""
        node = captures["import"][0]
        line, column = source.place(*node.start_point)
        text = " ".join(
            source.slice(node.start_byte, min(node.end_byte, node.start_byte + 1_000)).partition("import")[2].split()
        )
        for found in list(_CLAUSE.finditer(text))[:_MOST_NAMES]:
            path = found[1].replace(" ", "")
            if not path:
                continue
            if found[2] is None and found[3] is None:
                module, _, name = path.rpartition(".")
                yield Import(module or name, name if module else "", found[4] or "", line, column)
            elif found[3] is not None:
                yield Import(path, "*", "", line, column)
            else:
                yield from _selected(path, found[2], line, column)


def _selected(path: str, names: str, line: int, column: int) -> Iterable[Import]:
    for part in names.split(",")[:_MOST_NAMES]:
        name, _, alias = (word.strip() for word in part.replace("=>", " as ").partition(" as "))
        if name and alias != "_":
            yield Import(path, "*" if name in {"_", "*"} else name, alias, line, column)


HOOKS = ScalaHooks()
