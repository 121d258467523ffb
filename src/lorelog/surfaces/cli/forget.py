"""Take text out of every file of lorelog, for good, and prove it. 'lorelog delete' only hides a memory.

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

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

_MAX_SHOWN = 20
_SINGULARS = {"memories": "memory", "sections": "section", "summaries": "summary", "records": "record", "turns": "turn"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("ids", metavar="ID", nargs="*", help="id of a memory, chunk or record, or its first characters")
    parser.add_argument(
        "--match", metavar="TEXT", help="entries that contain this text, in any case ('-': from standard input)"
    )
    parser.add_argument("--session", metavar="ID", help="entries that were captured from this session")
    parser.add_argument("--since", metavar="WHEN", help="memories from this day on: 2026-03-05, yesterday, 7d")
    parser.add_argument("--until", metavar="WHEN", help="memories up to and including this day")
    parser.add_argument("--all-projects", action="store_true", help="in every project, not only this one")
    parser.add_argument("--dry-run", action="store_true", help="show what would go, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "--edit-files", action="store_true", help="also edit notes outside the journals, and files of the repository"
    )
    parser.add_argument(
        "--host-transcripts", action="store_true", help="also delete the agents' own conversations it comes from, whole"
    )
    parser.add_argument("--complete", action="store_true", help="complete a forget that was interrupted")
    parser.add_argument("--verify", metavar="RECEIPT", help="search again for what was forgotten ('last': the newest)")
    parser.add_argument("--list", action="store_true", help="list the receipts")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show, ask, forget, and print the proof."""
    if args.list:
        return _list(args)
    if args.verify:
        return _show_proof(args, call_operation(args, "memory.forget_verify", {"receipt": args.verify}))
    if args.complete:
        return _show_proof(args, call_operation(args, "memory.forget", {"complete": True}))
    request = _request(args)
    if args.dry_run or not args.yes:
        preview = call_operation(args, "memory.forget", {**request, "dry_run": True})
        (print_json if args.json else _show_preview)(preview)
        if args.dry_run or not _confirm(preview):
            return 0 if args.dry_run else 1
    return _show_proof(args, call_operation(args, "memory.forget", {**request, "confirm": True}))


def _request(args: argparse.Namespace) -> dict[str, Any]:
    match = sys.stdin.read().strip() if args.match == "-" else args.match
    fields = {"match": match, "session": args.session, "since": args.since, "until": args.until}
    given: dict[str, Any] = {name: value for name, value in fields.items() if value}
    if not given and not args.ids:
        raise UsageError("nothing is named", hint="give ids, --match TEXT, --session ID or --since DAY")
    flags = {name: getattr(args, name) for name in ("all_projects", "edit_files", "host_transcripts")}
    return {**given, "ids": args.ids, **flags}


def _confirm(preview: Mapping[str, Any]) -> bool:
    if preview["refused"]:
        raise UsageError("some files are not ours to edit; nothing was changed", hint="--edit-files edits them, too")
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: standard input is not a terminal", hint="use --yes to forget")
    print("Forget this for good? There is no way back. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
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


def _show_proof(args: argparse.Namespace, reply: Mapping[str, Any]) -> int:
    if args.json:
        print_json(reply)
        return 0 if reply["ok"] else 1
    if reply["message"]:
        print(reply["message"])
    for residue in reply["residues"]:
        print(f"  {short_path(residue['path'])}: {residue['count']:,} ({residue['form']})")
    for problem in reply["unreadable"]:
        print(f"  not searched: {problem}")
    _show_rest(reply)
    if reply.get("receipt"):
        print_note(f"receipt: {short_path(reply['receipt'])}; 'lorelog forget --verify last' searches again")
    for text in reply.get("notes", ()):
        print_note(text)
    return 0 if reply["ok"] else 1


def _list(args: argparse.Namespace) -> int:
    reply = call_operation(args, "memory.forget_receipts", {})
    if args.json:
        print_json(reply)
        return 0
    for receipt in reply["receipts"]:
        counts = _counts(receipt["selected"])
        verdict = "no residues" if receipt["ok"] else "RESIDUES"
        print(f"{receipt['id']}  {receipt['at'][:16]}  {counts}  {verdict} in {receipt['searched_files']:,} files")
    if not reply["receipts"]:
        print_note("nothing was forgotten yet")
    return 0
