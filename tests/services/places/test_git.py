"""Branch and commit from files: what Git itself says, in every layout it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.code import repositories
from tests.code.repositories import git

from lorelog.light.git_location import find_worktree, read_head


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return repositories.repository(tmp_path / "app", {})


def said_by_git(place: Path) -> tuple[str, str]:
    return git(place, "branch", "--show-current"), git(place, "rev-parse", "HEAD")[:12]


COMMIT = ("commit", "-q", "--allow-empty", "-m", "two")
HEADS: dict[str, tuple[tuple[str, ...], ...]] = {
    "main": (),
    "fix/cache": (("checkout", "-q", "-b", "fix/cache"), COMMIT),
    "": (("checkout", "-q", "--detach"),),
    "packed": (("branch", "x/packed"), ("checkout", "-q", "-b", "packed"), COMMIT, ("pack-refs", "--all")),
}


@pytest.mark.parametrize("branch", HEADS)
def test_branch_and_commit_are_those_of_git(repository: Path, branch: str) -> None:
    """The current branch, if there is one, and the first twelve digits of its commit, packed or not."""
    for words in HEADS[branch]:
        git(repository, *words)

    assert (repository / ".git" / "refs" / "heads" / "main").exists() == (branch != "packed")
    assert read_head(str(repository)) == said_by_git(repository)
    assert read_head(str(repository))[0] == branch


def test_a_linked_worktree_has_its_own_head(repository: Path, tmp_path: Path) -> None:
    """A worktree tells its own branch, with a commit from the repository that it shares, packed or not."""
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", "-q", "-b", "side", str(linked))
    git(linked, "commit", "-q", "--allow-empty", "-m", "side")
    assert read_head(str(linked)) == said_by_git(linked)

    git(repository, "pack-refs", "--all")
    assert read_head(str(linked)) == said_by_git(linked)
    assert find_worktree(str(linked)) == (str(repository), str(linked), True)


def test_a_submodule_has_its_own_head(repository: Path, tmp_path: Path) -> None:
    """A submodule is a repository, though its files are elsewhere."""
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")

    assert read_head(str(outer / "inner")) == said_by_git(outer / "inner")


@pytest.mark.parametrize(
    "head",
    ["", "nonsense", "ref: refs/heads/../../../secret", "ref: /etc/passwd", "ref: refs/heads/.invalid", "\0", "a" * 39],
)
def test_a_malformed_head_has_no_branch_or_commit(repository: Path, head: str) -> None:
    """What Git would not write is passed over, and leads to no file outside."""
    (repository / ".git" / "HEAD").write_text(head + "\n", "utf-8")

    assert read_head(str(repository)) == ("", "")


def test_heads_without_a_commit(tmp_path: Path) -> None:
    """A plain directory, or none, has neither branch nor commit; a new repository has a branch."""
    assert read_head(str(tmp_path)) == ("", "")
    assert read_head("/nowhere/at/all") == ("", "")
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert read_head(str(tmp_path)) == ("trunk", "")


def test_references_that_name_each_other_come_to_an_end(repository: Path) -> None:
    """A ring of references is no commit and no endless loop."""
    heads = repository / ".git" / "refs" / "heads"
    (heads / "main").write_text("ref: refs/heads/other\n", "utf-8")
    (heads / "other").write_text("ref: refs/heads/main\n", "utf-8")

    assert read_head(str(repository)) == ("main", "")
