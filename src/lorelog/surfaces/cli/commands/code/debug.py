"""Show traced calls and errors.

Every operation is traced, and captured agent turns contribute their tool calls and errors: stack traces of Python, JavaScript,
Rust, Go, Java and others, messages of compilers and test runners. An error has the same signature whatever its line numbers and
paths. Secrets are removed first. Storage is limited by traces.days and traces.megabytes; traces.enabled = false stores nothing.

examples:
  lorelog debug errors                   errors by signature
  lorelog debug errors KeyError --since 7d --each
  lorelog debug calls --failed --tool memory
  lorelog why "KeyError: 'id'"           earlier occurrences and their fixes
"""

from __future__ import annotations

import sys
import time

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import call_command, print_reply
from lorelog.surfaces.cli.render import one_line, plural, print_note, printable, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Container, Iterable, Sequence
    from typing import Any


def configure_debug_errors(parser: argparse.ArgumentParser) -> None:
    """Declare the option that concerns the output."""
    parser.add_argument("--each", action="store_true", help="show every occurrence with its stack frames")


def run_debug_errors(args: argparse.Namespace) -> int:
    """Print the errors, by signature or each."""
    reply = call_command(args, include_frames=args.each or args.json)
    return print_reply(args, reply, _show_errors if args.each else _show_groups)


def run_why(args: argparse.Namespace) -> int:
    """Find earlier occurrences of an error, and what fixed it.

    TEXT is an error as it was printed: one line or a whole stack trace, as an argument or on standard input. It is matched by
    signature, then by message, then by similarity, in agents' turns. The output
    shows when it happened, the turns around it, the changes made before the same command passed again, and decisions, tasks
    and memories that mention it.

    examples:
      lorelog why "KeyError: 'customer_id'"
      pytest 2>&1 | lorelog why -
      lorelog why "error[E0308]: mismatched types" --all-projects --json
    """
    text = _read_input() if args.text == ["-"] else " ".join(args.text)
    if not text.strip():
        raise UsageError("the error text is empty", hint="lorelog why \"KeyError: 'id'\"")
    return print_reply(args, call_command(args, text=text[-_MAX_TEXT_CHARS:]), _show_why)


_MAX_TEXT_CHARS = 900_000
"""Only the end of a longer text is used: it is the most informative part of a program's output."""


def _read_input() -> str:
    """Return the end of standard input; bytes that are not UTF-8 are replaced."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("standard input is empty", hint="make test 2>&1 | lorelog why -")
    text = ""
    while piece := sys.stdin.buffer.read(_MAX_TEXT_CHARS):
        text = (text + piece.decode("utf-8", "replace"))[-_MAX_TEXT_CHARS:]
    return text


_MAX_MESSAGE_CHARS = 160
_MAX_FRAMES = 8
_MAX_LINES = 6


def _show_groups(reply: dict[str, Any], args: argparse.Namespace) -> None:
    """Print errors grouped by signature."""
    groups, total = reply["groups"], reply["total_count"]
    if not groups:
        print("No errors traced.")
        return
    _print_groups(groups)
    shown = sum(group["times"] for group in groups)
    if total > shown:
        print_note(f"{total - shown:,} more; use -n to show more signatures")


def _print_groups(groups: Sequence[dict[str, Any]]) -> None:
    width = max((len(group["error_signature"]) for group in groups), default=0)
    for group in groups:
        times = f"{group['times']:>6,}×"
        head = stylize(f"{one_line(group['error_signature']):<{width}}", "cyan")
        print(f"{times}  {head}  {_format_timestamp(group['last_ms'])}  {_format_error(group)}")


def _show_errors(reply: dict[str, Any], args: argparse.Namespace) -> None:
    """Print each error with its stack frames."""
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
        print_note(f"{reply['total_count']:,} in total; use -n to show more")


def show_debug_calls(reply: dict[str, Any], args: argparse.Namespace) -> None:
    """Print calls, one per line."""
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
        print_note(f"{reply['total_count']:,} in total; use -n to show more")


def _show_why(reply: dict[str, Any], args: argparse.Namespace) -> None:
    """Print what is known about an error."""
    print(stylize(_format_error(reply["asked"]), "bold"))
    _show_occurrences(reply)
    _show_fixes(reply["fixes"], {turn["memory"] for turn in reply["turns"]})
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
    for text in reply["notes"]:
        print_note(text)
    if reply["turns"] or reply["memories"] or reply["decisions"]:
        print_note("lorelog show ID shows more; lorelog transcript ID shows the conversation")


def _show_occurrences(reply: dict[str, Any]) -> None:
    if not reply["seen"]:
        print("Not seen before.")
    for error in reply["seen"]:
        first = f"first {_format_timestamp(error['first_ms'])}, " if error["times"] > 1 else ""
        similar = "" if error["match"] == "exact" else f"  ({error['match']}: {_format_error(error)})"
        times = f"seen {plural(error['times'], 'time')}, {first}last {_format_timestamp(error['last_ms'])}"
        print(f"{times}  {stylize(one_line(error['error_signature']), 'cyan')}{similar}")
    for occurrence in reply["occurrences"][:3]:
        print(f"   {_format_timestamp(occurrence['timestamp_ms'])}  {_format_origin(occurrence)}")


def _show_fixes(fixes: Iterable[dict[str, Any]], shown: Container[str]) -> None:
    for fix in fixes:
        print(f"\n{stylize('the same command passed later', 'bold')}")
        print(f"  {one_line(fix['command'][:_MAX_MESSAGE_CHARS])}")
        failed, passed = _format_timestamp(fix["failed_ms"]), _format_timestamp(fix["passed_ms"])
        print(f"  failed {failed}, passed {passed}  {one_line(fix['host'])}")
        if fix["files"]:
            print(f"  changed in between: {', '.join(short_path(file) for file in fix['files'])}")
        if fix["memory"] not in shown:
            _show_text(fix["text"])


def _show_text(text: str) -> None:
    for line in text.strip().splitlines()[:_MAX_LINES]:
        print(f"    {stylize(printable(line[:_MAX_MESSAGE_CHARS]), 'dim')}")


def _show_frames(frames: Sequence[dict[str, Any]]) -> None:
    for frame in frames[:_MAX_FRAMES]:
        place = (
            f"{short_path(frame['file_path'])}:{frame['line_number']}"
            if frame["line_number"]
            else short_path(frame["file_path"])
        )
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
