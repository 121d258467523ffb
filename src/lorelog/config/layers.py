"""Loads the five layers of settings: defaults < user file < project file < environment < flags.

Each layer is validated on its own, so that an error names the file or variable that contains it even if a higher
layer overrides the value. A list in a higher layer replaces the lower one.

A renamed key is still read from the user file, with a warning; the new name takes precedence.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from lorelog.config.schema import RENAMED_KEYS, SECTIONS, SETTINGS_BY_KEY
from lorelog.config.setting import Setting, SettingKind, SettingValue
from lorelog.config.settings import (
    ChosenValue,
    Settings,
    closest_name,
    coerce_value,
    find_setting,
    format_suggestion,
    parse_value,
    resolve_path,
)
from lorelog.core.errors import ConfigError

USER_FILE = "config.toml"
PROJECT_FILE = ".lorelog.toml"
VARIABLE_PREFIX = "LORELOG_"
RESERVED_VARIABLES = frozenset(
    {
        *("LORELOG_HOME", "LORELOG_PROJECT", "LORELOG_DEBUG", "LORELOG_HOOKS", "LORELOG_HOOK_TIMEOUT_S"),
        *("LORELOG_ENCODER_DIR", "LORELOG_IDENTITY_PASSPHRASE", "LORELOG_TOKEN"),
    }
)
"""Variables that are no settings and are read elsewhere. They may resemble a setting's: LORELOG_SESSION_TOOL_HOOKS."""
MAX_FILE_BYTES = 1_000_000
"""A larger settings file is a mistake or an attack."""

Table = dict[str, object]
_CAPTURE_SKIP = "capture.skip"
_RENAMED_SECTIONS = frozenset(key.partition(".")[0] for key in RENAMED_KEYS)
"""Sections that existed under memsearch."""
_MEMSEARCH_SECTIONS = frozenset({"milvus", "plugins", "memsearch"})
"""Sections of memsearch that have no counterpart of the same name."""


def load_settings(
    home: Path, project_dir: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Load all layers. Flags are keyed like settings; None means not given."""
    base = os.path.realpath(project_dir or ".")
    chosen: dict[str, ChosenValue] = {}
    user, warnings = _user_layer(home / USER_FILE)
    chosen.update(user)
    if project_dir is not None:
        project = _project_layer(project_dir / PROJECT_FILE)
        if _CAPTURE_SKIP in chosen and chosen[_CAPTURE_SKIP].value:
            project.pop(_CAPTURE_SKIP, None)  # a clone may opt out of capture, but not opt in
        chosen.update(project)
    chosen.update(_environment_layer(environment))
    chosen.update(_flag_layer(flags))
    return Settings(base, chosen, warnings)


def read_table(path: Path) -> tuple[str, Table]:
    """Return a settings file's text and its parsed table; both empty if the file is absent."""
    text = _read_text(path)
    if not text:
        return "", {}
    import tomllib  # most runs have no file to read

    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", hint="correct that line, or remove the file") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply") from None


def _read_text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"cannot read settings from {path}: it is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigError(f"cannot read settings from {path}: it is larger than {MAX_FILE_BYTES:,} bytes")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot read settings from {path}: {reason}", hint="check its owner and permissions"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} is not UTF-8 text (line {line})", hint="save the file as UTF-8") from None


def check_project_value(setting: Setting, value: SettingValue, path: Path, written: str = "") -> None:
    """Raise ConfigError unless a project file may set this value; `written` is the key's old name, if that was used."""
    if not setting.project_allowed:
        raise ConfigError(
            f"{path} sets {written or setting.key}, which a project file may not set, because a clone may come from anyone",
            hint=f"set it in your own {USER_FILE} (`lorelog config set {setting.key} …`), "
            f"in {setting.variable} or by a flag, and remove it from {path.name}",
        )
    if setting.key == "index.paths" and isinstance(value, tuple):
        base = os.path.realpath(path.parent)
        for entry in value:
            place = resolve_path(base, entry.removeprefix("!"))
            if os.path.commonpath((base, place)) != base:
                raise ConfigError(
                    f"index.paths in {path} names {entry!r}, which is outside the project",
                    hint=f"a project file may only name paths inside its directory; others belong in your own {USER_FILE}",
                )


def _user_layer(path: Path) -> tuple[dict[str, ChosenValue], tuple[str, ...]]:
    """Return the values of the user file, and warnings about them."""
    flat = _flatten(read_table(path)[1], path)
    # memsearch writes all keys: an empty one chooses nothing, and the older name still applies.
    filled = {RENAMED_KEYS[key] for key, raw in flat if key in RENAMED_KEYS and raw != ""}
    empty = {key for key, raw in flat if raw == "" and (key == "llm.provider" or key in filled or key in RENAMED_KEYS)}
    present = {key for key, _ in flat} - empty
    chosen: dict[str, ChosenValue] = {}
    warnings: list[str] = []
    for key, raw in flat:
        name = RENAMED_KEYS.get(key, key)
        place = str(path) if name == key else f"{path}, as {key}"
        if name != key:
            ignored = ", which takes precedence" if name in present else ""
            warnings.append(f"{key} in {path} is deprecated: use {name}{ignored}")
        if key in empty:
            continue
        value = coerce_value(find_setting(name, place), raw, place)
        if name == key or name not in present:
            chosen[name] = ChosenValue(name, value, f"user: {path}")
    return chosen, tuple(warnings)


