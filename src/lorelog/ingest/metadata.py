"""Metadata that a Markdown file states about itself: dates, front matter and anchors.

Dates: only ISO days (`2026-03-05`) and 24-hour or am/pm times are read; anything looser guesses. A time counts only with
a day from the same text; a file's modification day says nothing about the `14:30` in one of its headings.

Front matter: the block of `key: value` lines between `---` (or `+++`) at the top of a file. A flat subset is read
without a YAML package: values on the key's line, and lists written `[a, b]`, `a, b` or as dashes on the following lines.
Nested keys and multi-line texts are skipped. That covers title, date, type and tags; a full YAML parser on untrusted
files would add cost and attack surface for nothing. The first line that is neither blank nor a comment must assign a
key; otherwise a journal that opens with a rule (`---`) would lose its headings down to the next one.

Anchors: the comment under a heading that records a memory's source, in all known dialects:

    <!-- session:S turn:T transcript:PATH -->     Claude Code; OpenClaw, without a turn and with a path or a URL
    <!-- session:S rollout:PATH -->               Codex
    <!-- session:S turn:T db:PATH -->             OpenCode, DSH
    <!-- memory:ID type:decision tags:a,b … -->   lorelog; `cues:` is percent-encoded
    <!-- covers:HASH,HASH,… -->                   below a lorelog anchor: further chunks that a summary covers

A comment is an anchor if its first word has the form `key:value` and it names a session or a memory, so prose that
mentions `session:x` is not one. Unknown keys are skipped. Addresses may contain spaces: they extend to the next
`key:value` word, which is why a key is lower case and touches its value.

Limits: what a file states about itself is stored with each of its chunks, so its size is limited, or a long list in a long file
would take the square of both. Tags beyond the limit are dropped and counted; longer values are dropped or cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import PurePath
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import Anchor

MAX_TAGS, MAX_TAG_CHARS = 100, 200
"""Tags of a file's front matter, or of one anchor."""
_MAX_LISTED = 10 * MAX_TAGS
"""Words of a list that are looked at, because some may be equal or too long."""
_MAX_CUES = 20
_MAX_TITLE_CHARS = 500
_MAX_TYPE_CHARS = 64
_MAX_FIELD_CHARS = 4_096
"""Of an anchor's other fields: the longest path."""

_DAY = re.compile(r"(?<![0-9A-Za-z_.-])([0-9]{4})-([0-9]{2})-([0-9]{2})(?![0-9])")
_TIME = re.compile(
    r"[*_`\[(\s]*(?:session\s+)?([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})?(?![0-9:])(?:\s*([ap])\.?m\b)?", re.IGNORECASE
)


class PartialDatetime(Struct, frozen=True):
    """A day and a time of day, either of which may be unknown."""

    day: str = ""
    time: str = ""

    def refine(self, title: str) -> PartialDatetime:
        """Return the date and time of a heading nested under this one."""
        match = _DAY.search(title)
        day = _valid_iso_day(match) if match else ""
        time = _find_time(title[match.end() :].lstrip("Tt ,@–—-")) if match and day else ""
        time = time or _find_time(title)
        if day:
            return PartialDatetime(day, time)
        return PartialDatetime(self.day, time or self.time)

    def to_iso(self, fallback_day: str) -> str:
        """Return `YYYY-MM-DD`, or `YYYY-MM-DDTHH:MM`, or the fallback if the day is unknown."""
        if not self.day:
            return fallback_day
        return f"{self.day}T{self.time}" if self.time else self.day


def find_day(text: str) -> str:
    """Return the first ISO day in a text if it is a valid date, else an empty string."""
    match = _DAY.search(text)
    return _valid_iso_day(match) if match else ""


def day_from_filename(path: str) -> str:
    """Return the day at the start of a journal's file name, else an empty string."""
    match = _DAY.match(PurePath(path).name)
    return _valid_iso_day(match) if match else ""


def _valid_iso_day(match: re.Match[str]) -> str:
    try:
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    except ValueError:
        return ""


def _find_time(text: str) -> str:
    match = _TIME.match(text)
    if not match:
        return ""
    hour, minute = int(match[1]), int(match[2])
    if match[3]:
        hour = hour % 12 + (12 if match[3] in "pP" else 0)
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else ""


_FENCES = {"---": (("---", "..."), ":"), "+++": (("+++",), "=")}
_KEY = re.compile(r"([\"']?)([A-Za-z_][\w.-]*)\1[ \t]*(:(?=[ \t]|$)|=)")


class FrontMatter(Struct, frozen=True):
    """The supported front matter fields of a file."""

    title: str = ""
    date: str = ""
    type: str = ""
    tags: tuple[str, ...] = ()
    dropped_tags: int = 0
    """Tags beyond the limits."""


def is_front_matter_fence(line: str) -> bool:
    """Return True if a first line may open front matter."""
    return line.rstrip() in _FENCES


