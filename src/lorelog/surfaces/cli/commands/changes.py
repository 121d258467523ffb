"""Commands that change what is remembered: add, supersede, delete, restore, expire, feedback, undo, forget and compact."""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import LorelogError, NotFound, StoreBusy, UsageError, plural
from lorelog.surfaces.cli import client
from lorelog.surfaces.cli.arguments import expand_path, read_text
from lorelog.surfaces.text import one_line, printable, short_path, stylize, truncate, without_comments

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from lorelog.operations.lifecycle import OwnChange
    from lorelog.operations.operation import Json

ARGUMENTS = {
    "restore": {
        "id ID|FILE?": "id of the deleted memory, or its first characters; or a backup",
        "--dry-run": "backup: report what would be done, and change nothing",
        "--project-map OLD=NEW...": "backup: a project of the backup, and its directory now; repeatable",
        "--undo": "undo the last restore of a backup",
        "shared": "json project tenant daemon",
    },
    "forget": {
        "--yes": "do not ask for confirmation",
        "--verify RECEIPT": "search again for what was forgotten ('last': the newest)",
        "--list": "list the receipts",
    },
    "undo": {"--dry-run": "list the last things that you did, and take nothing back", "shared": "json project tenant"},
    "compact": {"settings": ""},
}
_SHORT_ID_CHARS = 8
_TITLE_CHARS = 60
_CUE_OPTIONS = {
    "path": ("--when-editing", "PATTERN", "show it when an agent reads or edits such a file: 'src/db/**'"),
    "command": ("--when-running", "PATTERN", "show it when an agent runs such a command: 'npm *'"),
    "tool": ("--when-calling", "NAME", "show it when an agent calls such a tool: linear"),
    "symbol": ("--when-symbol", "NAME", "show it when an agent writes this name: ConnectionPool"),
    "error": ("--when-error", "TEXT", "show it when a command prints this: 'ECONNREFUSED'"),
    "topic": ("--when-topic", "WORDS", "show it when a prompt has these words: 'database migrations'"),
    "event": (
        "--on-event",
        "EVENT",
        "show it at session-start, or before a commit, before a test run, after a failure",
    ),
    "day": ("--on-day", "DAY", "show it in sessions that start on this day: 2026-12-31"),
}


def configure_add(parser: argparse.ArgumentParser) -> None:
    for kind, (option, metavar, text) in _CUE_OPTIONS.items():
        choices = ("session-start", "commit", "test", "e2e-test", "failure") if kind == "event" else None
        declared: dict[str, Any] = {"metavar": metavar, "choices": choices, "help": f"{text} (repeatable)"}
        parser.add_argument(option, dest=f"cue_{kind}", action="append", default=[], **declared)


def _show_added(reply: Json, args: argparse.Namespace) -> None:
    place = f"{short_path(reply['source'])}:{reply['start_line']}-{reply['end_line']}"
    verb = "Already remembered" if reply.get("existed") else "Remembered"
    print(f"{verb} in {place}  {reply['id'][:_SHORT_ID_CHARS]}".rstrip())
    if reply["redacted"]:
        count = sum(reply["redacted"].values())
        kinds = ", ".join(f"{times} {kind}" for kind, times in sorted(reply["redacted"].items()))
        again = f" Run again with --keep-secrets to keep {'it' if count == 1 else 'them'}."
        client.print_note(f"Redacted: {kinds}.{again if reply['origin'] == 'user' else ''}")  # agents may not keep them
    admission = reply["admission"]
    if admission["expires"]:
        client.print_note(f"shown until {admission['expires']}: {admission['reason']}")
    notes = reply.pop("notes")
    client.print_notes({"notes": [] if reply.get("existed") else notes})


configure_supersede = configure_add


def run_add(args: argparse.Namespace) -> int:
    """Add a memory to today's journal. It is searchable at once.

    Use 'add' for what is worth remembering: facts, preferences, corrections, also decisions of your own. Use 'lorelog decide' for
    what was settled with others and may be checked: it has a writer and can be verified or superseded.

    The journal is the Markdown file <project>/.lorelog/memory/YYYY-MM-DD.md. '-' reads the text from standard input.

    examples:
      lorelog add "Redis TTL is 5 minutes" --type decision --tag redis
      git log -1 --format=%B | lorelog add - --tag release
      lorelog add "I prefer short commit subjects" --global
      lorelog add "Migrations are append-only" --when-editing 'migrations/**'
      lorelog add "Use pnpm" --type correction --when-running 'npm *'

    Passwords, keys and tokens in the text are replaced by [redacted:KIND] before it is written. --keep-secrets keeps them.

    An agent is shown the memory when a --when or --on option matches what it does, once per session. Without these options
    this is derived from the text for corrections, preferences, decisions and facts: files, symbols, commands, errors. See
    'lorelog docs delivery'.
    """
    text = read_text(args.text)
    if not text.strip():
        raise UsageError("the text is empty: there is nothing to remember", hint='lorelog add "what you learned"')
    return client.print_reply(args, _call_with_text(args, text), _show_added)


