"""Operations on digests: the digest has the tier of a hint, and each item the trust of its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lorelog.operations.catalogue import all_operations, describe_operation
from lorelog.operations.dispatch import ClientIdentity, Dispatcher

Ask = Callable[..., dict[str, Any]]
LIBRARIES = ("find_failures", "find_decisions", "find_evidence")


@pytest.fixture
def ask(tmp_path: Path, home: Path) -> Ask:
    """Calls operations from a project and checks each reply against its schema."""
    dispatcher = Dispatcher()
    place = tmp_path / "app"
    place.mkdir()
    caller = ClientIdentity(str(place), {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "none"})

    def carry_out(op: str, **arguments: Any) -> dict[str, Any]:
        shape = dispatcher.call(op, arguments, caller)
        jsonschema.validate(shape, describe_operation(all_operations()[op])["reply"])
        return shape

    return carry_out


@pytest.fixture
def task(ask: Ask) -> str:
    """A task with records of two writers."""
    task: str = ask("task.start", goal="make it fast", writer="mara")["task_id"]
    ask("task.progress", task_id=task, summary="half", next_step="the rest", failed_attempts=["plan A"], writer="mara")
    made = ask("artifact.decision", task_id=task, summary="use redis", writer="mara")["artifact_id"]
    ask("artifact.verification", reply_to_artifact_id=made, supports_claim=True, writer="jon")
    ask("task.add_evidence", task_id=task, evidence_kind="output", summary="ok", origin="tool", writer="mara")
    return task


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_answer_with_a_digest_and_its_items(ask: Ask, task: str, name: str) -> None:
    """Every item names its record and its trust; the digest as a whole is a hint."""
    reply = ask(f"artifact.{name}")

    assert reply["artifact"]["artifact_kind"] == "digest"
    assert reply["artifact"]["artifact_id"].startswith(f"digest-{reply['artifact']['artifact_role']}-")
    assert reply["results"]
    assert {item["artifact_id"] for item in reply["results"]} <= set(reply["artifact"]["related_artifact_ids"])
    assert reply["grounding_refs"]
    assert all(ref["tier"] != "compiled_digest_hint" for ref in reply["grounding_refs"])
    assert reply["trust"]["tier"] == "compiled_digest_hint"


@pytest.mark.slow
def test_at_most_twelve_records_are_named_beside_a_digest(ask: Ask, task: str) -> None:
    """A digest lists all records it cites, and a dozen of them as grounding."""
    for number in range(15):
        ask("artifact.decision", task_id=task, summary=f"decision {number}", writer="mara")

    reply = ask("artifact.find_decisions", k=20)

    assert len(reply["results"]) > 12
    assert len(reply["grounding_refs"]) == 12


def test_the_brief_of_an_empty_home_is_empty(ask: Ask, home: Path) -> None:
    """Without records the digest is empty, and no ledger is created."""
    reply = ask("context.brief_project")

    assert reply["artifact"]["lines"] == []
    assert reply["brief"]["overview"].startswith("Project app has 0 active tasks")
    assert ask("artifact.find_failures", all_projects=True)["results"] == []
    assert not list(home.rglob("ledger*"))
