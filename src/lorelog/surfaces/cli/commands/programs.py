"""Commands that other programs run, and servers: call, batch, ops, mcp, lsp, serve and ui."""

from __future__ import annotations

import os
import sys
import time

from lorelog.core.atomic_file import read_bounded_lines
from lorelog.core.errors import DaemonError, LorelogError, NotFound, UsageError, nearest_name
from lorelog.light.quick_json import loads
from lorelog.surfaces.cli.arguments import read_text
from lorelog.surfaces.cli.client import (
    OperationClient,
    call_operation,
    launch_daemon,
    print_json,
    print_note,
    print_reply,
    print_table,
    tell_unresponsive,
)
from lorelog.surfaces.text import short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from typing import Any

    from lorelog.core.options import DaemonOptions, HttpOptions
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.operations.operation import Json
    from lorelog.wiring import Location, ResourcePool


ARGUMENTS = {
    "call": {
        "op OP": "name of the operation; 'memory.' may be omitted",
        "arguments JSON?": "arguments as a JSON object (default {}); '-' reads standard input",
        "--input PATH": "file with the arguments; '-' reads standard input",
        "--json": "accepted as everywhere; the reply is always JSON",
        "shared": "project tenant daemon",
    },
    "batch": {
        "--jsonl PATH!": "file with the requests; '-' reads standard input",
        "--stream": "print each row at once, for a program that sends requests as it reads",
        "--continue-on-error": "run the remaining lines after a failure",
        "shared": "project tenant daemon",
    },
    "ops": {"op OP?": "name of an operation", "shared": "json"},
    "mcp": {"shared": "project tenant daemon"},
    "lsp": {"shared": "tenant daemon"},
    "serve": {
        "--host HOST": "address to listen on (http.host)",
        "--token-env NAME": "require the token in this environment variable (http.token)",
        "--no-token": "serve every user of this machine without a token (http.require_token)",
        "--project DIR": "project of requests that name no directory",
        "shared": "port daemon",
    },
    "ui": {
        "id ID?": "show this memory first",
        "--no-open": "print the address instead of opening a browser",
        "--project DIR": "the project to show",
        "shared": "port daemon",
    },
}


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
    text = read_text(path, file=True) if path else args.arguments or "{}"
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


MAX_LINE_BYTES = 16 * 1024 * 1024


def run_batch(args: argparse.Namespace) -> int:
    """Call many operations in order, one per line of input.

    Each line is {"op": "memory.search", "arguments": {…}}. One row is printed per line: {"ok", "index", "line", "op", "elapsed_ms",
    "result" or "error"}; other fields of the line are named in "ignored". The batch stops at the first failure, with exit status 1. With --continue-on-error it runs all lines,
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
    with (
        sys.stdin.buffer if args.jsonl == "-" else open(args.jsonl, "rb") as file,
        closing(OperationClient(args.warm, start_daemon=True, shared=True)) as client,
    ):
        for index, (number, line) in enumerate(read_bounded_lines(file, MAX_LINE_BYTES)):
            row = _run_line(client, line, (index, number), args, projects)
            print(json.dumps(row, ensure_ascii=False), flush=args.stream)
            failed = failed or not row["ok"]
            if failed and not args.continue_on_error:
                break
    return 1 if failed else 0


def _run_line(
    client: OperationClient, line: bytes, place: tuple[int, int], args: argparse.Namespace, projects: set[str]
) -> dict[str, Any]:
    started = time.perf_counter()
    row: dict[str, Any] = {"ok": False, "index": place[0], "line": place[1], "op": ""}
    outcome: dict[str, Any]
    try:
        row["op"], arguments, ignored = _parse_line(line)
        row |= {"ignored": ignored} if ignored else {}
        name = arguments.get("project_id")
        if isinstance(name, str) and "project" not in arguments and not name.startswith(("/", "~", "./", "../")):
            projects.add(name)
            if first := ", ".join(sorted(projects - {name})):  # lines of memd: all would be written to this project
                raise UsageError(
                    f"this line belongs to the project {name!r}, the lines before to {first!r}",
                    hint="run the lines of each project in its directory, or name the directory as project_id",
                )
        for option in ("project", "tenant"):
            if arguments.get(option) is None and getattr(args, option) is not None:
                arguments[option] = getattr(args, option)
        outcome = {"result": client.call(row["op"], arguments)}
        row["ok"] = True
    except LorelogError as error:
        outcome = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
    row["elapsed_ms"] = round((time.perf_counter() - started) * 1000, 3)
    return row | outcome


def _parse_line(line: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Return the operation of a line, its arguments, and the fields that mean nothing here: as in memd, they are no fault."""
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
    ignored = sorted(set(entry) - {"op", "tool", "arguments"})
    arguments = entry.get("arguments")
    if "arguments" not in entry and (near := [name for name in ignored if nearest_name(name, ("arguments", "args"))]):
        raise UsageError(f"the line has an unknown field {near[0]!r}", hint="did you mean 'arguments'?")
    if arguments is not None and not isinstance(arguments, dict):
        raise UsageError("the arguments must be a JSON object")
    return op, dict(arguments or {}), ignored


