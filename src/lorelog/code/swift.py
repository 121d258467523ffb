"""Swift: what is not said to be public or private belongs to its module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_LEVELS = {"open": "public", "fileprivate": "private", "public": "public", "private": "private", "internal": "internal"}


class SwiftHooks(Hooks):
    """What Swift's grammar does not say."""

    comments = frozenset({"comment", "multiline_comment"})
    heralds = frozenset({"attribute"})

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """`let` at the top of a file and `static let` are constants."""
        if found.kind == "variable":
            words = source.slice(found.node.start_byte, found.name_node.start_byte).split()
            if "let" in words and (not around or "static" in words):
                found.kind = "constant"
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What is written; a protocol's requirements and an enum's cases are as visible as it is."""
        for word in source.slice(found.node.start_byte, found.name_node.start_byte).split():
            level = _LEVELS.get(word.partition("(")[0])
            if level is not None and "(set" not in word:
                return level
        if around and (around[-1].kind == "interface" or found.node.type == "enum_entry"):
            return around[-1].visibility or self.visibility(around[-1], (), source)
        return "internal"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`$0` is no name; what looks like a type before a dot is one."""
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

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """`import struct A.B` takes B from A."""
        words = source.text(captures["import"][0]).split()
        for taken in super().imported(captures, source):
            module, _, name = taken.module.rpartition(".")
            is_one = len(words) > 2 and words[-3:-1][-1] not in {"import", "@testable"}
            yield Import(module, name, "", taken.line, taken.column) if is_one and module else taken


HOOKS = SwiftHooks()
