"""What became of the code that a hit names, as JSON."""

from __future__ import annotations

from typing import TypedDict

from lorelog.core.code import Verdict


class FindingShape(TypedDict):
    """One thing that is named, and what became of it."""

    kind: str
    name: str
    verdict: str
    how: str


class FreshnessShape(TypedDict):
    """Whether what is named is as it was."""

    verdict: str
    unmerged: str
    findings: list[FindingShape]


def freshness_shape(verdict: Verdict) -> FreshnessShape:
    """What became of the code that a text names."""
    return {
        "verdict": str(verdict.freshness),
        "unmerged": verdict.unmerged,
        "findings": [
            {"kind": one.kind, "name": one.name, "verdict": str(one.freshness), "how": one.how}
            for one in verdict.findings
        ],
    }
