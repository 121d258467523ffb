"""Manage the indexed directories.

'add' indexes files and directories and remembers them: the daemon watches them from then on, and 'lorelog index' without
paths refreshes them. 'remove' removes them from the index; the files are kept. The default is 'list'.

examples:
  lorelog roots
  lorelog roots add notes/ '!notes/drafts'
  lorelog roots add ~/notes --global        visible in every project
  lorelog roots remove notes/
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, expand_paths
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, progress_bar, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("action", nargs="?", choices=["list", "add", "remove"], default="list", help="default: list")
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' excludes one from 'add'"
    )
    parser.add_argument(
        "--global", dest="to_global", action="store_true", help="add: make them visible in every project"
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="add: gitignore-style pattern to exclude, remembered with the roots (repeatable)",
    )
    add_common(parser, project="add: assign them to the project of DIR instead of the one that contains them")


def run(args: argparse.Namespace) -> int:
    """List, add or remove roots."""
    if args.action != "list" and not args.paths:
        raise UsageError(f"'roots {args.action}' requires paths", hint=f"lorelog roots {args.action} notes/")
    if args.action == "list" and args.paths:
        raise UsageError("'roots list' takes no paths", hint="lorelog roots add PATH, or remove PATH")
    return {"list": _list, "add": _add, "remove": _remove}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    reply = call_operation(args, "roots.list", {})
    if args.json:
        print_json(reply)
        return 0
    for root in reply["roots"]:
        print(_format_root(root))
    if not reply["roots"]:
        print("Nothing is indexed yet; use 'lorelog roots add PATH'.")
    return 0


def _format_root(root: Json) -> str:
    place = short_path(root["path"]) or "."
    excluded = [short_path(path) for path in root["exclude"]] + list(root["patterns"])
    parts = [stylize(place, "cyan"), plural(root["documents"], "document")]
    parts.append(f"project {short_path(root['project']) or '.'}" if root["project"] else "global")
    parts += [f"without {', '.join(excluded)}"] if excluded else []
    parts += [f"found automatically ({origin})"] if (origin := root.get("origin")) else []
    parts += [] if root["exists"] else [stylize("missing", "yellow")]
    return "  ".join(parts)


def _add(args: argparse.Namespace) -> int:
    from lorelog.surfaces.cli.index import show_index_report

    request = {"paths": expand_paths(args.paths), "to_global": args.to_global, "exclude": args.exclude}
    with progress_bar() as progress:
        report = call_operation(args, "roots.add", request, progress=progress, start_daemon=True)
    if args.json:
        print_json(report)
    else:
        show_index_report(report)
    return 1 if report["problems"] else 0


def _remove(args: argparse.Namespace) -> int:
    reply = call_operation(args, "roots.remove", {"paths": expand_paths(args.paths)})
    if args.json:
        print_json(reply)
    else:
        documents = plural(reply["documents"], "document")
        roots = plural(len(reply["forgotten"]), "root")
        print(f"Removed {roots}: {documents} removed from the index. Your files are unchanged.")
    return 0
