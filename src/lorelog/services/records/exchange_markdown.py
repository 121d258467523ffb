"""Records as Markdown: a section each, to be read by people, with the record itself in a comment, to be read back.

Only the comments are read back. What people read is quoted line by line, so that no record's text can pass for a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from lorelog.core.record import Json, Record
from lorelog.records.kinds import FIELDS
from lorelog.services.records.exchange_lines import Incoming, bounded_lines, compact, incoming, values_of
from lorelog.services.records.wiki_words import plain

HEAD = "<!-- lorelog:ledger v1 -->"
_OPEN, _CLOSE = "<!-- lorelog:record ", " -->"
_SPELT_OUT = re.compile(r"[<>\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""What would end a comment, or do something to a reader's screen. JSON has these inside of strings only."""
_NAMED = ("task", "reply_to", "relation", "supersedes", "project", "session", "origin")


def write_markdown(records: Iterator[Record]) -> Iterator[str]:
    """Yield a Markdown file, piece by piece."""
    yield f"# Records\n\n{HEAD}\n"
    for record in records:
        yield "\n".join(["", *_section(record), ""])


def read_markdown(stream: IO[bytes]) -> Iterator[Incoming]:
    """Yield the records of a Markdown file, what cannot be read included."""
    opening, closing = _OPEN.encode(), _CLOSE.encode()
    for place, line in bounded_lines(stream):
        if not line.startswith(opening):
            continue
        text = line.rstrip(b"\r\n")
        if not text.endswith(closing):
            yield Incoming(place, problem="its comment has no end")
            continue
        yield incoming(place, text[len(opening) : -len(closing)])


def _section(record: Record) -> Iterator[str]:
    kind = record.kind.replace("_", " ")
    name = _shown(record.id).replace('"', "&quot;")
    yield f'<a id="{name}"></a>'
    yield ""
    at = record.at[:16].replace("T", " ")
    yield f"## {' · '.join(filter(None, map(_shown, (kind, record.agent, at, record.status))))}"
    yield ""
    said = _SPELT_OUT.sub(lambda found: f"\\u{ord(found[0]):04x}", compact(values_of(record)))
    yield f"{_OPEN}{said}{_CLOSE}"
    yield ""
    for name in _NAMED:
        value = getattr(record, name)
        if value:
            yield f"- {name}: `{_shown(value)}`"
    if record.supports_claim is not None:
        yield f"- supports what it replies to: {'yes' if record.supports_claim else 'no'}"
    for name in (*FIELDS, *(other for other in record.fields if other not in FIELDS)):
        if name in record.fields:
            yield from ("", f"**{_shown(name.replace('_', ' '))}**", "", *_quoted(record.fields[name]))


def _quoted(value: Json) -> Iterator[str]:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        for one in value:
            first, *rest = str(one).splitlines() or [""]
            yield f"> - {_shown(first)}"
            yield from (f">   {_shown(line)}" for line in rest)
        return
    text = value if isinstance(value, str) else compact({"": value})[4:-1]
    yield from (f"> {_shown(line)}".rstrip() for line in text.splitlines() or [""])


def _shown(text: str) -> str:
    """Return a line in which nothing drives a terminal, and no tag or code span ends."""
    return plain(text).replace("\n", " ").replace("`", "'").replace("<", "&lt;")
