"""Print the context an agent should read before it works.

A short text: memories that answer the queries, current decisions, failures to avoid, open tasks and frequently used memories,
each with an id to cite and its trust level. It has at most --token-budget tokens, counted with the built-in tokenizer,
and lists what was left out. Without a query it shows the newest entries.

--log-dir writes each result to a file of its own, lorelog_context_<ms>.json, and to lorelog_context_log.jsonl. Both contain
the queries, and are readable by you alone.

examples:
  lorelog agent-context --query "how do we deploy" --query "flaky tests"
  lorelog agent-context --query "tax" --output .lorelog/context.md
  lorelog agent-context --query "tax" --format json --log-dir ~/.lorelog/log
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

FORMATS = ("markdown", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--query", action="append", default=[], metavar="TEXT", help="topic of the work (repeatable)")
    parser.add_argument("-k", "--k", type=int, default=2, metavar="N", help="memories per query (default 2)")
    parser.add_argument(
        "--token-budget", type=int, default=700, metavar="N", help="maximum size in tokens (default 700)"
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="output format (default markdown)")
    parser.add_argument("--output", "--out", metavar="FILE", help="write to FILE atomically, and print nothing")
    parser.add_argument("--log-dir", metavar="DIR", help="also log the result and the queries there (mode 0600)")
    parser.add_argument("--all-projects", action="store_true", help="include the memories of all projects")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write the context."""
    request = {
        "queries": args.query,
        "k": args.k,
        "token_budget": args.token_budget,
        "format": args.format,
        "all_projects": args.all_projects,
    }
    reply = call_operation(args, "context.agent_context", request, start_daemon=True)
    if args.log_dir:
        from lorelog.services.context.init import write_context_log

        write_context_log(expand_path(args.log_dir), reply)
    if args.output:
        from lorelog.services.context.init import write_output

        write_output(expand_path(args.output), reply["text"])
    if args.json:
        print_json(reply)
    elif not args.output:
        print(printable(reply["text"]), end="")
    if not args.json:
        for text in reply["notes"]:
            print_note(text)
    return 0
