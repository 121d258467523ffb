"""Speak MCP with an agent, over standard input and output.

This is what an agent's configuration starts; docs/mcp.md has a copyable one for each host. The process is a thin proxy:
the work is done by the warm daemon, which is started if need be, so that ten agents share one model. Without a daemon
it does the work itself. It leaves when the agent closes its end.

examples:
  lorelog mcp                               the project of the current directory
  lorelog mcp --project ~/work/app          another one, for hosts that start servers elsewhere
  claude mcp add lorelog -- lorelog mcp   tell Claude Code
"""

from __future__ import annotations

import argparse
import os

from lorelog.core.errors import NotFound
from lorelog.surfaces.cli.arguments import add_asking
from lorelog.surfaces.cli.asking import warm_mode


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("--project", metavar="DIR", help="stand in another project than the current directory's")
    add_asking(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the agent leaves."""
    from lorelog.surfaces.mcp.proxy import Proxy, connector, own_output

    mode = warm_mode(args.warm)
    directory = os.path.abspath(args.project or ".")  # noqa: PTH100  (pathlib takes 10 ms to import)
    if not os.path.isdir(directory):  # noqa: PTH112
        raise NotFound(f"there is no directory {directory}", hint="--project names the directory of a project")
    environment = dict(os.environ)
    if args.tenant:
        environment["LORELOG_SCOPE_TENANT"] = args.tenant
    Proxy(connector(mode, directory, environment), 0, own_output(), greets=mode != "required").run()
    return 0
