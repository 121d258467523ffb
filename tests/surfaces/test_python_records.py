"""Python works tasks with the names that JSON has, and answers are the JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from lorelog import Lorelog
from lorelog.core.errors import UsageError
from lorelog.operations import record_requests as requests
from lorelog.surfaces import python_records as surface

SETTINGS = {"embedding.provider": "fake"}


def test_a_task_is_worked_from_its_goal_to_its_end(tmp_path: Path) -> None:
    """Every verb on tasks and artifacts, in the order in which two agents would use them."""
    with Lorelog(project=tmp_path, settings=SETTINGS) as memory:
        task = memory.task.start("count the otters", agent_id="mara", expected_outputs=("a number",))["task_id"]
        memory.task.progress(task, summary="half the river", next_step="the rest", failed_attempts=["by night"])
        run = memory.task.run_start(task, tool_name="wc", command="wc -l", why_chosen="it counts", inputs=["a"])
        memory.task.run_finish(task, status="completed", notes="seven", run_id=run["artifact_id"])
        claim = memory.task.add_evidence(task, evidence_kind="count", summary="seven otters", agent_id="mara")
        seen = memory.artifact.verification(
            reply_to_artifact_id=claim["artifact_id"], supports_claim=True, agent_id="otto"
        )
        memory.artifact.review(reply_to_artifact_id=claim["artifact_id"], summary="fine", agent_id="otto")
        memory.artifact.revision(reply_to_artifact_id=claim["artifact_id"], summary="eight otters", agent_id="mara")
        memory.artifact.decision(summary="count at dawn", task_id=task)
        memory.artifact.create("evidence", task_id=task, evidence_kind="count", summary="nine otters")
        memory.task.finish(task, what_worked=["counting"], confidence=0.9)

        assert seen["trust"]["tier"] == "verified_record"
        assert memory.task.get(task)["task"]["status"] == "completed"
        assert memory.task.search("otters")["hits"][0]["task_id"] == task
        assert memory.artifact.search("nine otters", k=1)["hits"][0]["artifact"]["summary"] == "nine otters"
        assert memory.artifact.get(claim["artifact_id"])["artifact"] is not None
        assert len(memory.artifact.list_thread(thread_id=task)["artifacts"]) == 11
        assert memory.artifact.find_related("seven otters", task_id=task)["claim"] == "seven otters"


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    """A name that no field has is told, with the nearest."""
    with Lorelog(project=tmp_path, settings=SETTINGS) as memory, pytest.raises(UsageError, match="'summary'"):
        memory.artifact.decision(sumary="x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("typed", "request_type", "named"),
    [
        (surface.Starting, requests.TaskStartRequest, {"goal"}),
        (surface.Progressing, requests.TaskProgressRequest, {"task_id", "summary", "next_step"}),
        (surface.Running, requests.RunStartRequest, {"task_id", "tool_name", "command", "why_chosen", "inputs"}),
        (surface.Ran, requests.RunFinishRequest, {"task_id", "status", "notes"}),
        (surface.Proving, requests.AddEvidenceRequest, {"task_id", "evidence_kind", "summary"}),
        (surface.Finishing, requests.TaskFinishRequest, {"task_id"}),
        (surface.AnyArtifact, requests.ArtifactCreateRequest, {"artifact_kind"}),
        (surface.Artifact, requests.ReviewRequest, {"artifact_kind"}),
        (surface.Conditions, requests.TaskSearchRequest, {"query"}),
        (surface.Conditions, requests.ArtifactSearchRequest, {"query", "include_artifact"}),
    ],
)
def test_python_offers_every_field(typed: Any, request_type: Any, named: set[str]) -> None:
    """What an operation may be told can be said in Python, by a parameter of its own or among the others; and nothing else."""
    offered = set(get_type_hints(typed)) | named

    assert offered == {one.name for one in msgspec.structs.fields(request_type)} - {"project"}
