"""Commands about the index: index, watch, reset, store and eval."""

from __future__ import annotations

import os
import sys
from functools import reduce

from lorelog.core.errors import NotFound, UsageError, nearest_name, plural
from lorelog.surfaces.cli import client
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.text import format_indexed, one_line, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.operation import Json
    from lorelog.services.watch.watcher import WatchPass


ARGUMENTS = {
    "index": {
        "--list": "list what is indexed; index nothing",
        "--remove": "remove the given paths from the index and stop indexing them",
        "settings": "chunking",
    },
    "watch": {
        "paths PATH*": "files and directories; '!PATH' excludes one",
        "settings": "chunking",
        "shared": "tenant json project",
    },
    "reset": {"--yes": "do not ask for confirmation", "settings": ""},
    "store leave": {
        "": "delete this index's rows in a Milvus that you no longer use",
        "--at URI!": "its address, as in store.uri",
        "shared": "json project tenant daemon",
    },
    "eval": {"--lane {all,hybrid,lexical,dense}": "only this lane (default all)"},
}


def run_index(args: argparse.Namespace) -> int:
    """Index Markdown files, and list or remove what is indexed.

    Reads .md and .markdown files below the given paths (and what index.extensions names), and remembers the paths: the daemon watches them from then on. Only files
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
    if args.list:
        return client.print_reply(args, client.call_operation(args, "roots.list", {}), _show_roots)
    paths = [expand_path(path) for path in args.paths]
    if args.remove:
        return client.print_reply(args, client.call_operation(args, "roots.remove", {"paths": paths}), _show_removed)
    check_paths_exist(paths)
    reembed = args.reembed and not (args.rollback or args.forget_old)
    with client.progress_bar(daemon_finishes=args.vectors and not args.reembed) as progress:
        reply = client.call_command(args, progress=progress, reembed=reembed)
    return client.print_reply(args, reply, _show_report)


_MODES = {"--list": "", "--remove": "paths", "--rollback": "--reembed", "--drop-old": "--reembed"}
"""Options that replace or change the index run, and what each must be given with."""
_DESTINATIONS = {"--global": "to_global", "--drop-old": "forget_old", "--ignore-file": "ignore_files"}
_OPTIONS = ("paths", "--global", "--exclude", "--ignore-file", "--force", "--reembed", *_MODES)


def _check_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    given = [name for name in _OPTIONS if getattr(args, _DESTINATIONS.get(name, name.lstrip("-")))]
    given += [] if args.vectors else ["--words-only"]
    mode, *rest = [*(name for name in _MODES if name in given), ""]
    needed, hint = _MODES.get(mode), "lorelog index --help"
    if rest[:-1] or ("--words-only" in given and "--reembed" in given):
        first, second = (mode, rest[0]) if rest[:-1] else ("--reembed", "--words-only")
        raise UsageError(f"use either {first} or {second}, not both", hint=hint)
    if needed and needed not in given:
        hint = "lorelog index --remove notes/" if mode == "--remove" else f"lorelog index --reembed {mode}"
        raise UsageError(f"{mode} requires {needed}", hint=hint)
    excess = [name for name in given if name not in (mode, needed)]
    if excess and mode:
        raise UsageError(f"{mode} cannot be combined with {excess[0]}", hint=hint)
    if args.exclude and not args.paths:
        raise UsageError("--exclude requires paths", hint="the setting index.exclude applies to all paths")


def check_paths_exist(paths: list[str]) -> None:
    """Raise NotFound for a missing path here: the index run may have to wait for another one first."""
    for path in (path for path in paths if path and not path.startswith("!")):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            directory, name = os.path.split(path.rstrip("/"))
            hint = "'lorelog index --remove PATH' removes a deleted directory from the index"
            if os.path.isdir(directory or "."):
                near = nearest_name(name, os.listdir(directory or "."))
                hint = f"did you mean {os.path.join(directory, near)}?" if near else hint
            raise NotFound(f"{short_path(path)} does not exist", hint=hint) from None
        except (OSError, ValueError):  # not accessible, or no path at all: the run reports why
            continue


def _show_report(report: Json, args: argparse.Namespace) -> None:
    if args.rollback or args.forget_old:
        for text in report.pop("notes"):
            print(text[:1].upper() + text[1:] + ".")
        return
    client.print_problems(report["problems"])
    typed = {os.path.realpath(os.path.expanduser(path)): path for path in args.paths}
    for text in report.pop("notes"):
        client.print_note(reduce(lambda note, path: note.replace(path, typed[path]), typed, text))
    if args.paths and not report["files"] and not report["removed"] and not report["problems"]:
        return
    embedded = f"{plural(report['chunks'], 'chunk')}, {plural(report['embedded'], 'text')} embedded"
    print(f"{format_indexed(report)}. {embedded}, {report['seconds']:.1f} s.")
    if report["reembedding"] and report["reembedding"]["swapped"]:
        now = f"Now using the vectors of {report['reembedding']['to']}"
        print(f"{now}; 'lorelog index --reembed --rollback' returns to the old ones.")
    if report["truncated"]:
        texts = plural(report["truncated"], "text")
        client.print_note(f"{texts} longer than the model's limit; the rest is found by keywords only")
    if report["waiting"]:
        client.print_note(f"{plural(report['waiting'], 'chunk')} not embedded yet; keyword search finds them already")


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
    import json
    import signal
    from contextlib import nullcontext
    from queue import SimpleQueue

    from lorelog.core.options import WatchOptions
    from lorelog.services.watch.watcher import Watcher
    from lorelog.surfaces.python.calls import discover_watched
    from lorelog.wiring import ResourcePool, resolve_location, settings_at

    location = resolve_location(project=args.project, environment={**os.environ, **client.setting_variables(args)})
    settings = settings_at(location, {"scope.tenant": args.tenant})
    passes: SimpleQueue[WatchPass | None] = SimpleQueue()
    check_paths_exist(args.paths)
    project = location.project.id if args.project else None
    flags = {"scope.tenant": settings.tenant()}
    with client.progress_bar() if args.paths else nullcontext() as progress:
        discovery, problems = discover_watched(
            location, ResourcePool(), flags, args.paths, project=project, progress=progress
        )
    for problem in problems:
        client.print_problem(problem.path, problem.message, problem.hint)
    watcher = Watcher(discovery, settings.options(WatchOptions), on_pass=passes.put)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: passes.put(None))
    watcher.start()
    roots = sorted(path for _, path in discovery.discover().roots)
    if args.json:
        print(json.dumps({"event": "watching", "roots": roots}, ensure_ascii=False), flush=True)
    else:
        names = ", ".join(short_path(path) or "." for path in roots) or "none"
        print(f"Watching {plural(len(roots), 'root')}: {names}. Press Ctrl-C to stop.", flush=True)
    while (watch_pass := passes.get()) is not None:
        if not args.json:
            _show_pass(watch_pass)
            continue
        event: Json = {"event": "error", "at": watch_pass.at, "message": watch_pass.error, "hint": watch_pass.hint}
        if watch_pass.report is not None:
            event = {"event": "pass", "at": watch_pass.at, **watch_pass.report.to_dict()}
        print(json.dumps(event, ensure_ascii=False), flush=True)
    watcher.stop()
    return 0


def _show_pass(watch_pass: WatchPass) -> None:
    at, report = stylize(watch_pass.at[11:19], "dim"), watch_pass.report
    if report is None:
        label = stylize("waiting:", "yellow") if watch_pass.busy else stylize("error:", "red")
        print(f"{at}  {label} {watch_pass.error}", flush=True)
    else:
        parts = [f"{report.changed:,} changed"]
        parts += [f"{report.removed:,} removed"] if report.removed else []
        parts += [f"{plural(report.embedded, 'text')} embedded"] if report.embedded else []
        print(f"{at}  {', '.join(parts)}, {report.seconds:.1f} s", flush=True)
        for text in report.notes:
            client.print_note(text)
        for problem in report.problems:
            client.print_problem(problem.path, problem.message, problem.hint)
    if watch_pass.hint:
        client.print_note(watch_pass.hint)


def run_reset(args: argparse.Namespace) -> int:
    """Delete the index of all projects. Your Markdown files, memories and records are kept.

    All projects of a tenant share one index. 'lorelog index' in a project, or the daemon, builds it again; to drop the files of one
    directory only, use 'lorelog index --remove PATH'.

    examples:
      lorelog reset
      lorelog reset --yes
    """
    if not args.yes:
        stats = client.call_operation(args, "memory.stats", {})
        amount = f"{plural(stats['documents'], 'document')} of all projects"
        question = f"Delete the index in {short_path(stats['location'])} ({amount})? Your files are kept."
        if not client.confirm(question, "use --yes to delete the index"):
            print("Nothing deleted.", file=sys.stderr)
            return 1

    def show(reply: Json, args: argparse.Namespace) -> None:
        print(f"Deleted the index of all projects in {short_path(reply['deleted'])}. Your files are unchanged.")
        client.print_note("'lorelog index' in each project, or the daemon, builds it again")

    return client.print_reply(args, client.call_command(args), show)


def run_store(args: argparse.Namespace) -> int:
    """Delete this index from a Milvus that you no longer use.

    The catalog and its vectors are always on this machine. To move the search index to another backend, set store.uri: the next
    index run writes it there, and embeds nothing again. 'leave' then deletes the rows of this index at the old address. See
    'lorelog docs milvus'.

    examples:
      lorelog store leave --at http://old-host:19530
    """
    from lorelog.wiring import delete_remote_index, resolve_location

    location = resolve_location(project=args.project, tenant=args.tenant)
    left = delete_remote_index(location, {"scope.tenant": args.tenant} if args.tenant else {}, args.at)
    text = f"Deleted the rows of this index at {one_line(left)}."
    return client.print_reply(args, {"left": left}, lambda *_: print(text))


def _show_roots(reply: Json, args: argparse.Namespace) -> None:
    for root in reply["roots"]:
        excluded = [short_path(path) for path in root["exclude"]] + list(root["patterns"])
        parts = [stylize(short_path(root["path"]) or ".", "cyan"), plural(root["documents"], "document")]
        parts.append(f"project {short_path(root['project']) or '.'}" if root["project"] else "global")
        parts += [f"without {', '.join(excluded)}"] if excluded else []
        parts += [f"found automatically ({origin})"] if (origin := root.get("origin")) else []
        parts += [] if root["exists"] else [stylize("missing", "yellow")]
        print("  ".join(parts))
    if not reply["roots"]:
        print("Nothing is indexed yet; use 'lorelog index PATH'.")


def _show_removed(reply: Json, args: argparse.Namespace) -> None:
    documents, roots = plural(reply["documents"], "document"), plural(len(reply["forgotten"]), "root")
    print(f"Removed {roots}: {documents} removed from the index. Your files are unchanged.")


_MAX_UNKNOWN_SHOWN = 10


def run_eval(args: argparse.Namespace) -> int:
    """Measure search quality with your own queries.

    Runs each query by keywords, by vectors, by both with reciprocal rank fusion (rrf), and like 'lorelog search' (ours), and
    compares the results with the documents you judged relevant. Nothing is changed, and nothing is sent that a search would
    not send.

    Queries are JSON lines, {"id": "q1", "text": "why redis?"}; judgements are lines of query, document and gain, separated by tabs.
    A document is a path or its end (notes/a.md), lines of it (notes/a.md:10-20 or notes/a.md#L10), a chunk id or a memory id.

    examples:
      lorelog eval --queries queries.jsonl --qrels judged.tsv
      lorelog eval --feedback
      lorelog eval --queries q.jsonl.gz --qrels judged.tsv --lane lexical --json
      lorelog eval --queries q.jsonl --qrels judged.tsv --all-projects --k 5
    """
    if not args.feedback and not (args.queries and args.qrels):
        raise UsageError("--queries and --qrels, or --feedback, are required", hint="lorelog eval --help")
    reply = client.call_with_progress(args, lane=None if args.lane == "all" else args.lane)
    return client.print_reply(args, reply, _show_evaluation)


def _show_evaluation(reply: Json, args: argparse.Namespace) -> None:
    client.print_problems(reply["problems"])
    client.print_notes(reply)
    unknown, k = reply["unknown"], reply["k"]
    for document in unknown[:_MAX_UNKNOWN_SHOWN]:
        client.print_note(f"counts as not found: {short_path(document['document'])} {document['reason']}")
    if len(unknown) > _MAX_UNKNOWN_SHOWN:
        client.print_note(f"and {len(unknown) - _MAX_UNKNOWN_SHOWN:,} more; --json lists them all")
    judged = f"{plural(reply['judged'], 'judged query')} of {reply['questions']:,}"
    failed = f" {plural(reply['failed'], 'line')} could not be read." if reply["failed"] else ""
    print(f"{judged}, {plural(reply['documents'], 'relevant document')}, {len(unknown):,} of them unknown.{failed}\n")
    names = [measure["name"] for measure in reply["rankings"][0]["measures"]]
    compared = any(ranking["ours_ahead"] for ranking in reply["rankings"])
    rows = [["", *names, f"nDCG@{k} (95 % interval)", *(["lead of ours"] if compared else [])]]
    for ranking in reply["rankings"]:
        measures = {measure["name"]: measure for measure in ranking["measures"]}
        ndcg, lead = measures[f"nDCG@{k}"], ranking["ours_ahead"]
        row = [ranking["name"], *(f"{measures[name]['mean']:.3f}" for name in names)]
        row.append(f"{ndcg['low']:.3f} to {ndcg['high']:.3f}")
        if compared:
            row.append(f"{lead['mean']:+.3f} ({lead['low']:+.3f} to {lead['high']:+.3f})" if lead else "")
        rows.append(row)
    client.print_table(rows, right=range(1, len(rows[0])), head="bold")
    for line in (
        "",
        f"R@{k}: share of the relevant documents among the first {k}; all@{k}: share of queries with all of them there",
        f"nDCG@{k}: 1 if the relevant ones come first, in the best order; MRR: 1 / rank of the first one; 1 is best",
        "lead of ours: nDCG of 'ours' (lorelog search) minus that of the row, with its 95 % interval",
    ):
        print(stylize(line, "dim"))