def run_supersede(args: argparse.Namespace) -> int:
    """Replace a memory with a new one. The old one is hidden.

    Both stay in their files; the new one names the old one. It takes the type, tags and cues of the old one unless others
    are given.
    Deleting the new one shows the old one again, and 'lorelog search --include-superseded' shows both.

    examples:
      lorelog supersede 65fcbf6e "Redis TTL is 10 minutes now"
      lorelog supersede 65fcbf6e - --type decision < decision.md
    """

    def show(reply: Json, args: argparse.Namespace) -> None:
        _show_added(reply, args)
        undo = f"'lorelog delete {reply['id'][:_SHORT_ID_CHARS] or reply['memory']}' undoes this"
        undo += "" if reply["id"] else " once 'lorelog index' has read it"
        client.print_note(f"replaces {_describe_memory(args, args.id)}; {undo}")

    return client.print_reply(args, _call_with_text(args, read_text(args.text)), show)


def _call_with_text(args: argparse.Namespace, text: str) -> Json:
    """Call the operation with the text and the cues of the options, as `kind=value`."""
    cues = [f"{kind}={value}" for kind in _CUE_OPTIONS for value in getattr(args, f"cue_{kind}")]
    reply: Json = client.call_command(args, text=text, cues=cues)
    return reply


def run_expire(args: argparse.Namespace) -> int:
    """Set a memory's expiry or review date.

    After its last day a memory is hidden from search and list; its file is not changed, and 'lorelog search
    --include-expired' still shows it. 'lorelog list --due' lists the memories to review.

    examples:
      lorelog expire 65fcbf6e 14d
      lorelog expire 65fcbf6e 2026-12-31
      lorelog expire 65fcbf6e never
      lorelog expire 65fcbf6e --review 3m
    """
    if args.expires is None and args.review_after is None:
        raise UsageError("DAY or --review is required", hint="lorelog expire ID 14d, or lorelog expire ID --review 3m")

    def show(reply: Json, args: argparse.Namespace) -> None:
        from datetime import date

        shown = f"shown until {reply['expires']}" if reply["expires"] else "never expires"
        if "" < reply["expires"] < date.today().isoformat():
            shown = f"hidden, expired on {reply['expires']}"
        review = f", review on {reply['review_after']}" if reply["review_after"] else ""
        print(f"{_describe_memory(args, args.id)}: {shown}{review}")

    return client.print_reply(args, client.call_command(args), show)


def show_delete(reply: Json, args: argparse.Namespace) -> None:
    """Hide a memory from search and list. Its file is not changed, and 'lorelog restore' shows it again.

    It stays hidden when the index is rebuilt. The ids of hidden memories, without their text, are in tombstones.jsonl beside
    the index.

    examples:
      lorelog delete 65fcbf6e
      lorelog restore 65fcbf6e
    """
    if reply["changed"]:
        print(
            f"Hidden: {plural(reply['chunks'], 'chunk')} of {short_path(reply['source'])}. The file is unchanged; "
            f"'lorelog restore {reply['id'][:_SHORT_ID_CHARS]}' shows it again, 'lorelog forget' erases it permanently."
        )


def _describe_memory(args: argparse.Namespace, identity: str) -> str:
    """Return the short id of a memory, as `add` and `list` print it, and its first line, to say what a command changed."""
    try:
        memory = client.call_operation(args, "memory.get", {"id": identity})["memory"]
    except LorelogError:
        memory = None
    if not memory:
        return one_line(identity)
    lines = (line.strip() for line in without_comments(memory["content"]).split("\n"))
    line = next((line for line in lines if line and not line.startswith("#")), memory["heading"])
    shown = memory["id"][:_SHORT_ID_CHARS]
    return f"{shown} ({truncate(one_line(line), _TITLE_CHARS)})" if line else shown