def run_ops(args: argparse.Namespace) -> int:
    """List the operations, or show one: its arguments, errors, and the surfaces that offer it.

    examples:
      lorelog ops
      lorelog ops memory.search
      lorelog ops --json                        the JSON Schema of every operation
    """
    from lorelog.operations.catalogue import describe_all, describe_operation, find_operation

    if args.op:
        return print_reply(args, describe_operation(find_operation(args.op)), _show_operation)

    def show(reply: Json, args: argparse.Namespace) -> None:
        print_table([(stylize(each["name"], "cyan"), each["summary"]) for each in reply["operations"]], head="")

    operations = sorted(describe_all(), key=lambda operation: str(operation["name"]))
    return print_reply(args, {"operations": operations}, show)


def _show_operation(operation: Json, args: argparse.Namespace) -> None:
    print(f"{stylize(operation['name'], 'cyan')}\n\n{operation['description']}\n")
    required = set(operation["request"].get("required", ()))
    for name, field in operation["request"]["properties"].items():
        value = field.get("default")
        default = "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
        variants = [field, *field.get("anyOf", ())]
        choices = next((variant["enum"] for variant in variants if variant.get("enum")), ())
        meaning = field.get("description", "") + (f" ({', '.join(map(str, choices))})" if choices else "")
        print(f"  {stylize(name, 'bold')} ({'required' if name in required else f'default {default}'})  {meaning}")
    print(f"\nerrors: {', '.join(operation['errors'])}")
    for surface, reason in operation["surfaces"].items():
        if reason is not True:
            print(f"not available over {surface}: {reason}")


def run_mcp(args: argparse.Namespace) -> int:
    """Run an MCP server on standard input and output.

    Agents start this command; 'lorelog docs mcp' has the configuration for each host. The daemon does the work and is started if
    needed, so that ten agents share one model. Without a daemon the process does the work itself. It exits when the agent closes the
    connection.

    examples:
      lorelog mcp                               use the current directory's project
      lorelog mcp --project ~/work/app          use another project
      claude mcp add lorelog -- lorelog mcp     register it with Claude Code
    """
    from lorelog.surfaces.mcp.session import CALLER, McpMethods, McpSession, claim_stdout

    directory = os.path.abspath(args.project or ".")
    if not os.path.isdir(directory):
        raise NotFound(f"there is no directory {directory}", hint="--project must be the directory of a project")
    tenant = {"LORELOG_SCOPE_TENANT": args.tenant} if args.tenant else {}
    client = OperationClient(args.warm, start_daemon=True, shared=True, returns=True)

    def call(op: str, arguments: dict[str, Any], progress: Progress) -> Json:
        return client.call(op, arguments, progress, directory=directory, environment=tenant, caller=CALLER)

    McpSession(0, claim_stdout(), McpMethods(call)).run()
    return 0


