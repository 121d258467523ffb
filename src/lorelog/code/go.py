"""Go: what is exported begins with a capital letter; a lone spec is as long as its declaration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source
from lorelog.core.code import Import

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = (
    "any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8"
    " uint16 uint32 uint64 uintptr true false nil iota"
)
_PREDECLARED = frozenset(_WORDS.split())
"""What every program has without asking, and nobody looks for."""


class GoHooks(Hooks):
    """What Go's grammar does not say."""

    def defined(self, found: Found, source: Source) -> Found | None:
        """Drop the blank name; widen a spec that stands alone to its `type …`, `const …`, `var …`."""
        if found.name == "_":
            return None
        for whole in found.captures.get("h.whole", ()):
            if whole.child_count > 1 and whole.child(1) == found.node:
                found.node = whole
        return found

    def visibility(self, found: Found, around: Sequence[Found], source: Source) -> str:
        """What begins with a capital letter leaves its package."""
        return "public" if found.name[:1].isupper() else "package"

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Leave out what is predeclared."""
        if not receiver and (name == "_" or (kind != "call" and name in _PREDECLARED)):
            return None
        return name, kind, receiver

    def imported(self, captures: dict[str, list[Node]], source: Source) -> Iterable[Import]:
        """`import . "x"` takes everything; `import _ "x"` takes nothing by name."""
        for taken in super().imported(captures, source):
            yield taken._replace(name="*", alias="") if taken.alias == "." else taken


HOOKS = GoHooks()
