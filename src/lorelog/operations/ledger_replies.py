"""What the operations on the ledger itself answer."""

from __future__ import annotations

from typing import TypedDict


class FaultShape(TypedDict):
    """Something that is not as it was written."""

    file: str
    line: int
    what: str


class SignatureShape(TypedDict):
    """A signature that proves nothing, and why."""

    artifact_id: str
    agent_id: str
    state: str
    reason: str
    key: str


class SignaturesShape(TypedDict):
    """Signatures, counted."""

    signed: int
    valid: int
    unknown_key: int
    wrong_name: int
    broken: int


class VerifyShape(TypedDict):
    """Whether a ledger is as it was written."""

    ok: bool
    records: int
    first_unverified: int
    torn_bytes: int
    fault_count: int
    faults: list[FaultShape]
    signatures: SignaturesShape
    unproven: list[SignatureShape]
