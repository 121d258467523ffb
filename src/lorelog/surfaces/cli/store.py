"""Move what finds things to another store, without embedding anything again.

The catalog and its vectors are on this machine, whatever store.uri says. 'copy' pushes them to another place: Milvus Lite (a path
that ends in .db), a Milvus server (http://host:19530), Zilliz Cloud (https://…), or 'embedded' for the files beside the catalog. It
changes no setting: set store.uri when it is there. A copy that was broken off goes on where it was. 'leave' deletes this index's rows
in a Milvus that is not in use any more, so that nobody finds them there. docs/milvus.md tells more.

examples:
  lorelog store copy --to http://localhost:19530
  lorelog store copy --to ~/milvus.db
  lorelog store copy --to embedded
  lorelog store leave --at http://old-host:19530
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.paper import note, one_line, plural, print_json

if TYPE_CHECKING:
    import argparse

EMBEDDED = "embedded"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb and its arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    copy = verbs.add_parser("copy", help="push the whole index to another store", allow_abbrev=False)
    copy.add_argument("--to", metavar="URI", required=True, help="where to: as store.uri, or 'embedded'")
    add_common(copy)
    leave = verbs.add_parser(
        "leave", help="delete this index's rows in a Milvus that is not in use any more", allow_abbrev=False
    )
    leave.add_argument("--at", metavar="URI", required=True, help="where: as store.uri was")
    add_common(leave)


def run(args: argparse.Namespace) -> int:
    """Push or leave, and say what is there then."""
    from lorelog.core.errors import UsageError
    from lorelog.wiring import copy_store, leave_store, standpoint

    here = standpoint(project=args.project, tenant=args.tenant)
    flags = {"scope.tenant": args.tenant} if args.tenant else {}
    if args.verb == "leave":
        left = leave_store(here, flags, args.at)
        if args.json:
            print_json({"left": left})
        else:
            print(f"no rows of this index are left at {one_line(left)}")
        return 0
    if not args.to:
        raise UsageError("--to names no place", hint=f"an address, a path that ends in .db, or '{EMBEDDED}'")
    uri = "" if args.to == EMBEDDED else args.to
    found = copy_store(here, flags, uri)
    place = found.place or EMBEDDED
    if args.json:
        print_json({"to": place, "chunks": found.there, "ok": found.is_whole})
    else:
        print(f"{plural(found.there, 'chunk')} at {one_line(place)}")
        note(f"to use it: lorelog config set store.uri {uri!r}")
    return 0 if found.is_whole else 1
