"""Text output of the code index: locations that editors can open, with their source lines."""

from __future__ import annotations

from lorelog.surfaces.cli.render import one_line, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lorelog.operations.replies import Json

_MAX_DEFINITIONS = 10
"""Definitions shown above references and callers."""
_MAX_DOC_CHARS = 100


def show_definitions(definitions: Sequence[Json], *, docs: bool = True) -> None:
    """Print definitions, each with the first line of its docstring."""
    if not definitions:
        print("Nothing found.")
    for definition in definitions:
        print(_format_definition(definition))
        if definition["signature"]:
            print(f"   {one_line(definition['signature'])}")
        if docs and definition["docstring"]:
            print("   " + stylize(_first_line(definition["docstring"]), "dim"))


def show_references(definitions: Sequence[Json], references: Sequence[Json]) -> None:
    """Print the uses of a symbol below its definitions."""
    _show_matched_definitions(definitions)
    if not references:
        print("No references found." if definitions else "Nothing found.")
    for reference in references:
        use = (
            reference["use"]
            if reference["certainty"] == "exact"
            else f"{reference['use']} ({_format_certainty(reference['certainty'])})"
        )
        container = f"in {one_line(reference['container'])}" if reference["container"] else ""
        location = _format_location(reference["file_path"], reference["line"], reference["col"])
        print("  ".join(filter(None, [location, use, stylize(container, "dim")])))
        _show_line(reference["text"])


def show_callers(definitions: Sequence[Json], callers: Sequence[Json]) -> None:
    """Print the callers of a symbol, nearest first."""
    _show_matched_definitions(definitions)
    if not callers:
        print("No callers found." if definitions else "Nothing found.")
    for caller in callers:
        name = (
            f"{caller['caller_container']}.{caller['caller_name']}"
            if caller["caller_container"]
            else caller["caller_name"]
        )
        parts = [stylize(one_line(name), "bold"), caller["caller_kind"]]
        if caller["depth"] > 1:
            parts.append(f"calls {one_line(caller['callee'])} ({caller['depth']} calls away)")
        if caller["certainty"] != "exact":
            parts.append(f"({_format_certainty(caller['certainty'])})")
        print("  ".join([_format_location(caller["caller_file"], caller["call_line"], caller["call_col"]), *parts]))
        _show_line(caller["text"])


def show_imports(imports: Sequence[Json]) -> None:
    """Print the imports of a module."""
    if not imports:
        print("Nothing found.")
    seen = set()
    for entry in imports:  # a line that imports several names is shown once
        line = (entry["importing_file"], entry["import_line"])
        if line not in seen:
            seen.add(line)
            print(_format_location(*line, entry["import_col"]))
            _show_line(entry["text"])


def show_outlines(files: Sequence[Json]) -> None:
    """Print the symbols of files."""
    if not files:
        print("Nothing found.")
    for file in files:
        summary = f"{file['language']}, {file['lines']:,} lines" if file["language"] else one_line(file["problem"])
        broken = f", cannot be parsed at line {file['broken']}" if file["broken"] else ""
        print(f"{stylize(short_path(file['file_path']), 'cyan')}  {stylize(summary + broken, 'dim')}")
        for symbol in file["symbols"]:
            depth = symbol["container"].count(".") + 1 if symbol["container"] else 0
            print(f"  {symbol['name_line']:>6}  {'  ' * depth}{_format_symbol(symbol)}")


def show_code_answer(answer: Json) -> None:
    """Print the code index's answer to a search query."""
    verb = answer["verb"]
    definitions = answer.get("definitions", [])
    shown: Sequence[Any] = definitions
    if verb == "definition":
        show_definitions(definitions)
    elif verb == "references":
        shown = answer.get("references", [])
        show_references(definitions, shown)
    elif verb == "callers":
        shown = answer.get("callers", [])
        show_callers(definitions, shown)
    elif verb == "imports":
        shown = answer.get("imports", [])
        show_imports(shown)
    else:
        shown = answer.get("files", [])
        show_outlines(shown)
    if answer["total"] > len(shown):
        print(stylize(f"   {len(shown):,} of {answer['total']:,}: lorelog code --help", "dim"))
    print()


def _format_definition(symbol: Json) -> str:
    name = f"{symbol['container']}.{symbol['name']}" if symbol["container"] else symbol["name"]
    location = _format_location(symbol["file_path"], symbol["name_line"], symbol["name_col"])
    visibility = symbol["visibility"] if symbol["visibility"] != "public" else ""
    start, end = symbol["line_start"], symbol["line_end"]
    lines = stylize(f"lines {start}-{end}", "dim") if end > start else ""
    return "  ".join(filter(None, [location, stylize(one_line(name), "bold"), symbol["kind"], visibility, lines]))


def _show_matched_definitions(definitions: Sequence[Json]) -> None:
    for definition in definitions[:_MAX_DEFINITIONS]:
        print(_format_definition(definition))
    if len(definitions) > _MAX_DEFINITIONS:
        print(stylize(f"… {len(definitions) - _MAX_DEFINITIONS:,} more definitions", "dim"))
    if definitions:
        print()


def _format_location(path: str, line: int, column: int) -> str:
    return stylize(f"{short_path(path)}:{line}:{column}", "cyan")


def _show_line(text: str) -> None:
    if text:
        print(f"   {one_line(text)}")


def _format_symbol(symbol: Json) -> str:
    text = one_line(symbol["signature"]) or one_line(symbol["name"])
    if symbol["kind"] in {"variable", "constant"}:
        return text if len(text) <= _MAX_DOC_CHARS else text[: _MAX_DOC_CHARS - 1] + "…"
    return text if symbol["name"] in text else f"{symbol['kind']} {text}"


def _format_certainty(certainty: str) -> str:
    return "likely" if certainty == "likely" else "same name"


def _first_line(text: str) -> str:
    line = one_line(text.strip().partition("\n")[0])
    return line if len(line) <= _MAX_DOC_CHARS else line[: _MAX_DOC_CHARS - 1] + "…"
