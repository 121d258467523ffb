"""Every operation is described well enough to be called from its description alone."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from lorelog.core.errors import UsageError
from lorelog.light.daemon_connection import NON_IDEMPOTENT
from lorelog.operations.catalogue import all_operations, describe_all, describe_operation, find_operation
from lorelog.operations.operation import SURFACES, Operation

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
