"""A record as it leaves a ledger and comes into another: what its line says, without the place that the ledger gave it.

JSON lines, one record each. Lines of a ledger's own files are taken too: what they say of their place is passed over, and their
check is believed no further than to tell a line that was changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import IO, Any

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.record import Draft, Record
from lorelog.records.line import MOST_BYTES, VERSION, decode

_TEXTS = (
    *("id", "at", "kind", "project", "task", "thread", "agent", "session", "reply_to", "relation", "supersedes"),
    *("origin", "status", "signature"),
)
_REQUIRED = ("id", "at", "kind")
_PLACE = ("#", "v", "seq", "prev", "more")
UNVERIFIED = "unverified"
"""Said of a record that stood after a break of the ledger that it was taken from: it is nobody's backup."""
MOST_LINE = 2 * MOST_BYTES


@dataclass(frozen=True, slots=True)
class Foreign:
    """A memory that another program, or another home, has kept. Nothing that it says of its worth is here."""

    text: str
    type: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory of a journal, on its way out."""

    text: str
    memory: str
    type: str
    tags: tuple[str, ...]
    project: str
    at: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """One thing of a file, and where it stands in it."""

    place: int
    """Its line; in a document, the number of the item."""
    draft: Draft | None = None
    memory: Foreign | None = None
    problem: str = ""
    unverified: bool = False
    archived: bool = False
    """Whether whoever kept it had put it aside."""


def values_of(record: Record) -> dict[str, Any]:
    """Return what a record says, as JSON has it; what is empty is left out."""
    values: dict[str, Any] = {"v": VERSION}
    values |= {name: value for name in _TEXTS if (value := getattr(record, name))}
    if record.supports_claim is not None:
        values["supports_claim"] = record.supports_claim
    if record.fields:
        values["fields"] = dict(record.fields)
    if not record.verified:
        values[UNVERIFIED] = True
    return values


def draft_of(values: object) -> Draft:
    """Return the draft of a record from what JSON says of it. Raise UsageError for what is not in that shape."""
    if not isinstance(values, Mapping):
        raise UsageError("it is no JSON object")
    for name in values:
        if name not in (*_TEXTS, *_PLACE, "supports_claim", "fields", UNVERIFIED):
            near = get_close_matches(str(name), _TEXTS, n=1)
            raise UsageError(f"a record has no {str(name)[:100]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    if values.get("v") != VERSION:
        raise UsageError(f"its format is {str(values.get('v'))[:20]!r}, and not {VERSION}")
    for name in _REQUIRED:
        if not values.get(name):
            raise UsageError(f"it has no {name!r}")
    for name in _TEXTS:
        if not isinstance(values.get(name, ""), str):
            raise UsageError(f"its {name!r} is no text")
    claim, fields = values.get("supports_claim"), values.get("fields", {})
    if claim is not None and not isinstance(claim, bool):
        raise UsageError("its 'supports_claim' is neither true nor false")
    if not isinstance(fields, dict):
        raise UsageError("its 'fields' are no object")
    said = {name: values[name] for name in _TEXTS if name != "kind" and name in values}
    return Draft(values["kind"], supports_claim=claim, fields=fields, **said)


def write_lines(records: Iterator[Record]) -> Iterator[str]:
    """Yield a file of JSON lines, piece by piece."""
    for record in records:
        yield compact(values_of(record)) + "\n"


def read_lines(stream: IO[bytes]) -> Iterator[Incoming]:
    """Yield what a file of JSON lines brings, what cannot be read included."""
    for place, line in bounded_lines(stream):
        if not line.strip():
            continue
        yield incoming(place, line)


def incoming(place: int, text: bytes) -> Incoming:
    """Return the record that a JSON text is, or what is wrong with it."""
    if len(text) > MOST_LINE:
        return Incoming(place, problem=f"it is longer than {MOST_LINE:,} bytes")
    try:
        values = json.loads(text)
        if isinstance(values, dict) and "#" in values:
            found = decode(text.strip())
            if found is None or not found.sound:
                raise UsageError("it was changed after it was written")
        draft = draft_of(values)
    except LorelogError as error:
        return Incoming(place, problem=error.message)
    except (ValueError, RecursionError):
        return Incoming(place, problem="it is no JSON")
    return Incoming(place, draft, unverified=values.get(UNVERIFIED) is True)


def bounded_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers; of one that is too long only the beginning, so that it is seen to be too long."""
    place = 0
    while line := stream.readline(MOST_LINE + 1):
        place += 1
        yield place, line
        while not line.endswith(b"\n") and (line := stream.readline(MOST_LINE + 1)):
            pass


def compact(values: Mapping[str, Any]) -> str:
    """Return JSON as a ledger writes it."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
