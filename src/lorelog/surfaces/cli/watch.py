"""Index files as they change, until Ctrl-C.

Watches the given paths, after indexing and remembering them; without paths, what 'lorelog index' without paths would
refresh. Changes are indexed together once the files have been quiet for watch.debounce_ms. The daemon watches all indexed
paths by itself: use this command to see what it does, or if you do not use the daemon.

examples:
  lorelog watch
  lorelog watch notes/ docs/
  lorelog watch --json | jq .changed        one JSON object per pass
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import nullcontext
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lorelog.surfaces.cli.arguments import add_common, add_setting_options, add_tenant_option
from lorelog.surfaces.cli.client import setting_variables
from lorelog.surfaces.cli.render import plural, print_note, print_problem, progress_bar, short_path, stylize

if TYPE_CHECKING:
    import argparse

    from lorelog.services.watch.watcher import WatchDiscovery, WatchPass
    from lorelog.wiring import Location


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' excludes one")
    add_tenant_option(parser)
    add_setting_options(parser, chunking=True)
    add_common(parser, with_scope=False)


def run(args: argparse.Namespace) -> int:
    """Watch until interrupted, which is not a failure."""
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
    from lorelog.surfaces.cli.index import check_paths_exist
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
    print(json.dumps(event, ensure_ascii=False) if as_json else line, flush=True)


def _event_json(watch_pass: WatchPass) -> dict[str, Any]:
    import lorelog.operations.memory  # noqa: F401  (declares the JSON of a report)

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
