"""Commands that show one memory, record or task: show, transcript and open."""

from __future__ import annotations

import os

from lorelog.core.errors import LorelogError, NotFound, UsageError, plural
from lorelog.surfaces.cli import record_text
from lorelog.surfaces.cli.arguments import add_options, expand_path
from lorelog.surfaces.cli.client import call_command, call_operation, print_json, print_note, print_notes, print_reply
from lorelog.surfaces.text import (
    RECORD_TIERS,
    format_cues,
    format_date,
    format_freshness,
    format_labels,
    format_lifecycle,
    format_repository,
    one_line,
    printable,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.operation import Json

ARGUMENTS = {
    "show": {
        "ids ID+": "id of anything, or its first characters",
        "-n --lines N": "show N lines around a memory instead of its section",
        "settings": "",
        "shared": "json project tenant daemon",
    },
    "open": {"id ID": "id of a hit or memory, or its first characters", "shared": "project tenant daemon"},
}
_SHORT_ID_CHARS = 8
_ANCHORS = tuple(f"<!-- {name}:" for name in ("session", "turn", "branch", "memory", "origin", "type", "transcript"))


def configure_show(parser: argparse.ArgumentParser) -> None:
    only = {"--history": "show all records of a record's thread", "--trust": "show why a record is trusted, or not"}
    add_options(parser.add_mutually_exclusive_group(), only)


def run_show(args: argparse.Namespace) -> int:
    """Show a memory, a section of a note, a record or a task, by its id.

    ID is what search, list, add, task and decide print; its first characters are enough (at least 4). A memory is shown with the
    section around it, as its file is now, and with its place, date, type, origin, and whether the code it names has changed. A
    record is shown with its trust and its replies; a task with its records.

    examples:
      lorelog show 65fcbf6e
      lorelog show 65fcbf6e --lines 5         five lines before and after instead
      lorelog show 0195f3a2-9f01 --history    all records of the same thread
      lorelog show 0195f3a2-9f01 --trust      why a record is trusted, or not
      lorelog show 65fcbf6e 4873ead7 --json
    """
    found = [find(args, identity) for identity in args.ids]
    if args.json:
        replies = [reply for _, reply in found]
        print_json(replies[0] if len(replies) == 1 else {"shown": replies})
        return 0
    for number, (kind, reply) in enumerate(found):
        if number:
            print()
        {"memory": _show_memory, "task": record_text.show_task}.get(kind, _show_record)(reply, args)
    return 0


def find(args: argparse.Namespace, identity: str) -> tuple[str, Json]:
    """Return what an id is (memory, record, thread or task), and the reply of its operation. Raise NotFound."""
    if "-" not in identity:  # ids of memories, records and tasks have hyphens, those of chunks have none
        try:
            return _find_memory(args, identity)
        except NotFound as error:
            is_deleted = " was deleted " in error.message
            found = None if is_deleted else _find_record(args, identity) or _find_task(args, identity)
            if found is None:
                raise
            return found
    found = _find_record(args, identity)
    if found is None and call_operation(args, "memory.get", {"id": identity})["memory"] is None:
        found = _find_task(args, identity)
    return found or _find_memory(args, identity)


def _find_memory(args: argparse.Namespace, identity: str) -> tuple[str, Json]:
    try:
        reply = call_operation(args, "memory.expand", {"id": identity, "lines": args.lines})
    except NotFound:
        deleted = call_operation(args, "memory.get", {"id": identity})
        if not (deleted["forgotten"] or deleted["deleted"]):
            raise
        how = "forgotten for good" if deleted["forgotten"] else "deleted"
        hint = f"its file is unchanged; 'lorelog restore {one_line(identity)}' shows it again"
        if deleted["forgotten"]:
            hint = "its text was erased from its file; 'lorelog forget --list' shows the receipts"
        raise NotFound(f"{identity!r} was {how} on {deleted['deleted_at'][:10]}", hint=hint) from None
    record = (reply["anchor"] or {}).get("memory", "")
    if reply["trust"]["tier"] in RECORD_TIERS and record and args.lines is None:
        return _find_record(args, record) or ("memory", reply)
    if args.history or args.trust:
        raise UsageError(f"{identity!r} is not a record", hint="--history and --trust are for records")
    return "memory", reply


def _find_record(args: argparse.Namespace, identity: str) -> tuple[str, Json] | None:
    """Return a record; or its task, if the id is a prefix of both: a task's first record is as old as the task."""
    reply = call_operation(args, "artifact.get", {"artifact_id": identity})
    if not reply["found"]:
        text = reply["notes"][0] if reply["notes"] else ""
        if not text.startswith("several "):
            return None
        message, _, hint = text.partition("; ")
        task = _find_task(args, identity)
        if task is None:
            raise UsageError(message, hint=hint)
        return task
    record = reply["artifact"]
    wants_record = args.history or args.trust
    if not wants_record and identity != record["artifact_id"] and record.get("task_id", "").startswith(identity):
        return _find_task(args, identity) or ("record", reply)
    if args.history:
        return "thread", call_operation(args, "artifact.list_thread", {"artifact_id": record["artifact_id"]})
    return "record", reply


def _find_task(args: argparse.Namespace, identity: str) -> tuple[str, Json] | None:
    try:
        reply = call_operation(args, "task.get", {"task_id": identity})
    except NotFound as error:
        if error.message.startswith("several "):
            raise
        return None
    if args.trust or args.history:
        raise UsageError(f"{identity!r} is a task, not a record", hint=f"'lorelog show {identity}' lists its records")
    return "task", reply


def _show_memory(reply: Json, args: argparse.Namespace) -> None:
    place = record_text.format_location(reply, reply["trust"])
    cost = stylize(f"~{reply['tokens']:,} tokens", "dim")
    labels = format_labels(reply["type"], reply["tags"])
    head = (stylize(place, "cyan"), format_date(reply), labels, reply["id"][:_SHORT_ID_CHARS], cost)
    print("  ".join(part for part in head if part))
    if reply["heading_path"]:
        print(stylize(one_line(" > ".join(reply["heading_path"])), "bold"))
    anchor = reply["anchor"] or {}
    cues = format_cues(anchor)
    for line in (
        stylize(format_lifecycle(reply.get("lifecycle")), "yellow"),
        stylize(format_freshness(reply["freshness"]), "yellow"),
        record_text.format_trust(reply["trust"], anchor.get("origin", "")),
        stylize(format_repository(reply), "yellow"),
        _format_origin(anchor),
        cues and f"shown on {cues}",
    ):
        if line:
            print(line)
    # The comments of a journal hold what the lines above say in words.
    *lines, last = reply["content"].split("\n")
    comments = {line for line in lines if line.startswith(_ANCHORS) and line.endswith("-->")}
    lines = [line for line in lines if line not in comments or not line.partition(":")[2][:1].strip()]
    print("\n" + printable("\n".join([*lines, last])))
    if reply["covers"]:
        print()
        for source in reply["covers"]:
            where = f"{short_path(source['source'])}:{source['start_line']}-{source['end_line']}"
            print(f"  {source['content_hash'][:8]}  {source['date'][:10]}  {stylize(where, 'cyan')}")
        if reply["covered"] > len(reply["covers"]):
            print(f"  and {reply['covered'] - len(reply['covers']):,} more")
    if reply["transcript"]:
        address, tokens = reply["transcript"]["address"], reply["transcript"]["tokens"]
        missing = "" if reply["transcript"]["exists"] or "://" in address else "  (not available)"
        cost = "" if tokens is None else f"  ~{tokens:,} tokens: lorelog transcript {reply['id'][:_SHORT_ID_CHARS]}"
        print()
        print(one_line(f"transcript {short_path(address)}{missing}{cost}"))
    for text in reply["notes"]:
        if not format_lifecycle(reply.get("lifecycle")).startswith(text):
            print_note(text)


def _format_origin(anchor: Json) -> str:
    """Return who wrote a memory and in which session, as far as its anchor tells."""
    by = {"user": "by you", "agent": "by an agent", "tool": "by a tool", "import": "by an import"}
    session = f"session {anchor['session']}" if anchor.get("session") else ""
    turn = f"turn {anchor['turn']}" if session and anchor.get("turn") else ""
    return one_line("  ".join(filter(None, (by.get(anchor.get("origin", ""), ""), session, turn))))


def _show_record(reply: Json, args: argparse.Namespace) -> None:
    if "artifacts" in reply:  # a thread
        record_text.show_records(reply["artifacts"])
        return
    related = [*reply["replies"], *reply["superseded_by"]]
    writers = {record["artifact_id"]: record.get("writer", "") for record in related}
    (record_text.show_trust if args.trust else record_text.show_record)(reply["artifact"], writers)
    for title, records in (("Replies", reply["replies"]), ("Superseded by", reply["superseded_by"])):
        if records:
            print(f"\n{stylize(title, 'bold')}")
            record_text.show_records(records)
    print_notes(reply)


def run_transcript(args: argparse.Namespace) -> int:
    """Show the conversation that a memory came from, around its turn.

    PLACE is the id of a chunk or memory that came from a conversation, or the path of a transcript. Conversations of Claude Code,
    Codex, OpenCode, OpenClaw, Gemini CLI, Qwen Code, Copilot CLI, Factory Droid, Pi, Oh My Pi, Kilo Code, Kimi Code and Cline are supported.

    examples:
      lorelog transcript 65fcbf6e
      lorelog transcript 65fcbf6e --context 1
      lorelog transcript ~/.claude/projects/-app/5f2c.jsonl --turn turn-12 --json
    """

    def show(reply: Json, args: argparse.Namespace) -> None:
        count = f"{plural(len(reply['turns']), 'turn')} of {reply['total']:,}"
        head = (stylize(short_path(reply["address"]), "cyan"), reply["host"], one_line(reply["session"]), count)
        print("  ".join(part for part in (*head, stylize(f"~{reply['tokens']:,} tokens", "dim")) if part))
        for turn in reply["turns"]:
            _show_turn(turn, focused=turn["id"] == reply["focus"])

    return print_reply(args, call_command(args, place=expand_path(args.place)), show)


def _show_turn(turn: Json, *, focused: bool) -> None:
    mark = stylize(">", "yellow") if focused else " "
    sidechain = "  (side conversation)" if turn["sidechain"] else ""
    print(f"\n{mark} {stylize(one_line(turn['id']), 'bold')}  {turn['time'].replace('T', ' ')}{sidechain}")
    for who, text in (("user", turn["user"]), ("assistant", turn["assistant"])):
        if text:
            print(f"{stylize(who, 'green')}: {printable(text)}")
        if who == "user":
            for tool in turn["tools"]:
                failed = " (failed)" if tool["failed"] else ""
                print(stylize(one_line(f"  {tool['name']}{failed}: {tool['input']}"), "dim"))
    if turn["tools_left_out"]:
        print(stylize(f"  and {plural(turn['tools_left_out'], 'tool call')} more", "dim"))
    if turn["truncated"]:
        print(stylize("  (truncated; the transcript has the full text)", "dim"))


def run_open(args: argparse.Namespace) -> int:
    """Open a search hit or memory in your editor, at its line.

    ID is shown by search and list; its first characters are enough. The editor is $VISUAL or $EDITOR, with its options. vim, nano,
    emacs, VS Code, Cursor, Zed, Sublime Text, Helix, the JetBrains editors and those like them start at the line; other editors
    get the file only.

    examples:
      lorelog open 65fcbf6e
      EDITOR="code --wait" lorelog open 65fcbf6e
    """
    reply = call_operation(args, "memory.expand", {"id": args.id, "lines": 0})
    return 1 if open_in_editor(reply) else 0


def open_in_editor(reply: Json) -> int:
    """Run the editor on the file of an expanded hit, and return its exit status."""
    from subprocess import run as run_program

    from lorelog.core.editor import EDITOR_HINT, editor_command

    command = editor_command(reply["source"], reply["start_line"], os.environ)
    if reply["trust"]["tier"] in RECORD_TIERS:
        raise UsageError("a record has no file to open; it is in the ledger", hint=f"lorelog show {reply['id'][:8]}")
    if not os.path.isfile(reply["source"]):
        raise NotFound(f"{reply['source']} is not on this machine", hint=f"lorelog show {reply['id'][:8]}")
    try:
        return run_program(command, check=False).returncode
    except OSError as error:
        raise LorelogError(f"the editor {command[0]!r} does not start: {error.strerror}", hint=EDITOR_HINT) from None
