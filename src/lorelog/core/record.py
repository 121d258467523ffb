"""Records: what was said about a task, by whom, and how far it may be believed.

A record is one line of a tenant's ledger. What it says is the writer's; what it is worth is computed from the ledger by
`lorelog.records.trust` and is no part of it, so that nobody can write it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

DIGEST = "digest"
"""The kind of what is compiled from records. It is known, and never accepted from anyone."""

DIGEST_MARK = "<!-- lorelog:digest"
"""What everything that is compiled from records begins with, so that it is never taken for something that was said."""

ORIGINS = ("user", "agent", "tool", "import")
FOREIGN = frozenset({"tool", "import"})
"""Origins of text that nobody here has answered for."""

DEEPEST = 50
"""How many levels a record's fields may be nested."""


class Tier(StrEnum):
    """How far something may be believed, from what was merely found to what a second writer has confirmed."""

    CANDIDATE = "semantic_candidate"
    DIGEST = "compiled_digest_hint"
    CANONICAL = "canonical_record"
    VERIFIED = "verified_record"


class Promotion(StrEnum):
    """What became of a record that speaks for the one it replies to."""

    NONE = "none"
    GRANTED = "granted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody says of their work, written or not."""

    project: str = ""
    """Id of the project; empty for what belongs to none."""
    task: str = ""
    thread: str = ""
    agent: str = ""
    """Who says it: declared, unless `signature` proves it."""
    session: str = ""
    reply_to: str = ""
    relation: str = ""
    """How it relates to what it replies to: `reviews`, `revises`, `verifies`, …"""
    supports_claim: bool | None = None
    supersedes: str = ""
    origin: str = "agent"
    """Where its text comes from: one of `ORIGINS`."""
    status: str = ""
    fields: Mapping[str, Json] = field(default_factory=dict)
    """All that its kind allows beyond these (`lorelog.records.kinds`)."""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Draft(Said):
    """A record that somebody wants written. The ledger gives it its place, and an id and a time if it has none."""

    kind: str
    id: str = ""
    at: str = ""
    """UTC, ISO 8601 with milliseconds: `2026-03-05T14:30:00.000Z`."""


@dataclass(frozen=True, slots=True)
class Record(Said):
    """One line of a ledger."""

    id: str
    seq: int
    """Its number in the whole ledger, from 1."""
    kind: str
    at: str
    hash: str = ""
    """SHA-256 of its line."""
    verified: bool = False
    """Whether the ledger is unbroken from its first line to this one. It says nothing about who is right."""

    def text(self, name: str) -> str:
        """Return a field that is one text; empty where there is none."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a field that is a list of texts."""
        value = self.fields.get(name)
        return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


@dataclass(frozen=True, slots=True)
class Trust:
    """What a record is worth, and why."""

    tier: Tier
    reason: str
    requires_verification: bool
    verified_by: tuple[str, ...] = ()
    """Verified records that speak for this one, in the ledger's order."""
    signed_by: tuple[str, ...] = ()
    """Those of them that are signed, as this one is: two keys prove two writers."""
    signed: bool = False
    """Its writer is proven by a key; of a verified record: both writers are, by two keys."""
    promotion: Promotion = Promotion.NONE
    promotion_reason: str = ""
    tainted: bool = False
    """It is, or derives from, what a tool put out or an import brought."""


CANDIDATE_TRUST = Trust(Tier.CANDIDATE, "found by its text; no record stands behind it", requires_verification=True)
DIGEST_TRUST = Trust(
    Tier.DIGEST, "compiled from records; look at the records it cites before you rely on it", requires_verification=True
)

SIGNED = (
    *("agent", "at", "fields", "id", "kind", "origin", "project", "relation", "reply_to", "session"),
    *("status", "supersedes", "supports_claim", "task", "thread"),
)
"""What a signature covers: all that the writer said. The place in the ledger is not the writer's to say."""


def signed_bytes(said: Draft | Record) -> bytes:
    """Return what a writer signs: the same bytes before a draft is written and after it is read."""
    values = {name: getattr(said, name) for name in SIGNED}
    values["fields"] = dict(values["fields"])
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def is_too_deep(value: Json) -> bool:
    """Say whether a value is nested deeper than a record's may be: whoever walks through it must come back."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def is_compiled(text: str) -> bool:
    """Say whether a text was compiled from records, by its first line; front matter may stand before it."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("---\n"):
        start = start.partition("\n---\n")[2].lstrip()
    return start.startswith(DIGEST_MARK)
