"""What something is worth, as JSON: one shape wherever a hit, a record or a digest is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from lorelog.core.query import Grounding
    from lorelog.core.record import Trust


class ProblemShape(TypedDict):
    """Something that did not work, about one path; the run went on."""

    path: str
    message: str
    hint: str


class TrustShape(TypedDict):
    """How far something may be believed, and why."""

    tier: str
    reason: str
    requires_verification: bool
    verified_by: list[str]
    signed_by: list[str]
    signed: bool
    promotion: str
    promotion_reason: str
    tainted: bool


class HintShape(TypedDict):
    """Whether to look further before relying on something, and why."""

    requires_verification: bool
    reason: str


class GroundingShape(TypedDict):
    """A record that something stands on."""

    artifact_id: str
    task_id: str
    thread_id: str
    artifact_kind: str
    tier: str


def trust_shape(trust: Trust) -> TrustShape:
    """What it is worth."""
    return {
        "tier": str(trust.tier),
        "reason": trust.reason,
        "requires_verification": trust.requires_verification,
        "verified_by": list(trust.verified_by),
        "signed_by": list(trust.signed_by),
        "signed": trust.signed,
        "promotion": str(trust.promotion),
        "promotion_reason": trust.promotion_reason,
        "tainted": trust.tainted,
    }


def hint_shape(trust: Trust) -> HintShape:
    """Whether to look further."""
    return {"requires_verification": trust.requires_verification, "reason": trust.reason}


def grounding_shape(grounding: Grounding) -> GroundingShape:
    """A record behind it."""
    return {
        "artifact_id": grounding.record,
        "task_id": grounding.task,
        "thread_id": grounding.thread,
        "artifact_kind": grounding.kind,
        "tier": str(grounding.tier),
    }
