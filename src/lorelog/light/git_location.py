"""Find the Git repository of a directory, and its branch and commit, by reading Git's own files.

No `git` process is started: that would cost more than a whole search, and a machine without Git still has projects. A broken
`.git` directory is skipped, as Git does; a broken `.git` file is skipped too, because a search must not fail over one.

Only `os` is imported: an agent waits for its hooks.
"""

from __future__ import annotations

import os
from os import path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator


# `os.path` instead of pathlib: for a path that is too long or not accessible it returns False, where pathlib raises.

MAX_SMALL_FILE_BYTES = 65_536
"""Read limit. A `.git` file holds one path, and a repository's configuration a few lines."""


def find_worktree(start: str) -> tuple[str, str, bool]:
    """Return the directory that identifies the project of a path, its working tree, and whether it is in a Git repository."""
    current = path.realpath(start)
    if path.isfile(current):
        current = path.dirname(current)
    for directory in walk_up(current):
        own, common = git_folders(directory)  # of a working tree's top, or of a bare repository
        if common:
            identity = _project_directory(common)
            if not _is_acknowledged(directory, own, common, identity):
                return directory, directory, True
            return identity, identity if directory == common else directory, True
    return current, current, False


def _is_acknowledged(directory: str, own: str, common: str, identity: str) -> bool:
    """Return whether a repository has the directory as one of its working trees.

    A `.git` file or link can name any repository, and an archive can contain one: its directory must not become part of
    somebody else's project. A linked worktree is listed in its repository, with the path of its `.git` file.
    """
    if own == common:
        return directory == common or identity in (directory, common)
    back = read_small_file(path.join(own, "gitdir")).strip()
    if not back or "\0" in back or path.dirname(own) != path.join(common, "worktrees"):
        return False
    return path.realpath(path.join(own, back)) == path.join(directory, ".git")


def git_folders(root: str) -> tuple[str, str]:
    """Return a working tree's Git directory and its common Git directory; empty if it has none."""
    entry = path.join(root, ".git")
    if path.isdir(entry):
        own = _check_git_dir(entry)
        return own, own
    if path.isfile(entry):
        own = resolve_pointer_file(entry, "gitdir:", root)
        return own, own and _check_git_dir(resolve_pointer_file(path.join(own, "commondir"), "", own) or own)
    own = _check_git_dir(root)
    return own, own


def walk_up(directory: str) -> Iterator[str]:
    """Yield a directory and its parents."""
    yield directory
    while (parent := path.dirname(directory)) != directory:
        yield parent
        directory = parent


def resolve_pointer_file(file: str, prefix: str, base: str) -> str:
    """Return the existing directory that a one-line pointer file names, or an empty string."""
    text = read_small_file(file)
    target = text.removeprefix(prefix).strip()
    if not target or not text.startswith(prefix) or "\0" in target:
        return ""
    directory = path.realpath(path.join(base, target))
    return directory if path.isdir(directory) else ""


def is_repository(directory: str) -> bool:
    return bool(_check_git_dir(directory))


def read_small_file(file: str, max_bytes: int = MAX_SMALL_FILE_BYTES) -> str:
    """Return the content of a small regular file, or an empty string."""
    if not path.isfile(file):  # opening a pipe would block
        return ""
    try:
        with open(file, "rb") as opened:
            return os.fsdecode(opened.read(max_bytes))
    except OSError:
        return ""


def _check_git_dir(git_dir: str) -> str:
    """Return the real path of a directory that Git accepts as a repository, else an empty string."""
    has_head = path.lexists(path.join(git_dir, "HEAD"))
    if has_head and path.isdir(path.join(git_dir, "objects")) and path.isdir(path.join(git_dir, "refs")):
        return path.realpath(git_dir)
    return ""


def _project_directory(common: str) -> str:
    if path.basename(common) == ".git":
        return path.dirname(common)
    # A submodule's repository is inside its parent's, and its configuration names its worktree. A bare repository, or
    # one made with --separate-git-dir, has no other directory that all its worktrees share.
    import re

    match = re.search(r"^\s*worktree\s*=\s*(.+?)\s*$", read_small_file(path.join(common, "config")), re.MULTILINE)
    if match and "\0" not in match[1]:
        worktree = path.realpath(path.join(common, match[1].strip('"')))
        if resolve_pointer_file(path.join(worktree, ".git"), "gitdir:", worktree) == common:
            return worktree
    return common


_SHORT_COMMIT_CHARS = 12
_MAX_REF_DEPTH = 5
"""Levels of symbolic references to follow, as Git does."""
_MAX_PACKED_REFS_BYTES = 16_000_000
"""Read limit of `packed-refs`; a repository with a hundred thousand branches has less."""
_HEX_DIGITS = frozenset("0123456789abcdef")


def read_head(root: str, folders: tuple[str, str] | None = None) -> tuple[str, str]:
    """Return branch and short commit of the working tree at `root`; each is empty if unknown. `folders`: its `git_folders`."""
    own, common = git_folders(root) if folders is None else folders
    if not common:
        return "", ""
    name = read_small_file(path.join(own, "HEAD")).strip()
    if not name.startswith("ref:"):
        return "", _shorten_commit(name)
    name = name.removeprefix("ref:").strip()
    # With the `reftable` format this file is a placeholder; the references are in tables that are not read here.
    if name == "refs/heads/.invalid" or not _is_ref_name(name):
        return "", ""
    branch, target = name.removeprefix("refs/heads/"), name
    for _ in range(_MAX_REF_DEPTH):
        # A linked worktree has some references of its own (of a bisection) and shares the rest.
        content = (read_small_file(path.join(own, target)) or read_small_file(path.join(common, target))).strip()
        if not content:
            return branch, _read_packed_ref(target, common)
        if not content.startswith("ref:"):
            return branch, _shorten_commit(content)
        target = content.removeprefix("ref:").strip()
        if not _is_ref_name(target):
            break
    return branch, ""


def is_default_branch(root: str, branch: str) -> bool:
    """Return whether a branch is the one that a clone of the remote checks out; without a remote, `main` and `master` are."""
    origin = read_small_file(path.join(git_folders(root)[1] or "/", "refs/remotes/origin/HEAD")).strip()
    return branch in ("main", "master") if not origin else origin == f"ref: refs/remotes/origin/{branch}"


def _read_packed_ref(name: str, common: str) -> str:
    content = read_small_file(path.join(common, "packed-refs"), _MAX_PACKED_REFS_BYTES)
    end = content.find(f" {name}\n")
    return _shorten_commit(content[content.rfind("\n", 0, end) + 1 : end]) if end >= 0 else ""


def _shorten_commit(text: str) -> str:
    return text[:_SHORT_COMMIT_CHARS] if len(text) >= 40 and _HEX_DIGITS.issuperset(text) else ""


def _is_ref_name(name: str) -> bool:
    """Return whether a text can be a reference name: it becomes part of a path and of an anchor."""
    return (
        name.startswith("refs/") and ".." not in name and name.isprintable() and not any(char in " \\" for char in name)
    )
