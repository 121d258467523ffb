"""Conversion of core code values to the replies of `schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.operations.replies import (
    CallerInfo,
    CodeAnswer,
    DefinitionInfo,
    FileOutlineInfo,
    ImportInfo,
    ReferenceInfo,
    ReplyT,
    SymbolInfo,
    reply_from,
)

if TYPE_CHECKING:
    from lorelog.core.code import CodeCaller, CodeDefinition, CodeReference, CodeReply, FileOutline, ImportSite, Symbol

_SUBJECT_FIELDS = ("name", "module", "path", "query", "about")
"""Names that replies have for `CodeReply.subject`."""


def code_reply(reply: CodeReply, kind: type[ReplyT]) -> ReplyT:
    """Return the parts of a code reply that `kind` has."""
    parts = {
        "definitions": tuple(map(_definition_info, reply.definitions)),
        "references": tuple(map(_reference_info, reply.references)),
        "callers": tuple(map(_caller_info, reply.callers)),
        "imports": tuple(map(_import_info, reply.imports)),
        "files": tuple(map(_file_outline_info, reply.files)),
        **dict.fromkeys(_SUBJECT_FIELDS, reply.subject),
        "verb": reply.verb.value,
    }
    return reply_from(reply, kind, **{name: parts[name] for name in kind.__struct_fields__ if name in parts})


def code_answer(reply: CodeReply) -> CodeAnswer:
    """Return the answer to a search query that asks about code."""
    return code_reply(reply, CodeAnswer)


def _symbol_fields(symbol: Symbol) -> dict[str, object]:
    return {
        "kind": symbol.kind.value,
        "line_start": symbol.span.start_line,
        "line_end": symbol.span.end_line,
        "col_start": symbol.span.start_column,
        "col_end": symbol.span.end_column,
        "name_col": symbol.name_column,
    }


def _definition_info(definition: CodeDefinition) -> DefinitionInfo:
    spot = definition.spot
    return reply_from(
        definition.symbol,
        DefinitionInfo,
        file_path=spot.absolute_path,
        path=spot.path,
        language=spot.language,
        **_symbol_fields(definition.symbol),
    )


def _reference_info(reference: CodeReference) -> ReferenceInfo:
    spot = reference.spot
    return reply_from(
        reference,
        ReferenceInfo,
        file_path=spot.absolute_path,
        path=spot.path,
        line=spot.line,
        col=spot.column,
        use=reference.use.value,
        certainty=reference.certainty.value,
    )


def _caller_info(caller: CodeCaller) -> CallerInfo:
    spot = caller.spot
    return CallerInfo(
        caller_name=caller.name,
        caller_file=spot.absolute_path,
        caller_kind=caller.kind.value,
        caller_container=caller.container,
        caller_line=caller.line_start,
        path=spot.path,
        call_line=spot.line,
        call_col=spot.column,
        callee=caller.callee,
        depth=caller.depth,
        certainty=caller.certainty.value,
        text=caller.text,
    )


def _import_info(site: ImportSite) -> ImportInfo:
    spot = site.spot
    return reply_from(
        site,
        ImportInfo,
        importing_file=spot.absolute_path,
        path=spot.path,
        import_line=spot.line,
        import_col=spot.column,
    )


def _file_outline_info(file: FileOutline) -> FileOutlineInfo:
    symbols = tuple(reply_from(symbol, SymbolInfo, **_symbol_fields(symbol)) for symbol in file.symbols)
    return reply_from(file, FileOutlineInfo, file_path=file.absolute_path, symbols=symbols)
