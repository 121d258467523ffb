"""The five layers and how they stack: defaults < user file < project file < environment < flags.

Each layer is read into keys and accepted values on its own, so that an error names the file or variable that holds it
even when a higher layer would have covered it up: a typing error is found the day it is made. A list in a higher layer
replaces the lower one; adding to it is the caller's choice.

A key that has another name now is read under its old one in a person's own file, with a warning; the new one goes first.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from lorelog.config.schema import BY_KEY, RENAMED, SECTIONS, Kind, Setting, Value
from lorelog.config.settings import Chosen, Settings, locate
from lorelog.config.values import accept, find_setting, nearest, parse, suggest
from lorelog.core.errors import ConfigError

USER_FILE = "config.toml"
PROJECT_FILE = ".lorelog.toml"
PREFIX = "LORELOG_"
RESERVED_VARIABLES = frozenset({"LORELOG_HOME", "LORELOG_PROJECT"})
"""Read by wiring, before there are any settings."""
MAX_FILE_BYTES = 1_000_000
"""A settings file larger than this is a mistake or a trap."""

Table = dict[str, object]
_SKIP = "capture.skip"
_FORMER = frozenset(key.partition(".")[0] for key in RENAMED)
"""Sections that are not ours any more."""


def load_settings(
    home: Path, project_dir: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Read all layers. Flags are keyed like settings; one that is None was not given."""
    base = os.path.realpath(project_dir or ".")
    chosen: dict[str, Chosen] = {}
    user, warnings = _user_layer(home / USER_FILE)
    chosen.update(user)
    if project_dir is not None:
        project = _project_layer(project_dir / PROJECT_FILE)
        if _SKIP in chosen and chosen[_SKIP].value:
            project.pop(_SKIP, None)  # a clone may ask to be left out, and not to be taken in
        chosen.update(project)
    chosen.update(_environment_layer(environment))
    chosen.update(_flag_layer(flags))
    return Settings(base, chosen, warnings)


def read_table(path: Path) -> tuple[str, Table]:
    """Return a settings file's text and what it says; an absent file says nothing."""
    text = _read_text(path)
    if not text:
        return "", {}
    import tomllib  # most runs have no file to read

    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", hint="correct that line, or move the file away"
        ) from None
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


def check_project_value(setting: Setting, value: Value, path: Path, written: str = "") -> None:
    """Raise ConfigError unless a project file at this path may say this; `written` is the key's old name, if it says that."""
    if not setting.project_allowed:
        raise ConfigError(
            f"{path} sets {written or setting.key}, which a project file may not choose, because it comes with whoever's clone",
            hint=f"set it in your own {USER_FILE} (`lorelog config set {setting.key} …`), "
            f"in {setting.variable} or by a flag, and remove it from {path.name}",
        )
    if setting.key == "index.paths" and isinstance(value, tuple):
        base = os.path.realpath(path.parent)
        for entry in value:
            place = locate(base, entry.removeprefix("!"))
            if os.path.commonpath((base, place)) != base:
                raise ConfigError(
                    f"index.paths in {path} names {entry!r}, which lies outside the project",
                    hint=f"a project file may only name paths inside its directory; others belong in your own {USER_FILE}",
                )


def _user_layer(path: Path) -> tuple[dict[str, Chosen], tuple[str, ...]]:
    """Return what a person's file says, and what to tell them about it."""
    flat = _flat(read_table(path)[1], path)
    # As memsearch has it, which writes all keys: an empty one chooses nothing, and leaves it to the older name.
    filled = {RENAMED[key] for key, raw in flat if key in RENAMED and raw != ""}
    empty = {key for key, raw in flat if raw == "" and (key == "llm.provider" or key in filled or key in RENAMED)}
    said = {key for key, _ in flat} - empty
    chosen: dict[str, Chosen] = {}
    warnings: list[str] = []
    for key, raw in flat:
        name = RENAMED.get(key, key)
        place = str(path) if name == key else f"{path}, as {key}"
        if name != key:
            ignored = ", which goes first" if name in said else ""
            warnings.append(f"{key} in {path} is deprecated: it is {name} now{ignored}")
        if key in empty:
            continue
        value = accept(find_setting(name, place), raw, place)
        if name == key or name not in said:
            chosen[name] = Chosen(name, value, f"user: {path}")
    return chosen, tuple(warnings)


