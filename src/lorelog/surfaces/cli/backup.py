"""Write a backup of everything that cannot be rebuilt, or check one.

A backup is one .tar.gz file: the journals of all known projects, the ledger, settings, feedback and the other data of all
tenants, with a manifest of SHA-256 sums. It may be written while agents and the daemon work. The index is left out, and so
are private keys, unless --with-keys. 'lorelog restore FILE' restores it ('lorelog docs backup').

examples:
  lorelog backup ~/lorelog-2026-03-05.tar.gz
  lorelog backup ~/lorelog.tar.gz --dry-run       list what would be in it
  lorelog backup --verify ~/lorelog.tar.gz        check every file in it
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, expand_path
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "file", metavar="FILE", help="the backup, usually NAME.tar.gz; an existing file is not overwritten"
    )
    parser.add_argument("--verify", action="store_true", help="check an existing backup instead of writing one")
    parser.add_argument("--with-keys", action="store_true", help="include the private keys that sign records")
    parser.add_argument("--dry-run", action="store_true", help="list what would be in it, and write nothing")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Write or check a backup."""
    file = expand_path(args.file)
    if args.verify:
        if args.with_keys or args.dry_run:
            raise UsageError("--verify takes no other options", hint="lorelog backup --verify FILE")
        reply = call_operation(args, "backup.verify", {"file": file})
    else:
        arguments = {"file": file, "with_keys": args.with_keys, "dry_run": args.dry_run}
        reply = call_operation(args, "backup.create", arguments)
    if args.json:
        print_json(reply)
        return 1 if reply["problems"] else 0
    if args.dry_run:
        for name in reply["files"]:
            print(one_line(name))
    what = f"{plural(len(reply['files']), 'file')}, {plural(reply['journals'], 'journal')} of {plural(len(reply['projects']), 'project')}"
    if args.verify:
        print(f"{short_path(file)} is complete: {what}, written {reply['created_at']} by lorelog {reply['lorelog']}.")
    else:
        print(f"{'Would back up' if args.dry_run else f'Wrote {short_path(file)}:'} {what}.")
    for problem in reply["problems"]:
        print_note(f"not in the backup: {one_line(problem)}")
    if reply["keys_left_out"] and not args.verify:
        print_note(f"{plural(reply['keys_left_out'], 'private key')} left out; --with-keys includes them")
    return 1 if reply["problems"] else 0
