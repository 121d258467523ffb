"""Show the conversation that a memory came from, around its turn.

The place is the id of a chunk or memory whose anchor names a conversation, or the path of one. Conversations of Claude Code,
Codex, OpenCode and OpenClaw are read.

examples:
  lorelog transcript 65fcbf6e
  lorelog transcript 65fcbf6e --context 1
  lorelog transcript ~/.claude/projects/-app/5f2c.jsonl --turn turn-12 --json
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json, printable, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import TranscriptShape, TurnShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("place", metavar="PLACE", help="id of a chunk or memory, or a transcript's path")
    parser.add_argument("--turn", default="", metavar="ID", help="the turn to show (default: the memory's own)")
    parser.add_argument(
        "-c", "--context", type=int, default=3, metavar="N", help="so many turns before and after it (default 3)"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Show the turns."""
    request = {"place": own_path(args.place), "turn": args.turn, "context": args.context}
    reply = ask(args, "memory.transcript", request)
    if args.json:
        print_json(reply)
    else:
        _show(reply)
    return 0


def _show(reply: TranscriptShape) -> None:
    shown = f"{plural(len(reply['turns']), 'turn')} of {reply['total']:,}"
    head = (styled(short_path(reply["address"]), "cyan"), reply["host"], one_line(reply["session"]), shown)
    print("  ".join(part for part in (*head, styled(f"~{reply['tokens']:,} tokens", "dim")) if part))
    for turn in reply["turns"]:
        _show_turn(turn, focused=turn["id"] == reply["focus"])
    for text in reply["notes"]:
        note(text)


def _show_turn(turn: TurnShape, *, focused: bool) -> None:
    mark = styled(">", "yellow") if focused else " "
    beside = "  (beside the conversation)" if turn["sidechain"] else ""
    print(f"\n{mark} {styled(one_line(turn['id']), 'bold')}  {turn['time'].replace('T', ' ')}{beside}")
    for who, text in (("user", turn["user"]), ("assistant", turn["assistant"])):
        if text:
            print(f"{styled(who, 'green')}: {printable(text)}")
        if who == "user":
            for tool in turn["tools"]:
                failed = " (failed)" if tool["failed"] else ""
                print(styled(one_line(f"  {tool['name']}{failed}: {tool['input']}"), "dim"))
    if turn["tools_left_out"]:
        print(styled(f"  and {plural(turn['tools_left_out'], 'tool call')} more", "dim"))
    if turn["truncated"]:
        print(styled("  (cut; --json shows no more either: the transcript holds it all)", "dim"))
