"""Text output of traced calls and errors."""

from __future__ import annotations

import time

from lorelog.surfaces.cli.render import one_line, plural, print_note, printable, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from typing import Any

_MAX_MESSAGE_CHARS = 160
_MAX_FRAMES = 8
_MAX_LINES = 6


def show_groups(groups: Sequence[dict[str, Any]], total: int) -> None:
    """Print errors grouped by signature."""
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
        print(f"{times}  {head}  {format_timestamp(group['last_ms'])}  {_format_error(group)}")


def show_errors(reply: dict[str, Any]) -> None:
    """Print each error with its stack frames."""
    for error in reply["errors"]:
        signature = stylize(one_line(error["error_signature"]), "cyan")
        print(f"{format_timestamp(error['timestamp_ms'])}  {signature}  {_format_origin(error)}")
        print(f"   {stylize(_format_error(error), 'bold')}")
        _show_frames(error["frames"])
        for cause in error["causes"]:
            print(f"   caused by {_format_error(cause)}")
            _show_frames(cause["frames"][:2])
    if not reply["errors"]:
        print("No errors traced.")
    elif reply["total_count"] > len(reply["errors"]):
        print_note(f"{reply['total_count']:,} in total; use -n to show more")


def show_calls(reply: dict[str, Any]) -> None:
    """Print calls, one per line."""
    width = max((len(call["tool_name"]) for call in reply["tool_calls"]), default=0)
    for call in reply["tool_calls"]:
        duration = f"{call['duration_ms']:>9,.1f} ms" if call["duration_ms"] is not None else " " * 12
        name = stylize(f"{one_line(call['tool_name']):<{width}}", "red" if call["failed"] else "cyan")
        detail = one_line(" ".join(filter(None, (call["host"], call["input"])))[:_MAX_MESSAGE_CHARS])
        print(f"{format_timestamp(call['timestamp_ms'])}  {name}  {duration}  {detail}".rstrip())
        if call["failed"]:
            print(f"   {stylize('failed:', 'red')} {one_line(call['error'][:_MAX_MESSAGE_CHARS])}")
    if not reply["tool_calls"]:
        print("No calls traced.")
    elif reply["total_count"] > len(reply["tool_calls"]):
        print_note(f"{reply['total_count']:,} in total; use -n to show more")


def show_why(reply: dict[str, Any]) -> None:
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
        first = f"first {format_timestamp(error['first_ms'])}, " if error["times"] > 1 else ""
        similar = "" if error["match"] == "exact" else f"  ({error['match']}: {_format_error(error)})"
        times = f"seen {plural(error['times'], 'time')}, {first}last {format_timestamp(error['last_ms'])}"
        print(f"{times}  {stylize(one_line(error['error_signature']), 'cyan')}{similar}")
    for occurrence in reply["occurrences"][:3]:
        print(f"   {format_timestamp(occurrence['timestamp_ms'])}  {_format_origin(occurrence)}")


def _show_fixes(fixes: Iterable[dict[str, Any]], shown: Container[str]) -> None:
    for fix in fixes:
        print(f"\n{stylize('the same command passed later', 'bold')}")
        print(f"  {one_line(fix['command'][:_MAX_MESSAGE_CHARS])}")
        failed, passed = format_timestamp(fix["failed_ms"]), format_timestamp(fix["passed_ms"])
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


def format_timestamp(milliseconds: int) -> str:
    """Return a time to the minute, in the local time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
