"""Commands about code and errors: code, debug, why, how and friction."""

from __future__ import annotations

import os
import sys
import time

from lorelog.core.errors import UsageError, plural
from lorelog.surfaces.cli import client
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.text import (
    NOTHING_FOUND,
    format_indexed,
    format_statement,
    one_line,
    printable,
    render_why,
    short_path,
    stylize,
    truncate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from lorelog.operations.operation import Json

ARGUMENTS = {
    "code index": {"--forget": "remove the working tree from the code index"},
    "debug errors": {"--each": "show every occurrence with its stack frames"},
}
HELP = {
    "code": """\
Find definitions, references, callers and imports in code. Run 'lorelog code index' once first.

NAME may include its context: parse, Engine.search, or src/engine.py for a file. If a name has several definitions, all are shown,
nearest first; --in, --line, --of and --kind select one.

examples:
  lorelog code index
  lorelog code def Engine.search
  lorelog code refs parse_config --use write
  lorelog code callers parse_config --depth 2
  lorelog code imports requests
  lorelog code outline src/engine.py
  lorelog code search prscnf
""",
    "debug": """\
Show traced calls and errors.

Every operation is traced, and captured agent turns contribute their tool calls and errors: stack traces of Python, JavaScript,
Rust, Go, Java and others, messages of compilers and test runners. An error has the same signature whatever its line numbers and
paths. Secrets are removed first. Storage is limited by traces.days and traces.megabytes; traces.enabled = false stores nothing.

examples:
  lorelog debug errors                   errors by signature
  lorelog debug errors KeyError --since 7d --each
  lorelog debug calls --failed --tool memory
  lorelog why "KeyError: 'id'"           earlier occurrences and their fixes
""",
}


def run_code_index(args: argparse.Namespace) -> int:
    """Index or forget a working tree; fail if a file could not be indexed."""
    if not args.forget:
        return client.print_reply(args, client.call_with_progress(args), _show_code_indexed)
    if args.force:
        raise UsageError("use either --forget or --force, not both")

    def show(reply: Json, args: argparse.Namespace) -> None:
        print(f"Forgot {short_path(reply['root'])}: {plural(reply['files'], 'file')}. Your files are unchanged.")

    target = {} if args.path is None else {"path": expand_path(args.path)}
    return client.print_reply(args, client.call_operation(args, "code.forget", target), show)


_MAX_SKIPPED = 10
"""Skipped files listed per tree."""


def _show_code_indexed(report: Json, args: argparse.Namespace) -> None:
    client.print_problems(report["problems"])
    client.print_notes(report)
    languages = ", ".join(f"{count:,} {name}" for name, count in list(report["languages"].items())[:4])
    more = len(report["languages"]) - 4
    languages = f" ({languages}{f' and {more} more' if more > 0 else ''})" if languages else ""
    print(f"{format_indexed(report)}{languages}. {plural(report['symbols'], 'symbol')}, {report['seconds']:.1f} s.")
    if report["left_out"]:
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in report["left_out"].items())
        client.print_note(f"skipped: {kinds}; 'lorelog code status' lists them")
    if report["broken"]:
        client.print_note(
            f"{plural(report['broken'], 'file')} could only be parsed in part; the parsed parts are indexed"
        )


def show_code_status(status: Json, args: argparse.Namespace) -> None:
    if not status["trees"]:
        print("No code is indexed; run 'lorelog code index' in a working tree.")
        return
    for tree in status["trees"]:
        state = "" if tree["exists"] else "  (missing)"
        parts = f"  only {', '.join(tree['parts'])}" if tree["parts"] else ""
        print(f"{short_path(tree['path'])}{parts}{state}")
        languages = ", ".join(f"{count:,} {name}" for name, count in tree["languages"].items())
        languages = f": {languages}" if languages else ""
        print(f"  {plural(tree['files'], 'file')}, {plural(tree['symbols'], 'symbol')}{languages}")
        commit = f" at {tree['commit'][:12]}" if tree["commit"] else ""
        print(f"  indexed {tree['indexed_at']}{commit}" if tree["indexed_at"] else "  not completely indexed yet")
        for file in tree["left_out"][:_MAX_SKIPPED]:
            print(f"  skipped: {short_path(file['path'])} ({file['reason']})")
        if tree["left_out_total"] > _MAX_SKIPPED:
            print(f"  and {tree['left_out_total'] - _MAX_SKIPPED:,} more")
    print(f"code.db: {status['bytes'] / 1e6:,.1f} MB")


