"""Who is wired to whom, where settings are looked at and changed? What a person's files say, for the commands that show it."""

from __future__ import annotations

import os
from pathlib import Path

from lorelog.config import PROJECT_FILE, USER_FILE, Settings, load_settings
from lorelog.wiring import Standpoint


def settings_of_person(home: Path) -> Settings:
    """Return what a person has chosen for all places: their own file and environment, and no project's or scope's."""
    return load_settings(home, None, dict(os.environ), {})


def settings_file(here: Standpoint, *, of_project: bool) -> Path:
    """Return the file that holds a person's settings, or the project's."""
    return Path(here.project.root) / PROJECT_FILE if of_project else here.home / USER_FILE


def change_setting(here: Standpoint, key: str, raw: str | None, *, of_project: bool) -> bool:
    """Write one setting given as text, or take it out (None); return whether anything was there to change."""
    from lorelog.config.edit import set_value, unset_value

    path = settings_file(here, of_project=of_project)
    if raw is None:
        return unset_value(path, key, project=of_project)
    set_value(path, key, raw, project=of_project)
    return True


def found_settings(here: Standpoint, *, of_project: bool) -> Path:
    """Write a settings file that chooses nothing and shows everything; return its path."""
    from lorelog.config.edit import write_initial

    path = settings_file(here, of_project=of_project)
    write_initial(path, project=of_project)
    return path


def setting_text(value: object) -> str:
    """Return a setting's value as one would write it in a settings file."""
    from lorelog.config.values import as_toml

    return as_toml(value)  # type: ignore[arg-type]