def run_lsp(args: argparse.Namespace) -> int:
    """Run a language server on standard input and output.

    Editors start this command; 'lorelog docs editors' has the configuration for each. It shows why a line exists and what is
    remembered about it, and asks the daemon, which is started if needed. It needs the extra: pip install 'lorelog[lsp]'.

    examples:
      lorelog lsp                               what an editor starts
    """
    from lorelog.core.extras import require_extra

    require_extra("lsp", "the language server")
    from lorelog.surfaces.lsp.server import serve
    from lorelog.surfaces.mcp.session import claim_stdout

    tenant = {"LORELOG_SCOPE_TENANT": args.tenant} if args.tenant else {}

    def caller() -> Callable[[str, Mapping[str, Any], str], Json]:
        client = OperationClient(args.warm, start_daemon=True, shared=True)
        return lambda op, request, directory: client.call(op, request, directory=directory, environment=tenant)

    serve([caller(), caller()], claim_stdout())
    return 0


_IDLE_CHECK_S = 30.0


def run_serve(args: argparse.Namespace) -> int:
    """Serve the HTTP API and the page.

    Endpoints: the page (/; 'lorelog ui' opens it), /api/memory/… (as in Loop, an agent server), every operation (/api/call/NAME), /api/ops, /health, /metrics,
    /openapi.json, and MCP over streamable HTTP (/mcp). Only this machine can connect unless --host is given. Every request except
    /health needs a bearer token: the one in run/http.token of the home, which is created once, or that of --token-env. The daemon
    handles the requests if it runs, otherwise this process. Press Ctrl-C to stop.

    examples:
      lorelog serve
      lorelog serve --port 0
      LORELOG_TOKEN=… lorelog serve --host 0.0.0.0 --token-env LORELOG_TOKEN
      curl -s localhost:8222/health
    """
    from msgspec.structs import replace

    from lorelog.core.options import DaemonOptions
    from lorelog.surfaces.http.tickets import token_path, with_token
    from lorelog.wiring import resolve_location, settings_at

    if args.no_token and args.token_env is not None:
        raise UsageError("--no-token and --token-env exclude each other", hint="leave out one of them")
    location = resolve_location(project=args.project)
    flags = {
        "http.host": args.host,
        "http.port": args.port,
        "http.token": None if args.token_env is None else f"env:{args.token_env}",
        "http.require_token": False if args.no_token else None,
        "daemon.warm": args.warm,
    }
    settings = settings_at(location, flags)
    configured = settings.http_options(location.environment)
    if args.no_token:
        configured = replace(configured, token="")
    options = with_token(configured, str(location.home))
    own_path = token_path(str(location.home)) if options.token and not configured.token else ""

    def show(url: str, port: int) -> None:
        """Print the address and what a client must send. A token is shown on a terminal only: other output may be a log."""
        print(f"Serving {url} (press Ctrl-C to stop)", flush=True)
        if not options.token:
            print_note("warning: no token is required; every user of this machine can read and write your memories")
        elif not own_path:
            print_note("clients must send the token of http.token: Authorization: Bearer TOKEN")
        elif sys.stdout.isatty():
            print(f"Header: Authorization: Bearer {options.token}\n(from {short_path(own_path)})", flush=True)
        else:
            print_note(f"clients must send the token in {short_path(own_path)}: Authorization: Bearer TOKEN")

    _serve(location, options, settings.options(DaemonOptions), tenant=settings.tenant(), started=show)
    return 0


def _serve(
    location: Location,
    options: HttpOptions,
    daemon: DaemonOptions,
    *,
    tenant: str,
    started: Callable[[str, int], object],
) -> None:
    """Serve the API, the page and MCP of a home until interrupted. `started` gets the address and the port."""
    import threading
    from contextlib import ExitStack, closing

    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.surfaces.http.server import build_app, serve_app
    from lorelog.surfaces.http.tickets import announce_server
    from lorelog.surfaces.mcp.endpoint import mcp_routes
    from lorelog.surfaces.page.app import PageContext, page_routes
    from lorelog.wiring import ResourcePool

    home, project = str(location.home), location.project.root
    caller = ClientIdentity(project, location.environment, home, own=False)
    stopped = threading.Event()
    with ExitStack() as contexts:
        resources = contexts.enter_context(closing(ResourcePool()))
        contexts.callback(stopped.set)
        call = _FallbackClient(daemon.warm, resources)

        def unload() -> None:
            while not stopped.wait(_IDLE_CHECK_S):
                resources.unload_idle(daemon.model_idle_s)

        def start(url: str) -> None:
            port = int(url.rpartition(":")[2])
            contexts.enter_context(announce_server(home, url, port))
            started(url, port)

        threading.Thread(target=unload, name="lorelog-rest", daemon=True).start()
        page = page_routes(call, caller, PageContext(project, home, tenant))
        serve_app(build_app(call, options, caller, mcp_routes(call, caller), page), options, started=start)


