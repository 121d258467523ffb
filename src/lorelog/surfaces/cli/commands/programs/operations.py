"""Commands for other programs: call, batch and ops by name, and mcp."""

from __future__ import annotations

import os
import sys
import time

from lorelog.core.errors import LorelogError, NotFound, UsageError
from lorelog.light.quick_json import loads
from lorelog.surfaces.cli.arguments import add_project_option, add_scope_options
from lorelog.surfaces.cli.client import OperationClient, call_operation, daemon_mode
from lorelog.surfaces.cli.render import print_json, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import IO, Any


def configure_call(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", metavar="OP", help="name of the operation; 'memory.' may be omitted")
    parser.add_argument(
        "arguments", nargs="?", metavar="JSON", help="arguments as a JSON object (default {}); '-' reads standard input"
    )
    parser.add_argument("--input", metavar="PATH", help="file with the arguments; '-' reads standard input")
    parser.add_argument("--json", action="store_true", help="accepted as everywhere; the reply is always JSON")
    add_project_option(parser)
    add_scope_options(parser)


def run_call(args: argparse.Namespace) -> int:
    """Call an operation with JSON arguments, and print its JSON reply.

    'lorelog ops' lists the operations and their arguments. On failure it prints {"error": …} and exits with status 1, or 2 if the
    request is invalid.

    examples:
      lorelog call search '{"query": "why redis", "k": 3}'
      lorelog call memory.stats
      lorelog call add_batch --input memories.json
      echo '{"id": "65fcbf6e"}' | lorelog call expand -
    """
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
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


MAX_LINE_BYTES = 16 * 1024 * 1024


def configure_batch(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--jsonl", required=True, metavar="PATH", help="file with the requests; '-' reads standard input"
    )
    parser.add_argument(
        "--stream", action="store_true", help="print each row at once, for a program that sends requests as it reads"
    )
    parser.add_argument("--continue-on-error", action="store_true", help="run the remaining lines after a failure")
    add_project_option(parser)
    add_scope_options(parser)


def run_batch(args: argparse.Namespace) -> int:
    """Call many operations in order, one per line of input.

    Each line is {"op": "memory.search", "arguments": {…}}. One row is printed per line: {"ok", "index", "line", "op", "elapsed_ms",
    "result" or "error"}. The batch stops at the first failure, with exit status 1. With --continue-on-error it runs all lines,
    and the exit status is still 1.

    examples:
      lorelog batch --jsonl requests.jsonl
      lorelog batch --jsonl - --continue-on-error < requests.jsonl
      generate | lorelog batch --jsonl - --stream | consume
    """
    import json
    from contextlib import closing

    failed = False
    projects: set[str] = set()
    with _open_input(args.jsonl) as file, closing(OperationClient(args.warm, start_daemon=True, shared=True)) as client:
        for index, (number, line) in enumerate(_read_lines(file)):
            row = _run_line(client, line, (index, number), args, projects)
            print(json.dumps(row, ensure_ascii=False), flush=args.stream)
            failed = failed or not row["ok"]
            if failed and not args.continue_on_error:
                break
    return 1 if failed else 0


def _open_input(path: str) -> IO[bytes]:
    return sys.stdin.buffer if path == "-" else open(path, "rb")


def _read_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines with their numbers. A line that is too long is cut off."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
            if not rest or rest.endswith(b"\n"):
                break
        if line.strip():
            yield number, line


def _run_line(
    client: OperationClient, line: bytes, place: tuple[int, int], args: argparse.Namespace, projects: set[str]
) -> dict[str, Any]:
    started = time.perf_counter()
    row: dict[str, Any] = {"ok": False, "index": place[0], "line": place[1], "op": ""}
    outcome: dict[str, Any]
    try:
        row["op"], arguments = _parse_line(line)
        _check_project_name(arguments, projects)
        for name in ("project", "tenant"):
            if arguments.get(name) is None and getattr(args, name) is not None:
                arguments[name] = getattr(args, name)
        outcome = {"result": client.call(row["op"], arguments)}
        row["ok"] = True
    except LorelogError as error:
        outcome = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    row["elapsed_ms"] = round((time.perf_counter() - started) * 1000, 3)
    return row | outcome


def _check_project_name(arguments: dict[str, Any], projects: set[str]) -> None:
    """Raise UsageError for the second project that memd's lines name: all of them would be written to this one."""
    name = arguments.get("project_id")
    if isinstance(name, str) and "project" not in arguments and not name.startswith(("/", "~", "./", "../")):
        projects.add(name)
        if len(projects) > 1:
            first = ", ".join(sorted(projects - {name}))
            raise UsageError(
                f"this line belongs to the project {name!r}, the lines before to {first!r}",
                hint="run the lines of each project in its directory, or name the directory as project_id",
            )


def _parse_line(line: bytes) -> tuple[str, dict[str, Any]]:
    import json

    if len(line) > MAX_LINE_BYTES:
        raise UsageError(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the line is not valid JSON: {error}") from None
    # memd calls the field `tool`; batches written for it keep working.
    op = entry.get("op", entry.get("tool")) if isinstance(entry, dict) else None
    if not isinstance(op, str):
        raise UsageError("the line has no 'op'", hint="""{"op": "memory.search", "arguments": {"query": "…"}}""")
    unknown = sorted(set(entry) - {"op", "tool", "arguments"})
    if unknown:
        raise UsageError(f"the line has an unknown field {unknown[0]!r}", hint="use only op and arguments")
    arguments = entry.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise UsageError("the arguments must be a JSON object")
    return op, dict(arguments or {})


def configure_ops(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("op", nargs="?", metavar="OP", help="name of an operation")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run_ops(args: argparse.Namespace) -> int:
    """List the operations, or show one: its arguments, errors, and the surfaces that offer it.

    examples:
      lorelog ops
      lorelog ops memory.search
      lorelog ops --json                        the JSON Schema of every operation
    """
    from lorelog.operations.catalogue import describe_all, describe_operation, find_operation

    if args.op:
        operation = describe_operation(find_operation(args.op))
        if args.json:
            print_json(operation)
        else:
            _show_operation(operation)
        return 0
    operations = sorted(describe_all(), key=lambda operation: str(operation["name"]))
    if args.json:
        print_json({"operations": operations})
    else:
        width = max(len(operation["name"]) for operation in operations)
        for operation in operations:
            print(f"{stylize(operation['name'].ljust(width), 'cyan')}  {operation['summary']}")
    return 0


def _show_operation(operation: dict[str, Any]) -> None:
    print(f"{stylize(operation['name'], 'cyan')}\n\n{operation['description']}\n")
    required = set(operation["request"].get("required", ()))
    for name, field in operation["request"]["properties"].items():
        kind = "required" if name in required else f"default {_format_default(field)}"
        print(f"  {stylize(name, 'bold')} ({kind})  {_format_meaning(field)}")
    print(f"\nerrors: {', '.join(operation['errors'])}")
    for surface, reason in operation["surfaces"].items():
        if reason is not True:
            print(f"not available over {surface}: {reason}")


def _format_default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _format_meaning(field: dict[str, Any]) -> str:
    text: str = field.get("description", "")
    choices = field.get("enum") or next(
        (variant["enum"] for variant in field.get("anyOf", ()) if "enum" in variant), None
    )
    return f"{text} ({', '.join(map(str, choices))})" if choices else text


def configure_mcp(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_project_option(parser)
    add_scope_options(parser)


def run_mcp(args: argparse.Namespace) -> int:
    """Run an MCP server on standard input and output.

    Agents start this command; 'lorelog docs mcp' has the configuration for each host. The process is a thin proxy: the daemon does the
    work and is started if needed, so that ten agents share one model. Without a daemon the process does the work itself. It
    exits when the agent closes the connection.

    examples:
      lorelog mcp                               use the current directory's project
      lorelog mcp --project ~/work/app          use another project
      claude mcp add lorelog -- lorelog mcp     register it with Claude Code
    """
    from lorelog.surfaces.mcp.proxy import McpProxy, claim_stdout, make_connector

    mode = daemon_mode(args.warm)
    directory = os.path.abspath(args.project or ".")
    if not os.path.isdir(directory):
        raise NotFound(f"there is no directory {directory}", hint="--project must be the directory of a project")
    environment = dict(os.environ)
    if args.tenant:
        environment["LORELOG_SCOPE_TENANT"] = args.tenant
    McpProxy(make_connector(mode, directory, environment), 0, claim_stdout(), greets=mode != "required").run()
    return 0