def show_code_def(reply: Json, args: argparse.Namespace) -> None:
    """Print what a question about code found, and what was left out."""
    shown = _show_answer(reply, docs=args.verb == "def")
    if reply["total"] > shown:
        client.print_note(f"{shown:,} of {reply['total']:,}: use --limit to show more")
    if reply["doubtful"]:
        client.print_note(f"{reply['doubtful']:,} more uses match only by name; --certainty name shows them")


show_code_refs = show_code_callers = show_code_imports = show_code_outline = show_code_search = show_code_def
_MAX_DEFINITIONS = 10
"""Definitions shown above references and callers."""
_MAX_DOC_CHARS = 100
_CERTAINTIES = {"likely": "likely", "name": "same name"}


def _show_definitions(definitions: Sequence[Json], *, docs: bool = True) -> None:
    """Print definitions, each with the first line of its docstring."""
    for definition in definitions:
        _print_entry(*_definition_fields(definition), text=definition["signature"])
        if docs and definition["docstring"]:
            line = one_line(definition["docstring"].strip().partition("\n")[0])
            print("   " + stylize(truncate(line, _MAX_DOC_CHARS), "dim"))


def _show_references(references: Sequence[Json]) -> None:
    for reference in references:
        use = reference["use"] + (
            f" ({_CERTAINTIES[certainty]})" if (certainty := reference["certainty"]) != "exact" else ""
        )
        container = f"in {one_line(reference['container'])}" if reference["container"] else ""
        place = (reference["file_path"], reference["line"], reference["col"])
        _print_entry(_format_location(*place), use, stylize(container, "dim"), text=reference["text"])


def _show_callers(callers: Sequence[Json]) -> None:
    for caller in callers:
        name = ".".join(filter(None, (caller["caller_container"], caller["caller_name"])))
        away = f"calls {one_line(caller['callee'])} ({caller['depth']} calls away)" if caller["depth"] > 1 else ""
        certainty = f"({_CERTAINTIES[caller['certainty']]})" if caller["certainty"] != "exact" else ""
        place = _format_location(caller["caller_file"], caller["call_line"], caller["call_col"])
        fields = (stylize(one_line(name), "bold"), caller["caller_kind"], away, certainty)
        _print_entry(place, *fields, text=caller["text"])


def _show_imports(imports: Sequence[Json]) -> None:
    seen = set()
    for entry in imports:  # a line that imports several names is shown once
        line = (entry["importing_file"], entry["import_line"])
        if line not in seen:
            seen.add(line)
            _print_entry(_format_location(*line, entry["import_col"]), text=entry["text"])


def _show_outlines(files: Sequence[Json]) -> None:
    for file in files:
        summary = f"{file['language']}, {file['lines']:,} lines" if file["language"] else one_line(file["problem"])
        broken = f", cannot be parsed at line {file['broken']}" if file["broken"] else ""
        print(f"{stylize(short_path(file['file_path']), 'cyan')}  {stylize(summary + broken, 'dim')}")
        for symbol in file["symbols"]:
            depth = symbol["container"].count(".") + 1 if symbol["container"] else 0
            print(f"  {symbol['name_line']:>6}  {'  ' * depth}{_format_symbol(symbol)}")


def _show_answer(reply: Json, *, docs: bool) -> int:
    """Print references, callers, imports, files or else definitions; return how many."""
    verb = "files" if reply["verb"] == "outline" else reply["verb"]
    show = {"references": _show_references, "callers": _show_callers, "imports": _show_imports, "files": _show_outlines}
    definitions: list[Json] = reply["definitions"]
    found = reply[verb] if verb in show else definitions
    if verb not in show:
        _show_definitions(found, docs=docs)
    else:
        if verb in {"references", "callers"} and definitions:
            for definition in definitions[:_MAX_DEFINITIONS]:
                _print_entry(*_definition_fields(definition))
            if len(definitions) > _MAX_DEFINITIONS:
                print(stylize(f"… {len(definitions) - _MAX_DEFINITIONS:,} more definitions", "dim"))
            print()
        show[verb](found)
    if not found:
        print(f"No {verb} found." if verb in {"references", "callers"} and definitions else "Nothing found.")
    return len(found)


