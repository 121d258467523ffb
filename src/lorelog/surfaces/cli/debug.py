"""Show what was called and what went wrong, and take in logs.

Every operation notes that it was called, and captured turns of agents contribute their tool calls and the errors they met. 'ingest'
reads a log, a test run or anything else that programs print, from a file (gzipped or not) or from standard input, and keeps
the errors that it tells: stack traces of Python, JavaScript, Rust, Go, Java and others, compilers and test runners. The same
error has the same signature, whatever its line numbers and paths; reading the same log again adds nothing. Secrets are
taken out first. What is kept is bounded (traces.days, traces.megabytes), and traces.enabled false keeps nothing.

examples:
  lorelog debug ingest app.log.gz
  pytest 2>&1 | lorelog debug ingest -
  lorelog debug errors                             what went wrong, by signature
  lorelog debug errors KeyError --since 7d --each  each time it happened, with its frames
  lorelog debug calls --failed --tool memory       operations on memory that failed
  lorelog why "KeyError: 'id'"                     was it seen before, and what fixed it?
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_verb, own_path
from lorelog.surfaces.cli.asking import ask, warm_mode
from lorelog.surfaces.cli.debug_paper import show_calls, show_errors, show_groups, show_ingested
from lorelog.surfaces.cli.paper import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    took = add_verb(parser, verbs, "ingest", "read a log and keep the errors that it tells")
    took.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="a log, gzipped or not; - reads standard input"
    )
    add_common(took, project="keep them under the project of DIR")
    errors = add_verb(parser, verbs, "errors", "show what went wrong, by signature")
    errors.add_argument(
        "signature",
        metavar="SIGNATURE",
        nargs="?",
        default="",
        help="only this one: a signature, its beginning, or a type",
    )
    errors.add_argument("--each", action="store_true", help="each time it happened, with its frames")
    errors.add_argument("--function", default="", metavar="NAME", help="only what went through a function named so")
    errors.add_argument(
        "--file", default="", metavar="PATH", help="only what went through a file with this in its path"
    )
    errors.add_argument("--text", default="", metavar="TEXT", help="only with this in the message")
    calls = add_verb(parser, verbs, "calls", "show which operations and tools were called, newest first")
    calls.add_argument(
        "--tool", default="", metavar="NAME", help="only this one; 'memory' stands for memory.search and all"
    )
    calls.add_argument("--failed", action="store_true", help="only those that failed")
    for verb in (errors, calls):
        verb.add_argument("--session", default="", metavar="ID", help="only of this session")
        verb.add_argument(
            "--from",
            dest="origin",
            choices=("operation", "turn", "log"),
            help="only of our own operations, of agents' turns, or of logs",
        )
        verb.add_argument("--since", default="", metavar="WHEN", help="from then on: 2026-03-05, today, 7d, or a time")
        verb.add_argument("--until", default="", metavar="WHEN", help="up to then")
        verb.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="at most so many (default 20)")
        verb.add_argument("--all-projects", action="store_true", help="of all projects")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    return {"ingest": _ingest, "errors": _errors, "calls": _calls}[args.verb](args)


def _ingest(args: argparse.Namespace) -> int:
    reply = _ingest_input(args) if args.file == "-" else ask(args, "debug.ingest", {"path": own_path(args.file)})
    if args.json:
        print_json(reply)
    else:
        show_ingested(reply)
    return 0


def _ingest_input(args: argparse.Namespace) -> dict[str, Any]:
    """Read standard input here: it may be endless, and is nobody else's."""
    from lorelog.operations import debug, debug_shapes
    from lorelog.operations.debug_requests import IngestRequest
    from lorelog.wiring import open_engine, standpoint

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "there is nothing to read", hint="lorelog debug ingest FILE, or make test 2>&1 | lorelog debug ingest -"
        )
    warm_mode(args.warm)
    here = standpoint(project=args.project, tenant=args.tenant)
    with open_engine(here, {"scope.tenant": args.tenant}) as engine:
        found = debug.ingester(engine).read(sys.stdin.buffer, "standard input")
        return dict(debug_shapes.ingest_shape(found, IngestRequest()))


def _errors(args: argparse.Namespace) -> int:
    request = {
        "error_signature": args.signature,
        "function_name": args.function,
        "file_path": args.file,
        "text": args.text,
        "include_frames": args.each or args.json,
        **_traced(args),
    }
    reply = ask(args, "debug.find_errors", request)
    if args.json:
        print_json(reply)
    elif args.each:
        show_errors(reply)
    else:
        show_groups(reply["groups"], reply["total_count"])
    return 0


def _calls(args: argparse.Namespace) -> int:
    request = {"tool_name": args.tool, "errors_only": args.failed, **_traced(args)}
    reply = ask(args, "debug.find_tool_calls", request)
    if args.json:
        print_json(reply)
    else:
        show_calls(reply)
    return 0


def _traced(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "session_id": args.session,
        "source": args.origin or "",
        "time_from": args.since,
        "time_to": args.until,
        "limit": args.limit,
        "all_projects": args.all_projects,
    }
