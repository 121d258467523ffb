"""Changes a settings file: one value, with every comment and blank line around it kept.

A value is checked before the file is opened for writing, a malformed file is refused untouched, and the new text is
read back and compared with what was meant before it replaces the old one by a rename. So whatever goes wrong, including
a fault in the TOML library, the file is either the old one or the intended one. A link to a file kept elsewhere (a
dotfiles directory) stays a link.
"""

from __future__ import annotations

import os
import stat
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorelog.config.load import Table, check_project_value, read_table
from lorelog.config.schema import SECTIONS, SETTINGS, Setting, Value
from lorelog.config.values import as_toml, find_setting, parse
from lorelog.core.errors import ConfigError

USER_HEAD = """\
# Your settings of lorelog, for all projects. Lines that start with # only show the default:
# remove the # to choose. `lorelog config list` shows every value and where it came from.
"""
PROJECT_HEAD = """\
# This project's settings of lorelog; commit it to share them. Lines that start with # only show the default:
# remove the # to choose. Providers, addresses and keys cannot be chosen here, only in your own settings.
"""


def set_value(path: Path, key: str, raw: str, *, project: bool) -> Value:
    """Write one setting, given as text, into a user or project file; return its value."""
    setting = find_setting(key)
    if project and not setting.project_allowed:
        check_project_value(setting, "", path)
    value = parse(setting, raw)
    if project:
        check_project_value(setting, value, path)
    plain: object = list(value) if isinstance(value, tuple) else value
    text, table = read_table(path)
    content = table.setdefault(setting.section, {})
    if not isinstance(content, dict):
        raise ConfigError(f"{setting.section} in {path} must be a section", hint="correct the file by hand")
    content[setting.field] = plain
    with _foreign_faults(path):
        import tomlkit  # heavy, and only editing needs it

        document = tomlkit.parse(text)
        if setting.section not in document:
            document[setting.section] = tomlkit.table()
        document[setting.section][setting.field] = plain
        edited = document.as_string()
    _replace(path, edited, table, private=not project)
    return value


def unset_value(path: Path, key: str, *, project: bool) -> bool:
    """Remove one key from a file, known or not, and return whether it was there."""
    text, table = read_table(path)
    section, _, field = key.partition(".")
    content = table.get(section)
    if not isinstance(content, dict) or field not in content:
        find_setting(key)
        return False
    del content[field]
    with _foreign_faults(path):
        import tomlkit  # heavy, and only editing needs it

        document = tomlkit.parse(text)
        document[section].remove(field)
        edited = document.as_string()
    _replace(path, edited, table, private=not project)
    return True


def initial_text(*, project: bool) -> str:
    """Return a file that chooses nothing and shows everything that can be chosen there."""
    blocks = [PROJECT_HEAD if project else USER_HEAD]
    for section in SECTIONS:
        settings = [one for one in SETTINGS if one.section == section and (one.project_allowed or not project)]
        entries = [_commented(setting) for setting in settings]
        if entries:
            blocks.append(f"[{section}]\n" + "\n".join(entries))
    return "\n".join(blocks)


def _commented(setting: Setting) -> str:
    """Return a setting's default and what it means, as comments."""
    about = f"{setting.meaning} Takes {setting.accepts}."
    lines = [*textwrap.wrap(about, 110, break_on_hyphens=False), f"{setting.field} = {as_toml(setting.default)}"]
    return "".join(f"# {line}\n" for line in lines)


def write_initial(path: Path, *, project: bool, overwrite: bool = False) -> None:
    """Write the initial file; raise ConfigError when there is one already, unless told to overwrite it."""
    if not overwrite and os.path.lexists(path):
        raise ConfigError(f"{path} exists already", hint="`lorelog config set` changes single settings")
    sections: Table = {one.section: {} for one in SETTINGS if one.project_allowed or not project}
    _replace(path, initial_text(project=project), sections, private=not project)


@contextmanager
def _foreign_faults(path: Path) -> Iterator[None]:
    """Translate what the TOML library raises for files that are valid and still beyond it."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _beyond(path) from error


def _replace(path: Path, text: str, meant: Table, *, private: bool) -> None:
    import tomllib  # only editing needs it here

    try:
        if _filled(tomllib.loads(text)) != _filled(meant):
            raise _beyond(path)
    except tomllib.TOMLDecodeError:
        raise _beyond(path) from None
    try:
        _write(Path(os.path.realpath(path)), text.encode(), private=private)
    except OSError as error:
        raise ConfigError(
            f"cannot write settings to {path}: {error.strerror or error}", hint="nothing was changed"
        ) from None
    except UnicodeEncodeError:
        raise ConfigError(f"cannot write settings to {path}: the value is not valid text") from None


def _filled(table: Table) -> Table:
    """Return a table without its empty sections, which come and go as the library pleases and say nothing."""
    return {section: content for section, content in table.items() if content != {}}


def _write(target: Path, content: bytes, *, private: bool) -> None:
    """Write beside the target, flush, and rename over it."""
    target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)  # left by a process of our number that was killed
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # from a descriptor, for its mode
            if not private and target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _beyond(path: Path) -> ConfigError:
    return ConfigError(f"cannot change {path} without risk to what it says", hint="edit that line by hand")
