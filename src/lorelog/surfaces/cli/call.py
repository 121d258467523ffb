"""Carry out one operation: JSON in, JSON out.

'lorelog ops' lists the operations and what each takes. The answer is the operation's own JSON, or {"error": …} with exit
status 1, or 2 when the request itself is wrong.

examples:
  lorelog call search --json '{"query": "why redis", "k": 3}'
  lorelog call memory.stats
  lorelog call add_batch --input memories.json
  echo '{"id": "65fcbf6e"}' | lorelog call expand --input -
"""

from __future__ import annotations

import json
import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_asking
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", metavar="OP", help="name of the operation; 'memory.' may be left out")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--json", metavar="JSON", help="the request, a JSON object; none is {}")
    given.add_argument("--input", metavar="PATH", help="a file that holds the request; '-' reads standard input")
    parser.add_argument("--project", metavar="DIR", help="stand in another project than the current directory's")
    add_asking(parser)


def run(args: argparse.Namespace) -> int:
    """Call, and print what came of it."""
    print_json(ask(args, args.op, _arguments(args), starts=True))
    return 0


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    if args.input:
        text, where = _read(args.input), args.input
    else:
        text, where = args.json or "{}", "--json"
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f"{where} must hold a JSON object", hint="""such as '{"query": "why redis"}'""")
    for name in ("project", "tenant"):
        if getattr(args, name) is None:
            setattr(args, name, given.get(name))
    return given


def _read(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
