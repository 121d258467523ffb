"""SQL: names may be quoted, and a schema that is created before its tables is no container of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lorelog.code.hooks import Found, Hooks
from lorelog.code.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_QUOTES = '"`[]'


class SqlHooks(Hooks):
    """What SQL's grammar does not say."""

    comments = frozenset({"comment", "marginalia"})

    def defined(self, found: Found, source: Source) -> Found | None:
        """Take the quotes off; what is created belongs to the file, whatever the statement around it."""
        found.name = found.name.strip(_QUOTES)
        found.is_global = found.node.type != "column_definition" or bool(found.of)
        return found

    def placed(self, found: Found, around: Sequence[Found], source: Source) -> Found | None:
        """A column without a table around it is added to one elsewhere; a parameter list has none."""
        return None if found.node.type == "column_definition" and not around and not found.of else found

    def used(self, name: str, kind: str, receiver: str, node: Node, source: Source) -> tuple[str, str, str] | None:
        """Take the quotes off."""
        return name.strip(_QUOTES), kind, receiver


HOOKS = SqlHooks()
