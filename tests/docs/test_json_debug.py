"""docs/json.md describes what is told of traces, field by field and in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from tests.docs.test_json_page import documented, fields
from tests.surfaces.conftest import Shell, write

from lorelog.operations.debug_replies import ErrorsShape, IngestShape, ToolCallsShape, WhyShape

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


def declared(shape: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields that a typed dictionary has."""
    if get_origin(shape) is list:
        yield from declared(get_args(shape)[0], f"{prefix}[]")
    elif is_typeddict(shape):
        for key, one in get_type_hints(shape).items():
            name = f"{prefix}.{key}" if prefix else key
            yield name
            yield from declared(one, name)


def test_traces_are_documented(shell: Shell, project: Path) -> None:
    """Every field that can be there is documented, and no other; what is printed has those fields."""
    for section, shape in (
        ("debug calls", ToolCallsShape),
        ("debug errors", ErrorsShape),
        ("debug ingest", IngestShape),
        ("why", WhyShape),
    ):
        assert set(declared(shape)) == documented(section)
    ingested = shell("debug", "ingest", write(project / "a.log", STACK), "--json").json
    assert set(fields(ingested)) == documented("debug ingest")
    assert set(fields(shell("debug", "errors", "--json").json)) == documented("debug errors")
    assert set(fields(shell("debug", "calls", "--json").json)) == documented("debug calls")
    assert set(fields(shell("why", STACK, "--json").json)) <= documented("why")
