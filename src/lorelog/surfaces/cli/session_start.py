"""Update .lorelog/context.md, the file that an agent reads before it works.

It has the newest information about the project, in at most --token-budget tokens: memories, current decisions, failures to
avoid, open tasks and frequently used memories. Tenants other than the default have it in
.lorelog/tenants/<tenant>/context.md. Made for hooks: it prints nothing, and it succeeds even if nothing can be written;
the reason is printed to standard error. An invalid scope file is reported there too; 'lorelog init' creates one.

examples:
  lorelog session-start
  lorelog session-start --project "$CLAUDE_PROJECT_DIR"
"""

from __future__ import annotations

import os

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_scope_options, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_note

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


# ruff: noqa: PTH103, PTH111, PTH112, PTH118  (pathlib takes 10 ms to import)

CONTEXT_FILE = "context.md"
_MEMORY_COUNT = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--project", metavar="DIR", default=".", help="a directory in the project (default: the current one)"
    )
    parser.add_argument(
        "--token-budget", type=int, default=700, metavar="N", help="maximum size of the file in tokens (default 700)"
    )
    add_scope_options(parser)


def run(args: argparse.Namespace) -> int:
    """Update the file; only invalid arguments fail."""
    directory = os.path.realpath(expand_path(args.project))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {args.project}", hint="--project must be a directory in the project")
    args.project = directory
    request = {"k": _MEMORY_COUNT, "token_budget": args.token_budget}
    try:
        reply: Json = call_operation(args, "context.agent_context", request, start_daemon=True)
    except UsageError:
        raise
    except (LorelogError, OSError) as error:
        return _report_failure(error)
    try:
        _write_context(directory, reply)
    except (LorelogError, OSError) as error:
        return _report_failure(error)
    return 0


def _report_failure(error: Exception) -> int:
    print_note(f"{CONTEXT_FILE} was not updated: {error}")
    return 0


def _write_context(directory: str, reply: Json) -> None:
    """Write the file into the current working tree, wherever the project's memories are kept.

    An empty context does not create a project folder, and the user's home directory is not a project.
    """
    from lorelog.services.context.init import write_output
    from lorelog.services.places.project import apply_scope_file, find_project, find_scope_file
    from lorelog.services.places.project_folder import FOLDER, create_project_folder

    project = find_project(directory)
    scope = find_scope_file(directory)
    root = (apply_scope_file(scope, project) if scope is not None else project).root
    exists = os.path.isdir(os.path.join(root, FOLDER))
    if root == os.path.realpath(os.path.expanduser("~")) or not (exists or reply["result_count"]):
        return
    folder = create_project_folder(root)
    if reply["tenant"] != "default":
        folder = _tenant_folder(folder, reply["tenant"])
    write_output(os.path.join(folder, CONTEXT_FILE), reply["text"], follow=False)


def _tenant_folder(folder: str, tenant: str) -> str:
    from lorelog.core.errors import StoreUnwritable
    from lorelog.core.paths import is_below

    tenant_folder = os.path.join(folder, "tenants", tenant)
    os.makedirs(tenant_folder, mode=0o700, exist_ok=True)
    if not is_below(os.path.realpath(tenant_folder), os.path.realpath(folder)):
        raise StoreUnwritable(f"{tenant_folder} is a link out of the project", hint="replace it with a directory")
    return tenant_folder
