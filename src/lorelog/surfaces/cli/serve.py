"""Serve HTTP on this machine.

Loop's endpoints (/api/memory/…), every operation (/api/call/NAME), /api/ops, /health, /metrics, /openapi.json, and MCP
over streamable HTTP (/mcp). Only this machine can reach it unless --host says otherwise, and then a bearer token is required. Requests are
answered by the warm daemon where there is one, else by this process. Ctrl-C ends it.

examples:
  lorelog serve
  lorelog serve --port 0
  LORELOG_TOKEN=… lorelog serve --host 0.0.0.0 --token-env LORELOG_TOKEN
  curl -s localhost:8222/api/memory/search -H 'Content-Type: application/json' -d '{"query": "redis", "dir_path": "/srv/app"}'
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError
from lorelog.surfaces.cli.asking import add_warm

if TYPE_CHECKING:
    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import Caller
    from lorelog.surfaces.http.app import Extra
    from lorelog.surfaces.http.calls import Answer
    from lorelog.wiring import Holdings

_LOOK_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare options."""
    parser.add_argument("--host", metavar="HOST", help="the address to serve on (http.host)")
    parser.add_argument("--port", type=int, metavar="N", help="the port to serve on; 0 takes a free one (http.port)")
    parser.add_argument(
        "--token-env", metavar="NAME", help="ask callers for the token in this environment variable (http.token)"
    )
    parser.add_argument("--project", metavar="DIR", help="where requests stand that name no directory")
    add_warm(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    from lorelog.operations.dispatch import Caller
    from lorelog.surfaces.http.server import serve
    from lorelog.wiring import settings_at, standpoint

    here = standpoint(project=args.project)
    flags = {
        "http.host": args.host,
        "http.port": args.port,
        "http.token": None if args.token_env is None else f"env:{args.token_env}",
        "daemon.warm": args.warm,
    }
    settings = settings_at(here, flags)
    options = settings.serving(here.environment)
    caller = Caller(here.project.root, here.environment, str(here.home), own=False)
    with _answering(settings.daemon().warm, settings.daemon().model_idle_s) as answer:
        serve(answer, options, caller, [_mcp(answer, caller)], started=_tell)
    return 0


def _tell(url: str) -> None:
    print(f"Serving {url} (Ctrl-C ends it)", flush=True)


def _mcp(answer: Answer, caller: Caller) -> Extra:
    from lorelog.surfaces.http.late import late

    def load() -> Any:
        from lorelog.surfaces.mcp.mount import mount

        return mount(answer, caller)

    return late("/mcp", load)


@contextmanager
def _answering(warm: str, model_idle_s: float) -> Iterator[Answer]:
    """Give whoever answers, and let go of a model that nobody has asked for a while."""
    from lorelog.wiring import Holdings

    held, ended = Holdings(), threading.Event()

    def rest() -> None:
        while not ended.wait(_LOOK_S):
            held.rest(model_idle_s)

    threading.Thread(target=rest, name="lorelog-rest", daemon=True).start()
    try:
        yield _Answering(warm, held)
    finally:
        ended.set()
        held.close()


class _Answering:
    """Asks the daemon, or works here where there is none."""

    def __init__(self, warm: str, held: Holdings) -> None:
        from lorelog.operations.dispatch import Dispatcher

        self._warm = warm
        self._here = Dispatcher(held.engine)

    def __call__(
        self, op: str, arguments: object, caller: Caller, progress: Progress | None = None, /
    ) -> dict[str, Any]:
        if self._warm != "off" and isinstance(arguments, Mapping):
            from lorelog.surfaces.daemon import client

            try:
                return client.ask(
                    op,
                    arguments,
                    directory=caller.directory,
                    environment=caller.environment,
                    home=caller.home,
                    starts=self._warm == "required",
                    progress=progress,
                    own=caller.own,
                )
            except DaemonError:
                if self._warm == "required":
                    raise
        return self._here.call(op, arguments, caller, progress)
