"""Edits settings files: changes one value and keeps all comments and blank lines.

A value is validated before the file is opened, a malformed file is left unchanged, and the new text is parsed and
compared with the intended table before it replaces the old one by a rename. So after any failure, including a bug in
the TOML library, the file is either the old one or the intended one. A symbolic link (dotfiles) stays a link.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

from lorelog.config.schema import SECTIONS, SETTINGS, Setting, SettingValue
from lorelog.config.settings import Table, check_project_value, find_setting, format_toml, parse_value, read_table
from lorelog.core.atomic_file import write_atomic
from lorelog.core.errors import ConfigError

USER_FILE_HEADER = """\
# Your lorelog settings for all projects. Lines that start with # show the defaults:
# remove the # to change one. `lorelog config list` shows every value and its origin.
"""
PROJECT_FILE_HEADER = """\
# lorelog settings of this project; commit the file to share them. Lines that start with # show the defaults:
# remove the # to change one. Providers, URLs and keys can be set only in your own settings.
"""


def set_value(path: Path, key: str, raw: str, *, project: bool) -> SettingValue:
    """Write a setting, given as text, to a user or project file; return its value."""
    setting = find_setting(key)
    if project and not setting.project_allowed:
        check_project_value(setting, "", path)
    value = parse_value(setting, raw)
    if project:
        check_project_value(setting, value, path)
    _edit(path, setting.section, setting.field, value, project=project)
    return value


def unset_value(path: Path, key: str, *, project: bool) -> bool:
    """Remove a key from a file, even an unknown one; return True if it was there."""
    section, _, field = key.partition(".")
    content = read_table(path)[1].get(section)
    if not isinstance(content, dict) or field not in content:
        find_setting(key)
        return False
    _edit(path, section, field, None, project=project)
    return True


def _edit(path: Path, section: str, field: str, value: SettingValue | None, *, project: bool) -> None:
    """Set a value, or remove it if it is None."""
    text, table = read_table(path)
    content = table.setdefault(section, {})
    if not isinstance(content, dict):
        raise ConfigError(f"{section} in {path} must be a section", hint="correct the file by hand")
    try:
        import tomlkit  # slow to import, needed only for edits

        document = tomlkit.parse(text)
        if value is None:
            del content[field]
            document[section].remove(field)
        else:
            plain: object = list(value) if isinstance(value, tuple) else value
            content[field] = plain
            if section not in document:
                document[section] = tomlkit.table()
            document[section][field] = plain
        edited = document.as_string()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _unsafe_edit_error(path) from error  # a valid file that the library cannot edit
    _replace_verified(path, edited, table, private=not project)


def render_initial_file(*, project: bool) -> str:
    """Return a settings file with all defaults as comments."""
    blocks = [PROJECT_FILE_HEADER if project else USER_FILE_HEADER]
    for section in SECTIONS:
        settings = [setting for setting in _allowed_settings(project=project) if setting.section == section]
        entries = []
        for setting in settings:
            about = textwrap.wrap(f"{setting.meaning} Takes {setting.accepts}.", 110, break_on_hyphens=False)
            lines = [*about, f"{setting.field} = {format_toml(setting.default)}"]
            entries.append("".join(f"# {line}\n" for line in lines))
        if entries:
            blocks.append(f"[{section}]\n" + "\n".join(entries))
    return "\n".join(blocks)


def write_initial_file(path: Path, *, project: bool) -> None:
    """Write the initial file. Raise ConfigError if one exists."""
    if os.path.lexists(path):
        raise ConfigError(f"{path} already exists", hint="use `lorelog config set` to change a setting")
    sections: Table = {setting.section: {} for setting in _allowed_settings(project=project)}
    _replace_verified(path, render_initial_file(project=project), sections, private=not project)


def _allowed_settings(*, project: bool) -> list[Setting]:
    return [setting for setting in SETTINGS if setting.project_allowed or not project]


def _replace_verified(path: Path, text: str, meant: Table, *, private: bool) -> None:
    import tomllib  # needed only for edits

    try:
        if _without_empty_sections(tomllib.loads(text)) != _without_empty_sections(meant):
            raise _unsafe_edit_error(path)
    except tomllib.TOMLDecodeError:
        raise _unsafe_edit_error(path) from None
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        write_atomic(target, text.encode(), mode=0o600 if private else 0o666, keep_mode=not private)
    except OSError as error:
        raise ConfigError(
            f"cannot write settings to {path}: {error.strerror or error}", hint="nothing was changed"
        ) from None
    except UnicodeEncodeError:
        raise ConfigError(f"cannot write settings to {path}: the value is not valid text") from None


def _without_empty_sections(table: Table) -> Table:
    """Return a table without its empty sections, which the library adds and removes."""
    return {section: content for section, content in table.items() if content != {}}


def _unsafe_edit_error(path: Path) -> ConfigError:
    return ConfigError(f"cannot edit {path} safely", hint="edit that line by hand")
