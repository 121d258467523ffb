"""C#: who may use a member is written before it, or follows from where it stands; operators have names of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_TAGS = re.compile(r"</?[a-z]\w*[^>\n]*>")
_TYPES = frozenset({"class", "interface", "enum", "type"})


class CSharpHooks(Hooks):
    """What C#'s grammar does not say."""

    between = frozenset({"attribute_list"})
    heralds = frozenset({"attribute_list"})

    def defined(self, found: Found, source: Source) -> Found | None:
        """`const` and `static readonly` make a field a constant; a destructor is not its class."""
        words = _modifiers(found, source)
        if found.kind == "variable" and ("const" in words or {"static", "readonly"} <= words):
            found.kind = "constant"
        if found.node.type == "destructor_declaration":
            found.name = f"~{found.name}"
        elif found.node.type in {"operator_declaration", "conversion_operator_declaration"}:
            found.name = f"operator{found.name}" if found.name[:1] in "+-*/%&|^!~<>=" else f"operator {found.name}"
        return found

    def docstring(self, found: Found, source: Source) -> str:
        """What is said, without the tags."""
        return _TAGS.sub("", super().docstring(found, source)).strip()

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """An alias may stand for a type with arguments."""
        for taken in super().imported(captures, source):
            yield taken._replace(module=taken.module.partition("<")[0])

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; members of interfaces and enums are public, other members private, types internal."""
        words = _modifiers(found, source)
        for word in ("public", "protected", "private", "internal"):
            if word in words:
                return word
        owner = around[-1] if around else None
        if found.kind == "module" or (owner is not None and owner.kind in {"interface", "enum"}):
            return "public"
        if found.node.type == "parameter":
            return "public"
        return "private" if owner is not None and owner.kind in _TYPES else "internal"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`nameof` is a word of the language; what looks like a type before a dot is taken for one."""
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


def _modifiers(found: Found, source: Source) -> set[str]:
    return {source.text(child) for child in found.node.children[:8] if child.type == "modifier"}


HOOKS = CSharpHooks()
