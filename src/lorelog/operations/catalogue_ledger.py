"""The operations on the ledger itself, as the catalogue lists them."""

from __future__ import annotations

from typing import Any

from lorelog.core.errors import StoreIncompatible
from lorelog.operations import ledger
from lorelog.operations.ledger_replies import VerifyShape
from lorelog.operations.ledger_requests import VerifyRequest
from lorelog.operations.operation import Operation

LEDGER: tuple[Operation[Any, Any], ...] = (
    Operation(
        "ledger.verify",
        VerifyRequest,
        VerifyShape,
        ledger.verify,
        ledger.verify_shape,
        errors=(StoreIncompatible,),
    ),
)
