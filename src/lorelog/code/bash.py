"""Shell: what is a constant, which assignment is the first, and which commands read another script."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node


class BashHooks(Hooks):
    """What the shell's grammar does not say."""

    def defined(self, found: Found, source: Source) -> Found | None:
        """The first assignment defines; `readonly` makes a constant."""
        if found.kind == "function":
            return found
        seen = _seen(source)
        if seen.setdefault(found.name, found.name_node.start_byte) != found.name_node.start_byte:
            return None
        words = source.slice(found.node.start_byte, found.name_node.start_byte).split()
        if words[:1] == ["readonly"] or (
            words and words[0] in {"declare", "typeset"} and any("r" in word for word in words[1:])
        ):
            found.kind = "constant"
        return found

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """`$1` and `$?` are no names, and neither are `.`, `:` and `[`."""
        return (name, kind, receiver) if name[:1].isalpha() or name[:1] == "_" or len(name) > 2 else None

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """Only `source` and `.` read another script."""
        if source.text(captures["h.command"][0]) in {"source", "."}:
            yield from super().imported(captures, source)


@lru_cache(maxsize=1)
def _seen(source: Source) -> dict[str, int]:
    """Return where each variable of a file was first assigned; filled as definitions come."""
    return {}


HOOKS = BashHooks()
