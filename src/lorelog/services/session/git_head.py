"""Branch and commit of a working tree, from the few files that say so: no `git` is started while an agent waits."""

from __future__ import annotations

from os import path

from lorelog.services.worktree import git_folders, read_start

# ruff: noqa: PTH113, PTH118, PTH123  (as in `worktree`: `os.path` answers no, where pathlib raises)

_SHOWN = 12
_DEPTH = 5
"""A reference may name another; Git follows as many."""
_MOST_BYTES = 16_000_000
"""Of `packed-refs`: a repository of a hundred thousand branches has less."""
_HEX = frozenset("0123456789abcdef")


def read_head(root: str) -> tuple[str, str]:
    """Return branch and short commit of the working tree at `root`; each empty where there is none or it cannot be told."""
    own, common = git_folders(root)
    if not common:
        return "", ""
    name = read_start(path.join(own, "HEAD")).strip()
    if not name.startswith("ref:"):
        return "", _commit(name)
    name = name.removeprefix("ref:").strip()
    # With the `reftable` format this file is a decoy, and what is true stands in tables that we do not read.
    if name == "refs/heads/.invalid" or not _is_reference(name):
        return "", ""
    return name.removeprefix("refs/heads/"), _resolve(name, own, common)


def _resolve(name: str, own: str, common: str) -> str:
    for _ in range(_DEPTH):
        if not _is_reference(name):
            return ""
        # A linked worktree has references of its own (a bisection's), and shares the rest.
        said = (read_start(path.join(own, name)) or read_start(path.join(common, name))).strip()
        if not said:
            return _packed(name, common)
        if not said.startswith("ref:"):
            return _commit(said)
        name = said.removeprefix("ref:").strip()
    return ""


def _packed(name: str, common: str) -> str:
    file = path.join(common, "packed-refs")
    if not path.isfile(file):
        return ""
    try:
        with open(file, "rb") as opened:
            held = opened.read(_MOST_BYTES)
    except OSError:
        return ""
    ending = b" " + name.encode("utf-8", "surrogateescape") + b"\n"
    end = held.find(ending)
    if end < 0:
        return ""
    return _commit(held[held.rfind(b"\n", 0, end) + 1 : end].decode("ascii", "replace"))


def _commit(text: str) -> str:
    return text[:_SHOWN] if len(text) >= 40 and _HEX.issuperset(text) else ""


def _is_reference(name: str) -> bool:
    """Say whether a text can name a reference: it becomes part of a path, and of an anchor."""
    return (
        name.startswith("refs/") and ".." not in name and name.isprintable() and not any(one in " \\" for one in name)
    )