class _FallbackClient:
    """Calls the daemon, or works in this process. Long-lived, so it tries the daemon again for every request."""

    def __init__(self, warm: str, resources: ResourcePool) -> None:
        from lorelog.operations.dispatch import Dispatcher

        self._warm = warm
        self._local = Dispatcher(resources.engine)

    def __call__(
        self, op: str, arguments: object, caller: ClientIdentity, progress: Progress | None = None, /
    ) -> dict[str, Any]:
        if self._warm != "off" and isinstance(arguments, dict):
            from lorelog.light import daemon_client as client

            try:
                return client.call_daemon(
                    op,
                    arguments,
                    directory=caller.directory,
                    environment=caller.environment,
                    home=caller.home,
                    start=launch_daemon if self._warm == "required" else None,
                    progress=progress,
                    caller={"own": caller.own, "names_files": caller.names_files},
                )
            except DaemonError as error:
                if self._warm == "required":
                    raise
                tell_unresponsive(error)
        return self._local.call(op, arguments, caller, progress)


def run_ui(args: argparse.Namespace) -> int:
    """Open the page: search, memories, what agents were shown, records, health and settings in your browser.

    The page is served on this machine only, as by 'lorelog serve'; if a server of this home runs, it is used. The address has a
    ticket that works once, so each browser is opened by this command. Press Ctrl-C to stop the server.

    examples:
      lorelog ui
      lorelog ui 65fcbf6e
      lorelog ui --no-open
    """
    from urllib.parse import quote

    view = f"memory/{quote(args.id)}" if args.id else "home"
    return serve_page(
        "lorelog ui", view, project=args.project, port=args.port, warm=args.warm, opens_browser=not args.no_open
    )


def serve_page(
    command: str,
    view: str,
    *,
    project: str | None,
    port: int | None,
    warm: str | None = None,
    opens_browser: bool = False,
) -> int:
    """Show a view of the page: on a running server of this home, or on one that serves until it is interrupted."""
    from urllib.parse import quote

    from msgspec.structs import replace

    from lorelog.core.caller import detect_agent
    from lorelog.core.options import DaemonOptions
    from lorelog.surfaces.http.server import open_listener
    from lorelog.surfaces.http.tickets import find_server, issue_ticket, with_token
    from lorelog.wiring import resolve_location, settings_at

    location = resolve_location(project=project)
    home = str(location.home)

    def show(url: str, at: int) -> None:
        ticket = issue_ticket(home, at, detect_agent(os.environ))
        _show_page(f"{url}/?ticket={ticket}#/{view}?project={quote(location.project.root)}", opens=opens_browser)

    def announce(url: str, at: int) -> None:
        show(url, at)
        print("Press Ctrl-C to stop the server.", flush=True)

    running = find_server(home) if port is None else None
    if running is not None:
        show(*running)
        return 0
    settings = settings_at(location, {"http.host": "127.0.0.1", "http.port": port, "daemon.warm": warm})
    options = with_token(replace(settings.http_options(location.environment), require_token=True), home)
    if port is None:
        try:
            open_listener(options).close()
        except UsageError:  # our port is taken
            options = replace(options, port=0)
    _serve(location, options, settings.options(DaemonOptions), tenant=settings.tenant(), started=announce)
    return 0


def _show_page(address: str, *, opens: bool) -> None:
    """Open the address in a browser, or print it: it works once, so a terminal's history does not matter."""
    if opens:
        import webbrowser

        try:
            if webbrowser.open(address):
                print(f"Opened {address.partition('?')[0]} in your browser.", flush=True)
                return
        except webbrowser.Error:
            pass
        print_note("no browser could be started; open this address, which works once:")
    print(address, flush=True)
