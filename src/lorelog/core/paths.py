"""Paths as text: directory borders, by one rule for scanning, scoping and filtering; and the home folder."""

from __future__ import annotations

import os

# ruff: noqa: PTH111, PTH118  (pathlib takes 10 ms to import, and hooks import this module)


def is_below(path: str, directory: str) -> bool:
    """Return True if a path is a directory or inside it; `/a/bc` is not inside `/a/b`. Both are real paths."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def cache_folder(tenant_folder: str | os.PathLike[str]) -> str:
    """Return the folder of a tenant's derived files; deleting it loses nothing."""
    return os.path.join(tenant_folder, "index")


def home_folder(chosen: str) -> str:
    """Return the real path of the chosen home; by default ~/.lorelog.

    Raise ConfigError if the user has no home directory, instead of creating a directory named `~` in some project.
    """
    expanded = os.path.expanduser(chosen or "~/.lorelog")
    if expanded.startswith("~"):
        from lorelog.core.errors import ConfigError  # cue readers import this module and nothing else of core

        raise ConfigError(
            f"{expanded} cannot be found: this user has no home directory",
            hint="set HOME, or LORELOG_HOME to a directory",
        )
    return os.path.realpath(expanded)
