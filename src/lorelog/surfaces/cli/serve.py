"""Serve the HTTP API.

Endpoints: /api/memory/… (compatible with Loop), every operation (/api/call/NAME), /api/ops, /health, /metrics,
/openapi.json, and MCP over streamable HTTP (/mcp). Only this machine can connect unless --host is given, and then a bearer
token is required. The daemon handles the requests if it runs, otherwise this process. Press Ctrl-C to stop.

examples:
  lorelog serve
  lorelog serve --port 0
  LORELOG_TOKEN=… lorelog serve --host 0.0.0.0 --token-env LORELOG_TOKEN
  curl -s localhost:8222/health
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError
from lorelog.surfaces.cli.client import add_daemon_option, launch_daemon, tell_unresponsive

if TYPE_CHECKING:
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import CallOperation, ClientIdentity
    from lorelog.surfaces.http.app import MountedApp
    from lorelog.wiring import ResourcePool

_IDLE_CHECK_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--host", metavar="HOST", help="address to listen on (http.host)")
    parser.add_argument("--port", type=int, metavar="N", help="port; 0 chooses a free one (http.port)")
    parser.add_argument(
        "--token-env", metavar="NAME", help="require the token in this environment variable (http.token)"
    )
    parser.add_argument("--project", metavar="DIR", help="project of requests that name no directory")
    add_daemon_option(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.surfaces.http.server import serve
    from lorelog.wiring import resolve_location, settings_at

    location = resolve_location(project=args.project)
    flags = {
        "http.host": args.host,
        "http.port": args.port,
        "http.token": None if args.token_env is None else f"env:{args.token_env}",
        "daemon.warm": args.warm,
    }
    settings = settings_at(location, flags)
    options = settings.http_options(location.environment)
    caller = ClientIdentity(location.project.root, location.environment, str(location.home), own=False)
    with _open_fallback_client(settings.daemon_options().warm, settings.daemon_options().model_idle_s) as call:
        serve(call, options, caller, [_mcp_app(call, caller)], started=_print_url)
    return 0


def _print_url(url: str) -> None:
    print(f"Serving {url} (press Ctrl-C to stop)", flush=True)


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
            from lorelog.surfaces.daemon_client import client

            try:
                return client.call_daemon(
                    op,
                    arguments,
                    directory=caller.directory,
                    environment=caller.environment,
                    home=caller.home,
                    start=launch_daemon if self._warm == "required" else None,
                    progress=progress,
                    own=caller.own,
                )
            except DaemonError as error:
                if self._warm == "required":
                    raise
                tell_unresponsive(error)
        return self._local.call(op, arguments, caller, progress)
