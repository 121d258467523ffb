"""Move the search index to another backend, without embedding anything again.

The catalog and its vectors are always on this machine. 'copy' writes them to another backend: Milvus Lite (a path that ends
in .db), a Milvus server (http://host:19530), Zilliz Cloud (https://…), or 'embedded' for the local files. It changes no
setting: set store.uri afterwards. An interrupted copy continues where it stopped. 'leave' deletes this index's rows in a
Milvus that you no longer use. See 'lorelog docs milvus'.

examples:
  lorelog store copy --to http://localhost:19530
  lorelog store copy --to ~/milvus.db
  lorelog store copy --to embedded
  lorelog store leave --at http://old-host:19530
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note

if TYPE_CHECKING:
    import argparse

EMBEDDED = "embedded"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    copy = verbs.add_parser("copy", help="copy the whole index to another backend", allow_abbrev=False)
    copy.add_argument("--to", metavar="URI", required=True, help="address as in store.uri, or 'embedded'")
    add_common(copy)
    leave = verbs.add_parser(
        "leave", help="delete this index's rows in a Milvus that you no longer use", allow_abbrev=False
    )
    leave.add_argument("--at", metavar="URI", required=True, help="its address, as in store.uri")
    add_common(leave)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    from lorelog.core.errors import UsageError
    from lorelog.wiring import copy_store, delete_remote_index, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    flags = {"scope.tenant": args.tenant} if args.tenant else {}
    if args.verb == "leave":
        left = delete_remote_index(location, flags, args.at)
        if args.json:
            print_json({"left": left})
        else:
            print(f"Deleted the rows of this index at {one_line(left)}.")
        return 0
    if not args.to:
        raise UsageError("--to must not be empty", hint=f"use an address, a path that ends in .db, or '{EMBEDDED}'")
    uri = "" if args.to == EMBEDDED else args.to
    report = copy_store(location, flags, uri)
    place = report.place or EMBEDDED
    if args.json:
        print_json({"to": place, "chunks": report.there, "ok": report.is_consistent})
    else:
        print(f"{plural(report.there, 'chunk')} at {one_line(place)}")
        print_note(f"to use it: lorelog config set store.uri {uri!r}")
    return 0 if report.is_consistent else 1
