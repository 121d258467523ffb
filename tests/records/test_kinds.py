"""What each kind of record must say, may say, and gets from what it replies to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.records.any_drafts import drafts
from tests.records.drafts import LEAST, TASK, draft

from lorelog.core.errors import UsageError
from lorelog.core.record import Draft, Record
from lorelog.records.kinds import FIELDS, KINDS, Kind, allowed, check, check_draft, complete
from lorelog.records.text import search_text

PARENT = Record("r-1", 1, "evidence", "t", project="p", task="t-1", thread="th", fields={"challenge_id": "c"})


def test_the_table_is_consistent() -> None:
    """Every field that a kind names is a known one that it takes, and every kind is memd's."""
    for name, kind in KINDS.items():
        assert set(kind.required) | set(kind.usual) <= set(allowed(name))
        assert not set(kind.required) & set(kind.usual)
    assert [*KINDS] == [
        *("task_start", "task_progress", "run_start", "run_finish", "evidence", "review", "revision", "verification"),
        *("decision", "task_finish", "wiki_page"),
    ]


@given(one=drafts())
def test_any_draft_that_is_allowed_is_accepted(one: Draft) -> None:
    """Every kind with what it must say and any other fields of their types."""
    check_draft(one)


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, rules in KINDS.items() for field in rules.required]
)
@pytest.mark.parametrize("blank", [None, "", "  ", []], ids=repr)
def test_what_is_required_must_be_said(kind: str, field: str, blank: Any) -> None:
    """A required field that is missing or blank is named."""
    fields = {**LEAST[kind], field: blank}
    if blank is None:
        del fields[field]

    with pytest.raises(UsageError, match=f"'{field}'"):
        check(kind, fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("summary", 3),
        ("blockers", "one"),
        ("blockers", ["one", 2]),
        ("confidence", 1.5),
        ("confidence", True),
        ("confidence", float("nan")),
        ("metric_value", "3"),
        ("metrics", [1]),
        ("related_artifact_ids", ["two words"]),
        ("dataset_refs", [{"version": "1"}]),
        ("dataset_refs", [{"name": "a", "size": "3"}]),
        ("entity_refs", [{"name": "a"}]),
        ("entity_refs", ["a"]),
        ("provenance", {"path": 3}),
        ("cost_actual", True),
    ],
    ids=repr,
)
def test_values_of_other_types_are_refused(field: str, value: Any) -> None:
    """A field that is not of its type is named."""
    with pytest.raises(UsageError, match=f"'{field}'"):
        check("decision", {field: value})


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        ("decision", "sumary", "did you mean 'summary'?"),
        ("decision", "what_fails", "did you mean 'what_failed'?"),
        ("decision", "promotion_state", "trust is computed"),
        ("decision", "trust_tier", "trust is computed"),
        ("decision", "content", "did you mean"),
        ("decision", "qqqq", "known: goal"),
    ],
)
def test_unknown_fields_are_refused_with_the_nearest_name(kind: str, name: str, hint: str) -> None:
    """A misspelt field is not lost without a word; and nobody can write what is computed."""
    with pytest.raises(UsageError, match=f"'{name}'") as caught:
        check(kind, {name: "x"})
    assert hint in caught.value.hint


@pytest.mark.parametrize("kind", ["digest", "decisions", ""])
def test_kinds_that_nobody_may_write_are_refused(kind: str) -> None:
    """Digests are known and never accepted; what is no kind is told the nearest one."""
    with pytest.raises(UsageError):
        check(kind, {})
    with pytest.raises(UsageError):
        complete(Draft(kind))


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": "agents"},
        {"id": "two words"},
        {"reply_to": "a\nb"},
        {"status": ""},
        {"at": "yesterday"},
        {"at": "2026-13-05T14:30:00.000Z"},
        {"signature": "s"},
    ],
    ids=repr,
)
def test_drafts_that_cannot_become_records_are_refused(wrong: dict[str, Any]) -> None:
    """Ids, times, origins, and a signature over what is not there yet."""
    with pytest.raises(UsageError):
        check_draft(replace(draft(), **wrong))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_only_some_records_stand_without_a_task(kind: str) -> None:
    """Decisions and pages need no task, and what is said to a record needs none where that has none; all else does."""
    alone = replace(draft(kind), task="", reply_to="", supersedes="")
    if kind in {"decision", "wiki_page"}:
        check_draft(alone)
        return
    with pytest.raises(UsageError, match="needs a task"):
        check_draft(alone)
    reply = replace(alone, reply_to="r-1")
    if kind in {"evidence", "review", "revision", "verification"}:
        check_draft(reply)
    else:
        with pytest.raises(UsageError, match="needs a task"):
            check_draft(reply)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"artifact_role": "person"}, "role"),
        ({"summary": "ä" * 251}, "summary"),
        ({"content": "x" * 262145}, "content"),
    ],
    ids=["role", "summary", "content"],
)
def test_pages_have_bounds(fields: dict[str, Any], told: str) -> None:
    """A page is about a concept or an entity, and neither its summary nor its text is endless."""
    check("wiki_page", LEAST["wiki_page"])
    with pytest.raises(UsageError, match=told):
        check("wiki_page", {**LEAST["wiki_page"], **fields})


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_what_is_not_said_comes_from_kind_and_parent(name: str, kind: Kind) -> None:
    """Task, project, thread and challenge are the parent's, relation and status the kind's; what is said stays."""
    one = complete(Draft(name, reply_to="r-1"), PARENT)

    assert (one.project, one.thread, one.relation) == ("p", "th", kind.relation)
    assert (one.task == "t-1") != kind.founds
    assert one.status == ("" if kind.needs_status else kind.status)
    assert one.fields == {"challenge_id": "c"}
    assert one.supersedes == ("r-1" if name == "revision" else "")
    said = replace(one, project="q", task="t-2", thread="th-2", relation="x", status="s", fields={"challenge_id": "d"})
    assert complete(said, PARENT) == said


def test_a_task_begins_its_own_thread() -> None:
    """A start without an id gets one, which is its thread's, too."""
    one, two = complete(Draft("task_start")), complete(Draft("task_start"))

    assert one.task
    assert one.task == one.thread
    assert one.task != two.task


def test_the_text_of_a_record_has_its_words() -> None:
    """What somebody said can be found; ids and rules are no words."""
    fields: dict[str, Any] = {
        "summary": "chose redis",
        "what_failed": ["memcached", "etcd"],
        "metrics": {"p99": 3},
        "allowed_tools": ["vi"],
    }
    text = search_text(Record("r", 1, "task_finish", "t", status="completed", fields=fields))

    assert text == "chose redis\nwhat failed: memcached; etcd\nmetrics: p99 3"
    failed = search_text(Record("r", 1, "task_finish", "t", status="failed", fields=fields))
    assert failed == text + "\nstatus: failed"
    assert set(FIELDS) >= {*fields}
    assert TASK not in text


def test_a_decision_outside_of_all_tasks_is_a_thread_of_its_own() -> None:
    """It needs no task, and its thread bears its own id; in a task it is in the task's thread."""
    alone, within = complete(Draft("decision", id="d-1")), complete(Draft("decision", id="d-2", task="t-1"))

    check_draft(alone)
    assert (alone.task, alone.thread) == ("", "d-1")
    assert within.thread == "t-1"
