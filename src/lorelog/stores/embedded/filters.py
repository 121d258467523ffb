"""Filters as each engine speaks them: SQL conditions for the catalog, terms for tantivy.

A source prefix never becomes a pattern. In SQL it is two comparisons, in tantivy one term: each chunk is filed
under its own path and under every directory above it, so `/a/b` cannot admit `/a/bc`, and quotes, `%` and `_` mean nothing.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from lorelog.core.query import Filters

if TYPE_CHECKING:
    import tantivy


def sql_conditions(filters: Filters, *, tagged: bool = True) -> tuple[str, list[Any]]:
    """Return a WHERE clause over `chunks c`, joined with `documents d` where a source prefix is asked for, and its values.

    Catalogs of older versions have no table of tags (`tagged`): there, each chunk's own are looked at.
    """
    clauses, values = ["c.live"], list[Any]()
    if filters.projects is not None:
        clauses.append(f"c.project IN ({_marks(filters.projects)})")
        values += filters.projects
    if filters.source_prefix:
        prefix = filters.source_prefix.rstrip("/")
        # '0' is the character after '/', so this range is everything below the directory.
        clauses.append("(d.source = ? OR (d.source >= ? AND d.source < ?))")
        values += [filters.source_prefix, prefix + "/", prefix + "0"]
    if filters.since:
        clauses.append("c.date >= ?")
        values.append(filters.since)
    if filters.until:
        # A time of day may follow the day: everything that begins with the last day is admitted.
        clauses.append("(c.date <> '' AND c.date < ?)")
        values.append(filters.until + "\U0010ffff")
    if filters.types:
        clauses.append(f"c.type IN ({_marks(filters.types)})")
        values += filters.types
    for tag in filters.tags:
        own = "EXISTS (SELECT 1 FROM json_each(c.tags) WHERE value = ?)"
        clauses.append("c.row IN (SELECT row FROM tagged WHERE tag = ?)" if tagged else own)
        values.append(tag)
    return " AND ".join(clauses), values


def tantivy_filters(filters: Filters, schema: tantivy.Schema) -> list[tantivy.Query]:
    """Return queries that must all match; none of them adds to the score."""
    import tantivy

    query = tantivy.Query
    wanted: list[tantivy.Query] = []
    if filters.projects is not None:
        marks = [f"p{project}" for project in filters.projects]
        # One term can be skipped through; a set is first gathered whole.
        one = len(marks) == 1
        wanted.append(
            query.term_query(schema, "project", marks[0]) if one else query.term_set_query(schema, "project", marks)
        )
    if filters.source_prefix:
        wanted.append(query.term_query(schema, "path", filters.source_prefix.rstrip("/") or "/"))
    if filters.since or filters.until:
        low = day_number(filters.since) if filters.since else 1
        high = day_number(filters.until) if filters.until else 99_991_231
        kind = tantivy.FieldType.Unsigned
        wanted.append(query.range_query(schema, "day", kind, low, high))
    if filters.types:
        wanted.append(query.term_set_query(schema, "type", list(filters.types)))
    wanted += [query.term_query(schema, "tag", tag) for tag in filters.tags]
    return wanted


@lru_cache(maxsize=64)
def path_terms(source: str) -> tuple[str, ...]:
    """Return a file's path and every directory above it."""
    path = PurePath(source)
    return (str(path), *(str(parent) for parent in path.parents))


def day_number(date: str) -> int:
    """Return an ISO day as a number that sorts like it; 0 when there is none."""
    return int(date[:10].replace("-", "")) if date else 0


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))
