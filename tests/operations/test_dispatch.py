"""Operations are described well enough to be called; replies match their schemas, and errors name the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.operations.sample import JUDGE, requests, tell, write_notes

from lorelog.core.errors import ConfigError, NotFound, UsageError
from lorelog.light.daemon_connection import NON_IDEMPOTENT
from lorelog.operations.catalogue import all_operations, describe_all, describe_operation, find_operation
from lorelog.operations.dispatch import ClientIdentity, Dispatcher, read_request
from lorelog.operations.operation import SURFACES, Operation
from lorelog.wiring import ResourcePool


@pytest.fixture
def caller(tmp_path: Path, home: Path) -> ClientIdentity:
    """A client in a project with two sections and vectors of the fake provider."""
    project = tmp_path / "app"
    write_notes(project)
    environment = {"LORELOG_HOME": str(home), "LORELOG_EMBEDDING_PROVIDER": "fake", "LORELOG_LLM_COMMAND": JUDGE}
    return ClientIdentity(str(project), environment)


@pytest.fixture
def dispatcher(caller: ClientIdentity) -> Dispatcher:
    """A dispatcher with the engines of a daemon, and the notes indexed."""
    made = Dispatcher(ResourcePool().engine)
    made.call("memory.index", {"paths": ["notes"]}, caller)
    return made


@pytest.mark.slow
def test_every_answer_is_what_its_schema_says(dispatcher: Dispatcher, caller: ClientIdentity) -> None:
    """The reply of each operation over a real index is valid under its own schema."""
    section = dispatcher.call("search", {"query": "otter"}, caller)["hits"][0]["id"]
    asked = requests(section, tell(lambda op, arguments: dispatcher.call(op, arguments, caller)))

    for name, arguments in asked.items():
        if name == "memory.forget_verify":
            dispatcher.call("memory.forget", {"match": "seven otters", "confirm": True}, caller)
        shape = dispatcher.call(name, arguments, caller)
        jsonschema.validate(json.loads(json.dumps(shape)), describe_operation(all_operations()[name])["reply"])
    assert set(asked) == set(all_operations())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([1], "must be a JSON object"),
        ("text", "must be a JSON object"),
        ({}, "query"),
        ({"query": 3}, "query"),
        ({"query": "x", "k": 0}, r"k must be at least 1 \(got 0\)"),
        ({"query": "x", "k": "3"}, "k"),
        ({"query": "x", "lanes": "dense"}, "did you mean 'lane'"),
        ({"query": "x", "lane": "sideways"}, "sideways"),
        ({"query": "x", "tags": "one"}, "tags"),
        ({"query": "x", "since": "someday"}, "someday"),
        ({"query": "x", "tenant": "../other"}, "scope.tenant"),
    ],
)
def test_a_wrong_request_is_told_by_field(
    dispatcher: Dispatcher, caller: ClientIdentity, arguments: object, told: str
) -> None:
    """The message names the field and the value."""
    with pytest.raises((UsageError, ConfigError), match=told):
        dispatcher.call("memory.search", arguments, caller)


def test_null_is_not_given(dispatcher: Dispatcher, caller: ClientIdentity) -> None:
    """Null counts as not given."""
    assert dispatcher.call("search", {"query": "otter", "k": None, "source": None}, caller)["hits"]


@pytest.mark.slow
@given(
    arguments=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    name=st.sampled_from(sorted(all_operations())),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_json_is_read_or_refused(arguments: object, name: str) -> None:
    """Any JSON becomes a request or a usage error."""
    try:
        request = read_request(all_operations()[name], arguments)
    except UsageError:
        return
    assert isinstance(request, all_operations()[name].request)


def test_relative_paths_start_where_the_caller_stands(
    dispatcher: Dispatcher, caller: ClientIdentity, tmp_path: Path
) -> None:
    """Relative paths start at the directory of the client."""
    other = tmp_path / "other"
    (other / "notes").mkdir(parents=True)
    (other / "notes" / "b.md").write_text("a walrus\n", "utf-8")
    there = ClientIdentity(str(other), caller.environment)

    dispatcher.call("index", {"paths": ["notes"]}, there)

    assert dispatcher.call("search", {"query": "walrus", "source": "notes"}, there)["hits"]
    assert dispatcher.call("list", {"documents": True, "source": "notes"}, caller)["documents"][0]["source"].endswith(
        "app/notes/a.md"
    )


def test_strangers_name_no_files(dispatcher: Dispatcher, caller: ClientIdentity) -> None:
    """A remote client may refresh indexed files, and cannot name files to read."""
    stranger = ClientIdentity(caller.directory, caller.environment, own=False)

    assert dispatcher.call("index", {}, stranger)["files"] == 1
    with pytest.raises(UsageError, match="only the shell and Python"):
        dispatcher.call("index", {"paths": ["/etc"]}, stranger)
    for place in ("/etc/passwd", "t.jsonl", "./t.jsonl", "~", "openclaw-session://x"):
        with pytest.raises((NotFound, UsageError)):
            dispatcher.call("transcript", {"place": place}, stranger)


@pytest.mark.parametrize("op", ["memory.add", "memory.add_batch", "memory.index"])
def test_strangers_choose_no_directories(
    dispatcher: Dispatcher, caller: ClientIdentity, tmp_path: Path, op: str
) -> None:
    """A remote client cannot write or read in a directory that the user never indexed."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "CLAUDE.md").write_text("an otter\n", "utf-8")
    given: dict[str, dict[str, Any]] = {"memory.add": {"text": "x"}, "memory.add_batch": {"memories": [{"text": "x"}]}}
    arguments = given.get(op, {})
    stranger = ClientIdentity(caller.directory, caller.environment, own=False)

    with pytest.raises(UsageError, match="is not a known project"):
        dispatcher.call(op, {**arguments, "project": str(other)}, stranger)
    assert [path.name for path in other.iterdir()] == ["CLAUDE.md"]
    assert dispatcher.call(op, {**arguments, "project": caller.directory}, stranger)


