"""Reply types shared by several families, and their conversion to JSON.

A reply is a typed value whose fields are those of the JSON, so Python callers and the JSON Schema use one definition.
Core dataclasses are replies as they are; the structs here and in each family's `schema.py` exist where the JSON has
other names than the value it is made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lorelog.core.serializable import Serializable

if TYPE_CHECKING:
    from lorelog.core.record import Trust

Json = dict[str, Any]
"""A JSON object."""


class OperationReply(Serializable, msgspec.Struct, frozen=True, kw_only=True):
    """Base of replies. Every field is in the JSON."""


class SparseReply(OperationReply, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Base of replies whose empty fields are left out of the JSON."""


ReplyT = TypeVar("ReplyT", bound=OperationReply)


def reply_from(value: object, reply: type[ReplyT], **changed: Any) -> ReplyT:
    """Return a reply that takes the fields in `changed` as given and all others from attributes of the same name."""
    same = {name: getattr(value, name) for name in reply.__struct_fields__ if name not in changed}
    return reply(**same, **changed)


class VerificationHint(OperationReply, frozen=True, kw_only=True):
    """Whether to check something before relying on it, and why."""

    requires_verification: bool
    reason: str


class SymbolInfo(OperationReply, frozen=True, kw_only=True):
    """A symbol in its file. Lines and columns count from 1; the end is exclusive."""

    name: str
    kind: str
    container: str
    line_start: int
    line_end: int
    col_start: int
    col_end: int
    name_line: int
    name_col: int
    signature: str
    docstring: str
    visibility: str


class DefinitionInfo(SymbolInfo, frozen=True, kw_only=True):
    """A symbol, and its file."""

    file_path: str
    path: str
    language: str


class ReferenceInfo(OperationReply, frozen=True, kw_only=True):
    """A use of a symbol."""

    file_path: str
    path: str
    line: int
    col: int
    use: str
    name: str
    container: str
    certainty: str
    text: str


class CallerInfo(OperationReply, frozen=True, kw_only=True):
    """A caller of a symbol, and the location of the call."""

    caller_name: str
    caller_file: str
    caller_kind: str
    caller_container: str
    caller_line: int
    path: str
    call_line: int
    call_col: int
    callee: str
    depth: int
    certainty: str
    text: str


class ImportInfo(OperationReply, frozen=True, kw_only=True):
    """An import statement."""

    importing_file: str
    path: str
    import_line: int
    import_col: int
    module: str
    name: str
    alias: str
    text: str


class FileOutlineInfo(OperationReply, frozen=True, kw_only=True):
    """A file, and its symbols."""

    file_path: str
    path: str
    language: str
    lines: int
    broken: int
    problem: str
    symbols: tuple[SymbolInfo, ...]


class CodeAnswer(SparseReply, frozen=True, kw_only=True):
    """Answer to a search query that asks about code; only the lists that the query asks for are present."""

    verb: str
    about: str
    definitions: tuple[DefinitionInfo, ...] = ()
    references: tuple[ReferenceInfo, ...] = ()
    callers: tuple[CallerInfo, ...] = ()
    imports: tuple[ImportInfo, ...] = ()
    files: tuple[FileOutlineInfo, ...] = ()
    total: int
    notes: tuple[str, ...]


def verification_hint(trust: Trust) -> VerificationHint:
    """Return the verification hint of a trust verdict."""
    return VerificationHint(requires_verification=trust.requires_verification, reason=trust.reason)
