"""Clients, tenants and projects with records that tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.records.drafts import draft
from tests.stores.making import TemporaryStore

from lorelog.core.options import ChunkOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters
from lorelog.core.record import Record
from lorelog.language.analyser import WordAnalyser
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.services.records.projection import RecordProjection, records_folder
from lorelog.services.records.record_scope import RecordScope
from lorelog.services.records.store import RecordStore
from lorelog.wiring import ResourcePool, open_engine, resolve_location


class OperationCaller:
    """Carries out operations from one project, as a daemon would."""

    def __init__(self, project: Path, home: Path, **environment: str) -> None:
        project.mkdir(parents=True, exist_ok=True)
        self.home = home
        given = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake", **environment}
        self._caller = ClientIdentity(str(project), given)
        self._holdings = ResourcePool()
        self._dispatcher = Dispatcher(self._holdings.engine)

    def __call__(self, op: str, **arguments: Any) -> dict[str, Any]:
        return self._dispatcher.call(op, arguments, self._caller)

    def start(self, goal: str = "make it fast", **said: Any) -> str:
        return str(self("task.start", goal=goal, **{"writer": "mara", **said})["task_id"])

    def say(self, task: str, summary: str, **said: Any) -> str:
        given = {"evidence_kind": "measurement", "writer": "mara", **said}
        return str(self("task.add_evidence", task_id=task, summary=summary, **given)["artifact_id"])

    def lines(self, tenant: str = "default") -> int:
        """Return how many records there are on disk."""
        file = self.home / "data" / tenant / "ledger.jsonl"
        return len(file.read_bytes().splitlines()) if file.exists() else 0

    def close(self) -> None:
        self._holdings.close()


@contextmanager
def record_scope(project: Path, **settings: Any) -> Iterator[RecordScope]:
    with open_engine(resolve_location(project=project), {"embedding.provider": "none", **settings}) as engine:
        yield engine.records()


def say(archive: RecordScope, kind: str = "decision", /, fields: dict[str, Any] | None = None, **said: Any) -> Record:
    (written,) = archive.records.append([draft(kind, fields, **{"project": archive.workspace.project.id, **said})])
    return written


def say_verified(archive: RecordScope, summary: str, **said: Any) -> Record:
    made = say(archive, fields={"summary": summary, **said.pop("fields", {})}, **said)
    say(archive, "verification", agent="jon", reply_to=made.id, relation="verifies", supports_claim=True)
    return made


@dataclass
class Tenant:
    folder: Path
    book: RecordStore
    store: Store
    pages: RecordProjection

    @property
    def files(self) -> list[Path]:
        return sorted(records_folder(self.folder).glob("*/*.md"))

    def anchors(self) -> list[str]:
        """Return the ids that anchors in the index name, oldest document first."""
        found = [item for document in self.store.documents() for item in self.store.chunks_of(document.source)]
        return [item.chunk.anchor.memory for item in found if item.chunk.anchor]

    def projects(self) -> set[str]:
        return {document.project for document in self.store.documents()}

    def recent(self) -> list[str]:
        return [item.chunk.text for item in self.store.recent(Filters(), 100)]


def tenant(folder: Path, store: Store | None = None, chunking: ChunkOptions | None = None) -> Tenant:
    store = store or TemporaryStore(WordAnalyser(), provider="none", model="none")
    book = RecordStore(folder)
    return Tenant(
        folder, book, store, RecordProjection(book, store, records_folder(folder), chunking or ChunkOptions())
    )


@pytest.fixture
def desk(tmp_path: Path, home: Path) -> Iterator[OperationCaller]:
    made = OperationCaller(tmp_path / "app", home)
    yield made
    made.close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[RecordScope]:
    """The records of an empty project."""
    place = tmp_path / "app"
    place.mkdir()
    with record_scope(place) as opened:
        yield opened
