"""docs/json.md describes what digests and the wiki answer, field by field and in both directions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import read, rows, sections, spans
from tests.docs.test_json_page import documented, fields
from tests.surfaces.conftest import Shell

PAGE = sections(read("docs/json.md"))
LIBRARIES = "artifact.find_failures, find_decisions, find_evidence"
ELSEWHERE = re.compile(
    r"^(trust|results\[\]\.trust|grounding_refs|verification_hint|resume\.(?:task|open_runs|recent_runs|decisions)"
    r"|brief\.(?:completed_tasks|failures|decisions|evidence))(?:\[\])?\..*"
)
"""Fields below these are described where records and trust are."""


def told(answer: Any) -> set[str]:
    """Return the fields of an answer that its own section has to describe."""
    return {name for name in fields(answer) if not ELSEWHERE.match(name)}


def own(names: set[str]) -> set[str]:
    """Return fields without those of the digest, which stand in one section for all."""
    return {name for name in names if not name.startswith("artifact.")}


@pytest.fixture
def ask(shell: Shell, project: Path) -> Any:
    """Carries out an operation, in a project with records of every kind that digests tell of."""

    def call(op: str, **arguments: Any) -> Any:
        return shell("call", op, "--json", json.dumps(arguments)).json

    thing = [{"name": "redis", "entity_type": "service"}]
    task = call("task.start", goal="g", writer="mara", entity_refs=thing)["task_id"]
    call("task.progress", task_id=task, summary="s", next_step="n", failed_attempts=["a"], writer="mara")
    call("artifact.decision", task_id=task, summary="use redis", writer="mara", supports_claim=True)
    call("task.add_evidence", task_id=task, evidence_kind="k", summary="e", writer="mara")
    other = project.parent / "other"
    other.mkdir()
    call("task.start", goal="elsewhere", writer="mara", entity_refs=thing, project=str(other))
    return call


def test_digests_are_documented(ask: Any) -> None:
    """Every field of a digest and of what is told with it is documented, and no other."""
    task = ask("task.search", query="g")["hits"][0]["task_id"]
    resumed = ask("task.resume", task_id=task)
    libraries = [ask(f"artifact.find_{name}") for name in ("failures", "decisions", "evidence")]

    assert told(resumed) == documented("task.resume")
    assert own(set().union(*map(told, libraries))) == documented(LIBRARIES)


def test_the_brief_is_documented(ask: Any, shell: Shell) -> None:
    """Every field of a brief is documented, and no other."""
    assert own(told(shell("brief", "--json").json)) == documented("brief")


def test_every_kind_of_finding_is_named() -> None:
    """The page of the wiki explains each kind of finding that json.md names."""
    kinds = next(row[2] for row in rows(PAGE["wiki lint"]) if "kind" in row[0])

    assert [kind for kind in spans(kinds) if f"`{kind}`" not in read("docs/wiki.md")] == []
