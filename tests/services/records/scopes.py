"""A project with records, seen as commands see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.records.drafts import draft

from lorelog.core.record import Record
from lorelog.services.records.record_scope import RecordScope
from lorelog.wiring import open_engine, resolve_location


@contextmanager
def record_scope(project: Path, **settings: Any) -> Iterator[RecordScope]:
    """Open the records that are seen from a project."""
    with open_engine(resolve_location(project=project), {"embedding.provider": "none", **settings}) as engine:
        yield engine.records()


def say(archive: RecordScope, kind: str = "decision", /, fields: dict[str, Any] | None = None, **said: Any) -> Record:
    """Write a record of the project."""
    (written,) = archive.records.append([draft(kind, fields, **{"project": archive.workspace.project.id, **said})])
    return written


def say_verified(archive: RecordScope, summary: str, **said: Any) -> Record:
    """Write a decision, and have another writer speak for it."""
    made = say(archive, fields={"summary": summary, **said.pop("fields", {})}, **said)
    say(archive, "verification", agent="jon", reply_to=made.id, relation="verifies", supports_claim=True)
    return made
