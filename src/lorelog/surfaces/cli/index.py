"""Index Markdown files, and list or remove what is indexed.

Reads .md and .markdown files below the given paths, and remembers the paths: the daemon watches them from then on. Only files
whose size, time or inode changed are read again; deleted and excluded files are removed from the index. Without paths it
refreshes this project's journals, the paths in index.paths, and everything indexed for this project before.

--reembed makes all vectors again, after a change of the model. The old ones are used until that is done, and kept: --rollback
returns to them, --drop-old deletes them.

examples:
  lorelog index notes/ docs/
  lorelog index notes/ '!notes/drafts'   exclude a directory
  lorelog index ~/notes --global         visible in every project
  lorelog index                          refresh this project
  lorelog index --list                   show what is indexed
  lorelog index --remove notes/          remove from the index; keep the files
  lorelog index --reembed                embed everything with the current model
  lorelog index --reembed --rollback     return to the previous vectors
"""

from __future__ import annotations

import os

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.grammar import nearest_name
from lorelog.surfaces.cli.arguments import add_common, add_repeatable, add_setting_options, expand_paths
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import (
    plural,
    print_json,
    print_note,
    print_problem,
    progress_bar,
    short_path,
    stylize,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json

# `os.path` instead of pathlib, which takes longer to import than a warm command runs.
# ruff: noqa: PTH111, PTH112, PTH118, PTH208

_WITH_MODE = {
    "list_roots": (),
    "remove": ("paths",),
    "rollback": ("reembed",),
    "drop_old": ("reembed",),
    "anyway": ("reembed",),
}
"""Options that replace or change the index run, and what each must be given with."""
_NAMES = {"paths": "paths", "list_roots": "--list", "to_global": "--global"}
_OWN_OPTIONS = (*("paths", "to_global", "exclude", "ignore_file", "force", "words_only"), "reembed", *_WITH_MODE)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' excludes one")
    parser.add_argument("--list", dest="list_roots", action="store_true", help="list what is indexed; index nothing")
    parser.add_argument(
        "--remove", action="store_true", help="remove the given paths from the index and stop indexing them"
    )
    parser.add_argument("--global", dest="to_global", action="store_true", help="make them visible in every project")
    add_repeatable(
        parser,
        "--exclude",
        "gitignore-style pattern to exclude from the given paths, remembered with them",
        metavar="PATTERN",
    )
    add_repeatable(parser, "--ignore-file", "file name of further ignore files, such as .gitignore", metavar="NAME")
    parser.add_argument("--force", action="store_true", help="read and chunk every file again")
    parser.add_argument("--words-only", action="store_true", help="do not embed anything in this run")
    vectors = parser.add_argument_group("vectors of another model")
    vectors.add_argument(
        "--reembed",
        action="store_true",
        help="embed everything again with the current model; the old vectors are used until that is done",
    )
    vectors.add_argument(
        "--anyway", action="store_true", help="with --reembed: use the new vectors even if they find clearly less"
    )
    vectors.add_argument(
        "--rollback", action="store_true", help="with --reembed: use the vectors from before the last one again"
    )
    vectors.add_argument(
        "--drop-old",
        action="store_true",
        help="with --reembed: only delete the vectors not in use; --rollback is not possible afterwards",
    )
    add_setting_options(parser, chunking=True)
    add_common(parser, project="assign them to the project of DIR instead of the one that contains them")


def run(args: argparse.Namespace) -> int:
    """Index, list or remove; fail if a file could not be indexed."""
    _check_options(args)
    if args.list_roots:
        return _list_roots(args)
    if args.remove:
        return _remove(args)
    paths = expand_paths(args.paths)
    check_paths_exist(paths)
    request = {
        "paths": paths,
        "to_global": args.to_global,
        "exclude": args.exclude,
        "ignore_files": args.ignore_file,
        "force": args.force,
        "vectors": not args.words_only,
        "reembed": args.reembed and not (args.rollback or args.drop_old),
        "anyway": args.anyway,
        "rollback": args.rollback,
        "forget_old": args.drop_old,
    }
    with progress_bar(daemon_finishes=not (args.reembed or args.words_only)) as progress:
        report = call_operation(args, "memory.index", request, progress=progress, start_daemon=True)
    if args.json:
        print_json(report)
    elif args.rollback or args.drop_old:
        for text in report["notes"]:
            print(text[:1].upper() + text[1:] + ".")
    elif args.paths and not report["files"] and not report["removed"] and not report["problems"]:
        for text in report["notes"]:
            print_note(_with_typed_paths(text, args.paths))
    else:
        show_index_report(report, args.paths)
    return 1 if report["problems"] else 0


def _check_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other, by their names."""
    given = [option for option in _OWN_OPTIONS if getattr(args, option)]
    modes = [option for option in _WITH_MODE if option in given]
    if len(modes) > 1:
        raise UsageError(f"use either {_name(modes[0])} or {_name(modes[1])}, not both", hint="lorelog index --help")
    for mode in modes:
        for needed in _WITH_MODE[mode]:
            if needed not in given:
                hint = "lorelog index --remove notes/" if mode == "remove" else f"lorelog index --reembed {_name(mode)}"
                raise UsageError(f"{_name(mode)} requires {_name(needed)}", hint=hint)
        excess = [option for option in given if option not in (mode, *_WITH_MODE[mode])]
        if excess and mode != "anyway":
            raise UsageError(f"{_name(mode)} cannot be combined with {_name(excess[0])}", hint="lorelog index --help")
    if args.exclude and not args.paths:
        raise UsageError("--exclude requires paths", hint="the setting index.exclude applies to all paths")
    if args.reembed and args.words_only:
        raise UsageError("use either --reembed or --words-only, not both", hint="lorelog index --help")


def _name(option: str) -> str:
    return _NAMES.get(option) or f"--{option.replace('_', '-')}"


def check_paths_exist(paths: list[str]) -> None:
    """Raise NotFound for a missing path here: the index run may have to wait for another one first."""
    for path in paths:
        if path.startswith("!") or not path or not _is_missing(path):
            continue
        directory, name = os.path.split(path.rstrip("/"))
        hint = "'lorelog index --remove PATH' removes a deleted directory from the index"
        if os.path.isdir(directory or "."):
            near = nearest_name(name, os.listdir(directory or "."))
            hint = f"did you mean {os.path.join(directory, near)}?" if near else hint
        raise NotFound(f"{short_path(path)} does not exist", hint=hint)


def _is_missing(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # not accessible, or no path at all: the run reports why
        return False
    return False


def _with_typed_paths(text: str, paths: list[str]) -> str:
    """Return a note that names a path as it was typed."""
    for path in paths:
        text = text.replace(os.path.realpath(os.path.expanduser(path)), path)
    return text


def _list_roots(args: argparse.Namespace) -> int:
    reply = call_operation(args, "roots.list", {})
    if args.json:
        print_json(reply)
        return 0
    for root in reply["roots"]:
        print(_format_root(root))
    if not reply["roots"]:
        print("Nothing is indexed yet; use 'lorelog index PATH'.")
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


def _remove(args: argparse.Namespace) -> int:
    reply = call_operation(args, "roots.remove", {"paths": expand_paths(args.paths)})
    if args.json:
        print_json(reply)
    else:
        documents = plural(reply["documents"], "document")
        roots = plural(len(reply["forgotten"]), "root")
        print(f"Removed {roots}: {documents} removed from the index. Your files are unchanged.")
    return 0


def show_index_report(report: Json, paths: list[str]) -> None:
    """Print the summary and the problems of an index run over paths that were typed."""
    for problem in report["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in report["notes"]:
        print_note(_with_typed_paths(text, paths))
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
        print(f"Now using the vectors of {result['to']}; 'lorelog index --reembed --rollback' returns to the old ones.")
    elif result["worse"]:
        print(
            f"They find clearly less, so the vectors of {result['from']} are still used. "
            "Use --reembed --anyway to switch."
        )
