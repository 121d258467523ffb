"""Bring the index up to date with Markdown files.

Reads .md and .markdown files below the given paths, and only those whose size, time or inode changed. Files that
vanished or are now excluded leave the index. Without paths: this project's journals, the paths of index.paths, and
whatever was indexed for this project before.

examples:
  recollect index notes/ docs/
  recollect index notes/ '!notes/drafts'      leave a directory out
  recollect index ~/notes --global            seen from every project
  recollect index                             refresh what this project knows
  recollect index --forget notes/             drop a root from the index; the files stay
  recollect index --reembed                   another model: all vectors anew, words answer meanwhile
"""

from __future__ import annotations

import argparse

from recollect.core.document import GLOBAL
from recollect.core.errors import UsageError
from recollect.core.memory import IndexReport
from recollect.services.reach import Named
from recollect.surfaces.cli.arguments import add_common, engine_of, project_id
from recollect.surfaces.cli.paper import note, plural, problem, progress_bar
from recollect.surfaces.cli.shapes import index_shape, print_json


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
        "--reembed", action="store_true", help="make all vectors of the index anew with the current model"
    )
    add_common(parser, project="file them under the project of DIR instead of the one they lie in")


def run(args: argparse.Namespace) -> int:
    """Index, and fail when a file did."""
    if args.forget:
        return _forget(args)
    project = GLOBAL if args.to_global else project_id(args.project) if args.project else None
    named = Named(tuple(args.paths), project, tuple(args.exclude)) if args.paths else None
    if args.exclude and not named:
        raise UsageError(
            "--exclude needs the paths to leave something out of", hint="index.exclude holds for all paths"
        )
    with engine_of(args) as engine, progress_bar() as progress:
        report = engine.index(
            named,
            force=args.force,
            vectors=not args.words_only,
            reembed=args.reembed,
            ignore_files=args.ignore_file,
            progress=progress,
        )
    if args.json:
        print_json(index_shape(report))
    else:
        _show(report)
    return 1 if report.problems else 0


def _forget(args: argparse.Namespace) -> int:
    if not args.paths:
        raise UsageError("--forget needs the paths to forget", hint="recollect index --forget notes/")
    with engine_of(args) as engine:
        dropped = engine.forget_roots(args.paths)
    if args.json:
        print_json({"forgotten": args.paths, "documents": dropped})
    else:
        print(
            f"Forgot {plural(len(args.paths), 'root')}: {plural(dropped, 'document')} left the index. Your files are untouched."
        )
    return 0


def _show(report: IndexReport) -> None:
    for one in report.problems:
        problem(one.path, one.message, one.hint)
    for text in report.notes:
        note(text)
    counts = [f"{report.changed:,} changed", f"{report.unchanged + report.touched:,} unchanged"]
    if report.removed:
        counts.append(f"{report.removed:,} removed")
    failed = len({one.path for one in report.problems})
    if failed:
        counts.append(f"{failed:,} failed")
    print(f"Indexed {plural(report.files, 'file')}: {', '.join(counts)}.", end=" ")
    print(f"{plural(report.chunks, 'chunk')}, {plural(report.embedded, 'text')} embedded, {report.seconds:.1f} s.")
    if report.truncated:
        note(f"{plural(report.truncated, 'text')} longer than the model reads; the rest of them is found by words only")
    if report.waiting:
        note(f"{plural(report.waiting, 'chunk')} without vectors yet, found by words meanwhile")
