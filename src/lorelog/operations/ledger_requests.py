"""What the operations on the ledger itself may be told."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lorelog.operations.requests import Request


class VerifyRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is to be told of a ledger."""

    limit: Annotated[
        int, Meta(ge=0, le=100_000, description="Name at most so many faults, and as many signatures.")
    ] = 100
