"""Adds one table to a TOML text and takes it away again, with everything else kept as it was written.

A table that stands at the end of a file needs nothing of what stands before it, so it is added and removed as lines. Both
are checked with the parser: what is read afterwards is what was read before, with or without the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lorelog.core.errors import ConfigError

_HEADER = re.compile(r"^[ \t]*\[")


def read(text: str) -> dict[str, Any]:
    """Read a TOML text. Raise ValueError where it is none."""
    return tomllib.loads(text)


def table_lines(path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a table as it is written."""
    lines = [f"[{'.'.join(path)}]", *(f"{name} = {_value(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def put_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return a text with the table, which must not be there yet."""
    meant = read(text)
    _holder(meant, path)[path[-1]] = dict(values)
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return _checked(text + gap + table_lines(path, values), meant)


def drop_table(text: str, path: Sequence[str]) -> str:
    """Return a text without the table and what lies below it."""
    meant = read(text)
    holder = _holder(meant, path)
    if path[-1] not in holder:
        return text
    holder.pop(path[-1])
    name = r"\s*\.\s*".join(rf"(?:{re.escape(part)}|\"{re.escape(part)}\")" for part in path)
    own = re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]]*)?\]")
    lines = text.splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if own.match(line)]
    for headers in (found, found[-1:]):  # a line within a longer text may look like a header
        with suppress(ConfigError):
            return _checked(_without(lines, headers), meant)
    return _checked(_rewritten(text, path), meant)


def _without(lines: Sequence[str], headers: Sequence[int]) -> str:
    """Return a text without the tables that begin at some lines."""
    kept: list[str] = []
    body: list[str] | None = None
    for number, line in enumerate(lines):
        if _HEADER.match(line):
            kept += _left(body)
            body = [] if number in headers else None
            if body is not None:
                _drop_gap(kept)
                continue
        (kept if body is None else body).append(line)
    return "".join(kept + _left(body))


def _rewritten(text: str, path: Sequence[str]) -> str:
    """Return a text without an entry, by the library that keeps comments: for dotted keys and tables on one line."""
    import tomlkit  # heavy, and only this needs it
    from tomlkit.exceptions import TOMLKitError

    try:
        document: Any = tomlkit.parse(text)
        holder = document
        for part in path[:-1]:
            holder = holder[part]
        holder.remove(path[-1])
        return str(document.as_string())
    except (TOMLKitError, KeyError, TypeError, AttributeError, ValueError):
        return text


def _left(body: list[str] | None) -> list[str]:
    """Return what stays of a removed table: blank lines and comments behind its last value."""
    if body is None:
        return []
    last = max(
        (number for number, line in enumerate(body) if line.strip() and not line.lstrip().startswith("#")), default=-1
    )
    return body[last + 1 :]


def _drop_gap(kept: list[str]) -> None:
    """Take away the blank line that stood before a removed table."""
    if kept and not kept[-1].strip():
        kept.pop()


def _checked(text: str, meant: Mapping[str, Any]) -> str:
    try:
        found = _filled(read(text))
    except ValueError:
        found = None
    if found != _filled(meant):
        raise ConfigError("it cannot be changed without risk to what it says", hint="make the change by hand")
    return text


def _filled(value: Any) -> Any:
    """Return a table without empty ones in it: they come and go with their last entry."""
    if not isinstance(value, dict):
        return value
    inner = {name: _filled(one) for name, one in value.items()}
    return {name: one for name, one in inner.items() if one != {}}


def _holder(table: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{part} is not a table there", hint="correct it by hand first")
    return table


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
