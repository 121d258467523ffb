"""Whose words come first where nothing is strong: pages by their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorelog import Lorelog


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Lorelog]:
    (tmp_path / "project").mkdir()
    with Lorelog(tmp_path / "project", home=tmp_path / "home", daemon="off") as memory:
        yield memory


def test_a_page_is_found_by_its_title_and_file_name(memory: Lorelog, tmp_path: Path) -> None:
    """Words that stand in neither heading nor text count, if the front matter's title or the file name has them."""
    notes = tmp_path / "project" / "notes"
    notes.mkdir()
    text = "Mark it, wait until it is empty, and turn it off.\n"
    for name, head in (("safely-drain-node", ""), ("b", "---\ntitle: Evict every pod\n---\n"), ("c", ""), ("d", "")):
        (notes / f"{name}.md").write_text(f"{head}{text}Part {name[0]}.\n", "utf-8")
    memory.index([notes])

    for question, name in (("drain a node until it is empty", "safely-drain-node.md"), ("evict and wait", "b.md")):
        first = memory.search(question).hits[0]
        assert Path(first.source).name == name
        assert "name" in {part.name for part in first.explanation.parts}


def test_a_question_about_something_else_is_not_likely(memory: Lorelog, tmp_path: Path) -> None:
    """In a memory of eleven notes about software, nothing is a likely answer to a question about bread, and a note to its own subject is."""
    subjects = "cache deploys retries paging sessions logs flags reviews backups queues tests".split()
    text = "\n\n".join(
        f"## {name}\n\nThe {name} of the service are kept in one place, see part {name}." for name in subjects
    )
    (tmp_path / "project" / "notes.md").write_text(f"{text}\n", "utf-8")
    memory.index([tmp_path / "project" / "notes.md"])

    assert {hit.confidence for hit in memory.search("sourdough bread recipe").hits} == {"weak"}
    assert memory.search("where are the backups kept").hits[0].confidence != "weak"
