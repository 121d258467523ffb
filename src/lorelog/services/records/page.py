"""What records look like as Markdown: a page for each task, a section for each record, an anchor in each.

A record's text is somebody's, and may have been written to deceive. Nothing in it may pass for a heading, an anchor, a fence or
a comment: then it would be cut elsewhere, or found under another record's name, and be worth what that one is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote, unquote

from lorelog.core.record import Record
from lorelog.records.text import search_text

FORMAT = "2"
"""Whoever changes what the same records look like raises it: all pages are then made anew."""

_MOST_TITLE = 200
_MOST_NAME = 100
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LIST = r"(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*"
_MARKUP = re.compile(rf"([ \t]*)(?={_LIST}(?:#|`{{3}}|~{{3}})|(?:=+|-+)\s*$)")
"""What would begin a heading or a fence, or underline the line before it."""


def render(title: str, records: Sequence[Record]) -> str:
    """Return a page: its title, and a section for each record in the order given."""
    return "\n".join([f"# {_one_line(title, _MOST_TITLE) or 'untitled'}", *map(_section, records), ""])


def anchored(identity: str) -> str:
    """Return a record's id as it can stand in an anchor: most are what they are."""
    return quote(identity, safe="")


def identity_of(anchored_as: str) -> str:
    """Return the id of the record that an anchor names."""
    return unquote(anchored_as)


def _section(record: Record) -> str:
    by = _one_line(record.agent, _MOST_NAME)
    # The number keeps two records that say the same in the same minute apart: neither is a repeat of the other.
    heading = f"{_moment(record.at)} {_one_line(record.kind.replace('_', ' '), _MOST_NAME)} #{record.seq}"
    words = {"memory": record.id, "type": record.kind, "origin": record.origin}
    anchor = " ".join(f"{name}:{anchored(value)}" for name, value in words.items() if value)
    return "\n".join(["", f"## {heading} by {by}" if by else f"## {heading}", f"<!-- {anchor} -->", "", _body(record)])


def _body(record: Record) -> str:
    shown = _shown(search_text(record))
    if not shown.strip():  # control characters alone: a section without a word would be none
        shown = _shown(record.kind)
    return "\n".join(_MARKUP.sub(r"\1\\", line, count=1) for line in shown.split("\n"))


def _shown(text: str) -> str:
    """Return a text of whole characters, in which no comment begins and nothing but a line's end ends a line."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return _CONTROLS.sub(" ", whole).replace("<!--", "<! --")


def _one_line(text: str, most: int) -> str:
    line = " ".join(_shown(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _moment(at: str) -> str:
    """Return the local day and time, as journals have them: what was said yesterday evening is of yesterday."""
    try:
        return f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return _one_line(at.replace("T", " "), 16)