def _project_layer(path: Path) -> dict[str, ChosenValue]:
    chosen = {}
    for key, raw in _flatten(read_table(path)[1], path):
        setting = find_setting(RENAMED_KEYS.get(key, key), str(path))
        if not setting.project_allowed:
            # Before its value is validated: the error is that it is set here at all.
            check_project_value(setting, "", path, written=key)
        value = coerce_value(setting, raw, str(path))
        check_project_value(setting, value, path)
        chosen[setting.key] = ChosenValue(setting.key, value, f"project: {path}")
    return chosen


@cache
def _settings_by_variable() -> dict[str, Setting]:
    return {setting.variable: setting for setting in SETTINGS_BY_KEY.values()}


def _environment_layer(environment: Mapping[str, str]) -> dict[str, ChosenValue]:
    by_variable = _settings_by_variable()
    chosen = {}
    for name in sorted(environment):
        setting = by_variable.get(name)
        if setting is None:
            _check_variable(name, by_variable)
        elif environment[name]:  # scripts export an empty variable to unset it
            value = parse_value(setting, environment[name], f"the environment variable {name}")
            chosen[setting.key] = ChosenValue(setting.key, value, f"environment: {name}")
    return chosen


def _check_variable(name: str, variables: Iterable[str]) -> None:
    """Raise ConfigError if an unknown variable resembles one of ours; hosts and plugins have their own."""
    if not name.startswith(VARIABLE_PREFIX) or name in RESERVED_VARIABLES:
        return
    ours = any(name.startswith(f"{VARIABLE_PREFIX}{section.upper()}_") for section in SECTIONS)
    # Compare without the common prefix, which would make all of them similar.
    by_tail = {other.removeprefix(VARIABLE_PREFIX).lower(): other for other in variables}
    near = closest_name(name.removeprefix(VARIABLE_PREFIX), by_tail, cutoff=0.5 if ours else 0.8)
    # LORELOG_TENANT for LORELOG_SCOPE_TENANT: a variable without its section must not be ignored silently.
    tail = "_" + name.removeprefix(VARIABLE_PREFIX).lower()
    near = near or next((other for other in by_tail if other.endswith(tail)), "")
    if ours or near:
        hint = f"did you mean {by_tail[near]}?" if near else "'lorelog docs configuration' lists the variables"
        raise ConfigError(f"unknown environment variable {name}", hint=hint)


def _flag_layer(flags: Mapping[str, object]) -> dict[str, ChosenValue]:
    chosen = {}
    for key, raw in flags.items():
        if raw is None:
            continue
        setting = find_setting(key, "a flag")
        written = isinstance(raw, str) and setting.kind is not SettingKind.TEXT
        value = parse_value(setting, str(raw), "a flag") if written else coerce_value(setting, raw, "a flag")
        chosen[key] = ChosenValue(key, value, "flag")
    return chosen


def _flatten(table: Table, path: Path) -> list[tuple[str, object]]:
    """Return `section.field` keys with their raw values; raise ConfigError for any other structure."""
    flat: list[tuple[str, object]] = []
    for section, content in table.items():
        if isinstance(content, dict) and (section in SECTIONS or section in _RENAMED_SECTIONS):
            flat += [(f"{section}.{field}", raw) for field, raw in content.items()]
        elif isinstance(content, dict):
            hint = format_suggestion(section, SECTIONS) or "the sections are " + ", ".join(SECTIONS)
            if section in _MEMSEARCH_SECTIONS:
                hint = "it is memsearch's: 'lorelog import memsearch --settings' translates its settings"
            raise ConfigError(f"unknown section {section!r} in {path}", hint=hint)
        elif section in SECTIONS:
            raise ConfigError(
                f"{section} in {path} must be a section", hint=f"write [{section}] on a line of its own, settings below"
            )
        else:
            find_setting(section, str(path))
    return flat


def environment_digest(environment: Mapping[str, str]) -> bytes:
    """Return a hash of an environment: its values may be secrets, which nothing should keep."""
    from hashlib import sha256

    return sha256(repr(sorted(environment.items())).encode("utf-8", "surrogateescape")).digest()


_SETTLED_NS = 100_000_000


def settings_stamp(path: Path) -> object:
    """Return what changes with a settings file; None if it changed just now, and may change again at the same time."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return "missing"
    if abs(time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns)) < _SETTLED_NS:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
