"""Put together what an agent should read before it works.

A short file: memories that answer the questions, decisions in force, failures to avoid, open tasks and hot memories, each once,
with an id to cite and how far it may be believed. The whole file has at most --token-budget tokens, counted with the built-in
tokenizer; what was left out is told in it. Without a question it tells what is newest.

--log-dir keeps each answer as a file of its own, lorelog_context_<ms>.json, and as a line of lorelog_context_log.jsonl. Both
hold the questions as they were asked, and can be read by you alone.

examples:
  lorelog agent-context --query "how do we deploy" --query "flaky tests"
  lorelog agent-context --query "tax rounding" --token-budget 400 --output .lorelog/context.md
  lorelog agent-context --query "tax rounding" --format json --log-dir ~/.lorelog/log
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, print_json, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

FORMATS = ("markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--query", action="append", default=[], metavar="TEXT", help="what the work is about (repeatable)"
    )
    parser.add_argument("-k", "--k", type=int, default=2, metavar="N", help="memories for each question (2)")
    parser.add_argument(
        "--token-budget", type=int, default=700, metavar="N", help="tokens that the whole file may have (700)"
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="how the file is laid out (markdown)")
    parser.add_argument("--output", metavar="FILE", help="write the file there, whole or not at all, and print nothing")
    parser.add_argument(
        "--log-dir", metavar="DIR", help="keep the answer there, with the questions as they were asked (mode 0600)"
    )
    parser.add_argument("--all-projects", action="store_true", help="look beyond this project and what belongs to none")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and write what was asked for."""
    request = {
        "queries": args.query,
        "k": args.k,
        "token_budget": args.token_budget,
        "format": args.format,
        "all_projects": args.all_projects,
    }
    reply = ask(args, "context.agent_context", request, starts=True)
    if args.log_dir:
        from lorelog.services.context.files import write_log

        write_log(own_path(args.log_dir), reply)
    if args.output:
        from lorelog.services.context.files import write_whole

        write_whole(own_path(args.output), reply["text"])
    if args.json:
        print_json(reply)
    elif not args.output:
        print(printable(reply["text"]), end="")
    if not args.json:
        for text in reply["notes"]:
            note(text)
    return 0
