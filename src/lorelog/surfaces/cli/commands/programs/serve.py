"""Commands that serve other programs: serve and ui."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import DaemonError, UsageError
from lorelog.surfaces.cli.arguments import (
    MAX_PORT,
    add_daemon_option,
    whole_number,
)
from lorelog.surfaces.cli.client import launch_daemon, tell_unresponsive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lorelog.core.options import DaemonOptions, HttpOptions
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import CallOperation, ClientIdentity
    from lorelog.surfaces.http.app import MountedApp
    from lorelog.wiring import Location, ResourcePool

_IDLE_CHECK_S = 30.0


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--host", metavar="HOST", help="address to listen on (http.host)")
    parser.add_argument(
        "--port", type=whole_number(0, MAX_PORT), metavar="N", help="port; 0 chooses a free one (http.port)"
    )
    parser.add_argument(
        "--token-env", metavar="NAME", help="require the token in this environment variable (http.token)"
    )
    parser.add_argument(
        "--no-token", action="store_true", help="serve every user of this machine without a token (http.require_token)"
    )
    parser.add_argument("--project", metavar="DIR", help="project of requests that name no directory")
    add_daemon_option(parser)


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
    from lorelog.core.extras import require_extra

    require_extra("serve", "lorelog serve")
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
    own_token = token_path(str(location.home)) if options.token and not configured.token else ""
    daemon, tenant = settings.daemon_options(), settings.tenant()
    serving = _Serving(location, options, daemon, tenant)
    serving.run(started=lambda url, _: _print_start(options.token, own_token, url))
    return 0


Started = Callable[[str, int], object]
"""Called with the address and the port of a server that has started."""


def serve_home(location: Location, flags: Mapping[str, object], *, started: Started, any_port: bool) -> None:
    """Serve as 'lorelog serve' does, with the home's own token; at a free port if `any_port` and ours is taken."""
    from lorelog.surfaces.http.server import open_listener
    from lorelog.surfaces.http.tickets import with_token
    from lorelog.wiring import settings_at

    settings = settings_at(location, flags)
    options = with_token(replace(settings.http_options(location.environment), require_token=True), str(location.home))
    if any_port:
        try:
            open_listener(options).close()
        except UsageError:
            options = replace(options, port=0)

    def announce(url: str, port: int) -> None:
        started(url, port)
        print("Press Ctrl-C to stop the server.", flush=True)

    _Serving(location, options, settings.daemon_options(), settings.tenant()).run(started=announce)


class _Serving(Struct, frozen=True):
    """The API, the page and MCP of a home."""

    location: Location
    options: HttpOptions
    daemon: DaemonOptions
    tenant: str

    def run(self, *, started: Started) -> None:
        """Serve until interrupted."""
        from lorelog.core.paths import tenant_folder
        from lorelog.operations.dispatch import ClientIdentity
        from lorelog.surfaces.http.app import build_app
        from lorelog.surfaces.http.server import serve_app
        from lorelog.surfaces.http.tickets import announce_server
        from lorelog.surfaces.page.app import PageContext, page_routes, revision_reader

        home, project = str(self.location.home), self.location.project.root
        caller = ClientIdentity(project, self.location.environment, home, own=False)
        with _open_fallback_client(self.daemon.warm, self.daemon.model_idle_s) as call, ExitStack() as contexts:

            def start(url: str) -> None:
                port = int(url.rpartition(":")[2])
                contexts.enter_context(announce_server(home, url, port))
                started(url, port)

            revision = revision_reader(home, tenant_folder(home, self.tenant))
            page = page_routes(call, caller, PageContext(project, home, revision))
            serve_app(
                build_app(call, self.options, caller, [_mcp_app(call, caller)], page), self.options, started=start
            )


