"""Digests: what records say together, compiled on demand, and never more than a hint.

A digest is made of canonical records alone, never of another digest, and of none that was superseded. Every sentence names the
records that it rests on. Nothing of the moment is in it: from the same records the same bytes come, under the same id, so that
whoever keeps one can see that nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lorelog.core.record import CANDIDATE_TRUST, DIGEST_TRUST, FOREIGN, Record, Trust

MOST_GROUNDING = 12
"""Records behind a digest that an answer names beside it."""
MOST_LETTERS = 500
_WORD = re.compile(r"[^\W_]+")
_EMPTY = frozenset(
    """
    a an the this that these those it its they them and or but if then as of at by for from with into to in on
    is are was were be been do does did has have had can could will would should we i you our
    """.split()  # noqa: SIM905 (a list literal would take a screen)
)

TrustOf = Callable[[Iterable[str]], Mapping[str, Trust]]
"""Tells what records are worth, by id."""


class Role(StrEnum):
    """What a digest is for."""

    BRIEF = "project_brief"
    RESUME = "task_resume"
    FAILURES = "failure_library"
    DECISIONS = "decision_library"
    EVIDENCE = "evidence_library"
    HIGHLIGHTS = "highlight_library"


TITLES: Mapping[Role, str] = {
    Role.BRIEF: "Project brief",
    Role.RESUME: "Where the task is",
    Role.FAILURES: "What failed",
    Role.DECISIONS: "Decisions in force",
    Role.EVIDENCE: "Evidence",
    Role.HIGHLIGHTS: "Highlights",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence, and the records that it rests on."""

    text: str
    cites: tuple[str, ...]
    section: str = ""
    tainted: bool = False
    """It tells what a tool or an import brought; that stands in it as a quotation."""


@dataclass(frozen=True, slots=True)
class Digest:
    """A page compiled from records."""

    id: str
    role: Role
    scope: str
    """`task:ID`, `project:ID`, or `tenant` for all projects."""
    title: str
    lines: tuple[Line, ...]
    records: tuple[str, ...]
    """All records that its sentences cite, in the order in which they are first cited."""
    tainted: bool
    hash: str
    """SHA-256 of all the above."""

    @property
    def trust(self) -> Trust:
        """What it is worth: never more than a hint, whatever its records are."""
        return replace(DIGEST_TRUST, tainted=self.tainted)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a library lists: a record, what of it matters there, and what it is worth."""

    record: Record
    text: str
    trust: Trust = CANDIDATE_TRUST
    """What its record is worth, once that was asked for."""
    category: str = ""
    """Of a highlight: decision, tactic or warning."""
    explicit: bool | None = None
    """Of a decision: whether it was recorded as one."""
    support: tuple[str, ...] = ()
    """Other records that say the same."""
    confidence: float | None = None

    @property
    def cites(self) -> tuple[str, ...]:
        """The records that it rests on."""
        return (self.record.id, *self.support)


def digest_id(role: Role, scope: str) -> str:
    """Return the id that a digest has for ever."""
    return f"digest-{role}-{hashlib.sha256(f'{role}:{scope}'.encode()).hexdigest()[:16]}"


def make_digest(role: Role, scope: str, title: str, lines: Iterable[Line]) -> Digest:
    """Return a digest of sentences; one that rests on no record is left out."""
    kept = tuple(line for line in lines if line.cites and line.text)
    records = tuple(dict.fromkeys(one for line in kept for one in line.cites))
    said = [str(role), scope, title, [[line.section, line.text, list(line.cites), line.tainted] for line in kept]]
    return Digest(
        digest_id(role, scope),
        role,
        scope,
        title,
        kept,
        records,
        any(line.tainted for line in kept),
        hashlib.sha256(json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest(),
    )


def one_line(text: str, most: int = MOST_LETTERS) -> str:
    """Return a text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def judged(items: Sequence[Item], trust_of: TrustOf) -> list[Item]:
    """Return items with what they are worth, their texts as they may be shown."""
    worth = trust_of([identity for one in items for identity in one.cites])
    return [
        replace(one, trust=trust, text=told(one.text, one.record, trust))
        for one in items
        if (trust := _together(one, worth)) is not None
    ]


def _together(item: Item, worth: Mapping[str, Trust]) -> Trust | None:
    own = worth.get(item.record.id)
    if own is None or own.tainted or not any(worth[one].tainted for one in item.support if one in worth):
        return own
    return replace(own, tainted=True)


def told(text: str, record: Record, trust: Trust) -> str:
    """Return what a record says, on one line; as a quotation where nobody here has answered for it."""
    line = one_line(text)
    if not trust.tainted or not line:
        return line
    source = record.origin if record.origin in FOREIGN else "text that rests on a tool's or an import's"
    return f"quoted from {source}: {json.dumps(line, ensure_ascii=False)}"


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text that say what it is about."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if word not in _EMPTY)


def ranked(items: Sequence[Item], query: str, most: int) -> list[Item]:
    """Return the first items; where there is a question, those first that share most of its words."""
    asked = words_of(query)
    if not asked:
        return list(items[:most])
    return sorted(items, key=lambda one: -len(asked & words_of(_all_said(one))))[:most]


def _all_said(item: Item) -> str:
    said = (item.record.text(name) for name in ("summary", "goal", "motivation", "evidence_kind", "tool_name"))
    return " ".join((item.text, *said))
