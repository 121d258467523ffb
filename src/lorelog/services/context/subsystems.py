"""The parts that a project is said to have, and the files that belong to each.

A memory says it by its tags, `ctx:subsystem:billing` and `ctx:file:src/billing/tax.py`; a record by an entity of the type
`subsystem`, by where it comes from and by what it made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from lorelog.core.record import Record
from lorelog.records.tables import Asked
from lorelog.services.context.sight import FILE, SUBSYSTEM, Sight

ENTITY = "subsystem"
"""The type of an entity that is one."""
_MOST_ENTITIES = 10_000
_MOST_RECORDS = 200
"""Of a subsystem, the newest: whoever lists fifty of them does not read the whole ledger."""


@dataclass(frozen=True, slots=True)
class Subsystem:
    """A part of a project, and what there is of it."""

    key: str
    memories: int
    records: int
    files: int


@dataclass(frozen=True, slots=True)
class SubsystemFiles:
    """The files of a subsystem; of one that nobody has named, the nearest names."""

    key: str
    files: tuple[str, ...]
    notes: tuple[str, ...] = ()


def list_subsystems(sight: Sight, prefix: str = "", limit: int = 50) -> tuple[list[Subsystem], int]:
    """Return the subsystems that begin so, those first of which there is most; and how many there are."""
    memories, records = _counted(sight, prefix)
    keys = sorted(memories.keys() | records.keys(), key=lambda key: (-memories[key] - records[key], key))
    shown = [Subsystem(key, memories[key], records[key], len(_files(sight, key))) for key in keys[:limit]]
    return shown, len(keys)


def files_of(sight: Sight, key: str) -> SubsystemFiles:
    """Return the files of a subsystem, those that memories name first."""
    memories, records = _counted(sight, "")
    if key in memories or key in records:
        return SubsystemFiles(key, tuple(_files(sight, key)))
    near = get_close_matches(key, memories.keys() | records.keys(), n=3, cutoff=0.5)
    hint = f"the nearest: {', '.join(near)}" if near else "context.list_subsystems lists those that are"
    return SubsystemFiles(key, (), (f"no subsystem is called {key!r}; {hint}",))


def subsystems_of(record: Record) -> list[str]:
    """Return the subsystems that a record is about."""
    refs = record.fields.get("entity_refs")
    found = [one for one in refs if isinstance(one, dict)] if isinstance(refs, list) else []
    return [str(one["name"]) for one in found if one.get("entity_type") == ENTITY and one.get("name")]


def _counted(sight: Sight, prefix: str) -> tuple[Counter[str], Counter[str]]:
    """Return how many memories and how many records each subsystem has."""
    tags = sight.store.tags(SUBSYSTEM + prefix, sight.filters)
    memories = Counter({tag[len(SUBSYSTEM) :]: count for tag, count in tags.items() if tag != SUBSYSTEM})
    records: Counter[str] = Counter()
    if sight.archive.book.exists():
        tables = sight.archive.book.tables()
        for project in [None] if sight.projects is None else sight.projects:
            for one in tables.entities(project, _MOST_ENTITIES):
                if one.kind == ENTITY and one.name.startswith(prefix):
                    records[one.name] += one.records
    return memories, records


def _files(sight: Sight, key: str) -> list[str]:
    named = sight.store.tags(FILE, replace(sight.filters, tags=(SUBSYSTEM + key,)))
    found = dict.fromkeys(tag[len(FILE) :] for tag in named if tag != FILE)
    if sight.archive.book.exists():
        asked = Asked(entity=key, projects=sight.projects, most=_MOST_RECORDS)
        for record in sight.archive.book.tables().find(asked):
            if key in subsystems_of(record):
                found.update(dict.fromkeys(_paths(record)))
    return list(found)


def _paths(record: Record) -> Iterator[str]:
    """Yield the files that a record comes from or made. What it made may be no file, but a sentence."""
    provenance = record.fields.get("provenance")
    path = provenance.get("path") if isinstance(provenance, dict) else None
    if isinstance(path, str) and path:
        yield path
    for one in record.texts("outputs"):
        if one and not any(map(str.isspace, one)) and ("/" in one or "." in one[1:-1]):
            yield one
