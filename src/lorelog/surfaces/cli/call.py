"""Call an operation with JSON arguments, and print its JSON reply.

'lorelog ops' lists the operations and their arguments. On failure it prints {"error": …} and exits with status 1, or 2 if the
request is invalid.

examples:
  lorelog call search '{"query": "why redis", "k": 3}'
  lorelog call memory.stats
  lorelog call add_batch --input memories.json
  echo '{"id": "65fcbf6e"}' | lorelog call expand -
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.core.quick_json import loads
from lorelog.surfaces.cli.arguments import add_project_option, add_scope_options
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", metavar="OP", help="name of the operation; 'memory.' may be omitted")
    parser.add_argument(
        "arguments", nargs="?", metavar="JSON", help="arguments as a JSON object (default {}); '-' reads standard input"
    )
    parser.add_argument("--input", metavar="PATH", help="file with the arguments; '-' reads standard input")
    parser.add_argument("--json", action="store_true", help="accepted as everywhere; the reply is always JSON")
    add_project_option(parser)
    add_scope_options(parser)


def run(args: argparse.Namespace) -> int:
    """Call the operation and print its reply."""
    print_json(call_operation(args, args.op, _read_arguments(args), start_daemon=True))
    return 0


def _read_arguments(args: argparse.Namespace) -> dict[str, Any]:
    if args.input and args.arguments is not None:
        raise UsageError("use either JSON or --input, not both", hint="lorelog call --help")
    path = args.input or ("-" if args.arguments == "-" else "")
    text = _read_input(path) if path else args.arguments or "{}"
    where = "standard input" if path == "-" else path or "the JSON argument"
    try:
        arguments = loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError(f"{where} must be a JSON object", hint="""such as '{"query": "why redis"}'""")
    for name in ("project", "tenant"):
        if getattr(args, name) is None:
            setattr(args, name, arguments.get(name))
    return arguments


def _read_input(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
