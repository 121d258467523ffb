"""Tasks and records are found by their text or a unique prefix of their id, distinguished from similar ones, and filtered exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.records.drafts import draft
from tests.services.records.conftest import OperationCaller

from lorelog.core.errors import NotFound, UsageError
from lorelog.services.records.record_scope import resolve_record, resolve_task_id
from lorelog.services.records.store import RecordStore

SERVICES = ("billing", "orders", "shipping")


def siblings(desk: OperationCaller) -> dict[str, str]:
    """Write tasks that differ only in a name, and return them by it."""
    tasks = {}
    for number, name in enumerate(SERVICES):
        task = tasks[name] = desk.start(
            f"migrate the {name} service to the new retry policy",
            dataset_refs=[{"name": f"replay-{number}"}],
            entity_refs=[{"name": name, "entity_type": "service"}],
            writer=f"agent-{number}",
        )
        desk("task.progress", task_id=task, summary="half of the call sites are done", next_step="load test")
        desk.say(task, ["the herd is gone", "errors are unchanged", "duplicates are gone"][number])
    desk("task.finish", task_id=tasks["billing"], summary="all call sites retry with jitter")
    desk("task.finish", task_id=tasks["orders"], status="failed", what_failed=["the breaker tripped"])
    return tasks


def found(desk: OperationCaller, query: str = "", **conditions: Any) -> list[str]:
    return [hit["task_id"] for hit in desk("task.search", query=query, **conditions)["hits"]]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("how far is the shipping migration", "shipping"),
        ("orders service retry policy", "orders"),
        ("call sites of billing", "billing"),
        ("retry policy on replay-2", "shipping"),
        ("what about the herd", "billing"),
        ("which retry migration failed", "orders"),
        ("which retry migration is still open", "shipping"),
    ],
)
def test_siblings_are_told_apart(desk: OperationCaller, query: str, name: str) -> None:
    """A name, a dataset, a result or a status in the query ranks the right sibling first."""
    tasks = siblings(desk)

    assert found(desk, query)[0] == tasks[name]


def test_a_task_is_one_hit_with_what_it_was_found_by(desk: OperationCaller) -> None:
    """A task is one hit with its best records, their trust and its status, however many records match."""
    tasks = siblings(desk)
    hits = desk("task.search", query="billing call sites retry")["hits"]

    assert len({hit["task_id"] for hit in hits}) == len(hits)
    best = hits[0]
    assert (best["task_id"], best["status"]) == (tasks["billing"], "completed")
    assert best["goal"].startswith("migrate the billing")
    assert 1 <= len(best["matched"]) <= 3
    assert [grounding_ref["artifact_id"] for grounding_ref in best["grounding_refs"]] == [
        grounding_ref["artifact_id"] for grounding_ref in best["matched"]
    ]
    assert best["trust"]["tier"] == "canonical_record"
    assert best["verification_hint"]["requires_verification"] is False
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ({"status": "failed"}, ["orders"]),
        ({"status": "in_progress"}, ["shipping"]),
        ({"dataset": "Replay-1"}, ["orders"]),
        ({"entity": "shipping"}, ["shipping"]),
        ({"writer": "agent-0"}, ["billing"]),
        ({"kinds": ["task_finish"]}, ["billing", "orders"]),
        ({"kinds": ["evidence"], "status": "completed"}, ["billing"]),
        ({"dataset": "nothing"}, []),
        ({"challenge_id": "nothing"}, []),
        ({"until": "2020-01-01"}, []),
        ({"since": "2020-01-01"}, list(SERVICES)),
        ({"trust": "verified"}, []),
        ({"trust": "canonical"}, list(SERVICES)),
    ],
)
def test_conditions_are_exact(desk: OperationCaller, conditions: dict[str, Any], names: list[str]) -> None:
    """Filters are exact, with and without a query."""
    tasks = siblings(desk)

    for query in ("", "retry policy", "call sites"):
        assert set(found(desk, query, **conditions)) <= {tasks[name] for name in names}
    assert set(found(desk, **conditions)) == {tasks[name] for name in names}
    assert set(found(desk, "retry policy migration", k=50, **conditions)) == {tasks[name] for name in names}


def test_one_task_and_its_parts_can_be_asked_for(desk: OperationCaller) -> None:
    """Tasks and subtasks can be selected by an id prefix; an unknown one is an error."""
    tasks = siblings(desk)
    part = desk.start("a part of the retry work", parent_task_id=tasks["orders"])

    assert found(desk, "retry", task_id=tasks["orders"][:-2]) == [tasks["orders"]]
    assert found(desk, "retry", parent_task_id=tasks["orders"]) == [part]
    assert found(desk, parent_task_id=tasks["orders"]) == [part]
    with pytest.raises(NotFound, match="no task"):
        desk("task.search", query="retry", task_id="nothing-like-it")
    with pytest.raises(UsageError, match="not a kind"):
        desk("task.search", query="retry", kinds=["evidenc"])


@pytest.mark.slow
def test_few_among_many_are_found(desk: OperationCaller) -> None:
    """A selective filter widens the search until the matching task is found."""
    for number in range(60):
        desk.start(f"retry policy retry policy number {number}")
    wanted = desk.start("an aside that names a retry once, in passing, among other things", challenge_id="c-1")

    assert found(desk, "retry policy", challenge_id="c-1", k=1) == [wanted]
    hits = desk("artifact.search", query="retry policy", challenge_id="c-1", k=1)["hits"]
    assert [hit["task_id"] for hit in hits] == [wanted]


def test_without_a_question_the_newest_come_first(desk: OperationCaller) -> None:
    """Without a query, tasks come by their last change and records by their time, newest first."""
    first, second = desk.start("one"), desk.start("two")
    late = desk.say(first, "more about one")

    assert found(desk) == [first, second]
    assert found(desk, k=1) == [first]
    newest = desk("artifact.search")["hits"]
    assert newest[0]["artifact_id"] == late
    assert newest[0]["artifact"]["summary"] == "more about one"
    assert [hit["artifact_kind"] for hit in newest] == ["evidence", "task_start", "task_start"]


def test_verified_is_what_a_second_writer_stands_by(desk: OperationCaller) -> None:
    """The trust filter returns the verification and the verified record; each cites the other."""
    task = desk.start("the walrus cache")
    claim, other = desk.say(task, "walrus holds"), desk.say(task, "walrus is large")
    by = desk(
        "artifact.verification", reply_to_artifact_id=claim, supports_claim=True, writer="otto", summary="walrus, seen"
    )

    hits = {hit["artifact_id"]: hit for hit in desk("artifact.search", query="walrus", trust="verified")["hits"]}

    assert set(hits) == {claim, by["artifact_id"]}
    assert other not in hits
    assert by["artifact_id"] in [grounding_ref["artifact_id"] for grounding_ref in hits[claim]["grounding_refs"]]
    assert hits[by["artifact_id"]]["trust"]["tier"] == "verified_record"


def test_an_empty_home_answers_with_nothing(desk: OperationCaller) -> None:
    """Searching an empty home finds nothing and creates no ledger."""
    assert desk("task.search", query="walrus")["hits"] == []
    assert desk("artifact.search")["hits"] == []
    assert desk.lines() == 0


def test_a_verification_is_listed_below_its_record(desk: OperationCaller) -> None:
    """`artifact.search` lists a record before the verification that repeats the question's words more often."""
    task = desk.start("the walrus cache")
    claim = desk.say(task, "we keep the walrus in a cache of its own because the others are in the way of it")
    by = desk(
        "artifact.verification",
        reply_to_artifact_id=claim,
        supports_claim=True,
        writer="otto",
        summary="walrus cache, walrus cache",
    )

    found = [
        hit["artifact_id"]
        for hit in desk("artifact.search", query="walrus cache", kinds=["evidence", "verification"])["hits"]
    ]

    assert found.index(claim) < found.index(by["artifact_id"])


