"""Paths as text: directory borders, by one rule for scanning, scoping and filtering; and the home folder."""

from __future__ import annotations

import os


def is_below(path: str, directory: str) -> bool:
    """Return True if a path is a directory or inside it; `/a/bc` is not inside `/a/b`. Both are real paths."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def leads_out(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> str:
    """Return the real path of something below a directory if links lead out of it; empty if it stays inside.

    A repository is not trusted: its links must not choose what is read or written. Scanning, importing and writing ask here.
    """
    real = os.path.realpath(path)
    return "" if is_below(real, os.path.realpath(directory)) else real


def join_path(directory: str | os.PathLike[str], path: str | os.PathLike[str]) -> str:
    """Return a path that is relative to a directory, its `~` expanded unless the user is unknown."""
    return os.path.join(directory, os.path.expanduser(path))


def path_exists(path: str) -> bool:
    """Return whether there is a file or folder of this name; False for text that cannot be a name, where pathlib raises."""
    return os.path.exists(path)


def is_folder(path: str) -> bool:
    """Return whether there is a folder of this name; as with `path_exists`, no name and no missing permission raises."""
    return os.path.isdir(path)


def modified_at(path: str | os.PathLike[str]) -> float:
    """Return when a file was last written, in seconds since 1970; 0 if there is none."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def data_folder(home: str | os.PathLike[str]) -> str:
    """Return the folder of all tenants' files that nothing else can rebuild."""
    return os.path.join(home, "data")


def tenant_folder(home: str | os.PathLike[str], tenant: str) -> str:
    """Return the folder of a tenant's files that nothing else can rebuild."""
    return os.path.join(home, "data", tenant)


def cache_folder(tenant_folder: str | os.PathLike[str]) -> str:
    """Return the folder of the derived files of a tenant, given its own: deleting it loses nothing.

    It is `HOME/cache/NAME` for `HOME/data/NAME`: on the same file system, so that files can be moved between them.
    """
    data, name = os.path.split(os.fspath(tenant_folder))
    return os.path.join(os.path.dirname(data), "cache", name)


def model_cache_folder(home: str | os.PathLike[str]) -> str:
    """Return the folder of files made from models, which all tenants share. No tenant's name begins with a dot."""
    return os.path.join(home, "cache", ".models")


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
