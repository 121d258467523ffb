"""Paths as text: the border of a directory, one rule for scanning, scoping and filtering; and which directory is our home."""

from __future__ import annotations

import os

from lorelog.core.errors import ConfigError

# ruff: noqa: PTH111  (pathlib takes 10 ms to import, and hooks come by here)


def is_below(path: str, directory: str) -> bool:
    """Say whether a path is a directory or lies in it; `/a/bc` does not lie in `/a/b`. Both are real paths."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def home_folder(chosen: str) -> str:
    """Return the real path of the home that was chosen; empty: ~/.lorelog.

    Raise ConfigError where nobody knows the user's directory: a directory named `~` in some project is not what was meant.
    """
    expanded = os.path.expanduser(chosen or "~/.lorelog")
    if expanded.startswith("~"):
        raise ConfigError(
            f"{expanded} cannot be found: this user has no home directory",
            hint="set HOME, or LORELOG_HOME to a directory",
        )
    return os.path.realpath(expanded)
