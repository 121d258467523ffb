"""Find definitions, references, callers and imports in code. Run 'lorelog code index' once first.

NAME may include its context: parse, Engine.search, or src/engine.py for a file. If a name has several definitions, all are shown,
nearest first; --in, --line, --of and --kind select one. 'lorelog search' also answers questions about code.

examples:
  lorelog code index
  lorelog code def Engine.search
  lorelog code refs parse_config --use write
  lorelog code callers parse_config --depth 2
  lorelog code imports requests
  lorelog code outline src/engine.py
  lorelog code search prscnf
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply
from lorelog.surfaces.cli.render import (
    one_line,
    plural,
    print_note,
    print_notes,
    print_problem,
    progress_bar,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from lorelog.operations.operation import Json


def configure_code_index(parser: argparse.ArgumentParser) -> None:
    """Declare the option that removes a tree."""
    parser.add_argument("--forget", action="store_true", help="remove the working tree from the code index")


def run_code_index(args: argparse.Namespace) -> int:
    """Index or forget a working tree; fail if a file could not be indexed."""
    if args.forget:
        if args.force:
            raise UsageError("use either --forget or --force, not both")
        target = {} if args.path is None else {"path": expand_path(args.path)}
        return print_reply(args, call_operation(args, "code.forget", target), _show_forgotten)
    with progress_bar() as progress:
        return print_reply(args, call_command(args, progress=progress), _show_report)


def _show_forgotten(reply: Json, args: argparse.Namespace) -> None:
    print(f"Forgot {short_path(reply['root'])}: {plural(reply['files'], 'file')}. Your files are unchanged.")


_MAX_SKIPPED = 10
"""Skipped files listed per tree."""


def _show_report(report: Json, args: argparse.Namespace) -> None:
    for problem in report["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    print_notes(report)
    counts = [f"{report['changed']:,} changed", f"{report['unchanged'] + report['touched']:,} unchanged"]
    if report["removed"]:
        counts.append(f"{report['removed']:,} removed")
    if report["problems"]:
        counts.append(f"{len({problem['path'] for problem in report['problems']}):,} failed")
    languages = ", ".join(f"{count:,} {name}" for name, count in list(report["languages"].items())[:4])
    more = len(report["languages"]) - 4
    languages = f" ({languages}{f' and {more} more' if more > 0 else ''})" if languages else ""
    print(f"Indexed {plural(report['files'], 'file')}: {', '.join(counts)}{languages}.", end=" ")
    print(f"{plural(report['symbols'], 'symbol')}, {report['seconds']:.1f} s.")
    if report["left_out"]:
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in report["left_out"].items())
        print_note(f"skipped: {kinds}; 'lorelog code status' lists them")
    if report["broken"]:
        print_note(f"{plural(report['broken'], 'file')} could only be parsed in part; the parsed parts are indexed")


def show_code_status(status: Json, args: argparse.Namespace) -> None:
    if not status["trees"]:
        print("No code is indexed; run 'lorelog code index' in a working tree.")
    for tree in status["trees"]:
        _show_tree(tree)
    if status["trees"]:
        print(f"code.db: {status['bytes'] / 1e6:,.1f} MB")


def _show_tree(tree: Json) -> None:
    state = "" if tree["exists"] else "  (missing)"
    parts = f"  only {', '.join(tree['parts'])}" if tree["parts"] else ""
    print(f"{short_path(tree['path'])}{parts}{state}")
    languages = ", ".join(f"{count:,} {name}" for name, count in tree["languages"].items())
    print(
        f"  {plural(tree['files'], 'file')}, {plural(tree['symbols'], 'symbol')}"
        + (f": {languages}" if languages else "")
    )
    commit = f" at {tree['commit'][:12]}" if tree["commit"] else ""
    print(f"  indexed {tree['indexed_at']}{commit}" if tree["indexed_at"] else "  not completely indexed yet")
    for file in tree["left_out"][:_MAX_SKIPPED]:
        print(f"  skipped: {short_path(file['path'])} ({file['reason']})")
    if tree["left_out_total"] > _MAX_SKIPPED:
        print(f"  and {tree['left_out_total'] - _MAX_SKIPPED:,} more")


def show_code_def(reply: Json, args: argparse.Namespace) -> None:
    """Print what a question about code found, and what was left out."""
    field = {"refs": "references", "callers": "callers", "imports": "imports", "outline": "files"}.get(args.verb)
    if field == "references":
        _show_references(reply["definitions"], reply["references"])
    elif field == "callers":
        _show_callers(reply["definitions"], reply["callers"])
    elif field == "imports":
        _show_imports(reply["imports"])
    elif field == "files":
        _show_outlines(reply["files"])
    else:
        _show_definitions(reply["definitions"], docs=args.verb == "def")
    shown = len(reply[field or "definitions"])
    if reply["total"] > shown:
        print_note(f"{shown:,} of {reply['total']:,}: use --limit to show more")
    if reply.get("doubtful"):
        print_note(f"{reply['doubtful']:,} more uses match only by name; --certainty name shows them")
    print_notes(reply)


show_code_refs = show_code_callers = show_code_imports = show_code_outline = show_code_search = show_code_def


_MAX_DEFINITIONS = 10
"""Definitions shown above references and callers."""
_MAX_DOC_CHARS = 100


def _show_definitions(definitions: Sequence[Json], *, docs: bool = True) -> None:
    """Print definitions, each with the first line of its docstring."""
    if not definitions:
        print("Nothing found.")
    for definition in definitions:
        print(_format_definition(definition))
        if definition["signature"]:
            print(f"   {one_line(definition['signature'])}")
        if docs and definition["docstring"]:
            print("   " + stylize(_first_line(definition["docstring"]), "dim"))


def _show_references(definitions: Sequence[Json], references: Sequence[Json]) -> None:
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


def _show_callers(definitions: Sequence[Json], callers: Sequence[Json]) -> None:
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


def _show_imports(imports: Sequence[Json]) -> None:
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


def _show_outlines(files: Sequence[Json]) -> None:
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
        _show_definitions(definitions)
    elif verb == "references":
        shown = answer.get("references", [])
        _show_references(definitions, shown)
    elif verb == "callers":
        shown = answer.get("callers", [])
        _show_callers(definitions, shown)
    elif verb == "imports":
        shown = answer.get("imports", [])
        _show_imports(shown)
    else:
        shown = answer.get("files", [])
        _show_outlines(shown)
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
