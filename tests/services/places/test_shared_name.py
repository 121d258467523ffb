"""What a project is called on every machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lorelog.services.places.workspace import find_project, shared_name


def repository(place: Path, *remotes: tuple[str, str]) -> str:
    place.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    for name, url in remotes:
        subprocess.run(["git", "-C", str(place), "remote", "add", name, url], check=True)
    return find_project(str(place)).id


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/team/app.git",
        "https://example.org/team/app",
        "https://Example.ORG/team/app/",
        "https://me:s3cret@example.org/team/app.git",
        "ssh://git@example.org:2222/team/app.git",
        "git@example.org:team/app.git",
        "example.org:team/app",
        "git://example.org/team/app.git",
    ],
)
def test_all_clones_have_one_name(tmp_path: Path, url: str) -> None:
    """However a clone reaches its remote, its name is host and path: no user, no password, no port, no ending."""
    assert shared_name(repository(tmp_path / "clone", ("origin", url))) == "git:example.org/team/app"


@pytest.mark.parametrize(
    "url", ["/srv/git/app.git", "../app", "file:///srv/app.git", "C:\\git\\app", "https://example.org"]
)
def test_a_local_path_is_not_a_shared_name(tmp_path: Path, url: str) -> None:
    """What another machine could not reach names nothing there."""
    assert shared_name(repository(tmp_path / "clone", ("origin", url))) == ""


def test_origin_counts_or_the_only_remote(tmp_path: Path) -> None:
    """Of several remotes `origin` names the project; without it, only one that is alone does."""
    one, two = ("fork", "https://example.org/me/app"), ("origin", "https://example.org/team/app")
    assert shared_name(repository(tmp_path / "a", one, two)) == "git:example.org/team/app"
    assert shared_name(repository(tmp_path / "b", one)) == "git:example.org/me/app"
    assert shared_name(repository(tmp_path / "c", one, ("mine", "https://example.org/x/app"))) == ""


def test_worktrees_and_directories_inside_have_the_name_of_theirs(tmp_path: Path) -> None:
    """A linked worktree is the same project; a directory that a scope file makes a project of is one inside it."""
    project = repository(tmp_path / "main", ("origin", "https://example.org/team/app"))
    git = ["git", "-C", project, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True)
    (tmp_path / "main" / "part").mkdir()

    assert shared_name(str(tmp_path / "linked")) == "git:example.org/team/app"
    assert shared_name(str(tmp_path / "main" / "part")) == "git:example.org/team/app//part"


def test_a_project_without_a_remote_has_no_shared_name(tmp_path: Path) -> None:
    """Neither a directory, nor a repository without remote, nor one that is gone has a name; what is of no project has one."""
    (tmp_path / "plain").mkdir()
    assert shared_name(str(tmp_path / "plain")) == ""
    assert shared_name(repository(tmp_path / "alone")) == ""
    assert shared_name(str(tmp_path / "gone")) == ""
    assert shared_name("") == "global"
