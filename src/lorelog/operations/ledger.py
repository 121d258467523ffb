"""Operations on the ledger: `ledger.verify`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lorelog.core.errors import StoreIncompatible
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, RequestContext, ShellCommand
from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest
from lorelog.records.chain import LedgerFault

OPERATIONS = OperationFamily()


class VerifyRequest(OperationRequest, frozen=True, kw_only=True):
    """How many problems to list."""

    limit: Annotated[
        int, Meta(ge=0, le=100_000, description="Maximum number of faults, and of unproven signatures, to list.")
    ] = 100


class UnprovenSignatureInfo(OperationReply, frozen=True, kw_only=True):
    """A signature that does not prove its writer, and why."""

    artifact_id: str
    writer: str
    state: str
    reason: str
    key: str


class SignatureCounts(OperationReply, frozen=True, kw_only=True):
    """Number of signatures by state."""

    signed: int
    valid: int
    unknown_key: int
    wrong_name: int
    broken: int


class VerifyReply(OperationReply, frozen=True, kw_only=True):
    """Whether the ledger is intact."""

    ok: bool
    records: int
    redacted: int
    first_unverified: int
    torn_bytes: int
    fault_count: int
    faults: tuple[LedgerFault, ...]
    signatures: SignatureCounts
    unproven: tuple[UnprovenSignatureInfo, ...]


@OPERATIONS.declare(
    "ledger.verify",
    VerifyRequest,
    VerifyReply,
    errors=(StoreIncompatible,),
    commands=(ShellCommand("ledger check", hidden=("limit",)),),
)
def verify(engine: Engine, request: VerifyRequest, call: RequestContext) -> VerifyReply:
    """Check the ledger: list every line that was altered, and every signature that does not prove its writer.

    Reads the whole ledger. `ok` is false for faults and for signatures that are broken or made under another name. A
    signature with an unknown key counts as unsigned and is not a fault.
    """
    from lorelog.services.records.keyring import SignatureState, check_ledger

    archive = engine.records()
    check = check_ledger(archive.records, archive.keyring, request.limit)
    chain, states = check.chain, check.states
    return VerifyReply(
        ok=check.ok,
        records=chain.lines,
        redacted=chain.redacted,
        first_unverified=chain.first_bad_seq,
        torn_bytes=chain.torn,
        fault_count=len(chain.faults),
        faults=tuple(chain.faults[: request.limit]),
        signatures=SignatureCounts(
            signed=states.total(),
            valid=states[SignatureState.VALID],
            unknown_key=states[SignatureState.UNKNOWN_KEY],
            wrong_name=states[SignatureState.WRONG_NAME],
            broken=states[SignatureState.BROKEN],
        ),
        unproven=tuple(
            UnprovenSignatureInfo(
                artifact_id=unproven.id,
                writer=unproven.agent,
                state=unproven.signature.state.value,
                reason=unproven.signature.meaning,
                key=unproven.signature.key,
            )
            for unproven in check.unproven
        ),
    )
