"""A project with records, seen as commands see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.records.drafts import draft

from lorelog.core.record import Record
from lorelog.services.records.archive import Archive
from lorelog.wiring import open_engine, standpoint


@contextmanager
def archive_of(project: Path, **settings: Any) -> Iterator[Archive]:
    """Open the records that are seen from a project."""
    with open_engine(standpoint(project=project), {"embedding.provider": "none", **settings}) as engine:
        yield engine.records()


def say(archive: Archive, kind: str = "decision", /, fields: dict[str, Any] | None = None, **said: Any) -> Record:
    """Write a record of the project."""
    (written,) = archive.book.append([draft(kind, fields, **{"project": archive.place.project.id, **said})])
    return written


def say_verified(archive: Archive, summary: str, **said: Any) -> Record:
    """Write a decision, and have another writer speak for it."""
    made = say(archive, fields={"summary": summary, **said.pop("fields", {})}, **said)
    say(archive, "verification", agent="jon", reply_to=made.id, relation="verifies", supports_claim=True)
    return made
