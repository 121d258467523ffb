"""The operations on the ledger itself, as the catalogue lists them."""

from __future__ import annotations

from typing import Any

from recollect.core.errors import StoreIncompatible
from recollect.operations import ledger
from recollect.operations.ledger_replies import VerifyShape
from recollect.operations.ledger_requests import VerifyRequest
from recollect.operations.operation import Operation

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
