"""Commands that erase or summarize many memories: forget and compact."""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_setting_options
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply
from lorelog.surfaces.cli.render import (
    confirm,
    one_line,
    plural,
    print_json,
    print_note,
    print_notes,
    printable,
    progress_bar,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from lorelog.operations.operation import Json

_MAX_SHOWN = 20
_SINGULARS = {"memories": "memory", "sections": "section", "summaries": "summary", "records": "record", "turns": "turn"}


def configure_forget(parser: argparse.ArgumentParser) -> None:
    """Declare the options that name a receipt, or confirm."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--verify", metavar="RECEIPT", help="search again for what was forgotten ('last': the newest)")
    parser.add_argument("--list", action="store_true", help="list the receipts")


def run_forget(args: argparse.Namespace) -> int:
    """Erase text from every file of lorelog permanently, and verify that it is gone. 'lorelog delete' only hides a memory.

    Shows what would go and asks first. Then the entry leaves its journal or note, the index, vectors, summaries, traces,
    feedback, logs and caches; records in the ledger keep their place with the text replaced by its hash. Afterwards all
    files are searched for the text: "forgotten: 0 residues in N files". What lorelog cannot change is named: conversations
    kept by the agents' hosts (unless --host-transcripts deletes them), backups, Git history, other machines.

    examples:
      lorelog forget 65fcbf6e --dry-run
      lorelog forget 65fcbf6e
      lorelog forget --match "the launch code" --yes
      lorelog forget --session 3f2a9c --since yesterday
      lorelog forget --verify last
    """
    if args.list:
        return print_reply(args, call_operation(args, "memory.forget_receipts", {}), _show_receipts)
    if args.verify:
        reply = call_operation(args, "memory.forget_verify", {"receipt": args.verify})
        return print_reply(args, reply, _show_proof)
    if args.complete:
        return print_reply(args, call_operation(args, "memory.forget", {"complete": True}), _show_proof)
    if not (args.ids or args.match or args.session or args.since or args.until):
        raise UsageError("nothing is named", hint="give ids, --match TEXT, --session ID or --since DAY")
    if args.match == "-":
        args.match = sys.stdin.read().strip()
    if args.dry_run or not args.yes:
        preview = call_command(args, dry_run=True)
        (print_json if args.json else _show_preview)(preview)
        if args.dry_run or not _confirm(preview):
            return 0 if args.dry_run else 1
    return print_reply(args, call_command(args, confirm=True), _show_proof)


def _confirm(preview: Mapping[str, Any]) -> bool:
    if preview["refused"]:
        raise UsageError("some files are not ours to edit; nothing was changed", hint="--edit-files edits them, too")
    if confirm("Forget this for good? There is no way back.", "use --yes to forget"):
        return True
    print("Nothing forgotten.", file=sys.stderr)
    return False


def _show_preview(preview: Mapping[str, Any]) -> None:
    for entry in preview["entries"][:_MAX_SHOWN]:
        place = f"{short_path(entry['source'])}:{entry['start_line']}-{entry['end_line']}"
        name = f"{entry['memory'][:13]}  " if entry["memory"] else ""
        mark = "  (summary, without the lines about it)" if entry["action"] == "reword" else ""
        lines = plural(entry["end_line"] - entry["start_line"] + 1, "line")
        print(f"{name}{place}  {lines}{mark}\n    {entry['preview']}")
    left_out = len(preview["entries"]) - _MAX_SHOWN
    if left_out > 0:
        print(f"and {left_out:,} more entries")
    for record in preview["records"][:_MAX_SHOWN]:
        print(f"{record}  record: its text is replaced by its hash")
    counts = _counts(preview["selected"])
    references = ", ".join(f"{count:,} in {name}" for name, count in preview["references"].items())
    print(
        f"Would go: {counts}, their vectors and cached answers"
        + (f"; lines about it: {references}." if references else ".")
    )
    for path in preview["transcripts"]:
        print(f"The whole conversation {short_path(path)} would be deleted.")
    for path, reason in preview["refused"].items():
        print_note(f"refused: {short_path(path)}: {reason}")
    _show_rest(preview)


def _counts(selected: Mapping[str, int]) -> str:
    return ", ".join(plural(count, _SINGULARS.get(kind, kind)) for kind, count in selected.items())


def _show_rest(reply: Mapping[str, Any]) -> None:
    for place, reason in reply["unreached"].items():
        print_note(f"not reached: {short_path(place)}: {reason}")
    if reply.get("also_in"):
        print_note(f"other memories that repeat parts of it stay: {', '.join(reply['also_in'][:5])}")


def _show_proof(reply: Json, args: argparse.Namespace) -> None:
    if reply["message"]:
        print(reply["message"])
    for residue in reply["residues"]:
        print(f"  {short_path(residue['path'])}: {residue['count']:,} ({residue['form']})")
    for problem in reply["unreadable"]:
        print(f"  not searched: {problem}")
    _show_rest(reply)
    if reply.get("receipt"):
        print_note(f"receipt: {short_path(reply['receipt'])}; 'lorelog forget --verify last' searches again")
    print_notes(reply)


def _show_receipts(reply: Json, args: argparse.Namespace) -> None:
    for receipt in reply["receipts"]:
        counts = _counts(receipt["selected"])
        verdict = "no residues" if receipt["ok"] else "RESIDUES"
        print(f"{receipt['id']}  {receipt['at'][:16]}  {counts}  {verdict} in {receipt['searched_files']:,} files")
    if not reply["receipts"]:
        print_note("nothing was forgotten yet")


_MAX_DROPPED = 20


def _show_plan(reply: Json, args: argparse.Namespace) -> None:
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
    print_notes(reply)


def configure_compact(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of the command."""
    add_setting_options(parser)


def run_compact(args: argparse.Namespace) -> int:
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
    with progress_bar() as progress:
        reply = call_command(args, progress=progress)
    return print_reply(args, reply, _show_plan if args.dry_run else _show_summary)


def _show_summary(reply: Json, args: argparse.Namespace) -> None:
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
    print_notes(reply)
    if reply["calls"]:
        print_note(
            f"{plural(reply['calls'], 'call')} of {one_line(reply['worded_by'])}, {reply['tokens_spent']:,} tokens"
        )