def _definition_fields(symbol: Json) -> tuple[str, ...]:
    name = ".".join(filter(None, (symbol["container"], symbol["name"])))
    location = _format_location(symbol["file_path"], symbol["name_line"], symbol["name_col"])
    visibility = symbol["visibility"] if symbol["visibility"] != "public" else ""
    start, end = symbol["line_start"], symbol["line_end"]
    lines = stylize(f"lines {start}-{end}", "dim") if end > start else ""
    return location, stylize(one_line(name), "bold"), symbol["kind"], visibility, lines


def _print_entry(*fields: str, text: str = "") -> None:
    print("  ".join(filter(None, fields)))
    if text:
        print(f"   {one_line(text)}")


def _format_location(path: str, line: int, column: int) -> str:
    return stylize(f"{short_path(path)}:{line}:{column}", "cyan")


def _format_symbol(symbol: Json) -> str:
    text = one_line(symbol["signature"]) or one_line(symbol["name"])
    if symbol["kind"] in {"variable", "constant"}:
        return truncate(text, _MAX_DOC_CHARS)
    return text if symbol["name"] in text else f"{symbol['kind']} {text}"


def run_debug_errors(args: argparse.Namespace) -> int:
    reply = client.call_command(args, include_frames=args.each or args.json)
    return client.print_reply(args, reply, _show_errors if args.each else _show_groups)


def run_why(args: argparse.Namespace) -> int:
    """Find earlier occurrences of an error and what fixed it, or why a line of code exists.

    FILE:LINE or FILE:SYMBOL asks which session wrote a line, for which prompt, what was said and tested, and which decisions
    name it. Otherwise TEXT is an error as it was printed: one line or a whole stack trace, as an argument or on standard input. It is matched by
    signature, then by message, then by similarity, in agents' turns. The output
    shows when it happened, the turns around it, the changes made before the same command passed again, and decisions, tasks
    and memories that mention it.

    examples:
      lorelog why "KeyError: 'customer_id'"
      lorelog why src/billing.py:42
      pytest 2>&1 | lorelog why -
      lorelog why "error[E0308]: mismatched types" --all-projects --json
    """
    text = " ".join(args.text)
    if text == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("standard input is empty", hint="make test 2>&1 | lorelog why -")
        text = ""
        while piece := sys.stdin.buffer.read(_MAX_TEXT_CHARS):
            text = (text + piece.decode("utf-8", "replace"))[-_MAX_TEXT_CHARS:]
    if not text.strip():
        raise UsageError("the error text is empty", hint="lorelog why \"KeyError: 'id'\"")
    name, colon, where = text.rpartition(":")
    is_line = where.isdecimal() and os.path.splitext(name)[1][1:].isalpha() and not any(map(str.isspace, text))
    is_symbol = where.replace(".", "").isidentifier() or where.isdecimal()
    if colon and len(text) < _MAX_PLACE_CHARS and (is_line or (is_symbol and os.path.isfile(name))):
        scope = {"place": text, "all_projects": args.all_projects}
        return client.print_reply(args, client.call_operation(args, "code.why", scope), show_code_why)
    return client.print_reply(args, client.call_command(args, text=text[-_MAX_TEXT_CHARS:]), _show_why)


def show_how(reply: Json, args: argparse.Namespace) -> None:
    """Show the commands that worked here for a purpose, newest first.

    PURPOSE is compared with what agents said when they ran commands in captured sessions. A command that only failed is not shown,
    and a purpose that nothing here was run for has no answer.

    examples:
      lorelog how run the tests
      lorelog how "release a new version" -n 5
    """
    for known in reply["commands"]:
        print(stylize(printable(known["command"]), "bold"))
        failed = f", {known['failures']} failed, last {_day(known['failed_at'])}" if known["failures"] else ""
        runs = f"{plural(known['runs'], 'run')} in {plural(known['sessions'], 'session')}{failed}"
        print(f"   passed {_day(known['passed_at'])}  {runs}")
        if known["error"]:
            print(f"   {stylize('failed with', 'dim')}  {one_line(known['error'])}")
        if known["purposes"]:
            print(f"   {stylize('for', 'dim')}  {one_line(' · '.join(known['purposes']))}")
    if not reply["commands"]:
        print(f"{stylize('unknown', 'bold')}  {reply['unknown']}")


