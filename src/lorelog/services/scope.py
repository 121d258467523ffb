"""Which project is this? The nearest Git repository upward, whichever of its worktrees one stands in, or the directory.

A project's id is a directory that all worktrees of a repository share and that outlives each linked one: the main
worktree, or the repository itself when it is bare. Memories are filed under it, so removing a worktree loses none. The
files that say so are read in `worktree`.

In services, not in core, because core does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import path

from lorelog.core.document import GLOBAL
from lorelog.core.paths import is_below
from lorelog.services.worktree import find_worktree, is_repository

# As in `worktree`: asked about odd paths, `os.path` answers no, where pathlib raises.
# ruff: noqa: PTH119, PTH120


@dataclass(frozen=True, slots=True)
class Project:
    """The project one stands in."""

    id: str
    """Real path that names the project: the same from every worktree. It is also where its journals are kept."""
    root: str
    """Real path of the working tree one stands in: a linked worktree, the main one, or the directory itself."""
    name: str
    git: bool


def find_project(start: str) -> Project:
    """Return the project of a file or directory. Never fails: without Git it is the directory itself."""
    identity, root, git = find_worktree(start)
    return Project(identity, root, _name(identity), git=git)


def visible_projects(current: Project, known: Iterable[str]) -> tuple[str, ...]:
    """Return the projects whose memories are seen from here: this one and the global ones, first.

    Directories without Git have no natural border, so there the known projects above and below are seen too: notes
    indexed in `~/notes` are found from `~/notes/2026` and from `~`.
    """
    seen = [current.id, GLOBAL]
    if not current.git:
        seen += sorted(other for other in set(known) if other and _in_line(current.id, other))
    return tuple(dict.fromkeys(seen))


def _name(identity: str) -> str:
    name = path.basename(identity)
    if name.startswith(".") and is_repository(identity):  # proj/.bare
        name = path.basename(path.dirname(identity))
    return name.removesuffix(".git") or identity


def _in_line(one: str, other: str) -> bool:
    """Say whether one directory is, or lies in, the other; `/a/b` and `/a/bc` are strangers."""
    return is_below(one, other) or is_below(other, one)
