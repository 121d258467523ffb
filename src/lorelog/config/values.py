"""From what was written to a value a setting holds, or a ConfigError that says what was expected.

`accept` takes typed values (TOML, flags), `parse` takes text (environment, `config set`). Both are strict: a boolean is
not a number and a text is not a list of one, because a guess here shows up much later as a search that finds nothing.
`place` is where it was written, in words that follow "in"; empty when the reader has just typed it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NoReturn

from lorelog.config.schema import BY_KEY, RENAMED, SECTIONS, Kind, Setting, Value
from lorelog.core.errors import ConfigError

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
LIST_HINT = "`lorelog config list` shows every setting"
SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def find_setting(key: str, place: str = "") -> Setting:
    """Return the setting of this key; raise ConfigError with the nearest one when there is none."""
    if key in BY_KEY:
        return BY_KEY[key]
    where = f" in {place}" if place else ""
    if key in RENAMED:
        raise ConfigError(f"{key!r}{where} is now {RENAMED[key]}", hint=f"use {RENAMED[key]}")
    section, _, field = key.partition(".")
    if key in SECTIONS:
        fields = ", ".join(name for name in BY_KEY if name.startswith(f"{key}."))
        raise ConfigError(f"{key!r}{where} is a section, not a setting", hint=f"its settings are {fields}")
    if field and section not in SECTIONS:
        hint = suggest(key, BY_KEY) or suggest(section, SECTIONS)
        raise ConfigError(f"unknown section {section!r} of {key!r}{where}", hint=hint or LIST_HINT)
    raise ConfigError(f"unknown setting {key!r}{where}", hint=suggest(key, BY_KEY) or LIST_HINT)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that was probably meant, or an empty text."""
    from difflib import get_close_matches  # only needed once something is wrong

    names = list(known)
    same_field = [full for full in names if full.endswith(f".{name}")]
    return next(iter(same_field or get_close_matches(name.lower(), names, n=1, cutoff=cutoff)), "")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …?", or an empty text."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else ""


def accept(setting: Setting, raw: object, place: str) -> Value:
    """Return a typed value as the setting holds it."""
    value = _typed(setting, raw)
    if value is None:
        refuse(setting, raw, place)
    if isinstance(value, tuple):
        for entry in value:
            _check_text(setting, entry, place)
    elif isinstance(value, str):
        _check_text(setting, value, place)
    elif not isinstance(value, bool) and not setting.minimum <= value <= setting.maximum:
        refuse(setting, raw, place)
    return value


def parse(setting: Setting, text: str, place: str = "") -> Value:
    """Return the value that a text writes."""
    if setting.kind is Kind.TEXT:
        return accept(setting, text, place)
    text = text.strip()
    raw: object = None
    if setting.kind is Kind.SWITCH:
        raw = SWITCHES.get(text.lower())
    elif setting.kind is Kind.WHOLE:
        raw = int(text) if WHOLE.fullmatch(text) else None
    elif setting.kind is Kind.NUMBER:
        raw = _number(text)
    else:
        raw = _entries(text)
    if raw is None:
        refuse(setting, text, place)
    return accept(setting, raw, place)


def as_toml(value: Value) -> str:
    """Write a value as TOML, which for our kinds is also how a person would type it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # a JSON text is a TOML basic string


def refuse(setting: Setting, raw: object, place: str, hint: str = "") -> NoReturn:
    """Raise the ConfigError of a value that the setting does not take."""
    shown = f" is {_shown(raw)}" if setting.repeatable else " is not valid"
    if not hint and setting.choices and isinstance(raw, str):
        hint = suggest(raw, setting.choices)
    if not hint and setting.secret:
        hint = "put the key into an environment variable and write its name here, as env:NAME"
    where = f" in {place}" if place else ""
    raise ConfigError(f"{setting.key}{shown}{where}: expected {setting.accepts}", hint=hint)


def _typed(setting: Setting, raw: object) -> Value | None:
    kind = setting.kind
    if isinstance(raw, bool):  # to Python a boolean is an int; to us it is not
        return raw if kind is Kind.SWITCH else None
    if isinstance(raw, str):
        return str(raw) if kind is Kind.TEXT else None  # a StrEnum becomes plain text
    if isinstance(raw, list | tuple):
        entries = tuple(str(entry) for entry in raw if isinstance(entry, str))
        return entries if kind is Kind.LIST and len(entries) == len(raw) else None
    if isinstance(raw, int) and abs(raw) < 1 << 53:  # beyond, a float would be another number
        return {Kind.WHOLE: raw, Kind.NUMBER: float(raw)}.get(kind)
    return raw if isinstance(raw, float) and kind is Kind.NUMBER else None


def _check_text(setting: Setting, text: str, place: str) -> None:
    if CONTROL.search(text):
        refuse(setting, text, place)
    if setting.choices and text not in setting.choices:
        refuse(setting, text, place)
    if setting.pattern and not re.fullmatch(setting.pattern, text):
        refuse(setting, text, place)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _entries(text: str) -> list[object] | None:
    """Read a JSON array, or else entries between commas."""
    if not text.startswith("["):
        return [entry.strip() for entry in text.split(",") if entry.strip()]
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entries if isinstance(entries, list) else None


def _shown(raw: object) -> str:
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, str | int | float | list | tuple):
        text = json.dumps(raw, ensure_ascii=False, default=str)
    else:
        text = str(raw)
    return text if len(text) <= 80 else f"{text[:77]}…"
