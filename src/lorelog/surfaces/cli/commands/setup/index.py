"""Commands about the index: index, watch, reset and store."""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import NotFound, UsageError, nearest_name
from lorelog.surfaces.cli.arguments import (
    add_common,
    add_setting_options,
    add_tenant_option,
    expand_paths,
)
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply, setting_variables
from lorelog.surfaces.cli.render import (
    confirm,
    one_line,
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
    from collections.abc import Iterable
    from queue import SimpleQueue
    from typing import Any

    from lorelog.operations.operation import Json
    from lorelog.services.watch.watcher import WatchDiscovery, WatchPass
    from lorelog.wiring import Location


def configure_index(parser: argparse.ArgumentParser) -> None:
    """Declare what is done instead of indexing, and settings."""
    parser.add_argument("--list", dest="list_roots", action="store_true", help="list what is indexed; index nothing")
    parser.add_argument(
        "--remove", action="store_true", help="remove the given paths from the index and stop indexing them"
    )
    add_setting_options(parser, chunking=True)


def run_index(args: argparse.Namespace) -> int:
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
    _check_options(args)
    if args.list_roots:
        return print_reply(args, call_operation(args, "roots.list", {}), _show_roots)
    paths = expand_paths(args.paths)
    if args.remove:
        return print_reply(args, call_operation(args, "roots.remove", {"paths": paths}), _show_removed)
    check_paths_exist(paths)
    reembed = args.reembed and not (args.rollback or args.forget_old)
    with progress_bar(daemon_finishes=args.vectors and not args.reembed) as progress:
        reply = call_command(args, progress=progress, reembed=reembed)
    return print_reply(args, reply, _show_report)


def _show_roots(reply: Json, args: argparse.Namespace) -> None:
    for root in reply["roots"]:
        print(_format_root(root))
    if not reply["roots"]:
        print("Nothing is indexed yet; use 'lorelog index PATH'.")


def _show_removed(reply: Json, args: argparse.Namespace) -> None:
    documents, roots = plural(reply["documents"], "document"), plural(len(reply["forgotten"]), "root")
    print(f"Removed {roots}: {documents} removed from the index. Your files are unchanged.")


# `os.path` instead of pathlib, which takes longer to import than a warm command runs.

_WITH_MODE = {
    "list_roots": (),
    "remove": ("paths",),
    "rollback": ("reembed",),
    "forget_old": ("reembed",),
    "anyway": ("reembed",),
}
"""Options that replace or change the index run, and what each must be given with."""
_NAMES = {"paths": "paths", "list_roots": "--list", "to_global": "--global", "forget_old": "--drop-old"}
_NAMES |= {"ignore_files": "--ignore-file"}
_OWN_OPTIONS = ("paths", "to_global", "exclude", "ignore_files", "force", "reembed", *_WITH_MODE)


def _check_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other, by their names."""
    given = [option for option in _OWN_OPTIONS if getattr(args, option)]
    given += [] if args.vectors else ["words_only"]
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
    if args.reembed and not args.vectors:
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


def _format_root(root: Json) -> str:
    place = short_path(root["path"]) or "."
    excluded = [short_path(path) for path in root["exclude"]] + list(root["patterns"])
    parts = [stylize(place, "cyan"), plural(root["documents"], "document")]
    parts.append(f"project {short_path(root['project']) or '.'}" if root["project"] else "global")
    parts += [f"without {', '.join(excluded)}"] if excluded else []
    parts += [f"found automatically ({origin})"] if (origin := root.get("origin")) else []
    parts += [] if root["exists"] else [stylize("missing", "yellow")]
    return "  ".join(parts)


def _show_report(report: Json, args: argparse.Namespace) -> None:
    """Print the summary and the problems of an index run."""
    if args.rollback or args.forget_old:
        for text in report["notes"]:
            print(text[:1].upper() + text[1:] + ".")
        return
    if args.paths and not report["files"] and not report["removed"] and not report["problems"]:
        for text in report["notes"]:
            print_note(_with_typed_paths(text, args.paths))
        return
    for problem in report["problems"]:
        print_problem(problem["path"], problem["message"], problem["hint"])
    for text in report["notes"]:
        print_note(_with_typed_paths(text, args.paths))
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


def configure_watch(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' excludes one")
    add_tenant_option(parser)
    add_setting_options(parser, chunking=True)
    add_common(parser, with_scope=False)


def run_watch(args: argparse.Namespace) -> int:
    """Index files as they change, until Ctrl-C.

    Watches the given paths, after indexing and remembering them; without paths, what 'lorelog index' without paths would
    refresh. Changes are indexed together once the files have been quiet for watch.debounce_ms. The daemon watches all indexed
    paths by itself: use this command to see what it does, or if you do not use the daemon.

    examples:
      lorelog watch
      lorelog watch notes/ docs/
      lorelog watch --json | jq .changed        one JSON object per pass
    """
    import signal
    from queue import SimpleQueue

    from lorelog.services.watch.watcher import Watcher
    from lorelog.wiring import resolve_location, settings_at

    location = resolve_location(project=args.project, environment={**os.environ, **setting_variables(args)})
    settings = settings_at(location, {"scope.tenant": args.tenant})
    passes: SimpleQueue[WatchPass | None] = SimpleQueue()
    discovery = _discover(args, location, settings.tenant())
    watcher = Watcher(discovery, settings.watch_options(), on_pass=passes.put)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: passes.put(None))
    watcher.start()
    roots = sorted(path for _, path in discovery.discover().roots)
    _print_event({"event": "watching", "roots": roots}, _format_opening(roots), as_json=args.json)
    while (watch_pass := passes.get()) is not None:
        _print_event(_event_json(watch_pass), _format_event(watch_pass), as_json=args.json)
        if not args.json:
            _show_problems(watch_pass)
    watcher.stop()
    return 0


def _discover(args: argparse.Namespace, location: Location, tenant: str) -> WatchDiscovery:
    """Return the roots to watch, after indexing the given ones."""
    from contextlib import nullcontext

    from lorelog.surfaces.python.watch import discover_watched
    from lorelog.wiring import ResourcePool

    check_paths_exist(args.paths)
    project = location.project.id if args.project else None
    with progress_bar() if args.paths else nullcontext() as progress:
        discovery, problems = discover_watched(
            location, ResourcePool(), {"scope.tenant": tenant}, args.paths, project=project, progress=progress
        )
    for problem in problems:
        print_problem(problem.path, problem.message, problem.hint)
    return discovery


def _print_event(event: dict[str, Any], line: str, *, as_json: bool) -> None:
    import json

    print(json.dumps(event, ensure_ascii=False) if as_json else line, flush=True)


def _event_json(watch_pass: WatchPass) -> dict[str, Any]:
    if watch_pass.report is None:
        return {"event": "error", "at": watch_pass.at, "message": watch_pass.error, "hint": watch_pass.hint}
    return {"event": "pass", "at": watch_pass.at, **watch_pass.report.to_dict()}


def _format_opening(roots: Iterable[str]) -> str:
    names = [short_path(path) or "." for path in roots]
    return f"Watching {plural(len(names), 'root')}: {', '.join(names) or 'none'}. Press Ctrl-C to stop."


def _format_event(watch_pass: WatchPass) -> str:
    at = stylize(watch_pass.at[11:19], "dim")
    if watch_pass.report is None:
        label = stylize("waiting:", "yellow") if watch_pass.busy else stylize("error:", "red")
        return f"{at}  {label} {watch_pass.error}"
    report = watch_pass.report
    parts = [f"{report.changed:,} changed"]
    parts += [f"{report.removed:,} removed"] if report.removed else []
    parts += [f"{plural(report.embedded, 'text')} embedded"] if report.embedded else []
    return f"{at}  {', '.join(parts)}, {report.seconds:.1f} s"


def _show_problems(watch_pass: WatchPass) -> None:
    for text in () if watch_pass.report is None else watch_pass.report.notes:
        print_note(text)
    for problem in () if watch_pass.report is None else watch_pass.report.problems:
        print_problem(problem.path, problem.message, problem.hint)
    if watch_pass.hint:
        print_note(watch_pass.hint)


def configure_reset(parser: argparse.ArgumentParser) -> None:
    """Declare the confirmation, and settings."""
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_setting_options(parser)


def run_reset(args: argparse.Namespace) -> int:
    """Delete the index of all projects. Your Markdown files, memories and records are kept.

    All projects of a tenant share one index. 'lorelog index' in a project, or the daemon, builds it again; to drop the files of one
    directory only, use 'lorelog index --remove PATH'.

    examples:
      lorelog reset
      lorelog reset --yes
    """
    if not args.yes and not _confirm_reset(args):
        print("Nothing deleted.", file=sys.stderr)
        return 1
    return print_reply(args, call_command(args), _show_reset)


def _show_reset(reply: Json, args: argparse.Namespace) -> None:
    print(f"Deleted the index of all projects in {short_path(reply['deleted'])}. Your files are unchanged.")
    print_note("'lorelog index' in each project, or the daemon, builds it again")


def _confirm_reset(args: argparse.Namespace) -> bool:
    stats = call_operation(args, "memory.stats", {})
    amount = f"{plural(stats['documents'], 'document')} of all projects"
    question = f"Delete the index in {short_path(stats['location'])} ({amount})? Your files are kept."
    return confirm(question, "use --yes to delete the index")


_EMBEDDED = "embedded"


def configure_store(parser: argparse.ArgumentParser) -> None:
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


def run_store(args: argparse.Namespace) -> int:
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
        raise UsageError("--to must not be empty", hint=f"use an address, a path that ends in .db, or '{_EMBEDDED}'")
    uri = "" if args.to == _EMBEDDED else args.to
    report = copy_store(location, flags, uri)
    place = report.place or _EMBEDDED
    if args.json:
        print_json({"to": place, "chunks": report.there, "ok": report.is_consistent})
    else:
        print(f"{plural(report.there, 'chunk')} at {one_line(place)}")
        print_note(f"to use it: lorelog config set store.uri {uri!r}")
    return 0 if report.is_consistent else 1
