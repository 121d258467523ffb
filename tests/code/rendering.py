"""Render the extract of a file as lines that can be compared with it."""

from __future__ import annotations

from lorelog.core.code import FileExtract


def render(extracted: FileExtract) -> str:
    """Return symbols, imports and uses, one per line."""
    lines = [f"language {extracted.language}, {extracted.lines} lines, broken {extracted.broken}"]
    for symbol in extracted.symbols:
        span = symbol.span
        position = f"{span.start_line}:{span.start_column}-{span.end_line}:{span.end_column}"
        lines.append(
            f"{symbol.kind} {symbol.qualified_name} {position} @{symbol.name_line}:{symbol.name_column} {symbol.visibility}"
        )
        lines.append(f"    {symbol.signature}")
        if symbol.bases:
            lines.append(f"    of {', '.join(symbol.bases)}")
        if symbol.docstring:
            lines.append(f"    says {symbol.docstring!r}")
    for statement in extracted.imports:
        alias = f" as {statement.alias}" if statement.alias else ""
        lines.append(
            f"{statement.line}:{statement.column} from {statement.module} import {statement.name or '-'}{alias}"
        )
    for use in extracted.uses:
        inside = extracted.symbols[use.enclosing].qualified_name if use.enclosing >= 0 else "-"
        name = f"{use.receiver} . {use.name}" if use.receiver else use.name
        lines.append(f"{use.line}:{use.column} {use.kind} {name} in {inside}{' (local)' if use.local else ''}")
    return "\n".join(lines) + "\n"
