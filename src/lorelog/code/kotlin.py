"""Kotlin: modifiers say who may use a thing and what is constant; an import is one path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_LEVELS = ("public", "protected", "private", "internal")
_WORDS = frozenset({"null", "true", "false", "this", "super", "it", "field", "_"})


class KotlinHooks(Hooks):
    """What Kotlin's grammar does not say."""

    doc_marks = ("/**",)
    heralds = frozenset({"annotation"})

    def defined(self, found: Found, source: Source) -> Found | None:
        """`const val` is a constant."""
        if found.kind == "variable" and "const" in _modifiers(found, source):
            found.kind = "constant"
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; else everybody may."""
        words = _modifiers(found, source)
        return next((level for level in _LEVELS if level in words), "public")

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Words of the language are identifiers in its grammar; what looks like a type before a dot is one."""
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

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """`import a.b.C as D`: module a.b, name C, alias D."""
        path, _, alias = source.text(captures["import"][0]).partition("import")[2].partition(" as ")
        module, _, name = "".join(path.split()).rstrip(";").rpartition(".")
        line, column = source.place(*captures["import.module"][0].start_point)
        alias = alias.split()[0].rstrip(";") if alias.split() else ""
        if name:
            yield Import(module or name, name if module else "", alias, line, column)


def _modifiers(found: Found, source: Source) -> list[str]:
    first = next((child for child in found.node.children[:1] if child.type == "modifiers"), None)
    return [source.text(child) for child in first.children] if first is not None else []


def _is_type(name: str) -> bool:
    return name[:1].isupper() and not name.isupper()


HOOKS = KotlinHooks()
