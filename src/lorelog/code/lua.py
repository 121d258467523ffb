"""Lua: what is local stays in its file, and `require` is an import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node


class LuaHooks(Hooks):
    """What Lua's grammar does not say."""

    def defined(self, found: Found, source: Source) -> Found | None:
        """What `require` gives is imported, not defined."""
        called = found.captures.get("h.called")
        if called is not None and source.text(called[0]) == "require":
            return None
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """`local` is written before it."""
        before = source.data[max(0, found.node.start_byte - 8) : found.node.start_byte + 6]
        return "private" if b"local" in before.split(b"\n")[-1] and not found.of else "public"

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """Only `require` loads a module."""
        if source.text(captures["h.called"][0]) == "require":
            yield from super().imported(captures, source)


HOOKS = LuaHooks()