def show_friction(reply: Json, args: argparse.Namespace) -> None:
    """Show the walls that at least three sessions ran into: what they are, what they cost, and what would help.

    examples:
      lorelog friction
      lorelog friction --fix
    """
    for wall in reply["walls"]:
        times = plural(wall["calls"], "time" if wall["kind"] == "said" else "call")
        cost = f"{times}, {wall['tokens']:,} tokens, last {_day(wall['last_at'])}"
        print(f"{stylize(wall['kind'], 'cyan')}  {stylize(one_line(wall['what']), 'bold')}")
        print(f"   in {plural(wall['sessions'], 'session')}: {cost}\n   {one_line(wall['remedy'])}")
    if not reply["walls"] and not args.fix:
        print(f"No wall in {plural(reply['sessions'], 'session')}.")


def _day(moment: str) -> str:
    return moment.replace("T", " ")[:16]


def show_code_why(reply: Json, args: argparse.Namespace) -> None:
    """Print why a line exists: the evidence, then the reasons."""
    print("\n".join(render_why(reply)))
    if reply["session"] and reply["session"]["memory"]:
        client.print_note(f"lorelog transcript {reply['session']['memory'][:8]} shows the conversation")


def show_code_memories(reply: Json, args: argparse.Namespace) -> None:
    """Print the memories that name a file or something in it."""
    for memory in reply["memories"]:
        place = ":".join((reply["path"], *map(str, memory["lines"][:1])))
        print(f"{stylize(one_line(place), 'cyan')}  {format_statement(memory)}")
    if not reply["memories"]:
        print(NOTHING_FOUND)


_MAX_PLACE_CHARS = 4_096
_MAX_TEXT_CHARS = 900_000
"""Only the end of a longer text is used: it is the most informative part of a program's output."""


_MAX_MESSAGE_CHARS = 160
_MAX_FRAMES = 8
_MAX_LINES = 6


def _show_groups(reply: dict[str, Any], args: argparse.Namespace) -> None:
    groups = reply["groups"]
    if not groups:
        print("No errors traced.")
    width = max((len(group["error_signature"]) for group in groups), default=0)
    for group in groups:
        head = stylize(f"{one_line(group['error_signature']):<{width}}", "cyan")
        print(f"{group['times']:>6,}×  {head}  {_format_timestamp(group['last_ms'])}  {_format_error(group)}")
    left_out = reply["total_count"] - sum(group["times"] for group in groups)
    if groups and left_out > 0:
        client.print_note(f"{left_out:,} more; use -n to show more signatures")


def _show_errors(reply: dict[str, Any], args: argparse.Namespace) -> None:
    for error in reply["errors"]:
        signature = stylize(one_line(error["error_signature"]), "cyan")
        print(f"{_format_timestamp(error['timestamp_ms'])}  {signature}  {_format_origin(error)}")
        print(f"   {stylize(_format_error(error), 'bold')}")
        _show_frames(error["frames"])
        for cause in error["causes"]:
            print(f"   caused by {_format_error(cause)}")
            _show_frames(cause["frames"][:2])
    if not reply["errors"]:
        print("No errors traced.")
    elif reply["total_count"] > len(reply["errors"]):
        client.print_note(f"{reply['total_count']:,} in total; use -n to show more")


def show_debug_calls(reply: dict[str, Any], args: argparse.Namespace) -> None:
    width = max((len(call["tool_name"]) for call in reply["tool_calls"]), default=0)
    for call in reply["tool_calls"]:
        duration = f"{call['duration_ms']:>9,.1f} ms" if call["duration_ms"] is not None else " " * 12
        name = stylize(f"{one_line(call['tool_name']):<{width}}", "red" if call["failed"] else "cyan")
        detail = one_line(" ".join(filter(None, (call["host"], call["input"])))[:_MAX_MESSAGE_CHARS])
        print(f"{_format_timestamp(call['timestamp_ms'])}  {name}  {duration}  {detail}".rstrip())
        if call["failed"]:
            print(f"   {stylize('failed:', 'red')} {one_line(call['error'][:_MAX_MESSAGE_CHARS])}")
    if not reply["tool_calls"]:
        print("No calls traced.")
    elif reply["total_count"] > len(reply["tool_calls"]):
        client.print_note(f"{reply['total_count']:,} in total; use -n to show more")


