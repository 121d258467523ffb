"""Sum up what the project remembers in one memory, each line of which cites what it rests on.

Chunks that belong together by time and topic are summed up together by the language model of llm.provider, and the summaries are put
together. Lines that cite nothing, or that hold a name, path, number or quotation which their sources do not hold, are thrown away and
shown. The summary goes to today's journal; the originals stay, and are found below it. What a summary covers is not summed up
again. '--llm none' takes sentences out instead, and costs nothing. A run that fails writes nothing.

examples:
  lorelog compact --dry-run               what would be asked, and what it would cost
  lorelog compact --since 30d --until 7d
  lorelog compact --llm none --source notes/
  lorelog compact --llm anthropic/claude-sonnet-4-6 --prompt-file how.txt
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, printable, progress_bar, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.compact import CompactShape

_MOST_DROPPED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--source", metavar="PATH", help="only files at or below this path")
    parser.add_argument(
        "--since", metavar="DAY", help="from this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y ago"
    )
    parser.add_argument("--until", metavar="DAY", help="up to and including this day")
    parser.add_argument(
        "--output-dir", metavar="DIR", help="write to the day's file in DIR instead of the project's journals"
    )
    parser.add_argument(
        "--llm",
        default="",
        metavar="WHO",
        help="none (takes sentences out), a provider, or PROVIDER/MODEL; default: llm.provider",
    )
    parser.add_argument("--prompt-file", metavar="FILE", help="tell the model how to sum up (default: prompts.compact)")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be asked and what it would cost")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Sum up; having nothing to sum up is not a failure."""
    request = {
        "source": args.source and own_path(args.source),
        "since": args.since,
        "until": args.until,
        "output_dir": args.output_dir and own_path(args.output_dir),
        "llm": args.llm,
        "prompt_file": args.prompt_file and own_path(args.prompt_file),
        "dry_run": args.dry_run,
    }
    with progress_bar() as progress:
        reply = ask(args, "memory.compact", request, progress=progress, starts=True)
    if args.json:
        print_json(reply)
    elif args.dry_run:
        _show_plan(reply)
    else:
        _show(reply)
    return 0


def _show_plan(reply: CompactShape) -> None:
    for number, one in enumerate(reply["batches"], 1):
        days = one["first_day"] if one["first_day"] == one["last_day"] else f"{one['first_day']} to {one['last_day']}"
        cost = f"  at most {one['tokens']:,} tokens" if one["tokens"] else ""
        print(f"{number:>4}  {plural(one['chunks'], 'chunk'):<12}  {days}{cost}")
    if reply["batches"]:
        who = (
            "taken out, without a model"
            if reply["worded_by"] == "none"
            else f"worded by {one_line(reply['worded_by'])}"
        )
        cost = f"; at most {reply['tokens_most']:,} tokens" if reply["tokens_most"] else ""
        print(
            f"{plural(reply['chunks'], 'chunk')} in {len(reply['batches']):,} {'batch' if len(reply['batches']) == 1 else 'batches'}, {who}{cost}."
        )
    for text in reply["notes"]:
        note(text)


def _show(reply: CompactShape) -> None:
    summary = reply["summary"]
    if reply["changed"] and summary is not None:
        print(printable(reply["text"]))
        print()
        where = f"{short_path(summary['source'])}:{summary['start_line']}"
        print(f"Summed up {plural(reply['chunks'], 'chunk')} in {styled(where, 'cyan')}  {summary['memory']}")
    else:
        print("Nothing was written.")
    if reply["dropped"]:
        note(f"{plural(len(reply['dropped']), 'line')} thrown away:")
        for one in reply["dropped"][:_MOST_DROPPED]:
            note(f"  {one_line(one['reason'])}: {one_line(one['text'])}")
    for text in reply["notes"]:
        note(text)
    if reply["calls"]:
        note(f"{plural(reply['calls'], 'call')} of {one_line(reply['worded_by'])}, {reply['tokens_spent']:,} tokens")