def _print_start(token: str, own_path: str, url: str) -> None:
    """Print the address and what a client must send. A token is shown on a terminal only: other output may be a log."""
    from lorelog.surfaces.cli.render import print_note, short_path

    print(f"Serving {url} (press Ctrl-C to stop)", flush=True)
    if not token:
        print_note("warning: no token is required; every user of this machine can read and write your memories")
    elif not own_path:
        print_note("clients must send the token of http.token: Authorization: Bearer TOKEN")
    elif sys.stdout.isatty():
        print(f"Header: Authorization: Bearer {token}\n(from {short_path(own_path)})", flush=True)
    else:
        print_note(f"clients must send the token in {short_path(own_path)}: Authorization: Bearer TOKEN")


def _mcp_app(call: CallOperation, caller: ClientIdentity) -> MountedApp:
    from lorelog.surfaces.http.app import lazy_app

    def load() -> Any:
        from lorelog.surfaces.mcp.streamable_http import streamable_http_app

        return streamable_http_app(call, caller)

    return lazy_app("/mcp", load)


@contextmanager
def _open_fallback_client(warm: str, model_idle_s: float) -> Iterator[CallOperation]:
    """Yield a function that calls operations; unload idle models meanwhile."""
    from lorelog.wiring import ResourcePool

    resources, stopped = ResourcePool(), threading.Event()

    def unload() -> None:
        while not stopped.wait(_IDLE_CHECK_S):
            resources.unload_idle(model_idle_s)

    threading.Thread(target=unload, name="lorelog-rest", daemon=True).start()
    try:
        yield _FallbackClient(warm, resources)
    finally:
        stopped.set()
        resources.close()


class _FallbackClient:
    """Calls the daemon, or works in this process. Long-lived, so it tries the daemon again for every request."""

    def __init__(self, warm: str, resources: ResourcePool) -> None:
        from lorelog.operations.dispatch import Dispatcher

        self._warm = warm
        self._local = Dispatcher(resources.engine)

    def __call__(
        self, op: str, arguments: object, caller: ClientIdentity, progress: Progress | None = None, /
    ) -> dict[str, Any]:
        if self._warm != "off" and isinstance(arguments, Mapping):
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


def configure_ui(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="show this memory first")
    parser.add_argument("--no-open", action="store_true", help="print the address instead of opening a browser")
    parser.add_argument(
        "--port", type=whole_number(0, MAX_PORT), metavar="N", help="port; 0 chooses a free one (http.port)"
    )
    parser.add_argument("--project", metavar="DIR", help="the project to show")
    add_daemon_option(parser)


def run_ui(args: argparse.Namespace) -> int:
    """Open the page: search, memories, what agents were told, records, health and settings in your browser.

    The page is served on this machine only, as by 'lorelog serve'; if a server of this home runs, it is used. The address has a
    ticket that works once, so each browser is opened by this command. Press Ctrl-C to stop the server.

    examples:
      lorelog ui
      lorelog ui 65fcbf6e
      lorelog ui --no-open
    """
    view = f"memory/{quote(args.id)}" if args.id else "search"
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
    from lorelog.core.extras import require_extra

    require_extra("serve", command)
    from lorelog.core.caller import detect_agent
    from lorelog.surfaces.http.tickets import find_server, issue_ticket
    from lorelog.wiring import resolve_location

    location = resolve_location(project=project)
    home = str(location.home)
    fragment = f"#/{view}?project={quote(location.project.root)}"

    def show(url: str, port: int) -> None:
        ticket = issue_ticket(home, port, detect_agent(os.environ))
        _show(f"{url}/?ticket={ticket}{fragment}", opens=opens_browser)

    running = find_server(home) if port is None else None
    if running is not None:
        show(*running)
        return 0
    flags = {"http.host": "127.0.0.1", "http.port": port, "daemon.warm": warm}
    serve_home(location, flags, started=show, any_port=port is None)
    return 0


def _show(address: str, *, opens: bool) -> None:
    """Open the address in a browser, or print it: it works once, so a terminal's history does not matter."""
    from lorelog.surfaces.cli.render import print_note

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
