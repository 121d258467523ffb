"""Restore a deleted memory, with the current text of its file; or restore a backup.

A backup is merged into this home: what is missing is added, what is here stays, and what was forgotten here does not come
back. Files that are changed are copied first, and --undo puts them back. Run an interrupted restore again to complete it
('lorelog docs backup').

examples:
  lorelog restore 65fcbf6e
  lorelog restore ~/lorelog.tar.gz --dry-run
  lorelog restore ~/lorelog.tar.gz --project-map /old/app=~/app
  lorelog restore --undo
"""

from __future__ import annotations

import os

from lorelog.core.errors import NotFound, UsageError
from lorelog.surfaces.cli.arguments import add_common, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_MAX_DIFFERENT_SHOWN = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "id", metavar="ID|FILE", nargs="?", help="id of the deleted memory, or its first characters; or a backup"
    )
    parser.add_argument("--dry-run", action="store_true", help="backup: report what would be done, and change nothing")
    parser.add_argument(
        "--project-map",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="backup: a project of the backup, and its directory now; repeatable",
    )
    parser.add_argument("--undo", action="store_true", help="undo the last restore of a backup")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Restore the memory or the backup."""
    if args.undo:
        if args.id or args.dry_run or args.project_map:
            raise UsageError("--undo takes no other arguments", hint="it undoes the last restore of a backup")
        return _show_restore(args, call_operation(args, "backup.restore", {"undo": True}))
    if not args.id:
        raise UsageError("ID or FILE is missing", hint="lorelog restore ID, or lorelog restore FILE")
    path = expand_path(args.id)
    if os.path.isfile(path):  # noqa: PTH113
        arguments = {"file": path, "dry_run": args.dry_run, "project_map": dict(map(_parse_mapping, args.project_map))}
        return _show_restore(args, call_operation(args, "backup.restore", arguments))
    if os.path.isdir(path) and not set(args.id) <= set("0123456789abcdef-"):  # noqa: PTH112
        raise UsageError(f"{short_path(path)} is a directory", hint="name the file that 'lorelog backup FILE' wrote")
    if args.dry_run or args.project_map or "/" in args.id:
        raise NotFound(f"there is no file {short_path(path)}", hint="'lorelog backup FILE' writes a backup")
    reply = call_operation(args, "memory.restore", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    print(f"Restored in {short_path(reply['source'])}.")
    for text in reply["notes"]:
        print_note(text)
    return 0


def _parse_mapping(text: str) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not (old and separator and new):
        raise UsageError(f"--project-map must be OLD=NEW (got {text!r})", hint="both are directories of a project")
    return old, expand_path(new)


def _show_restore(args: argparse.Namespace, reply: dict[str, Any]) -> int:
    failed = [file for file in reply["files"] if file["action"] == "failed"]
    if args.json:
        print_json(reply)
        return 1 if failed else 0
    labels = {"created": "create", "merged": "merge"} if args.dry_run else {"created": "created", "merged": "merged"}
    for file in reply["files"]:
        details = [f"{file['added']:,} added"] if file["added"] and file["action"] == "merged" else []
        details += [f"{plural(file['forgotten'], 'forgotten entry')} left out"] if file["forgotten"] else []
        different = file["different"]
        if different:
            shown = ", ".join(name[:13] for name in different[:_MAX_DIFFERENT_SHOWN])
            details.append(f"{plural(len(different), 'memory')} kept as here, with another text in the backup: {shown}")
        details += [file["reason"]] if file["reason"] else []
        if file["action"] != "unchanged" or details:
            print(
                one_line(
                    f"{labels.get(file['action'], file['action'])}  {short_path(file['path'])}  {'; '.join(details)}"
                ).rstrip()
            )
    unchanged = sum(file["action"] == "unchanged" for file in reply["files"])
    changed = sum(file["action"] in {"created", "merged"} for file in reply["files"])
    verb = "would change" if args.dry_run else "changed"
    print(f"{plural(changed, 'file')} {verb}, {unchanged:,} unchanged.")
    for note in reply["notes"]:
        print_note(note)
    if reply["undo"] and not args.undo:
        print_note("'lorelog restore --undo' puts changed files back")
    return 1 if failed else 0
