"""Lint: what is wrong with the pages or with what they tell is found and named, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.records.archives import archive_of, say, say_verified

from lorelog.services.records.archive import Archive
from lorelog.services.records.wiki import compile_wiki
from lorelog.services.records.wiki_files import write_pages
from lorelog.services.records.wiki_lint import Finding, lint


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """The records of an empty project."""
    place = tmp_path / "app"
    place.mkdir()
    with archive_of(place) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the pages are."""
    return tmp_path / "wiki"


def build(archive: Archive, folder: Path) -> None:
    """Write the pages as they are now."""
    write_pages(compile_wiki(archive).pages, folder)


def kinds(archive: Archive, folder: Path) -> list[str]:
    """Return what lint finds, by kind."""
    return [one.kind for one in found(archive, folder)]


def found(archive: Archive, folder: Path) -> list[Finding]:
    """Return what lint finds."""
    return lint(compile_wiki(archive), folder)


def test_a_fresh_wiki_is_clean(archive: Archive, folder: Path) -> None:
    """Of a project without records, and right after a build, there is nothing to say."""
    assert kinds(archive, folder) == []
    say(archive, "task_start")
    say_verified(archive, "use redis")
    assert kinds(archive, folder) == ["missing"]

    build(archive, folder)

    assert kinds(archive, folder) == []


def test_pages_that_are_not_as_they_would_be_built_are_named(archive: Archive, folder: Path) -> None:
    """Stale, missing, changed by hand, and left over: each page is named with what it is."""
    say(archive, "task_start")
    say(archive, "task_start", task="task-2")
    build(archive, folder)
    say(archive, "task_progress")
    (folder / "tasks" / "task-2.md").unlink()
    brief = folder / "brief.md"
    brief.write_text(brief.read_text("utf-8").replace("make", "take"), "utf-8")

    by_page = {one.page: one.kind for one in found(archive, folder)}

    assert by_page["tasks/task-1.md"] == "stale"
    assert by_page["tasks/task-2.md"] == "missing"
    assert by_page["brief.md"] == "edited"
    assert {one.kind for one in lint(compile_wiki(archive), folder) if one.page == "index.md"} <= {"stale"}


def test_a_citation_of_what_is_not_in_the_ledger_is_found(archive: Archive, folder: Path) -> None:
    """On a page that cites a record which is gone, and in a record that names one that never was."""
    one = say(archive, fields={"summary": "use redis", "related_artifact_ids": ["never-was"]})
    build(archive, folder)
    page = folder / "decisions.md"
    page.write_text(page.read_text("utf-8").replace(f"decision-{one.id}", "decision-gone"), "utf-8")

    broken = [one for one in found(archive, folder) if one.kind == "broken_citation"]

    assert [one.page for one in broken] == ["decisions.md", "tasks/task-1.md"]
    assert "decision-gone" in broken[0].message
    assert "never-was" in broken[1].message
    assert broken[1].records == (one.id,)


def test_a_verified_decision_on_superseded_ground_is_found(archive: Archive, folder: Path) -> None:
    """It names the decision, what it rests on, and what took that one's place; replacing what one rests on is no fault."""
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
