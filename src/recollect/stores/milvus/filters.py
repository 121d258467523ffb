"""Filters as Milvus speaks them. Every text in them goes through `quoted`, and nothing else writes an expression."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.core.query import Filters

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """Return a text as a literal. Only what both Milvus' grammar and Milvus Lite's read alike is escaped."""
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


def one_of(field: str, values: Iterable[str]) -> str:
    """Return that a field is one of these texts."""
    return f"{field} in [{', '.join(map(quoted, values))}]"


def owned(home: str) -> str:
    """Return that a row belongs to this index: others may keep theirs in the same collection."""
    return f"home == {quoted(home)}"


def expression(filters: Filters, home: str, *, embedded: bool = False) -> str:
    """Return what filters admit of one index's rows; with `embedded`, of those that have a vector.

    A source prefix is two comparisons, as in the catalog, and never a pattern: quotes, `%` and `_` mean nothing.
    """
    wanted = [owned(home)]
    if embedded:
        wanted.append("has_vector == true")
    if filters.projects is not None:
        wanted.append(one_of("project", filters.projects))
    if filters.source_prefix:
        prefix = filters.source_prefix.rstrip("/")
        # '0' is the character after '/', so this range is everything below the directory.
        below = f"(source >= {quoted(prefix + '/')} and source < {quoted(prefix + '0')})"
        wanted.append(f"(source == {quoted(filters.source_prefix)} or {below})")
    if filters.since:
        wanted.append(f"day >= {day_number(filters.since)}")
    if filters.until:
        wanted.append(f"(day > 0 and day <= {day_number(filters.until)})")
    if filters.types:
        wanted.append(one_of("type", filters.types))
    wanted += [f"array_contains(tags, {quoted(tag)})" for tag in filters.tags]
    return " and ".join(wanted)


def day_number(date: str) -> int:
    """Return an ISO day as a number that sorts like it; 0 when there is none."""
    return int(date[:10].replace("-", "")) if date else 0
