"""Set up a directory as a lorelog project: a scope file, and instructions for agents.

Writes .lorelog/scope.json, and a marked block into AGENTS.md and CLAUDE.md if they exist (AGENTS.md is created if neither
does). The block tells agents to search before they work, to cite, to treat memories as data, and to record decisions.
Running it again changes nothing or updates the block; the rest of the files stays byte for byte the same. --remove deletes
the block.

A tenant keeps memories separate. A directory can only ask for a tenant: you allow it with 'lorelog config set scope.tenants'.

examples:
  lorelog init
  lorelog init --tenant work --dry-run
  lorelog init --project ~/src/shop --no-agent-files
  lorelog init --remove
"""

from __future__ import annotations

import os

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.cli.render import print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.services.context.init import InitChange

_LABELS = {"create": "wrote", "update": "updated", "delete": "deleted", "unchanged": "unchanged:"}
_DRY_RUN_LABELS = {
    "create": "would write",
    "update": "would update",
    "delete": "would delete",
    "unchanged": "unchanged:",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--tenant", metavar="NAME", default="", help="tenant of this project's memories (default: the default tenant)"
    )
    parser.add_argument(
        "--project", metavar="DIR", help="project directory (default: the current repository or directory)"
    )
    parser.add_argument("--no-agent-files", action="store_true", help="do not change AGENTS.md and CLAUDE.md")
    parser.add_argument("--remove", action="store_true", help="delete the block from AGENTS.md and CLAUDE.md")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run(args: argparse.Namespace) -> int:
    """Plan all changes, then apply them."""
    from lorelog.services.context.init import apply_changes, plan_init, plan_removal

    directory = _project_directory(args.project)
    if args.remove and (args.tenant or args.no_agent_files):
        raise UsageError("--remove cannot be combined with --tenant or --no-agent-files")
    notes = [] if args.remove else _tenant_notes(args.tenant, directory)
    changes = (
        plan_removal(directory)
        if args.remove
        else plan_init(directory, tenant=args.tenant, agent_files=not args.no_agent_files)
    )
    if not args.dry_run:
        apply_changes(directory, changes)
    if args.json:
        print_json(_init_json(directory, changes, notes, dry_run=args.dry_run))
        return 0
    labels = _DRY_RUN_LABELS if args.dry_run else _LABELS
    for change in changes:
        print(f"{labels[change.kind]} {short_path(str(change.path))}")
    if not changes:
        print("Nothing to do.")
    for text in notes:
        print_note(text)
    return 0


def _project_directory(option: str | None) -> str:
    """Return the directory of --project, or else the current working tree."""
    from lorelog.services.places.project import find_project
    from lorelog.wiring import working_directory

    if option is None:
        return find_project(working_directory()).root
    directory = os.path.realpath(expand_path(option))
    if not os.path.isdir(directory):  # noqa: PTH112
        raise UsageError(f"there is no directory {option}", hint="--project must be the directory of a project")
    return directory


def _tenant_notes(tenant: str, directory: str) -> list[str]:
    """Return what the user must do to enable the tenant. Raise ConfigError for an invalid name."""
    if not tenant:
        return []
    from lorelog.wiring import resolve_location, settings_at, user_settings

    location = resolve_location(project=directory, tenant=tenant)
    settings_at(location, {"scope.tenant": tenant})
    allowed = user_settings(location.home).allowed_tenants()
    if tenant in allowed:
        return []
    return [f"to enable the tenant, run: lorelog config set scope.tenants {','.join((*allowed, tenant))}"]


def _init_json(directory: str, changes: list[InitChange], notes: list[str], *, dry_run: bool) -> dict[str, object]:
    return {
        "project": directory,
        "dry_run": dry_run,
        "files": [{"path": str(change.path), "change": change.kind} for change in changes],
        "notes": notes,
    }
