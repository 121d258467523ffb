"""Filters as Milvus speaks them. Every text in them goes through `quoted`, and nothing else writes an expression."""

from __future__ import annotations

from collections.abc import Iterable

from lorelog.core.query import Filters
from lorelog.stores.milvus.schema import MOST_PATH, MOST_TAG, MOST_TYPE, fitted

LAST = "\U0010ffff"
"""The last of all characters."""
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """Return a text as a literal. Only what both Milvus' grammar and Milvus Lite's read alike is escaped."""
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


def one_of(field: str, values: Iterable[str]) -> str:
    """Return that a field is one of these texts."""
    return f"{field} in [{', '.join(map(quoted, values))}]"


def owned(home: str, projects: Iterable[str] | None = None) -> str:
    """Return that a row belongs to this index, and to one of these projects: others may keep theirs in the same collection."""
    mine = f"home == {quoted(home)}"
    if projects is None:
        return mine
    return f"{mine} and {one_of('project', (fitted(one, MOST_PATH) for one in projects))}"


def begins(field: str, text: str) -> str:
    """Return that a field begins with a text: two comparisons and no pattern, so that no character is a wildcard."""
    return f"({field} >= {quoted(text)} and {field} < {quoted(text + LAST)})"


def shared(homes: Iterable[str], names: Iterable[str]) -> str:
    """Return that a row is one of those that these indexes share about projects of these names."""
    return f"{one_of('home', homes)} and {one_of('shared', names)}"


def expression(filters: Filters, whose: str, *, embedded: bool = False) -> str:
    """Return what filters admit of the rows that `whose` is true of; with `embedded`, of those that have a vector.

    Of projects, `whose` tells: they are called otherwise on every machine. A source prefix is two comparisons, as in the catalog, and
    never a pattern: quotes, `%` and `_` mean nothing.
    """
    wanted = [whose]
    if embedded:
        wanted.append("has_vector == true")
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
        wanted.append(one_of("type", (fitted(one, MOST_TYPE) for one in filters.types)))
    wanted += [f"array_contains(tags, {quoted(fitted(tag, MOST_TAG))})" for tag in filters.tags]
    return " and ".join(wanted)


def day_number(date: str) -> int:
    """Return an ISO day as a number that sorts like it; 0 when there is none."""
    return int(date[:10].replace("-", "")) if date else 0
