"""Show traced calls and errors.

Every operation is traced, and captured agent turns contribute their tool calls and errors: stack traces of Python, JavaScript,
Rust, Go, Java and others, messages of compilers and test runners. An error has the same signature whatever its line numbers and
paths. Secrets are removed first. Storage is limited by traces.days and traces.megabytes; traces.enabled = false stores nothing.

examples:
  lorelog debug errors                   errors by signature
  lorelog debug errors KeyError --since 7d --each
  lorelog debug calls --failed --tool memory
  lorelog why "KeyError: 'id'"           earlier occurrences and their fixes
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json
from lorelog.surfaces.cli.render.debug import show_calls, show_errors, show_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    errors = add_verb(parser, verbs, "errors", "show errors, grouped by signature")
    errors.add_argument(
        "signature",
        metavar="SIGNATURE",
        nargs="?",
        default="",
        help="only errors with this signature (or its beginning) or type",
    )
    errors.add_argument("--each", action="store_true", help="show every occurrence with its stack frames")
    errors.add_argument("--function", default="", metavar="NAME", help="only errors with this function in the stack")
    errors.add_argument(
        "--file", default="", metavar="PATH", help="only errors with a file in the stack whose path contains PATH"
    )
    errors.add_argument("--text", default="", metavar="TEXT", help="only errors whose message contains TEXT")
    calls = add_verb(parser, verbs, "calls", "show calls of operations and tools, newest first")
    calls.add_argument(
        "--tool", default="", metavar="NAME", help="only this tool; 'memory' matches all memory.* operations"
    )
    calls.add_argument("--failed", action="store_true", help="only failed calls")
    for verb in (errors, calls):
        verb.add_argument("--session", default="", metavar="ID", help="only of this session")
        verb.add_argument(
            "--from",
            dest="origin",
            choices=("operation", "turn"),
            help="only from lorelog's operations or from agents' turns",
        )
        verb.add_argument("--since", default="", metavar="WHEN", help="on or after: 2026-03-05, today, 7d, or a time")
        verb.add_argument("--until", default="", metavar="WHEN", help="on or before")
        verb.add_argument(
            "-n", "--limit", type=int, default=20, metavar="N", help="maximum number of entries (default 20)"
        )
        verb.add_argument("--all-projects", action="store_true", help="include all projects")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return {"errors": _errors, "calls": _calls}[args.verb](args)


def _errors(args: argparse.Namespace) -> int:
    request = {
        "error_signature": args.signature,
        "function_name": args.function,
        "file_path": args.file,
        "text": args.text,
        "include_frames": args.each or args.json,
        **_trace_filters(args),
    }
    reply = call_operation(args, "debug.find_errors", request)
    if args.json:
        print_json(reply)
    elif args.each:
        show_errors(reply)
    else:
        show_groups(reply["groups"], reply["total_count"])
    return 0


def _calls(args: argparse.Namespace) -> int:
    request = {"tool_name": args.tool, "errors_only": args.failed, **_trace_filters(args)}
    reply = call_operation(args, "debug.find_tool_calls", request)
    if args.json:
        print_json(reply)
    else:
        show_calls(reply)
    return 0


def _trace_filters(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "session_id": args.session,
        "source": args.origin or "",
        "time_from": args.since,
        "time_to": args.until,
        "limit": args.limit,
        "all_projects": args.all_projects,
    }
