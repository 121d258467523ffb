"""What can be asked of a ledger's tables, and what they answer with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST = 2**62


@dataclass(frozen=True, slots=True)
class Task:
    """Where a task is."""

    id: str
    project: str
    parent: str
    goal: str
    status: str
    agent: str
    """Who started it."""
    started_at: str
    finished_at: str
    updated_at: str
    started_by: str
    """The record that started it; empty when there is none."""
    last: str
    """The last record of it."""
    records: int


@dataclass(frozen=True, slots=True)
class Run:
    """A tool that was run for a task. Its id is that of the record that began it."""

    id: str
    task: str
    agent: str
    tool: str
    command: str
    status: str
    summary: str
    started_at: str
    finished_at: str
    finish: str
    """The record that ended it; empty while none did."""


@dataclass(frozen=True, slots=True)
class Named:
    """Something that records name: a dataset, an entity, a challenge, a contributor; and how often, and where last."""

    name: str
    kind: str
    """An entity's type, or a dataset's version."""
    records: int
    last_at: str


@dataclass(frozen=True, slots=True)
class Relation:
    """That one record refers to another."""

    source: str
    target: str
    relation: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Which records are wanted. What is empty does not matter."""

    kinds: Sequence[str] = ()
    project: str | None = None
    """A project's id; `""` for records of none; None for all."""
    projects: Sequence[str] | None = None
    """Several of them; None for all."""
    task: str = ""
    thread: str = ""
    status: str = ""
    agent: str = ""
    """Who wrote them, as the ledger has the name."""
    challenge: str = ""
    dataset: str = ""
    entity: str = ""
    before: int = _MOST
    """Only records with a lower number: the way to the next page."""
    most: int = 100
    in_force: bool = False
    """Only what nothing has superseded."""


def conditions_of(asked: Asked) -> tuple[list[str], list[object]]:
    """Return what a query must say to be given what is asked for, and its values."""
    conditions, values = ["r.seq < ?"], list[object]([asked.before])
    for column, value in (
        ("task", asked.task),
        ("thread", asked.thread),
        ("status", asked.status),
        ("agent", asked.agent),
    ):
        if value:
            conditions.append(f"r.{column} = ?")
            values.append(value)
    if asked.project is not None:
        conditions.append("r.project = ?")
        values.append(asked.project)
    if asked.projects is not None:
        conditions.append(f"r.project IN ({marks(asked.projects)})")
        values += asked.projects
    if asked.kinds:
        conditions.append(f"r.kind IN ({marks(asked.kinds)})")
        values += asked.kinds
    named = (
        ("challenges", "id", asked.challenge),
        ("datasets", "name", asked.dataset),
        ("entities", "name", asked.entity),
    )
    for table, column, value in named:
        if value:
            conditions.append(f"r.place IN (SELECT place FROM {table} WHERE {column} = ?)")
            values.append(value)
    if asked.in_force:
        conditions.append("NOT EXISTS (SELECT 1 FROM records s WHERE s.supersedes = r.id AND s.supersedes <> '')")
    return conditions, values


def marks(values: Sequence[str]) -> str:
    """Return as many question marks as there are values."""
    return ", ".join("?" * len(values))
