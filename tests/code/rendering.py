"""What a file says, as lines that a person can check against it."""

from __future__ import annotations

from lorelog.core.code import Extract


def rendered(said: Extract) -> str:
    """Return symbols, imports and uses, one per line."""
    lines = [f"language {said.language}, {said.lines} lines, broken {said.broken}"]
    for symbol in said.symbols:
        span = symbol.span
        place = f"{span.start_line}:{span.start_column}-{span.end_line}:{span.end_column}"
        lines.append(
            f"{symbol.kind} {symbol.qualified} {place} @{symbol.name_line}:{symbol.name_column} {symbol.visibility}"
        )
        lines.append(f"    {symbol.signature}")
        if symbol.bases:
            lines.append(f"    of {', '.join(symbol.bases)}")
        if symbol.docstring:
            lines.append(f"    says {symbol.docstring!r}")
    for one in said.imports:
        alias = f" as {one.alias}" if one.alias else ""
        lines.append(f"{one.line}:{one.column} from {one.module} import {one.name or '-'}{alias}")
    for use in said.uses:
        inside = said.symbols[use.enclosing].qualified if use.enclosing >= 0 else "-"
        name = f"{use.receiver} . {use.name}" if use.receiver else use.name
        lines.append(f"{use.line}:{use.column} {use.kind} {name} in {inside}{' (local)' if use.local else ''}")
    return "\n".join(lines) + "\n"
