"""Index Markdown files.

Reads .md and .markdown files below the given paths. Only files whose size, time or inode changed are read again; deleted and
excluded files are removed from the index. Without paths it refreshes this project's journals, the paths in index.paths, and
everything indexed for this project before.

examples:
  lorelog index notes/ docs/
  lorelog index notes/ '!notes/drafts'   exclude a directory
  lorelog index ~/notes --global         visible in every project
  lorelog index                          refresh this project
  lorelog index --forget notes/          remove from the index; keep the files
  lorelog index --reembed                embed everything with the current model
  lorelog index --rollback               return to the previous vectors
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, expand_paths
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import plural, print_json, print_note, print_problem, progress_bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' excludes one")
    parser.add_argument("--global", dest="to_global", action="store_true", help="make them visible in every project")
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="gitignore-style pattern to exclude from the given paths, remembered with them (repeatable)",
    )
    parser.add_argument(
        "--ignore-file",
        action="append",
        default=[],
        metavar="NAME",
        help="file name of further ignore files, such as .gitignore (repeatable)",
    )
    parser.add_argument(
        "--forget", action="store_true", help="remove the given paths from the index and stop indexing them"
    )
    parser.add_argument("--force", action="store_true", help="read and chunk every file again")
    parser.add_argument("--words-only", action="store_true", help="do not embed anything in this run")
    parser.add_argument(
        "--reembed",
        action="store_true",
        help="embed everything again with the current model; the old vectors are used until that is done",
    )
    parser.add_argument(
        "--anyway", action="store_true", help="with --reembed: use the new vectors even if they find clearly less"
    )
    parser.add_argument("--rollback", action="store_true", help="use the vectors from before the last --reembed again")
    parser.add_argument(
        "--forget-old",
        action="store_true",
        help="delete all vectors except those in use; --rollback is not possible afterwards",
    )
    add_common(parser, project="assign them to the project of DIR instead of the one that contains them")


def run(args: argparse.Namespace) -> int:
    """Index; fail if a file could not be indexed."""
    if args.forget:
        return _forget(args)
    if args.exclude and not args.paths:
        raise UsageError("--exclude requires paths", hint="the setting index.exclude applies to all paths")
    request = {
        "paths": expand_paths(args.paths),
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
    with progress_bar(daemon_finishes=not (args.reembed or args.words_only)) as progress:
        report = call_operation(args, "memory.index", request, progress=progress, start_daemon=True)
    if args.json:
        print_json(report)
    elif args.rollback or args.forget_old:
        for text in report["notes"]:
            print(text[:1].upper() + text[1:] + ".")
    else:
        show_index_report(report)
    return 1 if report["problems"] else 0


def _forget(args: argparse.Namespace) -> int:
    if not args.paths:
        raise UsageError("--forget requires paths", hint="lorelog index --forget notes/")
    reply = call_operation(args, "roots.remove", {"paths": expand_paths(args.paths)})
    if args.json:
        print_json(reply)
    else:
        print(
            f"Forgot {plural(len(args.paths), 'root')}: {plural(reply['documents'], 'document')} removed from the index. "
            "Your files are unchanged."
        )
    return 0


def show_index_report(report: Json) -> None:
    """Print the summary and the problems of an index run."""
    for problem in report["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in report["notes"]:
        print_note(text)
    counts = [f"{report['changed']:,} changed", f"{report['unchanged'] + report['touched']:,} unchanged"]
    if report["removed"]:
        counts.append(f"{report['removed']:,} removed")
    failed = len({problem["path"] for problem in report["problems"]})
    if failed:
        counts.append(f"{failed:,} failed")
    print(f"Indexed {plural(report['files'], 'file')}: {', '.join(counts)}.", end=" ")
    print(
        f"{plural(report['chunks'], 'chunk')}, {plural(report['embedded'], 'text')} embedded, {report['seconds']:.1f} s."
    )
    if report["reembedding"]:
        _show_reembedding(report["reembedding"])
    if report["truncated"]:
        print_note(
            f"{plural(report['truncated'], 'text')} longer than the model's limit; the rest is found by keywords only"
        )
    if report["waiting"]:
        print_note(f"{plural(report['waiting'], 'chunk')} not embedded yet; keyword search finds them already")


def _show_reembedding(result: Json) -> None:
    """Print how both models compare, and which vectors are used now."""
    if result["probes"]:
        print(f"Compared on {plural(result['probes'], 'query')} made from the chunks, by vectors alone:")
        for when, name, scores in (
            ("before", result["from"], result["before"]),
            ("after", result["to"], result["after"]),
        ):
            if scores is None:
                print(f"  {when:6}  {name} is not available any more")
            else:
                print(f"  {when:6}  hit@5 {scores['hit_at_5']:.3f}  MRR {scores['mrr']:.3f}  {name}")
    elif result["swapped"]:
        print("Not compared: the texts are too short to make queries from.")
    if result["swapped"]:
        print(f"Now using the vectors of {result['to']}; 'lorelog index --rollback' returns to the old ones.")
    elif result["worse"]:
        print(
            f"They find clearly less, so the vectors of {result['from']} are still used. "
            "Use --reembed --anyway to switch."
        )
