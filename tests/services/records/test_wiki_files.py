"""Lint finds problems of pages and records, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.records.conftest import say, say_verified

from lorelog.services.records.record_scope import RecordScope
from lorelog.services.records.wiki import LintFinding, compile_wiki, lint_wiki, write_pages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "wiki"


def build(archive: RecordScope, folder: Path) -> None:
    write_pages(compile_wiki(archive).pages, folder)


def kinds(archive: RecordScope, folder: Path) -> list[str]:
    return [item.kind for item in found(archive, folder)]


def found(archive: RecordScope, folder: Path) -> list[LintFinding]:
    return lint_wiki(compile_wiki(archive), folder)


def test_a_fresh_wiki_is_clean(archive: RecordScope, folder: Path) -> None:
    """There are no findings without records, nor after a build."""
    assert kinds(archive, folder) == []
    say(archive, "task_start")
    say_verified(archive, "use redis")
    assert kinds(archive, folder) == ["missing"]

    build(archive, folder)

    assert kinds(archive, folder) == []


def test_pages_that_are_not_as_they_would_be_built_are_named(archive: RecordScope, folder: Path) -> None:
    """Stale, missing, edited and leftover pages are each reported."""
    say(archive, "task_start")
    say(archive, "task_start", task="task-2")
    build(archive, folder)
    say(archive, "task_progress")
    (folder / "tasks" / "task-2.md").unlink()
    brief = folder / "brief.md"
    brief.write_text(brief.read_text("utf-8").replace("make", "take"), "utf-8")

    by_page = {item.page: item.kind for item in found(archive, folder)}

    assert by_page["tasks/task-1.md"] == "stale"
    assert by_page["tasks/task-2.md"] == "missing"
    assert by_page["brief.md"] == "edited"
    assert {item.kind for item in lint_wiki(compile_wiki(archive), folder) if item.page == "index.md"} <= {"stale"}


def test_a_citation_of_what_is_not_in_the_ledger_is_found(archive: RecordScope, folder: Path) -> None:
    """A citation of a missing record is reported, on a page and in a record."""
    one = say(archive, fields={"summary": "use redis", "related_artifact_ids": ["never-was"]})
    build(archive, folder)
    page = folder / "decisions.md"
    page.write_text(page.read_text("utf-8").replace(f"decision-{one.id}", "decision-gone"), "utf-8")

    broken = [item for item in found(archive, folder) if item.kind == "broken_citation"]

    assert [entry.page for entry in broken] == ["decisions.md", "tasks/task-1.md"]
    assert "decision-gone" in broken[0].message
    assert "never-was" in broken[1].message
    assert broken[1].records == (one.id,)


def test_a_verified_decision_on_superseded_ground_is_found(archive: RecordScope, folder: Path) -> None:
    """A verified decision based on a superseded record is reported with both; a revision of its own source is fine."""
    ground = say(archive, "evidence")
    decided = say_verified(archive, "ship it", fields={"related_artifact_ids": [ground.id]})
    newer = say(archive, "revision", {"summary": "300 ms"}, reply_to=ground.id, relation="revises")
    revised = say(
        archive, "revision", {"summary": "ship it soon"}, reply_to=decided.id, relation="revises", agent="jon"
    )
    build(archive, folder)
    assert kinds(archive, folder) == []  # the decision was superseded itself

    other = say_verified(archive, "keep the otters", fields={"related_artifact_ids": [ground.id, revised.id]})
    build(archive, folder)
    (finding,) = found(archive, folder)

    assert finding.kind == "superseded_ground"
    assert finding.records == (other.id, ground.id, newer.id)
