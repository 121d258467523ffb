"""Required, allowed and inherited fields of each kind of record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.records.any_drafts import drafts
from tests.records.drafts import LEAST, TASK, draft

from lorelog.core.errors import UsageError
from lorelog.core.record import Record, RecordDraft
from lorelog.records.kinds import (
    FIELDS,
    KINDS,
    RecordKindSpec,
    allowed_fields,
    check_draft,
    check_fields,
    complete_draft,
    search_text,
)

PARENT = Record("r-1", 1, "evidence", "t", project="p", task="t-1", thread="th", fields={"challenge_id": "c"})


def test_the_table_is_consistent() -> None:
    """Every field that a kind names exists and is accepted, and every kind is one of memd's."""
    for name, kind in KINDS.items():
        assert set(kind.required) <= set(allowed_fields(name))
    assert [*KINDS] == [
        *("task_start", "task_progress", "run_start", "run_finish", "evidence", "review", "revision", "verification"),
        *("decision", "task_finish", "wiki_page"),
    ]


@given(draft=drafts())
def test_any_draft_that_is_allowed_is_accepted(draft: RecordDraft) -> None:
    """Every kind accepts its required fields and any other fields of their types."""
    check_draft(draft)


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, rules in KINDS.items() for field in rules.required]
)
@pytest.mark.parametrize("blank", [None, "", "  ", []], ids=repr)
def test_what_is_required_must_be_said(kind: str, field: str, blank: Any) -> None:
    """A required field that is missing or blank is named in the error."""
    fields = {**LEAST[kind], field: blank}
    if blank is None:
        del fields[field]

    with pytest.raises(UsageError, match=f"'{field}'"):
        check_fields(kind, fields)


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
    """A field of the wrong type is named in the error."""
    with pytest.raises(UsageError, match=f"'{field}'"):
        check_fields("decision", {field: value})


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
    """A misspelt field is rejected with a suggestion, and computed fields cannot be written."""
    with pytest.raises(UsageError, match=f"'{name}'") as caught:
        check_fields(kind, {name: "x"})
    assert hint in caught.value.hint


@pytest.mark.parametrize("kind", ["digest", "decisions", ""])
def test_reserved_kinds_are_refused(kind: str) -> None:
    """Digests are never accepted; an unknown kind is rejected with a suggestion."""
    with pytest.raises(UsageError):
        check_fields(kind, {})
    with pytest.raises(UsageError):
        complete_draft(RecordDraft(kind))


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
    """Invalid ids, times, origins and premature signatures are rejected."""
    with pytest.raises(UsageError):
        check_draft(replace(draft(), **wrong))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_only_some_records_stand_without_a_task(kind: str) -> None:
    """Decisions, pages and replies to records without a task need no task; all other records do."""
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
    ("fields", "message"),
    [
        ({"artifact_role": "person"}, "role"),
        ({"summary": "ä" * 251}, "summary"),
        ({"content": "x" * 262145}, "content"),
    ],
    ids=["role", "summary", "content"],
)
def test_pages_have_bounds(fields: dict[str, Any], message: str) -> None:
    """A page is about a concept or an entity, and its summary and text are limited."""
    check_fields("wiki_page", LEAST["wiki_page"])
    with pytest.raises(UsageError, match=message):
        check_fields("wiki_page", {**LEAST["wiki_page"], **fields})


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_what_is_not_said_comes_from_kind_and_parent(name: str, kind: RecordKindSpec) -> None:
    """Task, project, thread and challenge come from the parent, relation and status from the kind, unless given."""
    draft = complete_draft(RecordDraft(name, reply_to="r-1"), PARENT)

    assert (draft.project, draft.thread, draft.relation) == ("p", "th", kind.relation)
    assert (draft.task == "t-1") != kind.starts_task
    assert draft.status == ("" if kind.needs_status else kind.status)
    assert draft.fields == {"challenge_id": "c"}
    assert draft.supersedes == ("r-1" if name == "revision" else "")
    given = replace(
        draft, project="q", task="t-2", thread="th-2", relation="x", status="s", fields={"challenge_id": "d"}
    )
    assert complete_draft(given, PARENT) == given


def test_the_text_of_a_record_has_its_words() -> None:
    """The searchable text has the words of the fields, without ids and policies."""
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
