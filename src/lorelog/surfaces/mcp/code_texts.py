"""What the code says to a question, as a model reads it: a line for each place, with what stands there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Shape = Mapping[str, Any]


def code_lines(answer: Shape) -> list[str]:
    """Return the answer line by line: what was asked about first, then what was asked for."""
    meant = [_definition(one, full=answer["verb"] == "definition") for one in answer.get("definitions", [])]
    found = [
        *(_reference(one) for one in answer.get("references", [])),
        *(_caller(one) for one in answer.get("callers", [])),
        *(_import(one) for one in answer.get("imports", [])),
        *(line for one in answer.get("files", []) for line in _file(one)),
    ]
    shown = len(found) if answer["verb"] != "definition" else len(meant)
    if answer["verb"] == "outline":
        shown = len(answer.get("files", []))
    head = [f"{answer['verb']} of {answer['about']}: {answer['total']}"]
    more = [f"{answer['total'] - shown} more: memory_call code.*"] if answer["total"] > shown else []
    return [*head, *meant, *found, *more]


def _definition(one: Shape, *, full: bool) -> str:
    said = one["signature"] or one["name"]
    note = one["docstring"].strip().partition("\n")[0] if full else ""
    place = f"{one['file_path']}:{one['line_start']}-{one['line_end']}"
    return " | ".join(filter(None, [place, f"{one['kind']} {_full(one['container'], one['name'])}", said, note]))


def _reference(one: Shape) -> str:
    where = f"in {one['container']}" if one["container"] else ""
    sure = "" if one["certainty"] == "exact" else one["certainty"]
    place = f"{one['file_path']}:{one['line']}:{one['col']}"
    return " | ".join(filter(None, [place, one["use"], where, sure, one["text"]]))


def _caller(one: Shape) -> str:
    far = f"calls {one['callee']}, {one['depth']} calls away" if one["depth"] > 1 else ""
    sure = "" if one["certainty"] == "exact" else one["certainty"]
    name = _full(one["caller_container"], one["caller_name"])
    place = f"{one['caller_file']}:{one['call_line']}"
    return " | ".join(filter(None, [place, f"{one['caller_kind']} {name}", far, sure, one["text"]]))


def _import(one: Shape) -> str:
    return " | ".join(filter(None, [f"{one['importing_file']}:{one['import_line']}", one["text"] or one["module"]]))


def _file(one: Shape) -> list[str]:
    symbols = (f"  {symbol['name_line']}: {symbol['signature'] or symbol['name']}" for symbol in one["symbols"])
    return [one["file_path"], *symbols]


def _full(container: str, name: str) -> str:
    return f"{container}.{name}" if container else name
