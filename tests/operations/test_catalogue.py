"""Every operation is described well enough to be asked for by someone who has only its description."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from lorelog.core.errors import UsageError
from lorelog.operations.catalogue import OPERATIONS, find_operation
from lorelog.operations.operation import SURFACES, Operation
from lorelog.operations.schema import catalogue, describe

EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda one: one.name)


@EVERY
def test_an_operation_says_what_it_does(operation: Operation[Any, Any]) -> None:
    """It has one sentence of help, and each field of its request a meaning."""
    described = describe(operation)

    assert described["summary"].endswith((".", ";")) or described["summary"]
    assert [name for name, field in described["request"]["properties"].items() if not field.get("description")] == []


@EVERY
def test_its_schemas_are_schemas(operation: Operation[Any, Any]) -> None:
    """Request and reply are valid JSON Schema, and the request admits no unknown field."""
    described = describe(operation)

    for part in ("request", "reply"):
        jsonschema.Draft202012Validator.check_schema(described[part])
    assert described["request"]["additionalProperties"] is False


@EVERY
def test_absence_has_a_reason(operation: Operation[Any, Any]) -> None:
    """Where an operation cannot be asked for, a sentence says why, and the surface exists."""
    assert set(operation.absent) <= set(SURFACES)
    assert all(len(reason) > 20 for reason in operation.absent.values())


def test_the_catalogue_holds_what_the_product_promises() -> None:
    """The memory operations that users of such systems expect are all there."""
    promised = "search add add_batch get expand list delete stats health metrics index transcript"

    assert {f"memory.{name}" for name in promised.split()} <= {one["name"] for one in catalogue()}


@pytest.mark.parametrize(
    ("asked", "offered"), [("serch", "memory.search"), ("memory.ad", "memory.add"), ("root.list", "roots.list")]
)
def test_a_misspelt_operation_is_told_the_nearest(asked: str, offered: str) -> None:
    """Whoever misspells a name is told what they may have meant."""
    with pytest.raises(UsageError, match=r"there is no operation") as raised:
        find_operation(asked)

    assert offered in raised.value.hint


def test_the_room_may_be_left_out() -> None:
    """`search` is memory.search."""
    assert find_operation("search") is OPERATIONS["memory.search"]
