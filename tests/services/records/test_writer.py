"""A draft becomes a record: complete, under its task, without secrets, or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.services.records.conftest import OperationCaller

from lorelog.core.errors import NotFound, UsageError
from lorelog.records.kinds import FIELDS, FieldType

VALUES: dict[FieldType, Any] = {
    FieldType.TEXT: "some words",
    FieldType.TEXTS: ["one", "two"],
    FieldType.NUMBER: 2.5,
    FieldType.SHARE: 0.5,
    FieldType.OBJECT: {"a": 1, "b": {"c": ["d"]}},
    FieldType.VALUE: {"hours": 2},
    FieldType.DATASETS: [{"name": "sift-1m", "version": "2", "description": "vectors"}],
    FieldType.ENTITIES: [{"name": "billing", "entity_type": "service", "role": "subject"}],
    FieldType.PROVENANCE: {"uri": "https://example.org/x", "repo": "r", "commit": "c0ffee", "path": "a.py"},
}


@pytest.mark.parametrize(
    "field", [name for name in FIELDS if name not in {"content", "related_artifact_ids", "parent_task_id"}]
)
def test_every_field_comes_back_as_it_was_said(desk: OperationCaller, field: str) -> None:
    """Every field of a record is in the ledger and the reply, unchanged."""
    task = desk.start()
    value = VALUES[FIELDS[field].type]

    written = desk("artifact.create", artifact_kind="decision", task_id=task, writer="mara", **{field: value})
    shown = desk("artifact.get", artifact_id=written["artifact_id"])["artifact"]

    assert shown[field] == value
    assert (shown["artifact_kind"], shown["task_id"], shown["thread_id"]) == ("decision", task, task)


def test_what_a_record_says_of_itself_comes_back(desk: OperationCaller) -> None:
    """Writer, session, reply, relation, stance, supersession, origin and status are stored."""
    task = desk.start()
    first, second = desk.say(task, "three ms"), desk.say(task, "four ms")
    said = {
        "writer": "otto",
        "session_id": "s-1",
        "thread_id": "aside",
        "relation_kind": "doubts",
        "supports_claim": False,
        "origin": "user",
        "status": "open",
    }

    written = desk(
        "artifact.review",
        task_id=task,
        reply_to_artifact_id=first,
        supersedes=second[:-3],
        related_artifact_ids=[first[:-2], second],
        parent_task_id=task[:-2],
        **said,
    )
    shown = desk("artifact.get", artifact_id=written["artifact_id"])["artifact"]

    assert {name: shown[name] for name in said} == said
    assert (shown["reply_to_artifact_id"], shown["supersedes"]) == (first, second)
    assert (shown["related_artifact_ids"], shown["parent_task_id"]) == ([first, second], task)
    assert "begins the thread 'aside'" in written["notes"][0]


def test_memds_other_names_are_understood(desk: OperationCaller) -> None:
    """Failed attempts are stored as what_failed, and notes of a run as its summary."""
    task = desk.start()
    desk("task.progress", task_id=task, summary="half", next_step="rest", failed_attempts=["sleeping"])
    begun = desk("task.run_start", task_id=task, tool_name="k6", command="k6 run", why_chosen="known", inputs=["a.js"])
    desk("task.run_finish", task_id=task, status="failed", notes="it broke", run_id=begun["artifact_id"])

    story = desk("task.get", task_id=task)

    assert story["artifacts"][1]["what_failed"] == ["sleeping"]
    (run,) = story["runs"]
    assert (run["status"], run["summary"], run["tool_name"]) == ("failed", "it broke", "k6")


def test_a_task_tells_its_story(desk: OperationCaller) -> None:
    """A task shows its goal, status, records, runs, and each dataset and entity once."""
    data, thing = {"name": "sift-1m"}, {"name": "billing", "entity_type": "service"}
    task = desk.start("fit the index", dataset_refs=[data], entity_refs=[thing])
    desk.say(task, "three ms", dataset_refs=[data, {"name": "glove"}])
    desk("task.finish", task_id=task, status="failed", what_failed=["all of it"])

    story = desk("task.get", task_id=task[:-4])

    assert (story["task"]["goal"], story["task"]["status"], story["task"]["records"]) == ("fit the index", "failed", 3)
    assert story["task"]["finished_at"]
    assert [artifact["artifact_kind"] for artifact in story["artifacts"]] == ["task_start", "evidence", "task_finish"]
    assert story["datasets"] == [data, {"name": "glove"}]
    assert story["entities"] == [thing]


@pytest.mark.parametrize(
    ("op", "given", "error", "told"),
    [
        ("task.progress", {"task_id": "nothing-like-it", "summary": "a", "next_step": "b"}, NotFound, "no task"),
        ("task.finish", {"task_id": "nothing-like-it"}, NotFound, "no task"),
        ("task.start", {"goal": "a", "parent_task_id": "nothing-like-it"}, NotFound, "no task"),
        ("artifact.decision", {"task_id": "nothing-like-it", "summary": "a"}, NotFound, "no task"),
        ("artifact.review", {"reply_to_artifact_id": "nothing-like-it"}, NotFound, "no record"),
        ("artifact.decision", {"summary": "x", "related_artifact_ids": ["nothing-like-it"]}, NotFound, "no record"),
        ("artifact.decision", {"summary": "x", "supersedes": "nothing-like-it"}, NotFound, "no record"),
        ("artifact.review", {"summary": "fine"}, UsageError, "a review needs a task"),
        ("artifact.create", {"artifact_kind": "digest"}, UsageError, "digests are compiled"),
        ("artifact.create", {"artifact_kind": "decisionn"}, UsageError, "not a kind of record"),
        ("artifact.review", {"artifact_kind": "decision"}, UsageError, "decision"),
        ("artifact.create", {"artifact_kind": "decision", "content": "# a"}, UsageError, "no field 'content'"),
        ("artifact.decision", {"content": "# a"}, UsageError, "no field 'content'"),
        ("artifact.decision", {}, UsageError, "the decision is empty"),
        ("artifact.decision", {"summary": " ", "motivation": "", "validation": [" "]}, UsageError, "is empty"),
        ("artifact.decision", {"sumary": "a"}, UsageError, "did you mean 'summary'"),
        ("artifact.decision", {"dataset_refs": [{"nam": "x"}]}, UsageError, "unknown field `nam`"),
        ("artifact.decision", {"confidence": 2}, UsageError, "confidence"),
        ("artifact.decision", {"origin": "god"}, UsageError, "god"),
        ("task.start", {"goal": "  "}, UsageError, "needs 'goal'"),
        ("task.start", {}, UsageError, "goal"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(
    desk: OperationCaller, op: str, given: dict[str, Any], error: type[Exception], told: str
) -> None:
    """A mistyped id creates no task, attaches no reply, and leaves no file."""
    desk.start()
    with pytest.raises(error, match=told):
        desk(op, **given)

    assert desk.lines() == 1


def test_a_decision_needs_no_task(desk: OperationCaller) -> None:
    """A record without a task has its own thread, belongs to the project, and can be replied to."""
    made = desk("artifact.decision", summary="tabs, not spaces", writer="mara")
    reply = desk("artifact.decision", reply_to_artifact_id=made["artifact_id"], summary="agreed", writer="otto")
    everywhere = desk("artifact.decision", summary="be kind", to_global=True)

    shown = desk("artifact.get", artifact_id=made["artifact_id"])["artifact"]
    assert (made["task_id"], made["thread_id"]) == ("", made["artifact_id"])
    assert shown["project"].endswith("/app")
    assert reply["thread_id"] == made["thread_id"]
    assert "project" not in desk("artifact.get", artifact_id=everywhere["artifact_id"])["artifact"]


def test_tenants_are_apart(desk: OperationCaller) -> None:
    """Records of another tenant cannot be read, replied to or continued."""
    task = desk.start()
    claim = desk.say(task, "three ms")

    for op, given in (
        ("artifact.verification", {"reply_to_artifact_id": claim}),
        ("task.progress", {"task_id": task, "summary": "a", "next_step": "b"}),
        ("task.get", {"task_id": task}),
        ("artifact.list_thread", {"artifact_id": claim}),
    ):
        with pytest.raises(NotFound):
            desk(op, tenant="other", **given)
    assert desk("artifact.get", artifact_id=claim, tenant="other")["found"] is False
    assert desk("task.search", tenant="other", all_projects=True)["hits"] == []
    assert desk.lines("other") == 0


def test_secrets_are_never_kept(desk: OperationCaller) -> None:
    """A secret in any field is in no file of the home, and the writer gets a note."""
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"[:36]
    task = desk.start()

    written = desk(
        "task.run_start",
        task_id=task,
        tool_name="curl",
        command=f"curl -H 'Authorization: token {secret}' https://api.github.com",
        why_chosen=f"<private>{secret}</private>",
        inputs=[secret],
        parameters={"password": "correct-horse-9-battery", "deep": [{"token": secret}], secret: 1},
        provenance={"uri": f"https://mara:{secret}@example.org"},
    )

    assert "secrets were removed" in written["notes"][0]
    files = [item for item in desk.home.rglob("*") if item.is_file()]
    assert files
    for file in files:
        assert secret.encode() not in file.read_bytes(), file
        assert b"correct-horse-9-battery" not in file.read_bytes(), file


def test_the_default_writer_comes_from_settings(tmp_path: Path, home: Path) -> None:
    """records.writer is the default writer; a given name, even a blank one, overrides it."""
    desk = OperationCaller(tmp_path / "app", home, LORELOG_RECORDS_WRITER="mara")

    def writer(**said: Any) -> str:
        made = desk("artifact.decision", summary="x", **said)
        return str(desk("artifact.get", artifact_id=made["artifact_id"])["artifact"].get("writer", ""))

    assert (writer(), writer(writer="otto"), writer(writer="")) == ("mara", "otto", "")
    desk.close()


def test_what_cannot_be_written_down_is_refused(desk: OperationCaller) -> None:
    """Invalid Unicode, non-finite numbers and bottomless objects are errors, and nothing is written."""
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}
    for said in ({"summary": "\ud800"}, {"metric_value": float("nan")}, {"parameters": deep}, {"thread_id": "a b"}):
        with pytest.raises(UsageError):
            desk("artifact.decision", **said)
    assert desk.lines() == 0


def test_a_thread_is_shown_from_any_of_its_records(desk: OperationCaller) -> None:
    """A thread is shown by its id, a task's prefix, or a record; oldest first."""
    task = desk.start()
    claim = desk.say(task, "three ms")
    whole = desk("artifact.list_thread", thread_id=task)

    assert [artifact["artifact_kind"] for artifact in whole["artifacts"]] == ["task_start", "evidence"]
    assert desk("artifact.list_thread", artifact_id=claim) == whole
    assert desk("artifact.list_thread", thread_id=task[:-3]) == whole
    with pytest.raises(NotFound, match="no thread"):
        desk("artifact.list_thread", thread_id="nothing-like-it")
    with pytest.raises(UsageError, match="a thread must be named"):
        desk("artifact.list_thread")