def front_matter_length(lines: Sequence[str]) -> int:
    """Return the number of front matter lines at the top, including both fences."""
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
            key = _KEY.match(line)
            if not (key and key[3] == separator) and not (separator == "=" and line.startswith("[")):
                return 0
            assigned = True
    return 0


def parse_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Parse a front matter block including both fences; no lines give an empty result."""
    if not lines:
        return FrontMatter()
    values = _assignments(lines[1:-1], _FENCES[lines[0].rstrip()][1])
    listed, unread = _list(values.get("tags", [""]))
    tags = _limit_tags(listed)
    return FrontMatter(
        title=_scalar(values.get("title", [""])[0])[:_MAX_TITLE_CHARS],
        date=find_day(_scalar(values.get("date", [""])[0])),
        type=_scalar(values.get("type", [""])[0])[:_MAX_TYPE_CHARS],
        tags=tags,
        dropped_tags=len(listed) - len(tags) + unread,
    )


def _limit_tags(tags: Sequence[str]) -> tuple[str, ...]:
    return tuple([tag for tag in tags if len(tag) <= MAX_TAG_CHARS][:MAX_TAGS])


def _assignments(lines: Sequence[str], separator: str) -> dict[str, list[str]]:
    """Return each top-level key's value, followed by the dash items below it. The first of equal keys counts."""
    values: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if separator == "=" and line.startswith("["):
            break  # TOML tables are nested keys
        key = _KEY.match(line)
        if key and key[3] == separator:
            current = [line[key.end() :].strip()]
            values.setdefault(key[2].lower(), current)
        elif line.lstrip(" \t").startswith(("- ", "-\t")):
            current.append(line.lstrip(" \t")[1:].strip())
    return values


def _scalar(value: str) -> str:
    """Return a value without quotes and trailing comment; empty for markers of multi-line texts."""
    if value[:1] in ('"', "'"):
        end = value.find(value[0], 1)
        return value[1:end].strip() if end > 0 else value[1:].strip()
    if value[:1] in ("|", ">", "#", "&", "{"):
        return ""
    return value.split(" #", 1)[0].strip()


def _list(values: Sequence[str]) -> tuple[list[str], int]:
    """Return the distinct words of a list, and the number of words beyond those that are looked at."""
    inline, *items = values
    if inline.startswith("["):
        inline = inline[1:].split("]", 1)[0]
    elif inline[:1] not in ('"', "'"):
        inline = _scalar(inline)
    words = [*inline.split(","), *items]
    read = words[:_MAX_LISTED]
    return list(dict.fromkeys(word for value in read if (word := _scalar(value.strip())))), len(words) - len(read)


_ANCHOR_KEY = re.compile(r"(?:^|(?<=\s))([a-z][a-z_-]*):(?=\S)")
_ADDRESSES = ("transcript", "rollout", "db")
_LISTS = frozenset(("tags", "covers", "cues"))
"""Fields with limits of their own; the hashes of `covers` are stored with one chunk only."""
_PLAIN_FIELDS = ("session", "turn", "memory", "type", "origin", "supersedes", "expires", "branch", "commit")
_MULTIWORD_KEYS = frozenset((*_ADDRESSES, "tags"))
_HEX = "0123456789abcdef"


def parse_anchor(comment: str) -> Anchor | None:
    """Parse a comment's inner text as an anchor; None if it is not one."""
    if "session:" not in comment and "memory:" not in comment:
        return None
    text = comment.strip()
    words = list(_ANCHOR_KEY.finditer(text))
    if not words or words[0].start() != 0:
        return None
    values: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], None], strict=True):
        value = text[word.end() : following.start() if following else len(text)].strip()
        if len(value) > _MAX_FIELD_CHARS and word[1] not in _LISTS:
            continue
        values.setdefault(word[1], value if word[1] in _MULTIWORD_KEYS else value.split(maxsplit=1)[0])
    if "session" not in values and "memory" not in values:
        return None
    dialect = next((name for name in _ADDRESSES if name in values), "")
    cues = [unquote(cue).strip() for cue in values.get("cues", "").split(",") if len(cue) <= _MAX_FIELD_CHARS]
    anchor = Anchor(
        transcript=values.get(dialect, ""),
        dialect=dialect,
        tags=_limit_tags(list(dict.fromkeys(values.get("tags", "").replace(",", " ").split()))),
        covers=_parse_hashes(values.get("covers", "")),
        cues=tuple(list(dict.fromkeys(filter(None, cues)))[:_MAX_CUES]),
    )
    return replace(anchor, **{name: values[name] for name in _PLAIN_FIELDS if name in values})


def parse_covers(comment: str) -> tuple[str, ...]:
    """Return the hashes in a `covers` comment below an anchor, which keeps the anchor's own line short."""
    key, _, hashes = comment.partition(":")
    return _parse_hashes(hashes) if key.strip() == "covers" and not hashes.strip(f"{_HEX}, \t\r\n") else ()


def _parse_hashes(text: str) -> tuple[str, ...]:
    words = text.replace(",", " ").split()
    return tuple(dict.fromkeys(word for word in words if len(word) == 16 and not word.strip(_HEX)))