def test_a_token_budget_keeps_the_best_records(desk: OperationCaller) -> None:
    """With a budget `artifact.search` returns the best records that fit, the last ones without their fields, and says so."""
    task = desk("task.start", goal="Count the walrus")["task_id"]
    for number in range(6):
        desk(
            "task.progress", task_id=task, summary=f"Saw walrus {number} " + "on the ice " * 40, next_step="look again"
        )
    everything = desk("artifact.search", query="walrus", k=10)["hits"]

    reply = desk("artifact.search", query="walrus", k=10, token_budget=1500)
    hits = reply["hits"]

    order = [hit["artifact_id"] for hit in everything]
    assert 0 < len(hits) < len(everything)
    assert [hit["artifact_id"] for hit in hits] == [
        name for name in order if name in {hit["artifact_id"] for hit in hits}
    ]
    assert len(json.dumps(hits)) < 1500 * 5
    assert hits[0]["artifact_id"] == order[0]
    assert "left out" in reply["notes"][-1]
    assert desk("artifact.search", query="walrus", k=10, token_budget=100_000)["hits"] == everything


def test_what_was_superseded_is_left_out_unless_asked_for(desk: OperationCaller) -> None:
    """Superseded records are omitted unless requested."""
    claim = desk.say(desk.start("the cache"), "walrus takes three ms")
    anew = desk("artifact.revision", reply_to_artifact_id=claim, summary="walrus takes four ms")["artifact_id"]

    for query in ("walrus", ""):
        shown = [
            hit["artifact_id"] for hit in desk("artifact.search", query=query, kinds=["evidence", "revision"])["hits"]
        ]
        assert shown == [anew]
        both = desk("artifact.search", query=query, kinds=["evidence", "revision"], include_superseded=True)["hits"]
        assert {hit["artifact_id"] for hit in both} == {claim, anew}


