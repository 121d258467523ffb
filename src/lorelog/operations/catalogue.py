"""Find operations by name, and describe them as JSON Schema.

Each family of operations is a module with an `OperationFamily`. A family is imported when one of its operations is
looked up: a cold search loads `operations.search` and no other family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from lorelog.core.errors import StoreBusy, StoreUnwritable, UsageError
from lorelog.operations.operation import SURFACES, Json, Operation, OperationFamily

FAMILIES = {
    "memory": ("search", "index", "memory", "lifecycle", "measures", "backup", "forget"),
    **dict.fromkeys(("memory.stats", "memory.cost", "session.status", "session.hosts"), ("measures",)),
    **dict.fromkeys(("memory.health", "memory.index"), ("index",)),
    "memory.add": ("memory",),
    "backup": ("backup",),
    "roots": ("index",),
    "session": ("session",),
    "task": ("records", "artifacts", "digests"),
    "artifact": ("artifacts", "records", "digests"),
    "context": ("digests",),
    "code": ("code",),
    "code.check": ("changes",),
    "debug": ("debug",),
    "delivery": ("delivery",),
    "review": ("review",),
    "ledger": ("artifacts",),
    "guard": ("guard",),
    "settings": ("settings",),
    "sync": ("sync",),
}
"""Modules that declare the operations of each prefix, the likeliest first; of other packages by their whole names.

Operations of common commands have lines of their own: no other module is loaded for them."""


def _family(module: str) -> OperationFamily:
    name = module if "." in module else f"lorelog.operations.{module}"
    family: OperationFamily = import_module(name).OPERATIONS
    return family


@cache
def all_operations() -> dict[str, Operation[Any, Any]]:
    """Return every operation by name. Loads all families."""
    packages = dict.fromkeys(package for packages in FAMILIES.values() for package in packages)
    return {name: operation for package in packages for name, operation in _family(package).items()}


_MEMD_NAMES = {"memory.export_markdown": "memory.export", "context.search_context_documents": "memory.search"}
"""Operations of memd that are another one of ours with the same fields."""
_MEMD_HINTS = {
    "memory.export_omf": 'call memory.export with {"format": "omf"}',
    **dict.fromkeys(
        ("memory.import_omf", "memory.preview_omf_import"), "'lorelog import FILE', with --dry-run for a preview"
    ),
    "memory.dream": "memory.find_near_duplicates lists what could be retired",
    "memory.consolidate_episode": "memory.compact writes summaries",
}


def find_operation(name: str) -> Operation[Any, Any]:
    """Return an operation by its name; the prefix `memory.` is optional. Raise UsageError with the nearest names."""
    for full_name in (name, f"memory.{name}", _MEMD_NAMES.get(name, "")):
        for package in FAMILIES.get(full_name) or FAMILIES.get(full_name.partition(".")[0], ()):
            operation = _family(package).get(full_name)
            if operation is not None:
                return operation
    from difflib import get_close_matches

    operations = all_operations()
    short_names = {full_name.partition(".")[2]: full_name for full_name in reversed(operations)}
    candidates = short_names | {full_name: full_name for full_name in operations}
    near = list(dict.fromkeys(candidates[match] for match in get_close_matches(name, candidates, n=3, cutoff=0.5)))
    hint = f"did you mean {' or '.join(near)}?" if near else "'lorelog ops' lists them"
    hint = _MEMD_HINTS.get(name, hint)
    raise UsageError(f"there is no operation {name[:100]!r}", hint=hint)


def operation_of(handler: Callable[..., Any]) -> Operation[Any, Any]:
    family: OperationFamily = import_module(handler.__module__).OPERATIONS
    return next(operation for operation in family.values() if operation.handler is handler)


_REF_TEMPLATE = "#/$defs/{name}"


def describe_operation(operation: Operation[Any, Any]) -> Json:
    """Return the description of one operation: help text, request and reply schemas, errors, surfaces."""
    errors = operation.errors + ((StoreUnwritable, StoreBusy) if operation.writes else ())
    return {
        "name": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "writes": operation.writes,
        "request": request_schema(operation),
        "reply": _standalone(*_reply_schema(operation.json_type, _REF_TEMPLATE)),
        "errors": sorted({"usage", "config", "store", *(kind.code for kind in errors)}),
        "surfaces": {surface: operation.absent.get(surface, True) for surface in SURFACES},
    }


def describe_all() -> list[Json]:
    return [describe_operation(operation) for operation in all_operations().values()]


def operation_schemas(operation: Operation[Any, Any], ref_template: str = _REF_TEMPLATE) -> tuple[Json, Json, Json]:
    """Return the schema of the request, that of the reply, and the definitions that both refer to."""
    (request,), definitions = msgspec.json.schema_components([operation.request], ref_template=ref_template)
    reply, reply_definitions = _reply_schema(operation.json_type, ref_template)
    return request, reply, definitions | reply_definitions


def request_schema(operation: Operation[Any, Any]) -> Json:
    """Return the schema of a request with all its definitions."""
    (schema,), definitions = msgspec.json.schema_components([operation.request], ref_template=_REF_TEMPLATE)
    return _standalone(schema, definitions)


def _standalone(schema: Json, definitions: Json) -> Json:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    whole = dict(definitions.pop(name)) if name else dict(schema)
    return {**whole, "$defs": definitions} if definitions else whole


def _reply_schema(reply: type, ref_template: str) -> tuple[Json, Json]:
    """Return the schema of a reply and its definitions.

    JSON has every field of a value, also one that equals its default, unless its class omits defaults.
    """
    (schema,), definitions = msgspec.json.schema_components([reply], ref_template=ref_template)
    for kind in set(_structs(msgspec.inspect.type_info(reply))):
        if kind.__struct_config__.omit_defaults:
            continue
        properties = definitions[kind.__name__]["properties"]
        unset = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
        definitions[kind.__name__]["required"] = [name for name in properties if name not in unset]
        for name in properties.keys() - unset:
            properties[name].pop("default", None)
    return schema, definitions


def _structs(node: object) -> Iterator[type[msgspec.Struct]]:
    if isinstance(node, msgspec.inspect.StructType):
        yield node.cls
    if isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field):
        node = tuple(getattr(node, name) for name in node.__struct_fields__)
    for part in node if isinstance(node, tuple) else ():
        yield from _structs(part)
