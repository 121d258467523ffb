"""Show the cost of model calls: calls and tokens by day, purpose and project, and what is left of today's limits.

Purposes are 'note' (session notes), 'compact' (summaries of memories) and 'embedding' (vectors of remote providers, including
those of queries, if the provider reports their cost). A failed call counts with what it may have cost, unless it was free.
Only tokens are shown, because prices change.

examples:
  lorelog cost
  lorelog cost --since 30d --by model
  lorelog cost --by day --by purpose --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, printable, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lorelog.operations.replies import Json

_KEYS = ("day", "purpose", "project", "model")
_COUNTS = ("calls", "failed", "tokens in", "tokens out")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--since", default="7d", metavar="DAY", help="on or after DAY: 2026-03-05, today, 7d, 2w, 3m (default 7d)"
    )
    parser.add_argument(
        "--by",
        action="append",
        choices=_KEYS,
        help="group by this (repeatable; default: day, purpose and project)",
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the cost."""
    reply = call_operation(args, "memory.cost", {"since": args.since, "by": args.by or []})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(cost: Json) -> None:
    if cost["lines"]:
        rows = [[*cost["by"], *_COUNTS]]
        rows += [[*(_format_key(line, key) for key in cost["by"]), *_format_counts(line)] for line in cost["lines"]]
        if len(cost["lines"]) > 1:
            rows.append(
                [*("total" if not number else "" for number in range(len(cost["by"]))), *_format_counts(cost["total"])]
            )
        _print_table(rows, len(cost["by"]))
        if cost["total"]["unfinished"]:
            unfinished = plural(cost["total"]["unfinished"], "call")
            print_note(f"{unfinished} not finished; the reserved tokens are counted")
    else:
        print(f"No model calls since {cost['since']}.")
    for limit in cost["today"]:
        print(
            f"today  {limit['spent']:,} of {limit['tokens']:,} tokens ({limit['setting']}), {limit['left']:,} left",
        )
    for text in cost["notes"]:
        print_note(text)


def _format_key(line: Json, key: str) -> str:
    text = {"day": line["day"], "purpose": line["purpose"], "model": line["model"], "project": line["project"]}[key]
    return printable(short_path(text) if key == "project" and text else text or "-")


def _format_counts(line: Json) -> list[str]:
    return [f"{line[key]:,}" for key in ("calls", "failures", "tokens_in", "tokens_out")]


def _print_table(rows: Sequence[Sequence[str]], names: int) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (
            cell.ljust(width) if column < names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        text = "  ".join(cells).rstrip()
        print(stylize(text, "dim") if not number else text)