TASKS = ("0195aaaa-1111", "0195aaaa-2222", "0195bbbb-3333")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RecordStore]:
    """Three tasks, two with a common prefix; the record of each is named after it."""
    made = RecordStore(tmp_path / "data" / "t")
    made.append([draft("task_start", {"goal": f"goal {item}"}, task=item, id=f"r{item}") for item in TASKS])
    yield made
    made.close()


@pytest.mark.parametrize("given", [TASKS[2], f" {TASKS[2]} ", "0195bbbb", "0195bb"])
def test_a_task_is_named_by_its_id_or_its_beginning(book: RecordStore, given: str) -> None:
    """A task is resolved from its id, with white space around it, or from a unique prefix."""
    assert resolve_task_id(book.tables(), given) == TASKS[2]


@pytest.mark.parametrize("given", [f"r{TASKS[0]}", "r0195aaaa-1", f"r{TASKS[0]}:0123456789ab"])
def test_a_record_is_named_likewise(book: RecordStore, given: str) -> None:
    """A record is resolved from its id or a unique prefix."""
    assert resolve_record(book.tables(), given).id == f"r{TASKS[0]}"


@pytest.mark.parametrize(
    ("given", "told", "hint"),
    [
        ("0195aaaa", "several tasks begin with", TASKS[1]),
        ("0195b", "too short", "at least 6"),
        ("0195aaaa-1112", "there is no task", TASKS[0]),
        ("qqqqqqqq", "there is no task", "task list"),
        ("", "the id of the task is empty", "give the id"),
        ("   ", "the id of the task is empty", "give the id"),
        (f"r{TASKS[2]}", "is a record of a task, not a task", TASKS[2]),
        ("0195%", "there is no task", ""),
        ("______", "there is no task", ""),
        ("r0195aaaa", "several records begin with", f"r{TASKS[1]}"),
        ("r0195aaaa-1x", "there is no record", f"r{TASKS[0]}"),
        (TASKS[1], "is a task, not a record", f"r{TASKS[1]}"),
        ("r01", "too short for the id of a record", "at least 6"),
    ],
)
def test_an_id_that_does_not_resolve_is_an_error_with_candidates(
    book: RecordStore, given: str, told: str, hint: str
) -> None:
    """An unknown, ambiguous, too short or wrong id of a task or record is an error whose hint suggests candidates."""
    resolve = resolve_record if "record" in told.replace("a record of a task", "") else resolve_task_id
    with pytest.raises(NotFound, match=told) as raised:
        resolve(book.tables(), given)

    assert hint in raised.value.hint


def test_an_empty_home_knows_no_task(tmp_path: Path) -> None:
    """Resolving an id in an empty home raises NotFound and creates no file."""
    book = RecordStore(tmp_path / "data" / "none")
    with pytest.raises(NotFound):
        resolve_task_id(book.tables(), "0195aaaa")
    assert not (tmp_path / "none").exists()
