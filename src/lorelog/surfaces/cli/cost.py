"""Show what models have cost: calls and tokens by day, purpose and project, and what is left of today.

Purposes are 'note' (notes of sessions), 'compact' (summaries of memories) and 'embedding' (vectors of providers over the wire, those of
questions too, as far as a provider tells what they cost). A call that failed counts with what it may have cost, unless
nothing was charged for it. Tokens only: prices are the vendors' to change.

examples:
  lorelog cost
  lorelog cost --since 30d --by model
  lorelog cost --by day --by purpose --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, printable, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lorelog.operations.cost import CostLineShape, CostShape

_KEYS = ("day", "purpose", "project", "model")
_COUNTS = ("calls", "failed", "tokens in", "tokens out")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--since", default="7d", metavar="DAY", help="from this day on: 2026-03-05, today, 7d, 2w, 3m (default 7d)"
    )
    parser.add_argument(
        "--by",
        action="append",
        choices=_KEYS,
        help="tell calls apart by this (repeatable; default: day, purpose and project)",
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the bill."""
    reply = ask(args, "memory.cost", {"since": args.since, "by": args.by or []})
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(bill: CostShape) -> None:
    if bill["lines"]:
        rows = [[*bill["by"], *_COUNTS]]
        rows += [[*(_named(line, key) for key in bill["by"]), *_counts(line)] for line in bill["lines"]]
        if len(bill["lines"]) > 1:
            rows.append(
                [*("total" if not number else "" for number in range(len(bill["by"]))), *_counts(bill["total"])]
            )
        _table(rows, len(bill["by"]))
        if bill["total"]["unfinished"]:
            unfinished = plural(bill["total"]["unfinished"], "call")
            note(f"{unfinished} never ended, or goes on; what was reserved for it is counted")
    else:
        print(f"Nothing was asked of a model since {bill['since']}.")
    for limit in bill["today"]:
        print(
            f"today  {limit['spent']:,} of {limit['tokens']:,} tokens ({limit['setting']}), {limit['left']:,} left",
        )
    for text in bill["notes"]:
        note(text)


def _named(line: CostLineShape, key: str) -> str:
    said = {"day": line["day"], "purpose": line["purpose"], "model": line["model"], "project": line["project"]}[key]
    return printable(short_path(said) if key == "project" and said else said or "-")


def _counts(line: CostLineShape) -> list[str]:
    return [f"{line[key]:,}" for key in ("calls", "failures", "tokens_in", "tokens_out")]


def _table(rows: Sequence[Sequence[str]], names: int) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (
            cell.ljust(width) if column < names else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        text = "  ".join(cells).rstrip()
        print(styled(text, "dim") if not number else text)
