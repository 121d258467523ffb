"""docs/json.md has a section for the reply of every operation, and a table that leads to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.docs.pages import headings, links, read, rows, spans
from tests.docs.test_json_page import PAGE, documented, fields
from tests.surfaces.conftest import Shell

from lorelog.operations.catalogue import describe_all

REPLIES: dict[str, Any] = {operation["name"]: operation["reply"] for operation in describe_all()}
SECTIONS = {spans(row[0])[0]: links(row[1])[0] for row in rows(PAGE["Operations"])}
BY_EXAMPLE = {"memory.search", "context.get_hot_context", "code.forget"}
"""Operations whose section has fields of several replies."""
_TRUST = r"(trust|verification_hint|grounding_refs\[\])\."
_DIGEST = rf"artifact\.|{_TRUST}|results\[\]\.trust\."
ELSEWHERE = {
    "task.resume": rf"{_TRUST}|resume\.(task|(open_runs|recent_runs|decisions)\[\])\.",
    "context.brief_project": rf"{_DIGEST}|brief\.(completed_tasks|failures|decisions|evidence)\[\]\.",
    "context.find_relevant_context": r"results\[\]\.",
    "artifact.search": rf"hits\[\]\.(artifact\.|{_TRUST})",
    **dict.fromkeys((f"artifact.find_{name}" for name in ("failures", "decisions", "evidence")), _DIGEST),
}
"""Fields that another section describes."""
UNDECLARED = re.compile(r"(^|\.)(dataset_refs\[\]|entity_refs\[\]|provenance|anchor)\.")
"""Fields of objects that replies declare as a whole: compared with what is printed."""


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
    elsewhere = re.compile(ELSEWHERE.get(operation, "$^"))
    declared = {name for name in schema_fields(reply, reply.get("$defs", {})) if not elsewhere.match(name)}
    assert declared == {name for name in documented(section) if not UNDECLARED.search(name)}


def test_the_merge_driver_is_documented(shell: Shell, project: Any) -> None:
    """Every field of what `sync --merge-driver` prints is documented, and no other."""
    import subprocess

    subprocess.run(["git", "init", "-q", project], check=True)
    assert set(fields(shell("sync", "--merge-driver", "--json").json)) == documented("sync --merge-driver")


def test_every_kind_of_finding_is_named() -> None:
    """The page of the wiki explains each kind of finding that json.md names."""
    kinds = next(row[2] for row in rows(PAGE["wiki lint"]) if "kind" in row[0])
    assert [kind for kind in spans(kinds) if f"`{kind}`" not in read("docs/wiki.md")] == []
