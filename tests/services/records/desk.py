"""Somebody who asks for operations on records, over a real home."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.wiring import ResourcePool


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
        """Begin a task and return its id."""
        return str(self("task.start", goal=goal, **{"writer": "mara", **said})["task_id"])

    def say(self, task: str, summary: str, **said: Any) -> str:
        """Give evidence for a task and return its id."""
        given = {"evidence_kind": "measurement", "writer": "mara", **said}
        return str(self("task.add_evidence", task_id=task, summary=summary, **given)["artifact_id"])

    def lines(self, tenant: str = "default") -> int:
        """Return how many records there are on disk."""
        file = self.home / "data" / tenant / "ledger.jsonl"
        return len(file.read_bytes().splitlines()) if file.exists() else 0

    def close(self) -> None:
        """Let go of everything."""
        self._holdings.close()