def show_feedback(reply: Json, args: argparse.Namespace) -> None:
    """Mark a search result as relevant or irrelevant to a query.

    Results marked irrelevant rank lower when the same query is searched again, and 'lorelog eval --feedback' measures
    search quality by these marks. They are kept in feedback.jsonl beside the index, readable by you alone.

    examples:
      lorelog feedback "why redis?" 65fcbf6e relevant
      lorelog feedback "why redis?" 0aa1b2c3 irrelevant
    """
    print(f"{_describe_memory(args, args.id)} is {reply['relevance']} to {one_line(reply['query'])!r}")
    if not reply["changed"]:
        client.print_note("already recorded")


_MAX_DIFFERENT_SHOWN = 5


def run_restore(args: argparse.Namespace) -> int:
    """Restore a deleted memory, with the current text of its file; or restore a backup.

    A backup is merged into this home: what is missing is added, what is here stays, and what was forgotten here does not come
    back. Files that are changed are copied first, and --undo puts them back. Run an interrupted restore again to complete it
    ('lorelog docs backup').

    examples:
      lorelog restore 65fcbf6e
      lorelog restore ~/lorelog.tar.gz --dry-run
      lorelog restore ~/lorelog.tar.gz --project-map /old/app=~/app
      lorelog restore --undo
    """
    if args.undo:
        if args.id or args.dry_run or args.project_map:
            raise UsageError("--undo takes no other arguments", hint="it undoes the last restore of a backup")
        return _restore_backup(args, {"undo": True})
    if not args.id:
        raise UsageError("ID or FILE is missing", hint="lorelog restore ID, or lorelog restore FILE")
    path = expand_path(args.id)
    if os.path.isfile(path):
        mappings = {}
        for text in args.project_map:
            old, _, new = text.partition("=")
            if not (old and new):
                hint = "both are directories of a project"
                raise UsageError(f"--project-map must be OLD=NEW (got {text!r})", hint=hint)
            mappings[old] = expand_path(new)
        return _restore_backup(args, {"file": path, "dry_run": args.dry_run, "project_map": mappings})
    if os.path.isdir(path) and not set(args.id) <= set("0123456789abcdef-"):
        raise UsageError(f"{short_path(path)} is a directory", hint="name the file that 'lorelog backup FILE' wrote")
    if args.dry_run or args.project_map or "/" in args.id:
        raise NotFound(f"there is no file {short_path(path)}", hint="'lorelog backup FILE' writes a backup")

    def show(reply: Json, args: argparse.Namespace) -> None:
        print(f"Restored in {short_path(reply['source'])}.")

    return client.print_reply(args, client.call_operation(args, "memory.restore", {"id": args.id}), show)


def _restore_backup(args: argparse.Namespace, arguments: Json) -> int:
    reply = client.call_operation(args, "backup.restore", arguments)
    client.print_reply(args, reply, _show_restored)
    return 1 if any(file["action"] == "failed" for file in reply["files"]) else 0


def _show_restored(reply: Json, args: argparse.Namespace) -> None:
    labels = {"created": "create", "merged": "merge"} if args.dry_run else {}
    counts = dict.fromkeys(("created", "merged", "unchanged"), 0)
    for file in reply["files"]:
        action, different = file["action"], file["different"]
        counts[action] = counts.get(action, 0) + 1
        details = [f"{file['added']:,} added"] if file["added"] and action == "merged" else []
        details += [f"{plural(file['forgotten'], 'forgotten entry')} left out"] if file["forgotten"] else []
        if different:
            shown = ", ".join(name[:13] for name in different[:_MAX_DIFFERENT_SHOWN])
            details.append(f"{plural(len(different), 'memory')} kept as here, with another text in the backup: {shown}")
        details += [file["reason"]] if file["reason"] else []
        if action != "unchanged" or details:
            line = f"{labels.get(action, action)}  {short_path(file['path'])}  {'; '.join(details)}"
            print(one_line(line).rstrip())
    changed = plural(counts["created"] + counts["merged"], "file")
    print(f"{changed} {'would change' if args.dry_run else 'changed'}, {counts['unchanged']:,} unchanged.")
    client.print_notes(reply)
    if reply["undo"] and not args.undo:
        client.print_note("'lorelog restore --undo' puts changed files back")


_MAX_CHANGES_SHOWN = 10
_TAKEN_BACK = {
    "hide": "hidden now; 'lorelog restore ID' shows it again",
    "show": "shown again",
    "edit": "its earlier text is back",
    "wait": "waits again in the inbox",
}
"""What a step of `operations.lifecycle` has done."""