def test_what_was_done_is_counted(dispatcher: Dispatcher, caller: ClientIdentity) -> None:
    """Metrics count the calls and failures of each operation."""
    dispatcher.call("search", {"query": "otter"}, caller)
    with pytest.raises(NotFound):
        dispatcher.call("expand", {"id": "nothing"}, caller)

    counted = {count["op"]: count for count in dispatcher.call("metrics", {}, caller)["operations"]}

    assert (counted["memory.search"]["count"], counted["memory.search"]["errors"]) == (1, 0)
    assert (counted["memory.expand"]["count"], counted["memory.expand"]["errors"]) == (1, 1)
    assert counted["memory.search"]["p50_ms"] > 0


EVERY = pytest.mark.parametrize("operation", all_operations().values(), ids=lambda operation: operation.name)


@EVERY
def test_an_operation_says_what_it_does(operation: Operation[Any, Any]) -> None:
    """It has a summary, and each field of its request a description."""
    described = describe_operation(operation)

    assert described["summary"].endswith((".", ";")) or described["summary"]
    assert [name for name, field in described["request"]["properties"].items() if not field.get("description")] == []


@pytest.mark.slow
@EVERY
def test_its_schemas_are_schemas(operation: Operation[Any, Any]) -> None:
    """Request and reply are valid JSON Schema, and the request admits no unknown field."""
    described = describe_operation(operation)

    for part in ("request", "reply"):
        jsonschema.Draft202012Validator.check_schema(described[part])
    assert described["request"]["additionalProperties"] is False


@EVERY
def test_absence_has_a_reason(operation: Operation[Any, Any]) -> None:
    """Each absent surface exists and has a reason."""
    assert set(operation.absent) <= set(SURFACES)
    assert all(len(reason) > 20 for reason in operation.absent.values())


def test_the_catalogue_holds_what_the_product_promises() -> None:
    """The memory operations that users of such systems expect exist."""
    promised = "search add add_batch get expand list delete stats health metrics index transcript"

    assert {f"memory.{name}" for name in promised.split()} <= {described["name"] for described in describe_all()}


@pytest.mark.parametrize(
    ("asked", "offered"), [("serch", "memory.search"), ("memory.ad", "memory.add"), ("root.list", "roots.list")]
)
def test_a_misspelt_operation_is_told_the_nearest(asked: str, offered: str) -> None:
    """A misspelt name is an error with the nearest names."""
    with pytest.raises(UsageError, match=r"there is no operation") as raised:
        find_operation(asked)

    assert offered in raised.value.hint


def test_the_room_may_be_left_out() -> None:
    """`search` is memory.search."""
    assert find_operation("search") is all_operations()["memory.search"]


def test_the_daemon_repeats_no_call_that_must_run_once() -> None:
    """The light list of the daemon's client names every operation with `once`, under all its names, and no other."""
    once = {name for name, operation in all_operations().items() if operation.once}

    assert once | {name.removeprefix("memory.") for name in once} == NON_IDEMPOTENT
    assert all(all_operations()[name].writes for name in once)