def _project_layer(path: Path) -> dict[str, Chosen]:
    chosen = {}
    for key, raw in _flat(read_table(path)[1], path):
        setting = find_setting(RENAMED.get(key, key), str(path))
        if not setting.project_allowed:
            # Before its value is judged: that it stands here is what is wrong.
            check_project_value(setting, "", path, written=key)
        value = accept(setting, raw, str(path))
        check_project_value(setting, value, path)
        chosen[setting.key] = Chosen(setting.key, value, f"project: {path}")
    return chosen


def _environment_layer(environment: Mapping[str, str]) -> dict[str, Chosen]:
    by_variable = {setting.variable: setting for setting in BY_KEY.values()}
    chosen = {}
    for name in sorted(environment):
        setting = by_variable.get(name)
        if setting is None:
            _check_variable(name, by_variable)
        elif environment[name]:  # exported but empty is how scripts say "not set"
            value = parse(setting, environment[name], f"the environment variable {name}")
            chosen[setting.key] = Chosen(setting.key, value, f"environment: {name}")
    return chosen


def _check_variable(name: str, known: Iterable[str]) -> None:
    """Raise ConfigError when an unknown variable was surely meant for us; hosts and plugins have their own."""
    if not name.startswith(PREFIX) or name in RESERVED_VARIABLES:
        return
    ours = any(name.startswith(f"{PREFIX}{section.upper()}_") for section in SECTIONS)
    # Compared without the common beginning, which would make all of them look alike.
    by_tail = {other.removeprefix(PREFIX).lower(): other for other in known}
    near = nearest(name.removeprefix(PREFIX), by_tail, cutoff=0.5 if ours else 0.8)
    # LORELOG_TENANT for LORELOG_SCOPE_TENANT: whoever leaves the section out must not get the default instead.
    tail = "_" + name.removeprefix(PREFIX).lower()
    near = near or next((other for other in by_tail if other.endswith(tail)), "")
    if ours or near:
        hint = f"did you mean {by_tail[near]}?" if near else "docs/configuration.md names the variables"
        raise ConfigError(f"the environment variable {name} sets no setting", hint=hint)


def _flag_layer(flags: Mapping[str, object]) -> dict[str, Chosen]:
    chosen = {}
    for key, raw in flags.items():
        if raw is None:
            continue
        setting = find_setting(key, "a flag")
        written = isinstance(raw, str) and setting.kind is not Kind.TEXT
        value = parse(setting, str(raw), "a flag") if written else accept(setting, raw, "a flag")
        chosen[key] = Chosen(key, value, "flag")
    return chosen


def _flat(table: Table, path: Path) -> list[tuple[str, object]]:
    """Return `section.field` keys with their raw values; raise ConfigError for what is not in that shape."""
    flat: list[tuple[str, object]] = []
    for section, content in table.items():
        if isinstance(content, dict) and (section in SECTIONS or section in _FORMER):
            flat += [(f"{section}.{field}", raw) for field, raw in content.items()]
        elif isinstance(content, dict):
            hint = suggest(section, SECTIONS) or "the sections are " + ", ".join(SECTIONS)
            raise ConfigError(f"unknown section {section!r} in {path}", hint=hint)
        elif section in SECTIONS:
            raise ConfigError(
                f"{section} in {path} must be a section", hint=f"write [{section}] on a line of its own, settings below"
            )
        else:
            find_setting(section, str(path))
    return flat
