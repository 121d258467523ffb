"""Which verified decisions seem to contradict each other? A suspicion, never a verdict: it cites both and leaves it to a reader.

Two decisions of a project are compared by their words. They are under suspicion when they are about the same and one says no
where the other says yes, when both choose something for the same purpose and choose differently, or when they say the same with
other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from lorelog.core.record import Record
from lorelog.records.digests import words_of

_NO = frozenset(
    """
    not no never none without avoid avoids forbid forbids forbidden drop drops dropped remove removes removed reject rejects
    rejected stop stops disable disables disabled disallow deny against don t dont doesn cannot isn aren won shouldn mustn
    """.split()  # noqa: SIM905 (a list literal would take a screen)
)
_CHOOSING = frozenset(
    """
    use uses using used choose chooses chose chosen pick picks picked adopt adopts adopted prefer prefers preferred select
    keep keeps take takes go goes run runs store stores set sets setting decide decided decides must shall should need needs
    make makes always only also instead now here
    """.split()  # noqa: SIM905
)
_CHOICE = re.compile(
    r"\b(?:use|uses|using|choose|chose|chosen|pick|picked|adopt|adopted|prefer|take|keep|go with)\s+(?P<what>.{1,80}?)"
    r"\s+(?:for|as|to)\s+(?P<purpose>.{1,120}?)(?:[.;,(]|\s+(?:because|since|as it|instead|so that)\b|$)",
    re.IGNORECASE,
)
_IS = re.compile(
    r"^(?P<purpose>.{1,120}?)\s+(?:is|are|=|:=|defaults? to|set to|goes to|runs on|uses?|stays?)\s+(?P<what>.{1,80}?)(?:[.;,(]|$)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LEAST_SHARED = 2
_ALIKE = 0.6
_VERY_ALIKE = 0.75
_MOST = 500


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two decisions that may not both hold, and why that is suspected."""

    one: Record
    other: Record
    why: str


@dataclass(frozen=True, slots=True)
class _Claim:
    record: Record
    subject: frozenset[str]
    """Words that say what it is about."""
    entities: frozenset[str]
    denies: bool
    numbers: frozenset[str]
    purpose: frozenset[str]
    choice: frozenset[str]


def find_doubts(decisions: Sequence[Record]) -> list[Doubt]:
    """Return pairs of decisions that seem to contradict each other, of those that are in force and verified."""
    claims = [_claim(one) for one in sorted(decisions, key=lambda one: one.seq)[-_MOST:]]
    return list(_doubts(claims))


def _doubts(claims: Sequence[_Claim]) -> Iterator[Doubt]:
    for one, other in combinations(claims, 2):
        if one.record.project == other.record.project:
            why = _why(one, other)
            if why:
                yield Doubt(one.record, other.record, why)


def _why(one: _Claim, other: _Claim) -> str:
    shared = one.subject & other.subject
    least = min(len(one.subject), len(other.subject))
    named = one.entities & other.entities
    likeness = len(shared) / least if least else 0.0
    alike = likeness >= _ALIKE and (len(shared) >= _LEAST_SHARED or bool(named) or likeness == 1)
    if alike and one.denies != other.denies:
        return f"both are about {_named(shared)}, and one says no where the other says yes"
    if one.denies or other.denies:
        return ""
    same_purpose = one.purpose and (one.purpose == other.purpose)
    if same_purpose and one.choice and other.choice and not (one.choice & other.choice):
        return f"both choose for {_named(one.purpose)}: {_named(one.choice)} and {_named(other.choice)}"
    texts = likeness >= _VERY_ALIKE and len(shared) >= _LEAST_SHARED
    if texts and one.numbers and other.numbers and not (one.numbers & other.numbers):
        return f"both are about {_named(shared)}, with other numbers: {_named(one.numbers)} and {_named(other.numbers)}"
    return ""


def _claim(record: Record) -> _Claim:
    text = " ".join(record.text("summary").split())
    words = words_of(text)
    refs = record.fields.get("entity_refs")
    names = [one.get("name") for one in refs if isinstance(one, dict)] if isinstance(refs, list) else []
    numbers = frozenset(_NUMBER.findall(text))
    found = _CHOICE.search(text) or _IS.search(text)
    what, purpose = (found["what"], found["purpose"]) if found else ("", "")
    return _Claim(
        record,
        frozenset(one for one in words - _NO - _CHOOSING if not one.isdecimal()),
        frozenset(one.casefold() for one in names if isinstance(one, str)),
        len([one for one in _tokens(text) if one in _NO]) % 2 == 1,
        numbers,
        words_of(purpose) - _CHOOSING,
        words_of(what) - _CHOOSING,
    )


def _tokens(text: str) -> list[str]:
    folded = re.sub(r"n['’]t\b", " not", text.casefold())
    return re.findall(r"[^\W_]+", folded)


def _named(words: frozenset[str]) -> str:
    return ", ".join(sorted(words)[:6])
