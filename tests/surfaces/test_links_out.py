"""A link in a repository never makes `lorelog index` or `lorelog import` read what is outside of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.surfaces.conftest import Outcome, Shell, write


@pytest.fixture
def private(project: Path) -> Path:
    """A private directory beside the project."""
    write(project.parent / "private" / "memory" / "diary.md", "# diary\n\nWALRUSDIARY is private\n")
    return project.parent / "private"


def roots_of(shell: Shell) -> list[str]:
    return [root["path"] for root in shell("index", "--list", "--json").json["roots"]]


def hits_of(shell: Shell) -> list[dict[str, object]]:
    found: list[dict[str, object]] = shell(
        "search", "WALRUSDIARY", "--all-projects", "--lane", "lexical", "--json"
    ).json["hits"]
    return found


def link_journals(project: Path, private: Path, linked: str) -> None:
    (project / linked).parent.mkdir(exist_ok=True)
    (project / linked).symlink_to(private if linked == ".lorelog" else private / "memory")


def assert_nothing_leaked(shell: Shell, done: Outcome, private: Path) -> None:
    assert ".lorelog/memory" in done.err
    assert "out of the project" in done.err
    assert hits_of(shell) == []
    assert not any(str(private) in root for root in roots_of(shell))


@pytest.mark.parametrize("linked", [".lorelog", ".lorelog/memory"])
def test_linked_journals_are_not_indexed(shell: Shell, project: Path, private: Path, linked: str) -> None:
    """`index` and the operation refuse journals behind a link, name the link, and remember no root."""
    link_journals(project, private, linked)
    done = shell("index")
    assert done.status != 0
    assert_nothing_leaked(shell, done, private)
    write(project / "notes" / "a.md", "# a\n\nplain\n")
    shell("index", "notes")
    shell("call", "memory.index", "{}")
    assert_nothing_leaked(shell, shell("index"), private)
    assert roots_of(shell) == [str(project / "notes")]


def test_a_root_that_becomes_a_link_is_not_followed(shell: Shell, project: Path, private: Path) -> None:
    """A directory that was indexed and is a link now keeps its documents, and nothing behind the link is read."""
    write(project / "notes" / "a.md", "# a\n\nquokka\n")
    write(project / "kept" / "b.md", "# b\n\nplain\n")
    assert shell("index", "notes", "kept").status == 0
    (project / "notes").rename(project / "old")
    (project / "notes").symlink_to(private / "memory")
    done = shell("index")
    assert f"notes is now a link to {private}/memory" in done.err
    assert hits_of(shell) == []
    assert shell("search", "quokka", "--lane", "lexical", "--json").json["hits"]
    assert str(private / "memory") not in roots_of(shell)


DIARY = "WALRUSDIARY is private"
LINKED_IMPORTS = [
    *(("CLAUDE.md", "memory/diary.md", "rules"), (".cursorrules", "memory/diary.md", "rules")),
    *(
        (".claude/rules", "memory", "rules"),
        (".cursor/rules", "memory", "rules"),
        (".serena/memories", "memory", "rules"),
    ),
    *((".memsearch/memory", "memory", "memsearch"), (".memsearch", "", "memsearch"), (".loop", "", "loop")),
    *((".claude", "", "rules"), ("memory.json", "memory.json", "mcp-memory")),
    *(("mem0-export-1.md", "mem0-export-1.md", "mem0"), ("agent.af", "agent.af", "letta")),
]
"""Links in a project, what they lead to in the private directory, and the source that would read them."""
FILES = ("memory.json", "mem0-export-1.md", "agent.af")


@pytest.mark.parametrize(("linked", "target", "source"), LINKED_IMPORTS)
def test_an_import_follows_no_link_out_of_the_project(
    shell: Shell, project: Path, private: Path, linked: str, target: str, source: str
) -> None:
    """A link out of the project, also in the middle of a path, is left out whether found or named, and its target's name is shown."""
    for name in ("rules/a.md", "team/work/memory/a.md"):
        write(private / name, DIARY)
    write(private / "memory.json", json.dumps({"type": "entity", "name": "diary", "observations": [DIARY]}))
    write(private / "mem0-export-1.md", f"---\nid: 1\n---\n{DIARY}\n")
    write(private / "agent.af", json.dumps({"blocks": [{"label": "x", "value": DIARY}]}))
    (private / ".git").mkdir()
    (project / linked).parent.mkdir(exist_ok=True)
    (project / linked).symlink_to(private / target)
    for named in ([], ["."], [linked], [str(project / linked)]):
        done = shell("import", source, *named, "--yes")
        assert DIARY not in done.out + done.err
        assert "is a link that leads out of" in done.err or (named == ["."] and linked in FILES)
    assert not list(project.glob(".lorelog/memory/imports/**/*.md"))
