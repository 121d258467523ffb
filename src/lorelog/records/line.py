"""A record as a line of a ledger, and back.

A line is compact JSON with sorted keys, what is empty left out. It bears the hash of the line before it, which makes the
ledger a chain. `#` comes first and is a check of all that follows it in the same line: without it a changed line
could only be found through the next one, and the last line not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lorelog.core.errors import StoreIncompatible, UsageError
from lorelog.core.record import DEEPEST, Draft, Record, is_too_deep

VERSION = 1
NOTHING_BEFORE = "0" * 64
"""What the first line bears for the hash of the line before it."""
MOST_BYTES = 4 * 1024 * 1024
_CHECK = 16
_OPENING = b'{"#":"'
_BODY = len(_OPENING) + _CHECK + 2
_MOST_SEQ = 2**53
_TEXTS = (
    *("project", "task", "thread", "agent", "session", "reply_to", "relation", "supersedes", "origin", "status"),
    "signature",
)


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says."""

    values: Mapping[str, Any]
    hash: str
    sound: bool
    """Whether it is what was written, by its own check."""

    @property
    def seq(self) -> int:
        """The number that it says it has."""
        return int(self.values["seq"])

    @property
    def prev(self) -> str:
        """The hash of the line that it says it follows."""
        return str(self.values["prev"])

    @property
    def more(self) -> int:
        """How many lines of the same batch follow it: a batch counts when its last line is there."""
        return int(self.values.get("more", 0))

    def record(self, *, verified: bool = False) -> Record:
        """Return the record that it is."""
        get = self.values.get
        return Record(
            self.values["id"],
            self.values["seq"],
            self.values["kind"],
            self.values["at"],
            project=get("project", ""),
            task=get("task", ""),
            thread=get("thread", ""),
            agent=get("agent", ""),
            session=get("session", ""),
            reply_to=get("reply_to", ""),
            relation=get("relation", ""),
            supports_claim=get("supports_claim"),
            supersedes=get("supersedes", ""),
            origin=get("origin", ""),
            status=get("status", ""),
            fields=get("fields", {}),
            signature=get("signature", ""),
            hash=self.hash,
            verified=verified,
        )


def encode(draft: Draft, seq: int, prev: str, more: int = 0) -> bytes:
    """Return the line of a draft that has all it needs, without the line's end."""
    values: dict[str, Any] = {
        "v": VERSION,
        "seq": seq,
        "id": draft.id,
        "prev": prev,
        "at": draft.at,
        "kind": draft.kind,
    }
    values |= {name: value for name in _TEXTS if (value := getattr(draft, name))}
    if draft.supports_claim is not None:
        values["supports_claim"] = draft.supports_claim
    if draft.fields:
        values["fields"] = dict(draft.fields)
    if more:
        values["more"] = more
    try:
        text = json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        rest = text.encode()[1:]
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"a {draft.kind} cannot be written down: {error}",
            hint="texts are UTF-8, numbers finite, the rest plain JSON",
        ) from error
    if len(rest) > MOST_BYTES:
        raise UsageError(
            f"a {draft.kind} of {len(rest)} bytes is too long", hint=f"at most {MOST_BYTES} bytes a record"
        )
    return _OPENING + hashlib.sha256(rest).hexdigest()[:_CHECK].encode() + b'",' + rest


def hash_of(line: bytes) -> str:
    """Return the hash by which the next line names this one."""
    return hashlib.sha256(line).hexdigest()


def decode(line: bytes) -> Line | None:
    """Return what a line says, or None when it is no record at all."""
    try:
        values = _JSON.decode(line.decode())
        if not _is_record(values):
            return None
        if line.count(b"{") + line.count(b"[") > DEEPEST and is_too_deep(values.get("fields")):
            return None  # nobody writes such a line here, and whatever walked through it would not come back
        if b"\\u" in line:  # perhaps half of a character, which no file and no database takes
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    sound = line.startswith(_OPENING) and line[len(_OPENING) : _BODY] == _check_of(line)
    if sound and values["v"] != VERSION:
        raise StoreIncompatible(
            f"record {values['seq']} was written by a newer lorelog (format {values['v']})", hint="upgrade lorelog"
        )
    return Line(values, hash_of(line), sound)


def _refuse(constant: str) -> float:
    raise ValueError(constant)


_JSON = json.JSONDecoder(parse_constant=_refuse)


def _check_of(line: bytes) -> bytes:
    return hashlib.sha256(line[_BODY:]).hexdigest()[:_CHECK].encode() + b'",'


def _is_record(values: object) -> bool:
    """Say whether values have the types of a record's: a line may have been written by anyone."""
    if not isinstance(values, Mapping):
        return False
    for name in ("id", "prev", "at", "kind"):
        if not isinstance(values.get(name), str):
            return False
    for name in _TEXTS:
        if name in values and not isinstance(values[name], str):
            return False
    for name in ("v", "seq", "more"):
        number = values.get(name, 0 if name == "more" else None)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < _MOST_SEQ:
            return False
    claim, fields = values.get("supports_claim"), values.get("fields", {})
    return (claim is None or isinstance(claim, bool)) and isinstance(fields, dict)
