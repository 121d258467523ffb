"""docs/json.md has a section for the reply of every operation, and a table that leads to it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.docs.pages import headings, links, read, rows, spans
from tests.docs.test_json_page import PAGE, documented, fields
from tests.surfaces.conftest import Shell

from lorelog.operations.catalogue import describe_all

REPLIES: dict[str, Any] = {operation["name"]: operation["reply"] for operation in describe_all()}
SECTIONS = {spans(row[0])[0]: links(row[1])[0] for row in rows(PAGE["Operations"])}
BY_EXAMPLE = {
    *("memory.search", "memory.expand", "memory.get", "memory.list", "memory.evaluate", "session.recall"),
    *("task.get", "task.resume", "artifact.get", "artifact.list_thread", "artifact.search"),
    *("artifact.find_failures", "artifact.find_decisions", "artifact.find_evidence"),
    *("context.brief_project", "context.get_hot_context", "context.find_relevant_context"),
    "code.forget",
}
"""Operations whose section has fields of several replies, or leaves some to another section: compared with what is printed."""


def schema_fields(schema: Any, definitions: Any, prefix: str = "") -> set[str]:
    """Return the dotted names of all fields that a JSON Schema declares."""
    if "$ref" in schema:
        return schema_fields(definitions[schema["$ref"].rpartition("/")[2]], definitions, prefix)
    if "anyOf" in schema:
        return set().union(*(schema_fields(kind, definitions, prefix) for kind in schema["anyOf"]))
    if "items" in schema:
        return schema_fields(schema["items"], definitions, f"{prefix}[]")
    names: set[str] = set()
    for key, value in schema.get("properties", {}).items():
        name = f"{prefix}.{key}" if prefix else key
        names |= {name, *schema_fields(value, definitions, name)}
    return names


def test_every_operation_has_a_section() -> None:
    """The table lists each operation of the registry once, and each row leads to a section of the page."""
    assert list(SECTIONS) == list(REPLIES)
    assert {target.removeprefix("#") for target in SECTIONS.values()} <= headings(read("docs/json.md"))


@pytest.mark.parametrize("operation", [name for name in REPLIES if name not in BY_EXAMPLE])
def test_a_reply_is_documented(operation: str) -> None:
    """Every field that the reply declares is documented, and no other."""
    (section,) = (name for name in PAGE if headings(f"## {name}") == {SECTIONS[operation].removeprefix("#")})
    reply = REPLIES[operation]
    assert schema_fields(reply, reply.get("$defs", {})) == documented(section)


def test_the_merge_driver_is_documented(shell: Shell, project: Any) -> None:
    """Every field of what `sync --merge-driver` prints is documented, and no other."""
    import subprocess

    subprocess.run(["git", "init", "-q", project], check=True)
    assert set(fields(shell("sync", "--merge-driver", "--json").json)) == documented("sync --merge-driver")
