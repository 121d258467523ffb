"""The verbs of `lorelog code` that choose which code is read: index, status."""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, own_path
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, problem, progress_bar, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.code_trees import CodeIndexShape, CodeStatusShape, CodeTreeShape

VERBS = {
    "index": "read the code of a working tree; from then on it is kept up to date",
    "status": "list the working trees whose code is indexed",
}
_SHOWN = 10
"""Files that were left out, of each tree."""


def configure(parser: argparse.ArgumentParser, verb: str) -> None:
    """Declare the arguments of a verb."""
    if verb == "index":
        parser.add_argument(
            "path",
            nargs="?",
            metavar="PATH",
            help="only this folder of its working tree; all of the one we stand in if not given",
        )
        parser.add_argument("--force", action="store_true", help="parse every file again")
        parser.add_argument(
            "--forget",
            action="store_true",
            help="forget what is known of the working tree, and keep it up to date no longer",
        )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Index, and fail when a file did; or tell what is indexed."""
    if args.verb == "status":
        found = ask(args, "code.status", {})
        if args.json:
            print_json(found)
        else:
            _show_status(found)
        return 0
    named = {} if args.path is None else {"path": own_path(args.path)}
    if args.forget:
        return _forget(args, named)
    with progress_bar() as progress:
        report = ask(args, "code.index", {**named, "force": args.force}, progress=progress, starts=True)
    if args.json:
        print_json(report)
    else:
        _show_report(report)
    return 1 if report["problems"] else 0


def _forget(args: argparse.Namespace, named: dict[str, str]) -> int:
    if args.force:
        raise UsageError("--forget and --force do not go together", hint="forget it, then index it")
    reply = ask(args, "code.forget", named)
    if args.json:
        print_json(reply)
    else:
        print(f"Forgot {short_path(reply['root'])}: {plural(reply['files'], 'file')}. Your files are untouched.")
    return 0


def _show_report(report: CodeIndexShape) -> None:
    for one in report["problems"]:
        problem(one["path"], one["message"], one["hint"])
    for text in report["notes"]:
        note(text)
    counts = [f"{report['changed']:,} changed", f"{report['unchanged'] + report['touched']:,} unchanged"]
    if report["removed"]:
        counts.append(f"{report['removed']:,} removed")
    if report["problems"]:
        counts.append(f"{len({one['path'] for one in report['problems']}):,} failed")
    told = ", ".join(f"{count:,} {name}" for name, count in list(report["languages"].items())[:4])
    more = len(report["languages"]) - 4
    told = f" ({told}{f' and {more} more' if more > 0 else ''})" if told else ""
    print(f"Indexed {plural(report['files'], 'file')}: {', '.join(counts)}{told}.", end=" ")
    print(f"{plural(report['symbols'], 'symbol')}, {report['seconds']:.1f} s.")
    if report["left_out"]:
        kinds = ", ".join(f"{count:,} {reason}" for reason, count in report["left_out"].items())
        note(f"left out: {kinds}; 'lorelog code status' names them")
    if report["broken"]:
        note(f"{plural(report['broken'], 'file')} could be parsed in part only; what could be is known")


def _show_status(found: CodeStatusShape) -> None:
    if not found["trees"]:
        print("No code is indexed. 'lorelog code index' in a working tree does it.")
    for tree in found["trees"]:
        _show_tree(tree)
    if found["trees"]:
        print(f"code.db: {found['bytes'] / 1e6:,.1f} MB")


def _show_tree(tree: CodeTreeShape) -> None:
    state = "" if tree["exists"] else "  (not there)"
    parts = f"  only {', '.join(tree['parts'])}" if tree["parts"] else ""
    print(f"{short_path(tree['path'])}{parts}{state}")
    told = ", ".join(f"{count:,} {name}" for name, count in tree["languages"].items())
    print(f"  {plural(tree['files'], 'file')}, {plural(tree['symbols'], 'symbol')}" + (f": {told}" if told else ""))
    commit = f" at {tree['commit'][:12]}" if tree["commit"] else ""
    print(f"  indexed {tree['indexed_at']}{commit}" if tree["indexed_at"] else "  not indexed to the end yet")
    for one in tree["left_out"][:_SHOWN]:
        print(f"  left out: {short_path(one['path'])} ({one['reason']})")
    if tree["left_out_total"] > _SHOWN:
        print(f"  and {tree['left_out_total'] - _SHOWN:,} more")
