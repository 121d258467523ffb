"""Reply types shared by several families, and their conversion to JSON.

A reply is a typed value whose fields are those of the JSON, so Python callers and the JSON Schema use one definition.
Core dataclasses are replies as they are; the structs here and in each family's `schema.py` exist where the JSON has
other names than the value it is made from.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from lorelog.core.serializable import Serializable

Json = dict[str, Any]
"""A JSON object."""


class OperationReply(Serializable, msgspec.Struct, frozen=True, kw_only=True):
    """Base of replies. Every field is in the JSON."""


class SparseReply(OperationReply, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Base of replies whose empty fields are left out of the JSON."""


ReplyT = TypeVar("ReplyT", bound=msgspec.Struct)


def reply_from(value: object, reply: type[ReplyT], **changed: Any) -> ReplyT:
    """Return a reply that takes the fields in `changed` as given and all others from attributes of the same name."""
    same = {name: getattr(value, name) for name in reply.__struct_fields__ if name not in changed}
    return reply(**same, **changed)
