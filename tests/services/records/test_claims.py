"""The support of a claim follows from the records, and looking it up adds none."""

from __future__ import annotations

import pytest
from tests.services.records.conftest import OperationCaller

from lorelog.core.errors import NotFound, UsageError

CLAIM = "the walrus cache answers within three milliseconds"


def test_a_claim_that_no_record_is_about_is_not_grounded(desk: OperationCaller) -> None:
    """Without a record about the claim it has insufficient grounding."""
    desk.say(desk.start("paint the fence"), "two coats of green")

    answer = desk("artifact.find_related", claim=CLAIM)

    assert (answer["grounding_status"], answer["confidence"]) == ("insufficient_grounding", 0.12)
    assert answer["supporting_artifacts"] == answer["conflicting_artifacts"] == []
    assert answer["verification_hint"]["requires_verification"] is True


def test_a_record_grounds_a_claim_and_a_second_writer_verifies_it(desk: OperationCaller) -> None:
    """One writer's record makes a claim canonical; a second writer who verifies the record makes it verified."""
    claim = desk.say(desk.start("the walrus cache"), f"measured: {CLAIM}")
    before = desk("artifact.find_related", claim=CLAIM)
    desk("artifact.verification", reply_to_artifact_id=claim, supports_claim=True, writer="otto")
    after = desk("artifact.find_related", claim=CLAIM)

    assert before["grounding_status"] == "canonically_grounded"
    assert claim in [supporting_artifact["artifact_id"] for supporting_artifact in before["supporting_artifacts"]]
    assert 0.82 < before["confidence"] <= 0.94
    assert after["grounding_status"] == "verified_record"
    assert 0.92 < after["confidence"] <= 0.99
    assert after["verification_hint"]["requires_verification"] is False


@pytest.mark.parametrize("against", [{"supports_claim": False}, {"verification_status": "Rejected"}])
def test_a_rejection_conflicts_in_any_words(desk: OperationCaller, against: dict[str, object]) -> None:
    """A reply that rejects a supporting record makes the claim conflicted, even without common words."""
    claim = desk.say(desk.start("the walrus cache"), f"measured: {CLAIM}")
    no = desk("artifact.review", reply_to_artifact_id=claim, summary="nope", writer="otto", **against)["artifact_id"]

    answer = desk("artifact.find_related", claim=CLAIM)

    assert (answer["grounding_status"], answer["confidence"]) == ("conflicted", 0.34)
    assert [conflicting_artifact["artifact_id"] for conflicting_artifact in answer["conflicting_artifacts"]] == [no]


def test_only_what_is_named_is_looked_at(desk: OperationCaller) -> None:
    """With candidates, a task or a thread, nothing else counts; an unknown id is an error."""
    task, other = desk.start("the walrus cache"), desk.start("another walrus cache")
    claim, elsewhere = desk.say(task, f"measured: {CLAIM}"), desk.say(other, f"again: {CLAIM}")

    named = desk("artifact.find_related", claim=CLAIM, candidate_artifact_ids=[elsewhere])
    within = desk("artifact.find_related", claim=CLAIM, task_id=task)

    assert [supporting_artifact["artifact_id"] for supporting_artifact in named["supporting_artifacts"]] == [elsewhere]
    assert claim in [supporting_artifact["artifact_id"] for supporting_artifact in within["supporting_artifacts"]]
    assert elsewhere not in [
        supporting_artifact["artifact_id"] for supporting_artifact in within["supporting_artifacts"]
    ]
    with pytest.raises(NotFound):
        desk("artifact.find_related", claim=CLAIM, candidate_artifact_ids=["nothing-like-it"])


def test_what_is_recorded_of_it_verifies_nothing(desk: OperationCaller) -> None:
    """Recording a lookup, however often and by whom, verifies nothing and grounds nothing."""
    claim = desk.say(desk.start("the walrus cache"), f"measured: {CLAIM}")

    for agent in ("otto", "zoe", "mara"):
        answer = desk("artifact.find_related", claim=CLAIM, create_artifact=True, writer=agent)
        made = answer["verification_artifact"]
        shown = desk("artifact.get", artifact_id=made["artifact_id"])["artifact"]
        assert made["trust"]["tier"] == "canonical_record"
        assert (shown["artifact_role"], shown["artifact_kind"]) == ("claim_grounding", "verification")
        assert "supports_claim" not in shown
        assert claim in shown["related_artifact_ids"]
        assert answer["grounding_status"] == "canonically_grounded"
    assert desk("artifact.search", trust="verified")["hits"] == []


def test_it_is_recorded_in_a_task_or_not_at_all(desk: OperationCaller) -> None:
    """Without a task nothing is recorded."""
    with pytest.raises(UsageError, match="cannot be recorded without a task"):
        desk("artifact.find_related", claim=CLAIM, create_artifact=True)

    assert desk.lines() == 0
