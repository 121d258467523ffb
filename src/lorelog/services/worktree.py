"""Which repository holds a directory, and which directory names it: the part of `scope` that hooks need too.

The few files that say so are read here, not asked of `git`: starting a process would cost more than a whole search, and a
machine without Git still has a project. What is not a sound repository is passed over, as Git does with a stray `.git`
directory; unlike Git we pass over a broken `.git` file too, because a search must not fail over one.

Only `os` is imported: an agent waits for its hooks.
"""

from __future__ import annotations

import os
from os import path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# `os.path` rather than pathlib, on purpose: asked about a path that is too long or may not be looked at, it answers no,
# where pathlib raises.
# ruff: noqa: PTH112, PTH113, PTH118, PTH119, PTH120, PTH123

MAX_BYTES = 65_536
"""A `.git` file holds one path and a repository's configuration a few lines; reading stops here whatever they are."""


def find_worktree(start: str) -> tuple[str, str, bool]:
    """Return the directory that names the project of a path, the working tree it lies in, and whether Git says so."""
    here = path.realpath(start)
    if path.isfile(here):
        here = path.dirname(here)
    for directory in upward(here):
        common = _repository_of(directory)
        if common:
            identity = _identity(common)
            return identity, identity if directory == common else directory, True
    return here, here, False


def git_folders(root: str) -> tuple[str, str]:
    """Return the Git directory of a working tree and the one that it shares with others; empty where it has none."""
    entry = path.join(root, ".git")
    if path.isdir(entry):
        own = _sound(entry)
        return own, own
    if path.isfile(entry):
        own = follow(entry, "gitdir:", root)
        return own, own and _sound(follow(path.join(own, "commondir"), "", own) or own)
    own = _sound(root)
    return own, own


def upward(directory: str) -> Iterator[str]:
    """Yield a directory and those above it."""
    yield directory
    while (parent := path.dirname(directory)) != directory:
        yield parent
        directory = parent


def follow(file: str, prefix: str, base: str) -> str:
    """Return the existing directory that a one-line pointer file names, or nothing."""
    text = read_start(file)
    target = text.removeprefix(prefix).strip()
    if not target or not text.startswith(prefix) or "\0" in target:
        return ""
    found = path.realpath(path.join(base, target))
    return found if path.isdir(found) else ""


def is_repository(directory: str) -> bool:
    """Say whether Git would take a directory for a repository."""
    return bool(_sound(directory))


def read_start(file: str) -> str:
    """Return what a small regular file holds, or nothing."""
    if not path.isfile(file):  # a pipe would keep us waiting
        return ""
    try:
        with open(file, "rb") as opened:
            return os.fsdecode(opened.read(MAX_BYTES))
    except OSError:
        return ""


def _repository_of(directory: str) -> str:
    """Return the common Git directory when this is the top of a working tree, or is a bare repository, else nothing."""
    return git_folders(directory)[1]


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
    import re

    match = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", read_start(path.join(common, "config")), re.MULTILINE)
    if match and "\0" not in match[1]:
        worktree = path.realpath(path.join(common, match[1].strip('"')))
        if path.isdir(worktree):
            return worktree
    return common
