"""Summarize the project's memories in one memory, whose lines cite their sources.

Chunks that are close in time and topic are summarized together by the language model of llm.provider, and the summaries are
combined. Lines without a citation, or with a name, path, number or quotation that is not in their sources, are dropped and
shown. The summary is added to today's journal; the originals are kept and rank below it, and are not summarized again.
'--llm none' extracts sentences instead, at no cost. A run that fails writes nothing.

examples:
  lorelog compact --dry-run               show the batches and their cost
  lorelog compact --since 30d --until 7d
  lorelog compact --llm none --source notes/
  lorelog compact --llm anthropic/claude-sonnet-4-6 --prompt-file how.txt
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, add_setting_options, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    one_line,
    plural,
    print_json,
    print_note,
    printable,
    progress_bar,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json

_MAX_DROPPED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--source", metavar="PATH", help="only files at or below PATH")
    parser.add_argument(
        "--since", metavar="DAY", help="on or after DAY: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y (ago)"
    )
    parser.add_argument("--until", metavar="DAY", help="on or before DAY")
    parser.add_argument(
        "--output-dir", metavar="DIR", help="write to today's file in DIR instead of the project's journals"
    )
    parser.add_argument(
        "--llm",
        default="",
        metavar="MODEL",
        help="none (extracts sentences), a provider, or PROVIDER/MODEL (default: llm.provider)",
    )
    parser.add_argument("--prompt-file", metavar="FILE", help="prompt for the model (default: prompts.compact)")
    parser.add_argument("--dry-run", action="store_true", help="show the batches and their cost, and write nothing")
    add_setting_options(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Summarize; having nothing to summarize is not a failure."""
    request = {
        "source": args.source and expand_path(args.source),
        "since": args.since,
        "until": args.until,
        "output_dir": args.output_dir and expand_path(args.output_dir),
        "llm": args.llm,
        "prompt_file": args.prompt_file and expand_path(args.prompt_file),
        "dry_run": args.dry_run,
    }
    with progress_bar() as progress:
        reply = call_operation(args, "memory.compact", request, progress=progress, start_daemon=True)
    if args.json:
        print_json(reply)
    elif args.dry_run:
        _show_plan(reply)
    else:
        _show(reply)
    return 0


def _show_plan(reply: Json) -> None:
    for number, batch in enumerate(reply["batches"], 1):
        first, last = batch["first_day"], batch["last_day"]
        cost = f"  at most {batch['tokens']:,} tokens" if batch["tokens"] else ""
        days = first if first == last else f"{first} to {last}"
        print(f"{number:>4}  {plural(batch['chunks'], 'chunk'):<12}  {days}{cost}")
    if reply["batches"]:
        model = "extracted without a model" if reply["worded_by"] == "none" else f"by {one_line(reply['worded_by'])}"
        cost = f"; at most {reply['tokens_most']:,} tokens" if reply["tokens_most"] else ""
        batches = "1 batch" if len(reply["batches"]) == 1 else f"{len(reply['batches']):,} batches"
        print(f"{plural(reply['chunks'], 'chunk')} in {batches}, {model}{cost}.")
    for text in reply["notes"]:
        print_note(text)


def _show(reply: Json) -> None:
    summary = reply["summary"]
    if reply["changed"] and summary is not None:
        print(printable(reply["text"]))
        print()
        where = f"{short_path(summary['source'])}:{summary['start_line']}"
        print(f"Summarized {plural(reply['chunks'], 'chunk')} in {stylize(where, 'cyan')}  {summary['memory']}")
    else:
        print("Nothing was written.")
    if reply["dropped"]:
        print_note(f"{plural(len(reply['dropped']), 'line')} dropped:")
        for line in reply["dropped"][:_MAX_DROPPED]:
            print_note(f"  {one_line(line['reason'])}: {one_line(line['text'])}")
    for text in reply["notes"]:
        print_note(text)
    if reply["calls"]:
        print_note(
            f"{plural(reply['calls'], 'call')} of {one_line(reply['worded_by'])}, {reply['tokens_spent']:,} tokens"
        )
