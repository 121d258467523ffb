"""Choose what is indexed and watched.

'add' indexes files and directories and remembers them: the daemon follows them from then on, and 'lorelog index' without
paths refreshes them. 'remove' drops what was indexed from them; the files stay. Without a word more, 'list'.

examples:
  lorelog roots
  lorelog roots add notes/ '!notes/drafts'
  lorelog roots add ~/notes --global        seen from every project
  lorelog roots remove notes/
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, own_paths
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import plural, print_json, progress_bar, short_path, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import RootShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "action", nargs="?", choices=["list", "add", "remove"], default="list", help="list if not given"
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' leaves one out of 'add'"
    )
    parser.add_argument("--global", dest="to_global", action="store_true", help="add: file them under no project")
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="add: gitignore-style pattern to leave out, remembered with the roots (repeatable)",
    )
    add_common(parser, project="add: file them under the project of DIR instead of the one they lie in")


def run(args: argparse.Namespace) -> int:
    """List, add or remove roots."""
    if args.action != "list" and not args.paths:
        raise UsageError(f"which paths are to be {_done(args.action)}?", hint=f"lorelog roots {args.action} notes/")
    if args.action == "list" and args.paths:
        raise UsageError("'roots list' takes no paths", hint="lorelog roots add PATH, or remove PATH")
    return {"list": _list, "add": _add, "remove": _remove}[args.action](args)


def _done(action: str) -> str:
    return "added" if action == "add" else "removed"


def _list(args: argparse.Namespace) -> int:
    reply = ask(args, "roots.list", {})
    if args.json:
        print_json(reply)
        return 0
    for root in reply["roots"]:
        print(_line(root))
    if not reply["roots"]:
        print("Nothing is indexed yet. 'lorelog roots add PATH' begins.")
    return 0


def _line(root: RootShape) -> str:
    place = short_path(root["path"]) or "."
    left_out = [short_path(path) for path in root["exclude"]] + list(root["patterns"])
    parts = [styled(place, "cyan"), plural(root["documents"], "document")]
    parts.append(f"project {short_path(root['project']) or '.'}" if root["project"] else "global")
    parts += [f"without {', '.join(left_out)}"] if left_out else []
    parts += [f"found by itself ({origin})"] if (origin := root.get("origin")) else []
    parts += [] if root["exists"] else [styled("not there now", "yellow")]
    return "  ".join(parts)


def _add(args: argparse.Namespace) -> int:
    from lorelog.surfaces.cli.index import show_report

    request = {"paths": own_paths(args.paths), "to_global": args.to_global, "exclude": args.exclude}
    with progress_bar() as progress:
        report = ask(args, "roots.add", request, progress=progress, starts=True)
    if args.json:
        print_json(report)
    else:
        show_report(report)
    return 1 if report["problems"] else 0


def _remove(args: argparse.Namespace) -> int:
    reply = ask(args, "roots.remove", {"paths": own_paths(args.paths)})
    if args.json:
        print_json(reply)
    else:
        gone = plural(reply["documents"], "document")
        print(f"Removed {plural(len(reply['forgotten']), 'root')}: {gone} left the index. Your files are untouched.")
    return 0
