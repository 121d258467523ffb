"""Records: entries about tasks, their authors, and their trust.

A record is one line of a tenant's ledger. The author writes its content; its trust is computed from the ledger by
`lorelog.records.trust` and is not part of the record, so that nobody can write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from lorelog.core.serializable import Serializable

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

DIGEST_KIND = "digest"
"""Kind of texts compiled from records; readable, never accepted as input."""

REDACTION_KIND = "redaction"
"""Kind of the records that name redacted records. Only the ledger writes them."""

UNPAGED_KINDS = frozenset({DIGEST_KIND, REDACTION_KIND})
"""Kinds without content of their own: neither pages nor digests are made of them."""

DIGEST_MARK = "<!-- lorelog:digest"
"""Prefix of every text compiled from records, so that it is never taken for a statement by someone."""

ORIGINS = ("user", "agent", "tool", "import")
UNTRUSTED_ORIGINS = frozenset({"tool", "import"})
"""Origins of text that nobody here has vouched for."""
REPOSITORY_ORIGIN, CHANGED_ORIGIN = FOREIGN_ORIGINS = "repository", "changed"
"""Origins that are shown, whatever an anchor claims, for a memory that lorelog did not write on this machine: because it came with
a repository, or because somebody wrote or changed it here outside lorelog."""

MAX_NESTING = 50
"""Maximum nesting of a record's fields."""


class TrustTier(StrEnum):
    """Trust levels, from a mere match to a record confirmed by a second writer."""

    CANDIDATE = "semantic_candidate"
    DIGEST = "compiled_digest_hint"
    CANONICAL = "canonical_record"
    VERIFIED = "verified_record"


class Promotion(StrEnum):
    """Result of a record that supports the record it replies to."""

    NONE = "none"
    GRANTED = "granted"
    REFUSED = "refused"


class RecordContent(Struct, frozen=True, kw_only=True):
    """The author's part of a record, whether or not it is written yet."""

    project: str = ""
    """Project id; empty for records without a project."""
    task: str = ""
    thread: str = ""
    agent: str = ""
    """Author: declared, unless `signature` proves it."""
    session: str = ""
    reply_to: str = ""
    relation: str = ""
    """Relation to the record it replies to: `reviews`, `revises`, `verifies`, …"""
    supports_claim: bool | None = None
    supersedes: str = ""
    origin: str = "agent"
    """Origin of its text: one of `ORIGINS`."""
    status: str = ""
    fields: Mapping[str, Json] = field(default_factory=dict)
    """The further fields that its kind allows (`lorelog.records.kinds`)."""
    signature: str = ""


class RecordDraft(RecordContent, frozen=True):
    """A record to be written. The ledger assigns its position, and an id and a time if missing."""

    kind: str
    id: str = ""
    at: str = ""
    """UTC, ISO 8601 with milliseconds: `2026-03-05T14:30:00.000Z`."""


class Record(RecordContent, frozen=True):
    """One line of a ledger."""

    id: str
    seq: int
    """Number in the whole ledger, from 1."""
    kind: str
    at: str
    hash: str = ""
    """SHA-256 of its line."""
    verified: bool = False
    """True if the ledger's chain is intact up to this line. It says nothing about the content."""
    redacted: bool = False
    """True if its texts were replaced by their hashes; `hash` is that of the original line."""

    def text(self, name: str) -> str:
        """Return a text field; empty if it is missing."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.fields.get(name)
        return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


class VerificationHint(Serializable, Struct, frozen=True):
    """Whether to check something before relying on it, and why."""

    requires_verification: bool
    reason: str


class Trust(Serializable, Struct, frozen=True):
    """Trust of a record, and the reason."""

    tier: TrustTier
    reason: str
    requires_verification: bool
    verified_by: tuple[str, ...] = ()
    """Verified records that support this one, in ledger order."""
    signed_by: tuple[str, ...] = ()
    """Those that are signed, if this one is signed too: two keys prove two writers."""
    signed: bool = False
    """True if a key proves the author; for a verified record, if two keys prove both authors."""
    promotion: Promotion = Promotion.NONE
    promotion_reason: str = ""
    tainted: bool = False
    """True if it is, or derives from, output of a tool or an import."""

    @property
    def verification_hint(self) -> VerificationHint:
        """Whether to check it before relying on it, and why."""
        return VerificationHint(self.requires_verification, self.reason)


CANDIDATE_TRUST = Trust(TrustTier.CANDIDATE, "matched by its text; not backed by a record", requires_verification=True)
REDACTED_TRUST = Trust(
    TrustTier.CANDIDATE, "redacted: its text was removed, and only its hash is left", requires_verification=True
)
DIGEST_TRUST = Trust(
    TrustTier.DIGEST, "compiled from records; check the cited records before relying on it", requires_verification=True
)

SIGNED_FIELDS = (
    *("agent", "at", "fields", "id", "kind", "origin", "project", "relation", "reply_to", "session"),
    *("status", "supersedes", "supports_claim", "task", "thread"),
)
"""Fields covered by a signature: everything the author wrote. The position in the ledger is not covered."""


def signed_bytes(record: RecordDraft | Record) -> bytes:
    """Return the bytes that an author signs: equal before a draft is written and after it is read."""
    import json

    values = {name: getattr(record, name) for name in SIGNED_FIELDS}
    values["fields"] = dict(values["fields"])
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def exceeds_max_nesting(value: Json) -> bool:
    """Return True if a value is nested too deeply to be walked safely."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def is_digest_text(text: str) -> bool:
    """Return True if a text was compiled from records, by its first line after any front matter."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("---\n"):
        start = start.partition("\n---\n")[2].lstrip()
    return start.startswith(DIGEST_MARK)
