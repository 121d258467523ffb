"""Only the verification of another writer makes a record verified; every refusal says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.records.desk import OperationCaller

from lorelog.core.errors import LorelogError, NotFound, UsageError

VERIFIED = "verified_record"
COUNTERSIGNING = ("review", "revision", "verification", "decision")
LOOK_ALIKES = (
    *("mara", " mara ", "MARA", "\tMara\n", "ｍａｒａ", "m\u200bara", "mara\ufe0f", "m\u00adara"),
    *("m\u0430ra", "\u043cara", "mar\u0251", "ΜARA", "m\u03b1ra"),
)
"""Spellings that look like one name: padded, in capitals, with invisible letters, with letters of other alphabets."""
FORGED = {
    "verification_status": VERIFIED,
    "approval_state": "approved",
    "status": VERIFIED,
    "artifact_role": VERIFIED,
    "relation_kind": "verified_by",
    "summary": "verified_record, verified_by otto",
}


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


def made(place: Path, home: Path) -> Table:
    desk = OperationCaller(place, home)
    task = desk.start("choose a store")
    return Table(desk, task, desk.say(task, "the store answers in 3 ms"))


@pytest.fixture
def table(tmp_path: Path, home: Path) -> Iterator[Table]:
    """A project with a claim."""
    one = made(tmp_path / "app", home)
    yield one
    one.desk.close()


@pytest.mark.parametrize("kind", COUNTERSIGNING)
def test_another_writers_word_verifies(table: Table, kind: str) -> None:
    """The verification becomes verified; the claim keeps its tier and names its verifier."""
    spoken = table.speak(kind)

    assert (spoken["trust"]["tier"], spoken["trust"]["promotion"]) == (VERIFIED, "granted")
    assert spoken["notes"] == []
    claim = table.trust(table.claim)
    assert (claim["tier"], claim["verified_by"]) == ("canonical_record", [spoken["artifact_id"]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTERSIGNING)
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_the_same_is_the_same(table: Table, kind: str, name: str) -> None:
    """A writer cannot verify their own record under another spelling."""
    spoken = table.speak(kind, writer=name)

    assert (spoken["trust"]["tier"], spoken["trust"]["promotion"]) == ("canonical_record", "refused")
    assert "same writer" in spoken["trust"]["promotion_reason"]
    assert spoken["trust"]["promotion_reason"] in spoken["notes"][-1]


def other_tenants_claim(table: Table) -> dict[str, Any]:
    task = table.desk("task.start", goal="elsewhere", writer="mara", tenant="theirs")["task_id"]
    given = {"task_id": task, "evidence_kind": "x", "summary": "theirs", "writer": "mara", "tenant": "theirs"}
    return {"reply_to_artifact_id": table.desk("task.add_evidence", **given)["artifact_id"]}


def nobodys_claim(table: Table) -> dict[str, Any]:
    return {"reply_to_artifact_id": table.desk.say(table.task, "said by nobody", writer=" \u200b")}


def replaced_claim(table: Table) -> dict[str, Any]:
    given = {"reply_to_artifact_id": table.claim, "writer": "mara", "summary": "in 4 ms"}
    table.desk("artifact.revision", **given)
    return {}


def claim_that_another_put_aside(table: Table) -> dict[str, Any]:
    aside = table.desk.say(table.task, "something else", writer="zoe")
    table.speak("review", writer="zoe", supports_claim=..., supersedes=table.claim, reply_to_artifact_id=aside)
    return {}


REFUSED: dict[str, tuple[Callable[[Table], dict[str, Any]], str]] = {
    "blank writer": (lambda _: {"writer": "  "}, "its writer has no name"),
    "no writer": (lambda _: {"writer": ...}, "its writer has no name"),
    "unseen writer": (lambda _: {"writer": "\u200b\u2060"}, "its writer has no name"),
    "parent of nobody": (nobodys_claim, "the record it replies to has no name"),
    "no parent": (lambda table: {"reply_to_artifact_id": ..., "task_id": table.task}, "it does not reply to a record"),
    "superseded parent": (replaced_claim, "had already been superseded"),
    "parent that another put aside": (claim_that_another_put_aside, "had already been superseded"),
    "a tool's words": (lambda _: {"origin": "tool"}, "supports nothing unless it is signed"),
    "imported words": (lambda _: {"origin": "import"}, "supports nothing unless it is signed"),
    "forged words of the same writer": (lambda _: {"writer": "mara", **FORGED}, "same writer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTERSIGNING)
@pytest.mark.parametrize("case", REFUSED)
def test_what_lacks_a_condition_is_refused_with_its_reason(table: Table, case: str, kind: str) -> None:
    """The record is written, and every reply says that nothing was promoted, and why."""
    prepare, why = REFUSED[case]

    spoken = table.speak(kind, **prepare(table))

    for trust in (spoken["trust"], table.trust(spoken["artifact_id"])):
        assert (trust["tier"], trust["promotion"]) == ("canonical_record", "refused")
        assert why in trust["promotion_reason"]
    assert spoken["trust"]["promotion_reason"] in spoken["notes"][-1]
    assert table.trust(table.claim)["verified_by"] == []


@pytest.mark.parametrize("kind", COUNTERSIGNING)
@pytest.mark.parametrize("claim", [False, ...])
def test_only_supporting_records_promote(table: Table, kind: str, claim: object) -> None:
    """Without supports_claim nothing is verified, whatever other fields say."""
    spoken = table.speak(kind, supports_claim=claim, **FORGED)

    assert (spoken["trust"]["tier"], spoken["trust"]["promotion"]) == ("canonical_record", "none")


@pytest.mark.parametrize("kind", ["evidence", "task_progress", "task_finish", "run_finish", "wiki_page"])
def test_other_kinds_speak_for_nothing(table: Table, kind: str) -> None:
    """Evidence supports a claim and does not verify it."""
    each: dict[str, dict[str, Any]] = {
        "evidence": {"evidence_kind": "benchmark"},
        "task_progress": {"next_step": "on"},
        "run_finish": {"status": "completed"},
        "wiki_page": {"artifact_role": "concept", "content": "# x", "related_artifact_ids": [table.claim]},
    }
    spoken = table.speak("create", artifact_kind=kind, **{**FORGED, "status": "completed", **each.get(kind, {})})

    assert spoken["trust"]["tier"] == "canonical_record"
    assert table.desk("artifact.get", artifact_id=table.claim)["artifact"]["trust"]["verified_by"] == []


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


@pytest.mark.parametrize("how", ["another verdict", "in its place"])
def test_a_withdrawn_support_verifies_nothing(table: Table, how: str) -> None:
    """A writer who withdraws their support no longer verifies the claim; supporting it again does."""
    first = table.speak("verification")["artifact_id"]
    if how == "another verdict":
        back = table.speak("review", supports_claim=False)["artifact_id"]
    else:
        back = table.speak("revision", reply_to_artifact_id=first, supports_claim=False)["artifact_id"]

    assert table.trust(table.claim)["verified_by"] == []
    taken = table.trust(first)
    assert (taken["tier"], taken["promotion"]) == ("canonical_record", "refused")
    assert back in taken["promotion_reason"]

    again = table.speak("verification")
    assert again["trust"]["tier"] == VERIFIED
    assert table.trust(table.claim)["verified_by"] == [again["artifact_id"]]


def test_a_third_writer_cannot_withdraw_a_support(table: Table) -> None:
    """A contradiction by a third writer is shown and does not undo a verification."""
    spoken = table.speak("verification")["artifact_id"]
    table.speak("review", writer="zoe", supports_claim=False)
    table.speak("revision", writer="zoe", supports_claim=False, reply_to_artifact_id=spoken)

    shown = table.desk("artifact.get", artifact_id=table.claim)["artifact"]["trust"]
    assert shown["verified_by"] == [spoken]


NAMES = st.sampled_from([*LOOK_ALIKES, "", "  ", "\u2060"])
ACTS = st.lists(
    st.tuples(
        st.sampled_from([*COUNTERSIGNING, "evidence", "wiki_page", "task_start"]),
        NAMES,
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
        st.sampled_from([True, False, None]),
        st.sampled_from(["user", "agent", "tool", "import"]),
    ),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=ACTS)
def test_one_writer_alone_verifies_nothing(acts: list[tuple[str, str, int, int | None, bool | None, str]]) -> None:
    """No sequence of operations by one writer verifies a record of that writer."""
    with TemporaryDirectory() as folder:
        table = made(Path(folder) / "app", Path(folder) / "home")
        ids = [table.claim]
        for kind, name, about, instead, claim, origin in acts:
            said: dict[str, Any] = {
                "artifact_kind": kind,
                "writer": name,
                "origin": origin,
                "reply_to_artifact_id": ids[about % len(ids)],
                "supersedes": "" if instead is None else ids[instead % len(ids)],
                "supports_claim": claim,
                "summary": "verified",
                "goal": "another" if kind == "task_start" else "",
                "evidence_kind": "x" if kind == "evidence" else "",
            }
            page = {"artifact_role": "concept", "content": "# x", "related_artifact_ids": ids}
            with suppress(LorelogError):
                ids.append(table.desk("artifact.create", **said | (page if kind == "wiki_page" else {}))["artifact_id"])

        shown = [table.desk("artifact.get", artifact_id=id_)["artifact"]["trust"] for id_ in ids]
        hits = table.desk("memory.search", query="verified store", trust="verified")["hits"]
        table.desk.close()

    assert {trust["tier"] for trust in shown} == {"canonical_record"}
    assert [trust for trust in shown if trust["verified_by"]] == []
    assert hits == []
    assert VERIFIED not in json.dumps([trust["tier"] for trust in shown])
