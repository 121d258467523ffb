"""Which project is this? The nearest Git repository upward, whichever of its worktrees one stands in, or the directory.

A project's id is a directory that all worktrees of a repository share and that outlives each linked one: the main
worktree, or the repository itself when it is bare. Memories are filed under it, so removing a worktree loses none. The
few files that say so are read here, not asked of `git`: starting a process would cost more than a whole search, and a
machine without Git still has a project. What is not a sound repository is passed over, as Git does with a stray `.git`
directory; unlike Git we pass over a broken `.git` file too, because a search must not fail over one.

In services, not in core, because core does no I/O.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import path

from recollect.core.document import GLOBAL
from recollect.core.paths import is_below

# `os.path` rather than pathlib, on purpose: asked about a path that is too long or may not be looked at, it answers no,
# where pathlib raises.
# ruff: noqa: PTH112, PTH113, PTH118, PTH119, PTH120, PTH123

MAX_BYTES = 65_536
"""A `.git` file holds one path and a repository's configuration a few lines; reading stops here whatever they are."""
WORKTREE = re.compile(r"^\s*worktree\s*=\s*(.+?)\s*$", re.MULTILINE)


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
    here = path.realpath(start)
    if path.isfile(here):
        here = path.dirname(here)
    for directory in _upward(here):
        common = _repository_of(directory)
        if common:
            identity = _identity(common)
            root = identity if directory == common else directory
            return Project(identity, root, _name(identity), git=True)
    return Project(here, here, _name(here), git=False)


def visible_projects(current: Project, known: Iterable[str]) -> tuple[str, ...]:
    """Return the projects whose memories are seen from here: this one and the global ones, first.

    Directories without Git have no natural border, so there the known projects above and below are seen too: notes
    indexed in `~/notes` are found from `~/notes/2026` and from `~`.
    """
    seen = [current.id, GLOBAL]
    if not current.git:
        seen += sorted(other for other in set(known) if other and _in_line(current.id, other))
    return tuple(dict.fromkeys(seen))


def _upward(directory: str) -> Iterator[str]:
    yield directory
    while (parent := path.dirname(directory)) != directory:
        yield parent
        directory = parent


def _repository_of(directory: str) -> str:
    """Return the common Git directory when this is the top of a working tree, or is a bare repository, else nothing."""
    entry = path.join(directory, ".git")
    if path.isdir(entry):
        return _sound(entry)
    if path.isfile(entry):
        git_dir = _follow(entry, "gitdir:", directory)
        return git_dir and _sound(_follow(path.join(git_dir, "commondir"), "", git_dir) or git_dir)
    return _sound(directory)


def _follow(file: str, prefix: str, base: str) -> str:
    """Return the existing directory that a one-line pointer file names, or nothing."""
    text = _read(file)
    target = text.removeprefix(prefix).strip()
    if not target or not text.startswith(prefix) or "\0" in target:
        return ""
    found = path.realpath(path.join(base, target))
    return found if path.isdir(found) else ""


def _sound(git_dir: str) -> str:
    """Return the real path of a directory that Git would take for a repository, or nothing."""
    has_head = path.lexists(path.join(git_dir, "HEAD"))
    if has_head and path.isdir(path.join(git_dir, "objects")) and path.isdir(path.join(git_dir, "refs")):
        return path.realpath(git_dir)
    return ""


def _identity(common: str) -> str:
    if path.basename(common) == ".git":
        return path.dirname(common)
    # A submodule keeps its repository inside its parent's and says where its files are. A bare repository, or one
    # split off with --separate-git-dir, has nothing else that all its worktrees know.
    match = WORKTREE.search(_read(path.join(common, "config")))
    if match and "\0" not in match[1]:
        worktree = path.realpath(path.join(common, match[1].strip('"')))
        if path.isdir(worktree):
            return worktree
    return common


def _read(file: str) -> str:
    if not path.isfile(file):  # a pipe would keep us waiting
        return ""
    try:
        with open(file, "rb") as opened:
            return os.fsdecode(opened.read(MAX_BYTES))
    except OSError:
        return ""


def _name(identity: str) -> str:
    name = path.basename(identity)
    if name.startswith(".") and _sound(identity):  # proj/.bare
        name = path.basename(path.dirname(identity))
    return name.removesuffix(".git") or identity


def _in_line(one: str, other: str) -> bool:
    """Say whether one directory is, or lies in, the other; `/a/b` and `/a/bc` are strangers."""
    return is_below(one, other) or is_below(other, one)
