"""Refresh .lorelog/context.md, the file that an agent reads before it works.

It tells what is newest in the project: memories, decisions in force, failures to avoid, open tasks and hot memories, in at most
--token-budget tokens. Other tenants than the default have theirs in .lorelog/tenants/<tenant>/context.md. Made for hooks: it
prints nothing, and it succeeds even where nothing can be written; why is told on standard error. A scope file that cannot be
understood is told there, too; none is made ('lorelog init' makes one).

examples:
  lorelog session-start
  lorelog session-start --project-dir "$CLAUDE_PROJECT_DIR"
"""

from __future__ import annotations

import os

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_asking, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.context_replies import AgentContextShape

# ruff: noqa: PTH103, PTH111, PTH112, PTH118  (pathlib takes 10 ms to import)

FILE = "context.md"
_NEWEST = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--project-dir", metavar="DIR", default=".", help="a directory of the project (the current one)"
    )
    parser.add_argument(
        "--token-budget", type=int, default=700, metavar="N", help="tokens that the whole file may have (700)"
    )
    add_asking(parser)


def run(args: argparse.Namespace) -> int:
    """Refresh the file; only a wrong request fails."""
    directory = os.path.realpath(own_path(args.project_dir))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {args.project_dir}", hint="--project-dir names one of the project")
    args.project = directory
    given = {"k": _NEWEST, "token_budget": args.token_budget}
    try:
        reply: AgentContextShape = ask(args, "context.agent_context", given, starts=True)
    except UsageError:
        raise
    except (LorelogError, OSError) as error:
        return _left(error)
    try:
        _write(directory, reply)
    except (LorelogError, OSError) as error:
        return _left(error)
    return 0


def _left(error: Exception) -> int:
    note(f"{FILE} was not refreshed: {error}")
    return 0


def _write(directory: str, reply: AgentContextShape) -> None:
    """Write the file into the working tree that one stands in, wherever the project's memories are kept.

    Where there is nothing to tell, no folder is made for it; a person's home is no project.
    """
    from lorelog.services.context.files import write_whole
    from lorelog.services.project_folder import FOLDER, found_folder
    from lorelog.services.scope import find_project
    from lorelog.services.scope_file import find_scope, scoped_project

    project = find_project(directory)
    scope = find_scope(directory)
    root = (scoped_project(scope, project) if scope is not None else project).root
    is_known = os.path.isdir(os.path.join(root, FOLDER))
    if root == os.path.realpath(os.path.expanduser("~")) or not (is_known or reply["result_count"]):
        return
    folder = found_folder(root, git=project.git)
    if reply["tenant"] != "default":
        folder = _inside(folder, reply["tenant"])
    write_whole(os.path.join(folder, FILE), reply["text"], follow=False)


def _inside(folder: str, tenant: str) -> str:
    from lorelog.core.errors import StoreUnwritable
    from lorelog.core.paths import is_below

    own = os.path.join(folder, "tenants", tenant)
    os.makedirs(own, mode=0o700, exist_ok=True)
    if not is_below(os.path.realpath(own), os.path.realpath(folder)):
        raise StoreUnwritable(f"{own} is a link that leads out of the project", hint="make it a directory")
    return own
