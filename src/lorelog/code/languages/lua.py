"""Lua: local visibility, and `require` as an import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.languages.hooks import LanguageHooks, SymbolCandidate
from lorelog.code.source import SourceText
from lorelog.core.code import ImportStatement

if TYPE_CHECKING:
    from tree_sitter import Node


class LuaHooks(LanguageHooks):
    """Hooks for Lua."""

    def adjust_definition(self, candidate: SymbolCandidate, source: SourceText) -> SymbolCandidate | None:
        """Drop variables that hold a required module."""
        called = candidate.captures.get("h.called")
        if called is not None and source.text(called[0]) == "require":
            return None
        return candidate

    def visibility(self, candidate: SymbolCandidate, around: Sequence[SymbolCandidate], source: SourceText) -> str:
        """Return private after `local`."""
        before = source.data[max(0, candidate.node.start_byte - 8) : candidate.node.start_byte + 6]
        return "private" if b"local" in before.split(b"\n")[-1] and not candidate.of else "public"

    def read_imports(self, captures: dict[str, list[Node]], source: SourceText) -> Iterable[ImportStatement]:
        """Read `require` as an import."""
        if source.text(captures["h.called"][0]) == "require":
            yield from super().read_imports(captures, source)


HOOKS = LuaHooks()
