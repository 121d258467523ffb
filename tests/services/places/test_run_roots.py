"""Roots are known for as long as anything is indexed from them, however a run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorelog import Lorelog
from lorelog.core.errors import Cancelled, LorelogError

FAKE = {"embedding.provider": "fake"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A note in a directory."""
    place = tmp_path / "app"
    (place / "notes").mkdir(parents=True)
    (place / "notes" / "a.md").write_text("# Otter\n\nan otter in the river\n", "utf-8")
    return place


def stopped_at(stage: str) -> type[BaseException]:
    return KeyboardInterrupt if stage == "vectors" else Cancelled


def stop(memory: Lorelog, path: Path, stage: str) -> None:
    def progress(at: str, done: int, total: int) -> None:
        if at == stage:
            raise stopped_at(stage)("stopped")

    with pytest.raises(stopped_at(stage)):
        memory.index([path], progress=progress)


def test_a_run_that_was_stopped_leaves_its_root(memory: Lorelog, project: Path) -> None:
    """What it had indexed can be deleted, brought up to date without naming it, and removed with its root."""
    stop(memory, project / "notes", "vectors")
    (hit,) = memory.search("otter").hits

    assert [(root.path, root.documents) for root in memory.roots()] == [(str(project / "notes"), 1)]
    assert memory.delete(hit.id).changed
    assert memory.restore(hit.id).chunks == 1
    assert memory.index().problems == ()
    assert memory.forget_roots([project / "notes"]) == 1


def test_a_run_that_did_nothing_leaves_no_root(memory: Lorelog, project: Path) -> None:
    """A root from which nothing was indexed before the run was stopped is not remembered."""
    stop(memory, project / "notes", "words")

    assert not memory.roots()


def test_a_run_that_failed_leaves_known_roots_alone(memory: Lorelog, project: Path) -> None:
    """A root that was known keeps its exclusions when a run with others is stopped."""
    (project / "notes" / "drafts").mkdir()
    memory.index([project / "notes", Path(f"!{project}/notes/drafts")])
    (project / "notes" / "b.md").write_text("# Beaver\n\na dam\n", "utf-8")

    stop(memory, project / "notes", "words")

    assert memory.roots()[0].exclude == (str(project / "notes" / "drafts"),)


def test_a_file_that_is_not_markdown_is_not_remembered(memory: Lorelog, project: Path) -> None:
    """A file that is no Markdown is a problem of the run, and not asked for again."""
    (project / "picture.png").write_bytes(b"png")

    report = memory.index([project / "picture.png", project / "notes"])

    assert len(report.problems) == 1
    assert [root.path for root in memory.roots()] == [str(project / "notes")]


def test_a_model_that_is_down_forgets_no_root(project: Path) -> None:
    """A single file that got no vectors is indexed by its words, and stays known."""
    down = {"embedding.provider": "openai", "embedding.base_url": "http://127.0.0.1:9", "embedding.model": "none"}
    with Lorelog(project=project, settings=down) as memory:
        report = memory.index([project / "notes" / "a.md"])

        assert report.problems
        assert [root.path for root in memory.roots()] == [str(project / "notes" / "a.md")]


def test_a_root_that_is_removed_while_it_is_read_stays_removed(memory: Lorelog, project: Path) -> None:
    """Neither the root nor what the run put afterwards is there when it ends."""
    memory.index([project / "notes"])

    def progress(at: str, done: int, total: int) -> None:
        if at == "words":
            other.forget_roots([project / "notes"])

    with Lorelog(project=project, settings=FAKE) as other:
        memory.index([project / "notes"], force=True, progress=progress)

    assert not memory.roots()
    assert memory.search("otter").hits == ()


def test_documents_of_a_forgotten_root_can_be_deleted_and_removed(memory: Lorelog, project: Path, home: Path) -> None:
    """Where the list of roots is lost, what was indexed can still be hidden, brought back and dropped."""
    memory.index([project / "notes"])
    (home / "data" / "default" / "roots.json").unlink()
    (hit,) = memory.search("otter").hits

    assert memory.delete(hit.id).notes == ()
    assert memory.restore(hit.id).chunks == 1
    assert memory.forget_roots([project / "notes"]) == 1
    with pytest.raises(LorelogError, match="is not an indexed path"):
        memory.forget_roots([project / "notes"])
