"""Front matter: the block of `key: value` lines between `---` (or `+++`) at the very top of a file.

A flat subset, read without a YAML package: values on the key's own line, and lists written `[a, b]`, `a, b` or as
dashes on the following lines. Nested keys and multi-line texts are passed over. That is enough for title, date, type
and tags, and a general YAML parser over strangers' files would be cost and attack surface for nothing.

A block counts as front matter only when its first line that is neither blank nor a comment assigns a key; otherwise a
journal that opens with a rule (`---`) would lose its headings down to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lorelog.ingest.dates import find_day

_FENCES = {"---": (("---", "..."), ":"), "+++": (("+++",), "=")}
_KEY = {
    ":": re.compile(r"([\"']?)([A-Za-z_][\w.-]*)\1[ \t]*:(?:[ \t]|$)"),
    "=": re.compile(r"([\"']?)([A-Za-z_][\w.-]*)\1[ \t]*="),
}
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a file says of itself at its top."""

    title: str = ""
    date: str = ""
    type: str = ""
    tags: tuple[str, ...] = ()


def front_matter_length(lines: Sequence[str]) -> int:
    """Return how many lines at the top are front matter, both fences included."""
    opening = lines[0].rstrip()
    if opening not in _FENCES:
        return 0
    closings, separator = _FENCES[opening]
    assigned = False
    for number in range(1, len(lines)):
        line = lines[number].rstrip()
        if line in closings:
            return number + 1 if assigned else 0
        if not assigned and line and not line.startswith("#"):
            if not _KEY[separator].match(line) and not (separator == "=" and line.startswith("[")):
                return 0
            assigned = True
    return 0


def parse_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read the lines of a front matter block, both fences included; no lines make an empty one."""
    if not lines:
        return FrontMatter()
    values = _assignments(lines[1:-1], _FENCES[lines[0].rstrip()][1])
    return FrontMatter(
        title=_scalar(values.get("title", [""])[0]),
        date=find_day(_scalar(values.get("date", [""])[0])),
        type=_scalar(values.get("type", [""])[0]),
        tags=_list(values.get("tags", [""])),
    )


def _assignments(lines: Sequence[str], separator: str) -> dict[str, list[str]]:
    """Return each top-level key's value, followed by the dash items below it. The first of equal keys counts."""
    values: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if separator == "=" and line.startswith("["):
            break  # TOML tables are nested keys
        if key := _KEY[separator].match(line):
            current = [line[key.end() :].strip()]
            values.setdefault(key[2].lower(), current)
        elif item := _ITEM.match(line):
            current.append(item[1].strip())
    return values


def _scalar(value: str) -> str:
    """Return a value without its quotes or its trailing comment; markers of multi-line texts give nothing."""
    if value[:1] in ('"', "'"):
        end = value.find(value[0], 1)
        return value[1:end].strip() if end > 0 else value[1:].strip()
    if value[:1] in ("|", ">", "#", "&", "{"):
        return ""
    return value.split(" #", 1)[0].strip()


def _list(values: Sequence[str]) -> tuple[str, ...]:
    inline, *items = values
    if inline.startswith("["):
        inline = inline[1:].split("]", 1)[0]
    elif inline[:1] not in ('"', "'"):
        inline = _scalar(inline)
    words = [*inline.split(","), *items]
    return tuple(dict.fromkeys(word for value in words if (word := _scalar(value.strip()))))
