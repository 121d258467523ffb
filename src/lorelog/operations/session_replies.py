"""What the operations on agents' sessions answer, as JSON. docs/json.md explains these fields."""

from __future__ import annotations

from typing import TypedDict

from lorelog.operations.freshness_shapes import FreshnessShape
from lorelog.operations.trust_shapes import GroundingShape, HintShape, TrustShape


class RecalledShape(TypedDict):
    """A memory that fits a prompt."""

    id: str
    text: str
    source: str
    date: str
    relevance: float
    origin: str
    trust: TrustShape
    grounding_refs: list[GroundingShape]
    verification_hint: HintShape
    freshness: FreshnessShape


class RecallShape(TypedDict):
    """Memories for a prompt, best first."""

    hits: list[RecalledShape]


class CapturedShape(TypedDict):
    """A turn that stands in a journal now."""

    turn: str
    memory: str
    source: str
    start_line: int
    time: str


class CaptureShape(TypedDict):
    """What came of a moment of a session."""

    captured: list[CapturedShape]
    skipped: int
    waiting: bool
    notes: list[str]


class HostCapturesShape(TypedDict):
    """What was captured of one host."""

    host: str
    first_event: str
    last_event: str
    last_capture: str
    captured: int
    today: int


class SessionStatusShape(TypedDict):
    """What was captured, and what still waits."""

    hosts: list[HostCapturesShape]
    waiting: int
    oldest_s: float
    failed: int
    tokens_today: int
