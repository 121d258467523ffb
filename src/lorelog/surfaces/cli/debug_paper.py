"""Calls, errors and what is known of them, as people see them."""

from __future__ import annotations

import time

from lorelog.surfaces.cli.paper import note, one_line, plural, printable, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from typing import Any

_MESSAGE = 160
_FRAMES = 8
_LINES = 6


def show_ingested(reply: dict[str, Any]) -> None:
    """Show what came of reading a log."""
    for said in reply["notes"]:
        note(said)
    new = "all new" if reply["added"] == reply["found"] else f"{reply['added']:,} new"
    found = f"{plural(reply['found'], 'error')}, {new}" if reply["found"] else "no errors"
    print(f"Read {plural(reply['lines'], 'line')} of {short_path(reply['name'])}: {found}.")
    _table(reply["groups"])


def show_groups(groups: Sequence[dict[str, Any]], total: int) -> None:
    """Show errors by their signature."""
    if not groups:
        print("Nothing went wrong, as far as it was traced.")
        return
    _table(groups)
    told = sum(one["times"] for one in groups)
    if total > told:
        note(f"{total - told:,} more; -n shows more signatures")


def _table(groups: Sequence[dict[str, Any]]) -> None:
    width = max((len(one["error_signature"]) for one in groups), default=0)
    for one in groups:
        times = f"{one['times']:>6,}×"
        head = styled(f"{one_line(one['error_signature']):<{width}}", "cyan")
        print(f"{times}  {head}  {when(one['last_ms'])}  {_said(one)}")


def show_errors(reply: dict[str, Any]) -> None:
    """Show each error, with its frames."""
    for one in reply["errors"]:
        times = f"  {one['times']:,}×" if one["times"] > 1 else ""
        print(f"{when(one['timestamp_ms'])}  {styled(one_line(one['error_signature']), 'cyan')}{times}  {_where(one)}")
        print(f"   {styled(_said(one), 'bold')}")
        _show_frames(one["frames"])
        for cause in one["causes"]:
            print(f"   caused by {_said(cause)}")
            _show_frames(cause["frames"][:2])
    if not reply["errors"]:
        print("Nothing went wrong, as far as it was traced.")
    elif reply["total_count"] > sum(one["times"] for one in reply["errors"]):
        note(f"{reply['total_count']:,} in all; -n shows more")


def show_calls(reply: dict[str, Any]) -> None:
    """Show calls, a line each."""
    width = max((len(one["tool_name"]) for one in reply["tool_calls"]), default=0)
    for one in reply["tool_calls"]:
        took = f"{one['duration_ms']:>9,.1f} ms" if one["duration_ms"] is not None else " " * 12
        name = styled(f"{one_line(one['tool_name']):<{width}}", "red" if one["failed"] else "cyan")
        said = one_line(" ".join(filter(None, (one["host"], one["input"])))[:_MESSAGE])
        print(f"{when(one['timestamp_ms'])}  {name}  {took}  {said}".rstrip())
        if one["failed"]:
            print(f"   {styled('failed:', 'red')} {one_line(one['error'][:_MESSAGE])}")
    if not reply["tool_calls"]:
        print("Nothing was called, as far as it was traced.")
    elif reply["total_count"] > len(reply["tool_calls"]):
        note(f"{reply['total_count']:,} in all; -n shows more")


def show_why(reply: dict[str, Any]) -> None:
    """Show what is known of an error."""
    print(styled(_said(reply["asked"]), "bold"))
    _show_seen(reply)
    _show_fixes(reply["fixes"], {one["memory"] for one in reply["turns"]})
    if reply["turns"]:
        print(f"\n{styled('the turns around it', 'bold')}")
    for one in reply["turns"]:
        after = "the turn after, " if one["is_after"] else ""
        told = one_line(" ".join(filter(None, (one["host"], one["branch"] and f"on {one['branch']}"))))
        print(f"  {after}{one_line(one['date'].replace('T', ' '))}  {told}  {styled(one['id'][:8], 'cyan')}")
        _show_text(one["text"])
    for name, title in (("decisions", "decisions"), ("tasks", "tasks"), ("memories", "memories that mention it")):
        if reply[name]:
            print(f"\n{styled(title, 'bold')}")
        for one in reply[name]:
            print(
                f"  {one_line(one['date'][:10])}  {styled(one['id'][:8], 'cyan')}  {one_line(one['snippet'][:_MESSAGE])}"
            )
    for said in reply["notes"]:
        note(said)
    if reply["turns"] or reply["memories"] or reply["decisions"]:
        note("lorelog expand ID shows more; lorelog transcript ID shows the conversation")


def _show_seen(reply: dict[str, Any]) -> None:
    if not reply["seen"]:
        print("Not seen before, as far as it was traced.")
    for one in reply["seen"]:
        first = f"first {when(one['first_ms'])}, " if one["times"] > 1 else ""
        alike = "" if one["match"] == "exact" else f"  ({one['match']}: {_said(one)})"
        count = plural(one["times"], "time")
        print(
            f"seen {count}, {first}last {when(one['last_ms'])}  {styled(one_line(one['error_signature']), 'cyan')}{alike}"
        )
    for one in reply["occurrences"][:3]:
        print(f"   {when(one['timestamp_ms'])}  {_where(one)}")


def _show_fixes(fixes: Iterable[dict[str, Any]], shown: Container[str]) -> None:
    for one in fixes:
        print(f"\n{styled('the same command passed later', 'bold')}")
        print(f"  {one_line(one['command'][:_MESSAGE])}")
        print(f"  failed {when(one['failed_ms'])}, passed {when(one['passed_ms'])}  {one_line(one['host'])}")
        if one["files"]:
            print(f"  written in between: {', '.join(short_path(file) for file in one['files'])}")
        if one["memory"] not in shown:
            _show_text(one["text"])


def _show_text(text: str) -> None:
    for line in text.strip().splitlines()[:_LINES]:
        print(f"    {styled(printable(line[:_MESSAGE]), 'dim')}")


def _show_frames(frames: Sequence[dict[str, Any]]) -> None:
    for frame in frames[:_FRAMES]:
        place = (
            f"{short_path(frame['file_path'])}:{frame['line_number']}"
            if frame["line_number"]
            else short_path(frame["file_path"])
        )
        print(f"     {one_line(' '.join(filter(None, (frame['function_name'], place))))}")
    if len(frames) > _FRAMES:
        print(f"     and {len(frames) - _FRAMES} more")


def _said(error: dict[str, Any]) -> str:
    lines = [line.strip() for line in error["error_message"].split("\n") if line.strip()]
    return one_line(": ".join(filter(None, (error["error_type"], *lines[:1])))[:_MESSAGE])


def _where(error: dict[str, Any]) -> str:
    """Say where an error was met: in a log, in a session, by which command."""
    told = [
        short_path(error["place"]) if error["place"] else "",
        error["host"],
        error["branch"] and f"on {error['branch']}",
    ]
    command = f"`{one_line(error['command'][:80])}`" if error["command"] else ""
    return one_line("  ".join(filter(None, [*told, command])))


def when(milliseconds: int) -> str:
    """Return a time as it is here, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
