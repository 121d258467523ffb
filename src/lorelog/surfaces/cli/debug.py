"""Show traced calls and errors, and import logs.

Every operation is traced, and captured agent turns contribute their tool calls and errors. 'ingest' reads a log or the output of
tests from a file (optionally gzipped) or standard input, and stores the errors in it: stack traces of Python, JavaScript,
Rust, Go, Java and others, compilers and test runners. An error has the same signature whatever its line numbers and
paths; reading a log twice adds nothing. Secrets are removed first. Storage is limited by traces.days and
traces.megabytes; traces.enabled = false stores nothing.

examples:
  lorelog debug ingest app.log.gz
  pytest 2>&1 | lorelog debug ingest -
  lorelog debug errors                   errors by signature
  lorelog debug errors KeyError --since 7d --each
  lorelog debug calls --failed --tool memory
  lorelog why "KeyError: 'id'"           earlier occurrences and their fixes
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_verb, expand_path
from lorelog.surfaces.cli.client import call_operation, daemon_mode
from lorelog.surfaces.cli.render import print_json
from lorelog.surfaces.cli.render.debug import show_calls, show_errors, show_groups, show_ingest_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    ingest = add_verb(parser, verbs, "ingest", "read a log and store the errors in it")
    ingest.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="a log, optionally gzipped; '-' reads standard input"
    )
    add_common(ingest, project="assign the errors to the project of DIR")
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
            choices=("operation", "turn", "log"),
            help="only from lorelog's operations, agents' turns, or logs",
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
    return {"ingest": _ingest, "errors": _errors, "calls": _calls}[args.verb](args)


def _ingest(args: argparse.Namespace) -> int:
    reply = (
        _ingest_stdin(args)
        if args.file == "-"
        else call_operation(args, "debug.ingest", {"path": expand_path(args.file)})
    )
    if args.json:
        print_json(reply)
    else:
        show_ingest_report(reply)
    return 0


def _ingest_stdin(args: argparse.Namespace) -> dict[str, Any]:
    """Read standard input in this process: it may be endless, and the daemon cannot read it."""
    from lorelog.core.serializable import to_json
    from lorelog.operations.debug import handlers
    from lorelog.operations.debug.serialize import ingest_reply
    from lorelog.wiring import open_engine, resolve_location

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "standard input is empty", hint="lorelog debug ingest FILE, or make test 2>&1 | lorelog debug ingest -"
        )
    daemon_mode(args.warm)
    location = resolve_location(project=args.project, tenant=args.tenant)
    with open_engine(location, {"scope.tenant": args.tenant}) as engine:
        report = handlers.open_ingester(engine).read(sys.stdin.buffer, "standard input")
        reply: dict[str, Any] = to_json(ingest_reply(report))
        return reply


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
