"""Show the memories that agents were shown: when, why, how many tokens they cost, and whether they were used.

Hooks add memories to an agent's context at the start of a session, to a prompt, and before or after a tool call whose
file, command or error matches a memory's cue. Each delivery is logged. Whether a memory was used is noted where it can be
seen: its id in the assistant's text or tool calls, a guard that was obeyed, a call that was changed.
The column 'used' is empty while the turns after a delivery are not captured.

--unused lists memories that were delivered repeatedly and never used. They are shown after others; review them.

examples:
  lorelog deliveries
  lorelog deliveries --session 1f0a --since 7d
  lorelog deliveries --kind cue --memory 65fcbf6e --json
  lorelog deliveries --unused
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, stylize
from lorelog.surfaces.cli.render.records import short_record_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from lorelog.operations.replies import Json

_KINDS = ("standing", "recall", "cue", "guard", "why")
_ID_CHARS = 8
_TEXT_CHARS = 48
_CUE_CHARS = 32
_MIN_UNUSED = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--session", metavar="ID", help="only this session; its first characters suffice")
    parser.add_argument("--since", metavar="DAY", help="on or after DAY: 2026-03-05, today, 7d, 2w, 3m")
    parser.add_argument(
        "--kind", choices=_KINDS, help="only at session start, for a prompt, by a cue or guard, or after a failure"
    )
    parser.add_argument("--memory", metavar="ID", help="only this memory; its first characters suffice")
    parser.add_argument("--unused", action="store_true", help="list memories that were delivered and never used")
    parser.add_argument(
        "--min", type=int, metavar="N", help=f"with --unused: delivered at least N times (default {_MIN_UNUSED})"
    )
    parser.add_argument("--all-projects", action="store_true", help="include all projects")
    parser.add_argument(
        "-n", "--limit", type=int, default=50, metavar="N", help="maximum number of entries (default 50)"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print deliveries or unused memories."""
    filters = {"session": args.session, "since": args.since, "kind": args.kind, "memory": args.memory}
    if args.unused and any(filters.values()):
        raise UsageError("--unused cannot be combined with filters", hint="lorelog deliveries --unused --min 10")
    if args.min is not None and not args.unused:
        raise UsageError("--min requires --unused", hint="lorelog deliveries --unused --min 10")
    common = {"all_projects": args.all_projects, "limit": args.limit}
    if args.unused:
        least = _MIN_UNUSED if args.min is None else args.min
        reply = call_operation(args, "delivery.unused", {"min_deliveries": least, **common})
    else:
        reply = call_operation(args, "delivery.list", {**filters, **common})
    if args.json:
        print_json(reply)
    elif args.unused:
        _show_unused(reply)
    else:
        _show_deliveries(reply, {name: value for name, value in filters.items() if value})
    return 0


def _show_deliveries(reply: Json, filters: Mapping[str, str]) -> None:
    if not reply["deliveries"]:
        named = ", ".join(f"{name} {one_line(value)}" for name, value in filters.items())
        print(f"No deliveries match {named}." if named else "No deliveries.")
        return
    rows: list[tuple[str, ...]] = [("when", "host", "session", "moment", "memory", "cue", "tokens", "used")]
    short = short_record_ids(memory["id"] for delivery in reply["deliveries"] for memory in delivery["memories"])
    rows += [row for delivery in reply["deliveries"] for row in _delivery_rows(delivery, short)]
    _print_table(rows)
    count, tokens = plural(reply["total_count"], "delivery"), f"{reply['total_tokens']:,}"
    more = "; use -n to show more" if reply["total_count"] > len(reply["deliveries"]) else ""
    print_note(f"{count}, {tokens} tokens{more}")


def _delivery_rows(delivery: Json, short: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield one row per memory; the first has the time, the session and the tokens of them all."""
    cue = delivery["cue"] or (f"guard {delivery['guard'][:_ID_CHARS]}" if delivery["guard"] else "")
    head = (
        _local_time(delivery["at"]),
        one_line(delivery["host"]),
        one_line(delivery["session"][:_ID_CHARS]),
        one_line(delivery["moment"]),
    )
    for number, memory in enumerate(delivery["memories"] or ({"id": "", "text": "", "used": None, "how": ""},)):
        words = one_line(memory["text"])
        text = words if len(words) <= _TEXT_CHARS else words[: _TEXT_CHARS - 1] + "…"
        used = "" if memory["used"] is None else memory["how"] or "no"
        name = f"{one_line(short.get(memory['id'], ''))} {text}".strip()
        if number:
            yield ("", "", "", "", name, "", "", used)
        else:
            yield (*head, name, one_line(cue[:_CUE_CHARS]), f"{delivery['tokens']:,}", used)


def _show_unused(reply: Json) -> None:
    if not reply["memories"]:
        print("No memory was delivered repeatedly without being used.")
        return
    rows = [("unused", "last", "type", "memory")]
    short = short_record_ids(memory["id"] for memory in reply["memories"])
    for memory in reply["memories"]:
        text = one_line(memory["text"])[: 2 * _TEXT_CHARS]
        last = _local_time(memory["last"])[:10]
        rows.append(
            (f"{memory['unused']:,}×", last, one_line(memory["type"]), f"{one_line(short[memory['id']])} {text}")
        )
    _print_table(rows)
    for action in reply["actions"]:
        print_note(f"{action['command']:<26} {action['purpose']}")


def _local_time(at: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return one_line(at[:16])


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {"tokens", "unused"}
    for number, row in enumerate(rows):
        cells = (
            cell.rjust(width) if title in right else cell.ljust(width)
            for cell, width, title in zip(row, widths, rows[0], strict=True)
        )
        text = "  ".join(cells).rstrip()
        print(stylize(text, "dim") if not number else text)
