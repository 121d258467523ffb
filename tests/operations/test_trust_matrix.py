"""Only the verification of another writer makes a record verified; every refusal says why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.services.records.conftest import OperationCaller

from lorelog.core.errors import LorelogError, NotFound, UsageError

VERIFIED = "verified_record"
COUNTERSIGNING = ("review", "revision", "verification", "decision")


@dataclass
class Table:
    """A project with a task and a claim of mara."""

    desk: OperationCaller
    task: str
    claim: str

    def speak(self, kind: str, **said: Any) -> dict[str, Any]:
        """Support the claim, or another record, as otto or another writer."""
        usual = {
            "writer": "otto",
            "reply_to_artifact_id": self.claim,
            "supports_claim": True,
            "summary": "I checked it",
        }
        given = usual | said
        return self.desk(f"artifact.{kind}", **{name: value for name, value in given.items() if value is not ...})

    def trust(self, artifact: str) -> dict[str, Any]:
        """Return the trust of a record, which all operations report alike."""
        self.desk("memory.search", query="store")
        shown = self.desk("artifact.get", artifact_id=artifact)["artifact"]["trust"]
        assert self.desk("memory.get", id=artifact)["trust"] == shown
        return dict(shown)


@pytest.fixture
def table(tmp_path: Path, home: Path) -> Iterator[Table]:
    desk = OperationCaller(tmp_path / "app", home)
    task = desk.start("choose a store")
    yield Table(desk, task, desk.say(task, "the store answers in 3 ms"))
    desk.close()


@pytest.mark.parametrize("kind", COUNTERSIGNING)
def test_another_writers_word_verifies(table: Table, kind: str) -> None:
    """The verification becomes verified; the claim keeps its tier and names its verifier."""
    spoken = table.speak(kind)

    assert (spoken["trust"]["tier"], spoken["trust"]["promotion"]) == (VERIFIED, "granted")
    assert spoken["notes"] == []
    claim = table.trust(table.claim)
    assert (claim["tier"], claim["verified_by"]) == ("canonical_record", [spoken["artifact_id"]])


def other_tenants_claim(table: Table) -> dict[str, Any]:
    task = table.desk("task.start", goal="elsewhere", writer="mara", tenant="theirs")["task_id"]
    given = {"task_id": task, "evidence_kind": "x", "summary": "theirs", "writer": "mara", "tenant": "theirs"}
    return {"reply_to_artifact_id": table.desk("task.add_evidence", **given)["artifact_id"]}


@pytest.mark.parametrize("field", ["promotion_state", "trust_tier", "tier", "trust", "verified_by", "tainted"])
def test_worth_cannot_be_given(table: Table, field: str) -> None:
    """A field that would set a tier is refused with the reason, and nothing is written."""
    before = table.desk.lines()

    for operation in ("artifact.verification", "artifact.create", "task.add_evidence"):
        with pytest.raises(UsageError, match="computed from the ledger"):
            table.desk(operation, **{field: VERIFIED})

    assert table.desk.lines() == before


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"artifact_kind": "digest", "summary": "x"}, UsageError),
        ({"artifact_kind": "verification", "reply_to_artifact_id": "019aaaaa-0000-7000-8000-000000000000"}, NotFound),
    ],
)
def test_what_cannot_be_is_not_written(table: Table, said: dict[str, Any], error: type[LorelogError]) -> None:
    """Digests cannot be written, and a record cannot reply to an unknown record or one of another tenant."""
    before = table.desk.lines()
    with pytest.raises(error):
        table.desk("artifact.create", writer="otto", supports_claim=True, **said)
    with pytest.raises(NotFound):
        table.speak("verification", **other_tenants_claim(table))

    assert table.desk.lines() == before


def test_a_digest_cannot_be_replied_to(table: Table) -> None:
    """The id of a digest looks like a record's but is not one."""
    digest = table.desk("context.brief_project")["artifact"]["artifact_id"]

    with pytest.raises(NotFound):
        table.speak("verification", reply_to_artifact_id=digest)


@pytest.mark.parametrize("kind", ["revision", "verification"])
def test_a_decision_outside_of_all_tasks_can_be_answered(table: Table, kind: str) -> None:
    """A reply to a decision without a task joins its thread and can verify it."""
    decided = table.desk("artifact.decision", summary="use SQLite", writer="mara")["artifact_id"]

    spoken = table.speak(kind, reply_to_artifact_id=decided, summary="so it is")

    assert (spoken["trust"]["tier"], spoken["thread_id"]) == (VERIFIED, decided)
