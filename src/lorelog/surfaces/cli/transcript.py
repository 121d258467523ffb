"""Show the conversation that a memory came from, around its turn.

PLACE is the id of a chunk or memory that came from a conversation, or the path of a transcript. Conversations of Claude Code,
Codex, OpenCode, OpenClaw, Gemini CLI, Qwen Code and Copilot CLI are supported.

examples:
  lorelog transcript 65fcbf6e
  lorelog transcript 65fcbf6e --context 1
  lorelog transcript ~/.claude/projects/-app/5f2c.jsonl --turn turn-12 --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, printable, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("place", metavar="PLACE", help="id of a chunk or memory, or path of a transcript")
    parser.add_argument("--turn", default="", metavar="ID", help="turn to show (default: the memory's turn)")
    parser.add_argument(
        "-c", "--context", type=int, default=3, metavar="N", help="turns to show before and after it (default 3)"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the turns."""
    request = {"place": expand_path(args.place), "turn": args.turn, "context": args.context}
    reply = call_operation(args, "memory.transcript", request)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: Json) -> None:
    count = f"{plural(len(reply['turns']), 'turn')} of {reply['total']:,}"
    head = (stylize(short_path(reply["address"]), "cyan"), reply["host"], one_line(reply["session"]), count)
    print("  ".join(part for part in (*head, stylize(f"~{reply['tokens']:,} tokens", "dim")) if part))
    for turn in reply["turns"]:
        _show_turn(turn, focused=turn["id"] == reply["focus"])
    for text in reply["notes"]:
        print_note(text)


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
