"""The operations on the ledger itself. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.engine import Engine
from lorelog.operations.ledger_replies import VerifyShape
from lorelog.operations.ledger_requests import VerifyRequest
from lorelog.operations.operation import Call

if TYPE_CHECKING:
    from lorelog.services.records.checking import Checked


def verify(engine: Engine, request: VerifyRequest, call: Call) -> Checked:
    """Look the ledger over: name every line that is not as it was written, and every signature that proves nothing.

    Reads all of it. `ok` is false for faults and for signatures that are broken or under another's name; one of a key that is
    not known here counts as no signature, and is no fault.
    """
    from lorelog.services.records.checking import check

    archive = engine.records()
    return check(archive.book, archive.keyring, request.limit)


def verify_shape(found: Checked, request: VerifyRequest) -> VerifyShape:
    """Return what was found, as JSON."""
    from lorelog.services.records.keys import State

    chain, states = found.chain, found.states
    return {
        "ok": found.ok,
        "records": chain.lines,
        "first_unverified": chain.first_bad_seq,
        "torn_bytes": chain.torn,
        "fault_count": len(chain.faults),
        "faults": [{"file": one.file, "line": one.line, "what": one.what} for one in chain.faults[: request.limit]],
        "signatures": {
            "signed": states.total(),
            "valid": states[State.VALID],
            "unknown_key": states[State.UNKNOWN_KEY],
            "wrong_name": states[State.WRONG_NAME],
            "broken": states[State.BROKEN],
        },
        "unproven": [
            {
                "artifact_id": one.id,
                "agent_id": one.agent,
                "state": one.signed.state.value,
                "reason": one.signed.says,
                "key": one.signed.key,
            }
            for one in found.unproven
        ],
    }
