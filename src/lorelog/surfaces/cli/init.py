"""Make a directory a project of lorelog: a scope file, and a note for agents.

Writes .lorelog/scope.json, and a small block into AGENTS.md and CLAUDE.md, whichever are there (AGENTS.md is made where
neither is). The block stands between two marks and tells agents to search before they work, to cite, to take memory for data,
and to record decisions. Run again, it changes nothing, or brings an older block up to date; all else in the files stays byte
for byte. --remove takes the block out again.

A tenant keeps memories apart. A directory may only ask for one: you allow it with 'lorelog config set scope.tenants'.

examples:
  lorelog init
  lorelog init --tenant work --dry-run
  lorelog init --project-dir ~/src/shop --no-agent-files
  lorelog init --remove
"""

from __future__ import annotations

import os

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import own_path
from lorelog.surfaces.cli.paper import note, print_json, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.services.context.founding import Change

_DONE = {"create": "wrote", "update": "updated", "delete": "deleted", "unchanged": "unchanged:"}
_WOULD = {"create": "would write", "update": "would update", "delete": "would delete", "unchanged": "unchanged:"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--tenant", metavar="NAME", default="", help="whose memories are kept here (the default tenant's)"
    )
    parser.add_argument(
        "--project-dir", metavar="DIR", help="the project; the repository one stands in, or the current directory"
    )
    parser.add_argument("--no-agent-files", action="store_true", help="leave AGENTS.md and CLAUDE.md alone")
    parser.add_argument("--remove", action="store_true", help="take the block out of AGENTS.md and CLAUDE.md again")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be written, and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")


def run(args: argparse.Namespace) -> int:
    """Plan everything, then write it."""
    from lorelog.services.context.founding import carry_out, plan, plan_removal

    directory = _directory(args.project_dir)
    if args.remove and (args.tenant or args.no_agent_files):
        raise UsageError("--remove only takes the block out of AGENTS.md and CLAUDE.md", hint="give it alone")
    notes = [] if args.remove else _allowed(args.tenant, directory)
    changes = (
        plan_removal(directory)
        if args.remove
        else plan(directory, tenant=args.tenant, agent_files=not args.no_agent_files)
    )
    if not args.dry_run:
        carry_out(directory, changes)
    if args.json:
        print_json(_shape(directory, changes, notes, dry_run=args.dry_run))
        return 0
    words = _WOULD if args.dry_run else _DONE
    for change in changes:
        print(f"{words[change.kind]} {short_path(str(change.path))}")
    if not changes:
        print("Nothing to do.")
    for text in notes:
        note(text)
    return 0


def _directory(named: str | None) -> str:
    """Return the project's directory: as named, else the working tree that one stands in."""
    from lorelog.services.scope import find_project
    from lorelog.wiring import working_directory

    if named is None:
        return find_project(working_directory()).root
    directory = os.path.realpath(own_path(named))
    if not os.path.isdir(directory):  # noqa: PTH112
        raise UsageError(f"there is no directory {named}", hint="--project-dir names the directory of a project")
    return directory


def _allowed(tenant: str, directory: str) -> list[str]:
    """Return what a person has to do before the tenant counts. Raise ConfigError for a name that none can have."""
    if not tenant:
        return []
    from lorelog.wiring import settings_at, standpoint
    from lorelog.wiring_settings import settings_of_person

    here = standpoint(project=directory, tenant=tenant)
    settings_at(here, {"scope.tenant": tenant})
    known = settings_of_person(here.home).tenants()
    if tenant in known:
        return []
    return [f"the tenant counts once you allow it: lorelog config set scope.tenants {','.join((*known, tenant))}"]


def _shape(directory: str, changes: list[Change], notes: list[str], *, dry_run: bool) -> dict[str, object]:
    return {
        "project": directory,
        "dry_run": dry_run,
        "files": [{"path": str(one.path), "change": one.kind} for one in changes],
        "notes": notes,
    }