def run_undo(args: argparse.Namespace) -> int:
    """Take back the last thing that you did in this project, and say what it was.

    What you added is hidden, what you hid is shown again, an edited section gets its earlier text unless it was changed since, what you
    refused or closed in the inbox waits again, and an import is removed. The same command again takes back what you did before that.
    What agents did is not yours. What was forgotten, and dates, settings and guards that you changed, are not taken back.

    examples:
      lorelog undo
      lorelog undo --dry-run       list what you did last, newest first
    """
    from lorelog.core.policy import check_shell
    from lorelog.operations.lifecycle import read_own_changes, take_back, write_own_changes

    check_shell("undo", os.environ)
    with client.open_own_engine(args) as engine:
        place, changes = engine.place, read_own_changes(engine.place)
        own = [change for change in changes if change.project == place.project.id][: -_MAX_CHANGES_SHOWN - 1 : -1]
        if not own:
            hint = "'lorelog restore ID' shows a deleted memory, 'lorelog import' lists imports"
            raise NotFound("nothing is noted that you did in this project", hint=hint)
        if args.dry_run:
            reply = {"changes": [_describe_change(args, change) for change in own]}
            return client.print_reply(args, reply, lambda *_: print("\n".join(map(_format_change, reply["changes"]))))
        last, described = own[0], _describe_change(args, own[0])
        earlier = [change for change in changes if change is not last]
        try:
            if last.step != "import":
                take_back(engine, last)
        except LorelogError as error:
            if not isinstance(error, StoreBusy):  # which passes; otherwise the next undo is for what was done before
                write_own_changes(place, earlier)
            raise
        if last.step != "import":
            write_own_changes(place, earlier)
    if last.step == "import":
        from lorelog.surfaces.cli.commands.transfer import undo_import

        status = undo_import(args, last.ids[0])
        write_own_changes(place, earlier)
        return status
    if last.step == "show":
        described = _describe_change(args, last)
    return client.print_reply(
        args, described, lambda *_: print(f"Took back: {_format_change(described)}: {_TAKEN_BACK[last.step]}.")
    )


def _describe_change(args: argparse.Namespace, change: OwnChange) -> Json:
    memories = [
        _describe_memory(args, identity[:13]) if change.step in ("hide", "show", "edit") else identity
        for identity in change.ids
    ]
    return {"at": change.at, "what": change.what, "step": change.step, "ids": list(change.ids), "of": memories}