def test_an_unknown_artifact_is_an_answer(desk: OperationCaller) -> None:
    """Reading an unknown record is an error that suggests the nearest id."""
    claim = desk.say(desk.start(), "three ms")

    answer = desk("artifact.get", artifact_id=claim[:-1] + "~")

    assert (answer["found"], answer["artifact"]) == (False, None)
    assert claim in answer["notes"][0]


def test_a_record_that_is_safe_is_answered_for(desk: OperationCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the tables cannot be updated, the reply says that the record is written but not rated."""
    task = desk.start()
    before = desk.lines()

    def full(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("lorelog.records.tables.RecordTables._apply", full)
        answer = desk("task.progress", task_id=task, summary="half", next_step="rest", writer="mara")

    assert desk.lines() == before + 1
    assert answer["trust"]["requires_verification"]
    assert "the record is written" in answer["notes"][0]
    assert desk("artifact.get", artifact_id=answer["artifact_id"])["found"]


def test_a_revision_takes_the_place_of_what_it_revises(desk: OperationCaller) -> None:
    """A superseded record is kept and shows its replacement; an empty revision is refused."""
    claim = desk.say(desk.start(), "three ms")
    with pytest.raises(UsageError, match="is empty"):
        desk("artifact.revision", reply_to_artifact_id=claim, writer="mara")

    anew = desk("artifact.revision", reply_to_artifact_id=claim, summary="four ms", writer="mara")

    assert [item["artifact_id"] for item in desk("artifact.get", artifact_id=claim)["superseded_by"]] == [
        anew["artifact_id"]
    ]


def test_a_persons_own_patterns_hold_for_records(tmp_path: Path, home: Path) -> None:
    """redact.patterns applies to records."""
    desk = OperationCaller(tmp_path / "app", home, LORELOG_REDACT_PATTERNS="PROJ-[0-9]+")
    claim = desk.say(desk.start(), "see PROJ-1234")

    assert "PROJ-1234" not in desk("artifact.get", artifact_id=claim)["artifact"]["summary"]
    desk.close()
