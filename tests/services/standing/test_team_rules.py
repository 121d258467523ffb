"""A team has one file of standing rules in its repository; each person adopts them, or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.code.repositories import git
from tests.services.standing.conftest import files

from lorelog import Lorelog
from lorelog.light.delivery_files import read_standing
from lorelog.services.places.workspace import Workspace, find_project
from lorelog.services.standing.rules import propose_guards, read_standing_memories
from lorelog.surfaces.text import format_repository

Person = Callable[[str], tuple[Path, Path]]


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A bare repository that two people push to."""
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    return remote


def joined(team: Path, name: str) -> tuple[Path, Path]:
    """Return a person's home and clone."""
    clone = team.parent / name / "app"
    git(team.parent, "clone", "-q", str(team), str(clone))
    return team.parent / name / "home", clone


def open_memory(home: Path, project: Path) -> Lorelog:
    return Lorelog(project, home=home, daemon="off", settings={"embedding.provider": "none"})


def standing(home: Path, project: Path) -> list[tuple[str, bool, str]]:
    lines = read_standing(files(home, project).standing)
    return [(line["text"], bool(line.get("own")), line.get("writer", "")) for line in lines]


def waiting(memory: Lorelog) -> list[Any]:
    return [item for item in memory.review.list().items if item.kind == "import"]


def export(memory: Lorelog) -> int:
    return memory.export(format="rules").memories


def push(project: Path, message: str) -> None:
    git(project, "add", ".lorelog")
    git(project, "commit", "-q", "-m", message)
    git(project, "push", "-q", "origin", "HEAD:main")


def test_rules_are_shared_by_git_and_journals_are_not(team: Path) -> None:
    """Exported rules can be committed, day journals stay out of the repository, and a second export adds nothing."""
    home, project = joined(team, "ada")
    with open_memory(home, project) as memory:
        memory.add("use pnpm, not npm", type="correction")
        memory.add("we chose Redis for the cache", type="decision")
        assert export(memory) == 1
        before = (project / ".lorelog" / "rules.md").read_bytes()
        assert export(memory) == 0
        assert (project / ".lorelog" / "rules.md").read_bytes() == before
        assert standing(home, project)[-1:] == [("use pnpm, not npm", True, "")]  # once, and as her own
        assert waiting(memory) == []
    push(project, "rules")

    tracked = git(project, "ls-files")
    assert tracked.split() == [".lorelog/.gitignore", ".lorelog/rules.md"]
    other = joined(team, "ben")[1]
    (other / ".lorelog" / "memory").mkdir()
    (other / ".lorelog" / "memory" / "2026-03-05.md").write_text("- private\n")
    status = git(other, "status", "-s")
    assert status == ""


def test_a_rule_of_the_team_is_quoted_until_it_is_adopted_once(team: Path) -> None:
    """Before adoption it is the team's, no guard and no rule; one question, and then it is the person's own, also after a pull."""
    home, project = joined(team, "ada")
    with open_memory(home, project) as memory:
        memory.add("never run npm install", type="correction")
        export(memory)
    push(project, "rules")
    home, project = joined(team, "ben")
    with open_memory(home, project) as memory:
        memory.index()
        assert standing(home, project) == [("never run npm install", False, "the team")]
        place = Workspace(find_project(str(project)), home, "default")
        assert propose_guards(read_standing_memories(place), frozenset()) == []
        (item,) = waiting(memory)
        assert (item.text, item.becomes_rule, item.origin) == ("never run npm install", True, "repository")
        assert item.about == "it stands in the team's rules"
        (hit,) = memory.search("npm install").hits
        assert format_repository(hit.to_dict()) == "a rule of the team, not adopted"

        verdict = {"id": item.id, "kind": item.kind, "label": "approve"}
        memory.review.decide(verdicts=[verdict])  # type: ignore[list-item]
        assert standing(home, project) == [("never run npm install", True, "")]
        assert waiting(memory) == []
        memory.index(force=True)
        assert waiting(memory) == []
        assert export(memory) == 0
        assert len(propose_guards(read_standing_memories(place), frozenset())) == 1  # from now on, and only proposed


def test_a_rule_that_somebody_rewords_is_asked_about_again(team: Path) -> None:
    """Another wording in the file is another rule: nobody obeys it by having adopted the first; who exported the first is asked too."""
    home, project = joined(team, "ada")
    with open_memory(home, project) as memory:
        memory.add("use pnpm, not npm", type="correction")
        export(memory)
        file = project / ".lorelog" / "rules.md"
        text = file.read_text("utf-8")
        identity = text.partition("memory:")[2].split()[0]
        file.write_text(text.replace(identity, "rule-0123").replace("use pnpm, not npm", "use zebra, not npm"), "utf-8")
        memory.index()

        assert standing(home, project) == [("use pnpm, not npm", True, ""), ("use zebra, not npm", False, "the team")]
        assert [item.text for item in waiting(memory)] == ["use zebra, not npm"]


def test_a_linked_file_of_rules_is_left_alone(team: Path, tmp_path: Path) -> None:
    """A file that is a link out of the project is neither read nor written, and an old rule in it is asked about all the same."""
    home, project = joined(team, "ada")
    folder = project / ".lorelog"
    folder.mkdir()
    (folder / "rules.md").write_text("## 2020-01-01\n<!-- memory:rule-old type:correction -->\n- never push to main\n")
    with open_memory(home, project) as memory:
        memory.index()
        assert [item.text for item in waiting(memory)] == ["never push to main"]
        (tmp_path / "elsewhere.md").write_text("x")
        (folder / "rules.md").unlink()
        (folder / "rules.md").symlink_to(tmp_path / "elsewhere.md")
        memory.add("use pnpm", type="correction")
        with pytest.raises(Exception, match="link out of the project"):
            export(memory)
    assert (tmp_path / "elsewhere.md").read_text() == "x"