def _show_why(reply: dict[str, Any], args: argparse.Namespace) -> None:
    print(stylize(_format_error(reply["asked"]), "bold"))
    if not reply["seen"]:
        is_known = any(reply[name] for name in ("turns", "decisions", "tasks", "memories"))
        print("Not traced as an error; mentioned here:" if is_known else "Not seen before.")
    for error in reply["seen"]:
        first = f"first {_format_timestamp(error['first_ms'])}, " if error["times"] > 1 else ""
        similar = "" if error["match"] == "exact" else f"  ({error['match']}: {_format_error(error)})"
        times = f"seen {plural(error['times'], 'time')}, {first}last {_format_timestamp(error['last_ms'])}"
        print(f"{times}  {stylize(one_line(error['error_signature']), 'cyan')}{similar}")
    for occurrence in reply["occurrences"][:3]:
        print(f"   {_format_timestamp(occurrence['timestamp_ms'])}  {_format_origin(occurrence)}")
    shown = {turn["memory"] for turn in reply["turns"]}
    for fix in reply["fixes"]:
        print(f"\n{stylize('the same command passed later', 'bold')}")
        print(f"  {one_line(fix['command'][:_MAX_MESSAGE_CHARS])}")
        failed, passed = _format_timestamp(fix["failed_ms"]), _format_timestamp(fix["passed_ms"])
        print(f"  failed {failed}, passed {passed}  {one_line(fix['host'])}")
        if fix["files"]:
            print(f"  changed in between: {', '.join(short_path(file) for file in fix['files'])}")
        if fix["memory"] not in shown:
            _show_text(fix["text"])
    _show_related(reply)


def _show_related(reply: dict[str, Any]) -> None:
    """Print the turns around an error, and what mentions it."""
    if reply["turns"]:
        print(f"\n{stylize('turns around it', 'bold')}")
    for turn in reply["turns"]:
        after = "the turn after, " if turn["is_after"] else ""
        origin = one_line(" ".join(filter(None, (turn["host"], turn["branch"] and f"on {turn['branch']}"))))
        print(f"  {after}{one_line(turn['date'].replace('T', ' '))}  {origin}  {stylize(turn['id'][:8], 'cyan')}")
        _show_text(turn["text"])
    for name, title in (("decisions", "decisions"), ("tasks", "tasks"), ("memories", "memories that mention it")):
        if reply[name]:
            print(f"\n{stylize(title, 'bold')}")
        for hit in reply[name]:
            snippet = one_line(hit["snippet"][:_MAX_MESSAGE_CHARS])
            print(f"  {one_line(hit['date'][:10])}  {stylize(hit['id'][:8], 'cyan')}  {snippet}")
    client.print_notes(reply)
    if reply["turns"] or reply["memories"] or reply["decisions"]:
        client.print_note("lorelog show ID shows more; lorelog transcript ID shows the conversation")


def _show_text(text: str) -> None:
    for line in text.strip().splitlines()[:_MAX_LINES]:
        print(f"    {stylize(printable(line[:_MAX_MESSAGE_CHARS]), 'dim')}")


def _show_frames(frames: Sequence[dict[str, Any]]) -> None:
    for frame in frames[:_MAX_FRAMES]:
        place = short_path(frame["file_path"]) + (f":{frame['line_number']}" if frame["line_number"] else "")
        print(f"     {one_line(' '.join(filter(None, (frame['function_name'], place))))}")
    if len(frames) > _MAX_FRAMES:
        print(f"     and {len(frames) - _MAX_FRAMES} more")


def _format_error(error: dict[str, Any]) -> str:
    lines = [line.strip() for line in error["error_message"].split("\n") if line.strip()]
    return one_line(": ".join(filter(None, (error["error_type"], *lines[:1])))[:_MAX_MESSAGE_CHARS])


def _format_origin(error: dict[str, Any]) -> str:
    """Return the host, branch and command in which an error occurred."""
    parts = [error["host"], error["branch"] and f"on {error['branch']}"]
    command = f"`{one_line(error['command'][:80])}`" if error["command"] else ""
    return one_line("  ".join(filter(None, [*parts, command])))


def _format_timestamp(milliseconds: int) -> str:
    """Return a time to the minute, in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