def _format_change(change: Json) -> str:
    from lorelog.surfaces.cli.record_text import format_time

    more = len(change["of"]) - _MAX_DIFFERENT_SHOWN
    shown = ", ".join(change["of"][:_MAX_DIFFERENT_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    return one_line(f"{format_time(change['at'])}  {change['what']} {shown}")


_MAX_ENTRIES_SHOWN = 20
_SINGULARS = {"memories": "memory", "sections": "section", "summaries": "summary", "records": "record", "turns": "turn"}


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
      lorelog forget --verify last --host-transcripts
    """
    if args.list:
        return client.print_reply(args, client.call_operation(args, "memory.forget_receipts", {}), _show_receipts)
    if args.verify and not args.host_transcripts:
        reply = client.call_operation(args, "memory.forget_verify", {"receipt": args.verify})
        return client.print_reply(args, reply, _show_proof)
    if args.complete:
        return client.print_reply(args, client.call_operation(args, "memory.forget", {"complete": True}), _show_proof)
    if args.match == "-":
        args.match = sys.stdin.read().strip()
    if args.dry_run or not args.yes:
        try:
            preview = client.call_command(args, dry_run=True, receipt=args.verify or "")
        except NotFound as error:
            hint = f'by its words: lorelog forget --match "{one_line(" ".join(args.ids))}"'
            raise NotFound(error.message, hint=hint if args.ids else error.hint) from None
        (client.print_json if args.json else _show_preview)(preview)
        if args.dry_run:
            return 0
        if preview["refused"]:
            hint = "--edit-files edits them, too"
            raise UsageError("some files are not ours to edit; nothing was changed", hint=hint)
        if not client.confirm("Forget this for good? There is no way back.", "use --yes to forget"):
            print("Nothing forgotten.", file=sys.stderr)
            return 1
    return client.print_reply(args, client.call_command(args, confirm=True, receipt=args.verify or ""), _show_proof)


def _show_preview(preview: Json) -> None:
    for entry in preview["entries"][:_MAX_ENTRIES_SHOWN]:
        place = f"{short_path(entry['source'])}:{entry['start_line']}-{entry['end_line']}"
        name = f"{entry['memory'][:13]}  " if entry["memory"] else ""
        mark = "  (summary, without the lines about it)" if entry["action"] == "reword" else ""
        lines = plural(entry["end_line"] - entry["start_line"] + 1, "line")
        print(f"{name}{place}  {lines}{mark}\n    {entry['preview']}")
    left_out = len(preview["entries"]) - _MAX_ENTRIES_SHOWN
    if left_out > 0:
        print(f"and {left_out:,} more entries")
    for record in preview["records"][:_MAX_ENTRIES_SHOWN]:
        print(f"{record}  record: its text is replaced by its hash")
    references = ", ".join(f"{count:,} in {name}" for name, count in preview["references"].items())
    lines = f"; lines about it: {references}" if references else ""
    if preview["selected"]:
        print(f"Would go: {_counts(preview['selected'])}, their vectors and cached answers{lines}.")
    for path in preview["transcripts"]:
        print(f"The whole conversation {short_path(path)} would be deleted.")
    for path, reason in preview["refused"].items():
        client.print_note(f"refused: {short_path(path)}: {reason}")
    _show_rest(preview)
    client.print_notes(preview)


def _counts(selected: Mapping[str, int]) -> str:
    return ", ".join(plural(count, _SINGULARS.get(kind, kind)) for kind, count in selected.items())


def _show_rest(reply: Mapping[str, Any]) -> None:
    for place, reason in reply["unreached"].items():
        client.print_note(f"not reached: {short_path(place)}: {reason}")
    if reply["also_in"]:
        client.print_note(f"other memories that repeat parts of it stay: {', '.join(reply['also_in'][:5])}")


def _show_proof(reply: Json, args: argparse.Namespace) -> None:
    for path in reply["transcripts"]:
        print(f"The conversation {short_path(path)} was deleted.")
    if reply["message"]:
        print(reply["message"])
    for residue in reply["residues"]:
        print(f"  {short_path(residue['path'])}: {residue['count']:,} ({residue['form']})")
    for problem in reply["unreadable"]:
        print(f"  not searched: {problem}")
    _show_rest(reply)
    if reply["receipt"] and not args.verify:
        client.print_note(f"receipt: {short_path(reply['receipt'])}; 'lorelog forget --verify last' searches again")


def _show_receipts(reply: Json, args: argparse.Namespace) -> None:
    for receipt in reply["receipts"]:
        verdict = f"{'no residues' if receipt['ok'] else 'RESIDUES'} in {receipt['searched_files']:,} files"
        print(f"{receipt['id']}  {receipt['at'][:16]}  {_counts(receipt['selected'])}  {verdict}")
    if not reply["receipts"]:
        client.print_note("nothing was forgotten yet")


def _show_plan(reply: Json, args: argparse.Namespace) -> None:
    batches = reply["batches"]
    for number, batch in enumerate(batches, 1):
        days = " to ".join(dict.fromkeys((batch["first_day"], batch["last_day"])))
        cost = f"  at most {batch['tokens']:,} tokens" if batch["tokens"] else ""
        print(f"{number:>4}  {plural(batch['chunks'], 'chunk'):<12}  {days}{cost}")
    if batches:
        model = "extracted without a model" if reply["worded_by"] == "none" else f"by {one_line(reply['worded_by'])}"
        cost = f"; at most {reply['tokens_most']:,} tokens" if reply["tokens_most"] else ""
        count = "1 batch" if len(batches) == 1 else f"{len(batches):,} batches"
        print(f"{plural(reply['chunks'], 'chunk')} in {count}, {model}{cost}.")


_MAX_DROPPED = 20


def run_compact(args: argparse.Namespace) -> int:
    """Summarize the project's memories in one memory, whose lines cite their sources.

    Chunks that are close in time and topic are summarized together by the language model of llm.provider, and the summaries are
    combined. Lines without a citation, or with a name, path, number or quotation that is not in their sources, are dropped and
    shown. The summary is added to today's journal; the originals keep their rank, and are not summarized again.
    '--llm none' extracts sentences instead, at no cost. A run that fails writes nothing.

    examples:
      lorelog compact --dry-run               show the batches and their cost
      lorelog compact --since 30d --until 7d
      lorelog compact --llm none --source notes/
      lorelog compact --llm anthropic/claude-sonnet-4-6 --prompt-file how.txt
    """
    return client.print_reply(args, client.call_with_progress(args), _show_plan if args.dry_run else _show_summary)


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
        client.print_note(f"{plural(len(reply['dropped']), 'line')} dropped:")
        for line in reply["dropped"][:_MAX_DROPPED]:
            client.print_note(f"  {one_line(line['reason'])}: {one_line(line['text'])}")
    client.print_notes(reply)
    if reply["calls"]:
        calls = f"{plural(reply['calls'], 'call')} of {one_line(reply['worded_by'])}"
        client.print_note(f"{calls}, {reply['tokens_spent']:,} tokens")
