"""Bring the index up to date with Markdown files.

Reads .md and .markdown files below the given paths, and only those whose size, time or inode changed. Files that
vanished or are now excluded leave the index. Without paths: this project's journals, the paths of index.paths, and
whatever was indexed for this project before.

examples:
  lorelog index notes/ docs/
  lorelog index notes/ '!notes/drafts'      leave a directory out
  lorelog index ~/notes --global            seen from every project
  lorelog index                             refresh what this project knows
  lorelog index --forget notes/             drop a root from the index; the files stay
  lorelog index --reembed                   another model: all vectors anew, the old ones answer meanwhile
  lorelog index --rollback                  back to the vectors of before
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, own_paths
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, plural, print_json, problem, progress_bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import IndexShape, ReembeddingShape


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' leaves one out")
    parser.add_argument("--global", dest="to_global", action="store_true", help="file them under no project")
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="gitignore-style pattern to leave out of the given paths, remembered with them (repeatable)",
    )
    parser.add_argument(
        "--ignore-file",
        action="append",
        default=[],
        metavar="NAME",
        help="name of ignore files to honour, beside the configured ones (repeatable)",
    )
    parser.add_argument(
        "--forget", action="store_true", help="drop the given roots from the index and stop indexing them"
    )
    parser.add_argument("--force", action="store_true", help="read and chunk every file again")
    parser.add_argument("--words-only", action="store_true", help="make no vectors in this run")
    parser.add_argument(
        "--reembed",
        action="store_true",
        help="make all vectors of the index anew with the current model, and put them in place of the old ones",
    )
    parser.add_argument(
        "--anyway", action="store_true", help="with --reembed: put them in place even when they find clearly less"
    )
    parser.add_argument(
        "--rollback", action="store_true", help="put the vectors back in place that were there before the last change"
    )
    parser.add_argument(
        "--forget-old", action="store_true", help="drop all vectors but those in place: there is no way back then"
    )
    add_common(parser, project="file them under the project of DIR instead of the one they lie in")


def run(args: argparse.Namespace) -> int:
    """Index, and fail when a file did."""
    if args.forget:
        return _forget(args)
    if args.exclude and not args.paths:
        raise UsageError(
            "--exclude needs the paths to leave something out of", hint="index.exclude holds for all paths"
        )
    request = {
        "paths": own_paths(args.paths),
        "to_global": args.to_global,
        "exclude": args.exclude,
        "ignore_files": args.ignore_file,
        "force": args.force,
        "vectors": not args.words_only,
        "reembed": args.reembed,
        "anyway": args.anyway,
        "rollback": args.rollback,
        "forget_old": args.forget_old,
    }
    with progress_bar() as progress:
        report = ask(args, "memory.index", request, progress=progress, starts=True)
    if args.json:
        print_json(report)
    elif args.rollback or args.forget_old:
        for text in report["notes"]:
            print(text[:1].upper() + text[1:] + ".")
    else:
        show_report(report)
    return 1 if report["problems"] else 0


def _forget(args: argparse.Namespace) -> int:
    if not args.paths:
        raise UsageError("--forget needs the paths to forget", hint="lorelog index --forget notes/")
    reply = ask(args, "roots.remove", {"paths": own_paths(args.paths)})
    if args.json:
        print_json(reply)
    else:
        print(
            f"Forgot {plural(len(args.paths), 'root')}: {plural(reply['documents'], 'document')} left the index. "
            "Your files are untouched."
        )
    return 0


def show_report(report: IndexShape) -> None:
    """Print what a run did, and what did not work."""
    for one in report["problems"]:
        problem(one["path"], one["message"], one["hint"])
    for text in report["notes"]:
        note(text)
    counts = [f"{report['changed']:,} changed", f"{report['unchanged'] + report['touched']:,} unchanged"]
    if report["removed"]:
        counts.append(f"{report['removed']:,} removed")
    failed = len({one["path"] for one in report["problems"]})
    if failed:
        counts.append(f"{failed:,} failed")
    print(f"Indexed {plural(report['files'], 'file')}: {', '.join(counts)}.", end=" ")
    print(
        f"{plural(report['chunks'], 'chunk')}, {plural(report['embedded'], 'text')} embedded, {report['seconds']:.1f} s."
    )
    if report["reembedding"]:
        _show_reembedding(report["reembedding"])
    if report["truncated"]:
        note(
            f"{plural(report['truncated'], 'text')} longer than the model reads; the rest of them is found by words only"
        )
    if report["waiting"]:
        note(f"{plural(report['waiting'], 'chunk')} without vectors yet, found by words meanwhile")


def _show_reembedding(told: ReembeddingShape) -> None:
    """Print what both models found, and whose vectors answer now."""
    if told["probes"]:
        print(f"Asked {plural(told['probes'], 'question')} made of the chunks themselves, by vectors alone:")
        for when, name, found in (("before", told["from"], told["before"]), ("after", told["to"], told["after"])):
            if found is None:
                print(f"  {when:6}  {name} cannot be asked any more")
            else:
                print(f"  {when:6}  hit@5 {found['hit_at_5']:.3f}  MRR {found['mrr']:.3f}  {name}")
    elif told["swapped"]:
        print("Not compared: the texts are too short to make questions of.")
    if told["swapped"]:
        print(f"The vectors of {told['to']} answer now; 'lorelog index --rollback' goes back.")
    elif told["worse"]:
        print(
            f"They find clearly less: the vectors of {told['from']} go on answering. --reembed --anyway takes the new."
        )
