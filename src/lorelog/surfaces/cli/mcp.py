"""Run an MCP server on standard input and output.

Agents start this command; 'lorelog docs mcp' has the configuration for each host. The process is a thin proxy: the daemon does the
work and is started if needed, so that ten agents share one model. Without a daemon the process does the work itself. It
exits when the agent closes the connection.

examples:
  lorelog mcp                               use the current directory's project
  lorelog mcp --project ~/work/app          use another project
  claude mcp add lorelog -- lorelog mcp     register it with Claude Code
"""

from __future__ import annotations

import argparse
import os

from lorelog.core.errors import NotFound
from lorelog.surfaces.cli.arguments import add_project_option, add_scope_options
from lorelog.surfaces.cli.client import daemon_mode


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    add_project_option(parser)
    add_scope_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until the agent disconnects."""
    from lorelog.surfaces.mcp.proxy import McpProxy, claim_stdout, make_connector

    mode = daemon_mode(args.warm)
    directory = os.path.abspath(args.project or ".")  # noqa: PTH100  (pathlib takes 10 ms to import)
    if not os.path.isdir(directory):  # noqa: PTH112
        raise NotFound(f"there is no directory {directory}", hint="--project must be the directory of a project")
    environment = dict(os.environ)
    if args.tenant:
        environment["LORELOG_SCOPE_TENANT"] = args.tenant
    McpProxy(make_connector(mode, directory, environment), 0, claim_stdout(), greets=mode != "required").run()
    return 0
