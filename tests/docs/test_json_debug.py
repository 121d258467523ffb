"""docs/json.md describes what is told of traces, field by field and in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from tests.docs.test_json_page import documented, fields
from tests.services.traces.stored_errors import store_errors
from tests.surfaces.conftest import Shell

from lorelog.operations.debug import ErrorsReply, ToolCallsReply, WhyReply

STACK = """\
Traceback (most recent call last):
  File "/app/db.py", line 3, in load
    x
KeyError: 'id'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/main.py", line 3, in main
    x
ValueError: no row
"""


def declared(kind: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields of a reply."""
    if get_origin(kind) is tuple:
        yield from declared(get_args(kind)[0], f"{prefix}[]")
    elif get_origin(kind) is UnionType:
        yield from declared(get_args(kind)[0], prefix)
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for key, field_type in get_type_hints(kind).items():
            name = f"{prefix}.{key}" if prefix else key
            yield name
            yield from declared(field_type, name)


def test_traces_are_documented(shell: Shell, project: Path) -> None:
    """Every field that can be there is documented, and no other; what is printed has those fields."""
    for section, reply in (
        ("debug calls", ToolCallsReply),
        ("debug errors", ErrorsReply),
        ("why", WhyReply),
    ):
        assert set(declared(reply)) == documented(section)
    store_errors(project, STACK)
    assert set(fields(shell("debug", "errors", "--json").json)) == documented("debug errors")
    assert set(fields(shell("debug", "calls", "--json").json)) == documented("debug calls")
    assert set(fields(shell("why", STACK, "--json").json)) <= documented("why")
