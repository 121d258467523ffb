"""The JSON Schema of every operation, made from its types."""

from __future__ import annotations

from typing import Any

import msgspec

from lorelog.operations.catalogue import OPERATIONS
from lorelog.operations.operation import SURFACES, Operation
from lorelog.operations.replies import Shape

_PREFIX = "#/$defs/{name}"


def describe(operation: Operation[Any, Any]) -> Shape:
    """Return all there is to know about one operation: text, request and reply schemas, errors, surfaces."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "description": operation.text,
        "writes": operation.writes,
        "request": _alone(operation.request),
        "reply": _alone(operation.reply),
        "errors": sorted({"usage", "config", "store", *(kind.code for kind in operation.errors)}),
        "surfaces": {surface: operation.absent.get(surface, True) for surface in SURFACES},
    }


def schemas(operation: Operation[Any, Any], prefix: str = _PREFIX) -> tuple[tuple[Shape, Shape], Shape]:
    """Return the schemas of request and reply, and the definitions both refer to as `prefix` says."""
    (request, reply), definitions = msgspec.json.schema_components(
        [operation.request, operation.reply], ref_template=prefix
    )
    return (request, reply), definitions


def request_schema(operation: Operation[Any, Any]) -> Shape:
    """Return one self-contained schema of what an operation may be told."""
    return _alone(operation.request)


def catalogue() -> list[Shape]:
    """Return every operation, described."""
    return [describe(operation) for operation in OPERATIONS.values()]


def _alone(kind: type) -> Shape:
    """Return a type's schema with all that it refers to."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template=_PREFIX)
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    whole = dict(definitions.pop(name)) if name else dict(schema)
    return {**whole, "$defs": definitions} if definitions else whole
