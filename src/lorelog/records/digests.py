"""Digests: summaries compiled from records on demand, with a trust tier no higher than a hint.

A digest is made of canonical records only, never of another digest or of superseded records. Every sentence cites its
records. It contains nothing that depends on the current time: the same records give the same bytes under the same id, so
a client that keeps a digest can see whether anything has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.record import CANDIDATE_TRUST, DIGEST_TRUST, UNTRUSTED_ORIGINS, Record, Trust
from lorelog.language.lexicon import lexicon

MAX_CITED_RECORDS = 12
"""Cited records that a reply lists with a digest."""
MAX_LINE_CHARS = 500
_WORD = re.compile(r"[^\W_]+")

TrustLookup = Callable[[Iterable[str]], Mapping[str, Trust]]
"""Returns the trust of records by id."""


class DigestRole(StrEnum):
    """The purpose of a digest."""

    BRIEF = "project_brief"
    RESUME = "task_resume"
    FAILURES = "failure_library"
    DECISIONS = "decision_library"
    EVIDENCE = "evidence_library"
    HIGHLIGHTS = "highlight_library"


DIGEST_TITLES: Mapping[DigestRole, str] = {
    DigestRole.BRIEF: "Project brief",
    DigestRole.RESUME: "Task status",
    DigestRole.FAILURES: "Failures",
    DigestRole.DECISIONS: "Decisions in force",
    DigestRole.EVIDENCE: "Evidence",
    DigestRole.HIGHLIGHTS: "Highlights",
}


class DigestLine(Struct, frozen=True):
    """A sentence and the ids of the records it is based on."""

    text: str
    cites: tuple[str, ...]
    section: str = ""
    tainted: bool = False
    """It contains tool output or imported text, as a quotation."""


class Digest(Struct, frozen=True, kw_only=True):
    """A page compiled from records."""

    id: str
    role: DigestRole
    scope: str
    """`task:ID`, `project:ID`, or `tenant` for all projects."""
    title: str
    lines: tuple[DigestLine, ...]
    records: tuple[str, ...]
    """Ids of all cited records, in the order of first citation."""
    tainted: bool
    hash: str
    """SHA-256 of role, scope, title and lines."""

    @property
    def trust(self) -> Trust:
        """The trust of a digest: a hint, whatever its records are."""
        return replace(DIGEST_TRUST, tainted=self.tainted)


class DigestItem(Struct, frozen=True):
    """An entry of a library: a record, its relevant text, and its trust."""

    record: Record
    text: str
    trust: Trust = CANDIDATE_TRUST
    """The record's trust, once `attach_trust` has set it."""
    category: str = ""
    """For a highlight: decision, tactic or warning."""
    explicit: bool | None = None
    """For a decision: whether it was recorded as one."""
    support: tuple[str, ...] = ()
    """Ids of other records with the same text."""
    confidence: float | None = None

    @property
    def cites(self) -> tuple[str, ...]:
        """Ids of the records it is based on."""
        return (self.record.id, *self.support)


def digest_id(role: DigestRole, scope: str) -> str:
    """Return the permanent id of a digest."""
    return f"digest-{role}-{hashlib.sha256(f'{role}:{scope}'.encode()).hexdigest()[:16]}"


def make_digest(role: DigestRole, scope: str, title: str, lines: Iterable[DigestLine]) -> Digest:
    """Return a digest of the lines that cite at least one record."""
    kept = tuple(line for line in lines if line.cites and line.text)
    content = [str(role), scope, title, [[line.section, line.text, list(line.cites), line.tainted] for line in kept]]
    return Digest(
        id=digest_id(role, scope),
        role=role,
        scope=scope,
        title=title,
        lines=kept,
        records=tuple(dict.fromkeys(cite for line in kept for cite in line.cites)),
        tainted=any(line.tainted for line in kept),
        hash=hashlib.sha256(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return a text on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def attach_trust(items: Sequence[DigestItem], trust_of: TrustLookup) -> list[DigestItem]:
    """Return items with their trust, and their texts formatted accordingly."""
    trusts = trust_of([identity for item in items for identity in item.cites])
    return [
        replace(item, trust=trust, text=format_record_text(item.text, item.record, trust))
        for item in items
        if (trust := _combined_trust(item, trusts)) is not None
    ]


def _combined_trust(item: DigestItem, trusts: Mapping[str, Trust]) -> Trust | None:
    own = trusts.get(item.record.id)
    if own is None or own.tainted or not any(trusts[cite].tainted for cite in item.support if cite in trusts):
        return own
    return replace(own, tainted=True)


def format_record_text(text: str, record: Record, trust: Trust) -> str:
    """Return a record's text on one line; as a quotation if it is tainted."""
    line = one_line(text)
    if not trust.tainted or not line:
        return line
    source = record.origin if record.origin in UNTRUSTED_ORIGINS else "text derived from a tool or an import"
    return f"quoted from {source}: {json.dumps(line, ensure_ascii=False)}"


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text without stop words."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if word not in lexicon("function_words"))


def rank_items(items: Sequence[DigestItem], query: str, limit: int) -> list[DigestItem]:
    """Return the first items; with a query, those that share the most words with it."""
    words = content_words(query)
    if not words:
        return list(items[:limit])
    return sorted(items, key=lambda item: -len(words & content_words(_searchable_text(item))))[:limit]


def _searchable_text(item: DigestItem) -> str:
    fields = (item.record.text(name) for name in ("summary", "goal", "motivation", "evidence_kind", "tool_name"))
    return " ".join((item.text, *fields))
