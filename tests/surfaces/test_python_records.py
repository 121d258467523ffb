"""The namespaces of `Lorelog`: every operation of a family as a method with typed parameters and replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog, to_dict
from lorelog.core.errors import UsageError

SETTINGS = {"embedding.provider": "fake"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    """A memory with vectors of the fake provider."""
    with Lorelog(tmp_path, settings=SETTINGS) as opened:
        yield opened


def test_a_task_is_worked_from_its_goal_to_its_end(memory: Lorelog) -> None:
    """Every method on tasks and artifacts works, in the order in which two agents would use them."""
    task = memory.task.start("count the otters", writer="mara", expected_outputs=("a number",)).task_id
    memory.task.progress(task, summary="half the river", next_step="the rest", failed_attempts=["by night"])
    run = memory.task.run_start(task, tool_name="wc", command="wc -l", why_chosen="it counts", inputs=["a"])
    memory.task.run_finish(task, status="completed", notes="seven", run_id=run.artifact_id)
    claim = memory.task.add_evidence(task, evidence_kind="count", summary="seven otters", writer="mara").artifact_id
    verified = memory.artifact.verification(reply_to_artifact_id=claim, supports_claim=True, writer="otto")
    memory.artifact.review(reply_to_artifact_id=claim, summary="fine", writer="otto")
    memory.artifact.revision(reply_to_artifact_id=claim, summary="eight otters", writer="mara")
    memory.artifact.decision(summary="count at dawn", task_id=task)
    memory.artifact.create("evidence", task_id=task, evidence_kind="count", summary="nine otters")
    memory.task.finish(task, what_worked=["counting"], confidence=0.9)

    assert verified.trust.tier == "verified_record"
    assert memory.task.get(task).task.status == "completed"
    assert memory.task.search("otters").hits[0].task_id == task
    artifact = memory.artifact.search("nine otters", k=1).hits[0].artifact
    assert artifact is not None
    assert (artifact.summary, artifact.goal, artifact.confidence) == ("nine otters", "", None)
    assert memory.artifact.get(claim).artifact is not None
    assert len(memory.artifact.list_thread(thread_id=task).artifacts) == 11


def test_an_unknown_field_is_refused(memory: Lorelog) -> None:
    """A parameter that does not exist raises UsageError with the nearest name; a second position raises TypeError."""
    with pytest.raises(UsageError, match="'summary'"):
        memory.artifact.decision(sumary="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="at most 1"):
        memory.task.start("a goal", "a motivation")


def test_one_string_is_a_list_of_one(memory: Lorelog) -> None:
    """A string given for a list is one entry, never its letters."""
    task = memory.task.start("count", expected_outputs="a number").task_id

    assert memory.task.get(task).artifacts[0].expected_outputs == ["a number"]


def test_a_reply_becomes_the_json_of_its_operation(memory: Lorelog) -> None:
    """`to_dict` returns what `call` returns, for structs and for dataclasses whose JSON has other names."""
    task = memory.task.start("count the otters").task_id
    memory.add("the otter rests", tags="ctx:tier:hot")

    for value, op, arguments in (
        (memory.task.get(task), "task.get", {"task_id": task}),
        (memory.search("otter"), "memory.search", {"query": "otter"}),
        (memory.list(), "memory.list", {}),
        (memory.context.get_hot_context(), "context.get_hot_context", {}),
        (memory.ledger.verify(), "ledger.verify", {}),
    ):
        json_reply = memory.call(op, arguments)
        assert to_dict(value) == json_reply, op
        json.dumps(json_reply)


def test_another_tenant_has_its_own_records(memory: Lorelog) -> None:
    """A call that names a tenant works on that tenant, not on the one of the object."""
    memory.task.start("ours")
    memory.task.start("theirs", tenant="other")

    assert [hit.goal for hit in memory.task.search().hits] == ["ours"]
    assert [hit.goal for hit in memory.task.search(tenant="other").hits] == ["theirs"]
