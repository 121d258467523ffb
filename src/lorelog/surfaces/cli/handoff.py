"""Print what the next agent needs of a session: goal, state, decisions, files, open questions, failing command.

It is made from the notes of captured turns, without a model, so a session of one host can go on in another. Paste it into the
next agent; or --inject shows it, once, at the start of the next session of that host in this project, until tomorrow.

examples:
  lorelog handoff --to codex
  lorelog handoff --to claude --inject
  lorelog handoff --session 46d503e3 | pbcopy
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--to", metavar="HOST", default="", help="the agent that goes on, such as codex")
    parser.add_argument("--session", metavar="ID", default="", help="the session (default: the newest one here)")
    parser.add_argument("--inject", action="store_true", help="show it at the start of the next session of that host")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the handoff."""
    arguments = {"to": args.to, "session": args.session, "inject": args.inject}
    reply = call_operation(args, "session.handoff", arguments)
    if args.json:
        print_json(reply)
        return 0
    print(reply["text"], end="")
    if reply["until"]:
        print_note(
            f"the next {args.to or 'agent'} session in this project is shown it at its start, until {reply['until']}"
        )
    return 0
