"""Answers about code as people see them: a place that an editor opens, and the line that stands there."""

from __future__ import annotations

from lorelog.surfaces.cli.paper import one_line, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lorelog.operations.code_replies import (
        CallerShape,
        CodeAnswerShape,
        DefinitionShape,
        ImportShape,
        OutlinedShape,
        ReferenceShape,
        SymbolShape,
    )

_MOST_DEFINITIONS = 10
"""Above references and callers: whoever wants all asks for them."""
_DOC = 100


def show_definitions(definitions: Sequence[DefinitionShape], *, docs: bool = True) -> None:
    """Print definitions, with the first line of what is said about each."""
    if not definitions:
        print("Nothing found.")
    for one in definitions:
        print(_head(one))
        if one["signature"]:
            print(f"   {one_line(one['signature'])}")
        if docs and one["docstring"]:
            print("   " + styled(_first_line(one["docstring"]), "dim"))


def show_references(definitions: Sequence[DefinitionShape], references: Sequence[ReferenceShape]) -> None:
    """Print the uses of a symbol below its definitions."""
    _show_meant(definitions)
    if not references:
        print("Nothing uses it, as far as is known." if definitions else "Nothing found.")
    for one in references:
        use = one["use"] if one["certainty"] == "exact" else f"{one['use']} ({_sureness(one['certainty'])})"
        around = f"in {one_line(one['container'])}" if one["container"] else ""
        print("  ".join(filter(None, [_place(one["file_path"], one["line"], one["col"]), use, styled(around, "dim")])))
        _show_line(one["text"])


def show_callers(definitions: Sequence[DefinitionShape], callers: Sequence[CallerShape]) -> None:
    """Print who calls a symbol, farther ones below the nearer."""
    _show_meant(definitions)
    if not callers:
        print("Nothing calls it, as far as is known." if definitions else "Nothing found.")
    for one in callers:
        name = f"{one['caller_container']}.{one['caller_name']}" if one["caller_container"] else one["caller_name"]
        told = [styled(one_line(name), "bold"), one["caller_kind"]]
        if one["depth"] > 1:
            told.append(f"calls {one_line(one['callee'])} ({one['depth']} calls away)")
        if one["certainty"] != "exact":
            told.append(f"({_sureness(one['certainty'])})")
        print("  ".join([_place(one["caller_file"], one["call_line"], one["call_col"]), *told]))
        _show_line(one["text"])


def show_imports(imports: Sequence[ImportShape]) -> None:
    """Print who imports a module."""
    if not imports:
        print("Nothing found.")
    seen = set()
    for one in imports:  # a line that imports several names is shown once
        if (one["importing_file"], one["import_line"]) not in seen:
            seen.add((one["importing_file"], one["import_line"]))
            print(_place(one["importing_file"], one["import_line"], one["import_col"]))
            _show_line(one["text"])


def show_files(files: Sequence[OutlinedShape]) -> None:
    """Print what files define."""
    if not files:
        print("Nothing found.")
    for one in files:
        told = f"{one['language']}, {one['lines']:,} lines" if one["language"] else one_line(one["problem"])
        broken = f", cannot be parsed at line {one['broken']}" if one["broken"] else ""
        print(f"{styled(short_path(one['file_path']), 'cyan')}  {styled(told + broken, 'dim')}")
        for symbol in one["symbols"]:
            depth = symbol["container"].count(".") + 1 if symbol["container"] else 0
            print(f"  {symbol['name_line']:>6}  {'  ' * depth}{_symbol(symbol)}")


def show_answer(answer: CodeAnswerShape) -> None:
    """Print what the code says to a question that was typed into a search."""
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
        show_files(shown)
    if answer["total"] > len(shown):
        print(styled(f"   {len(shown):,} of {answer['total']:,}: lorelog code --help", "dim"))
    print()


def _head(one: DefinitionShape) -> str:
    name = f"{one['container']}.{one['name']}" if one["container"] else one["name"]
    place = _place(one["file_path"], one["name_line"], one["name_col"])
    hidden = one["visibility"] if one["visibility"] != "public" else ""
    lines = f"lines {one['line_start']}-{one['line_end']}" if one["line_end"] > one["line_start"] else ""
    return "  ".join(filter(None, [place, styled(one_line(name), "bold"), one["kind"], hidden, styled(lines, "dim")]))


def _show_meant(definitions: Sequence[DefinitionShape]) -> None:
    for one in definitions[:_MOST_DEFINITIONS]:
        print(_head(one))
    if len(definitions) > _MOST_DEFINITIONS:
        print(styled(f"… {len(definitions) - _MOST_DEFINITIONS:,} more definitions", "dim"))
    if definitions:
        print()


def _place(path: str, line: int, column: int) -> str:
    return styled(f"{short_path(path)}:{line}:{column}", "cyan")


def _show_line(text: str) -> None:
    if text:
        print(f"   {one_line(text)}")


def _symbol(symbol: SymbolShape) -> str:
    said = one_line(symbol["signature"]) or one_line(symbol["name"])
    if symbol["kind"] in {"variable", "constant"}:
        return said if len(said) <= _DOC else said[: _DOC - 1] + "…"
    return f"{said}" if symbol["name"] in said else f"{symbol['kind']} {said}"


def _sureness(certainty: str) -> str:
    return "likely" if certainty == "likely" else "same name"


def _first_line(text: str) -> str:
    line = one_line(text.strip().partition("\n")[0])
    return line if len(line) <= _DOC else line[: _DOC - 1] + "…"
