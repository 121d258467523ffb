"""Follow files as they change, until Ctrl-C: each change is searchable a moment after it was saved.

Watches the given paths, which are indexed first and remembered, or without any what this project knows, as
'lorelog index' does. Changes that come together are one pass, made when the files have been quiet for watch.debounce_ms.
The daemon watches all indexed roots by itself; this is for those who want to see it, or who have no daemon.

examples:
  lorelog watch
  lorelog watch notes/ docs/
  lorelog watch --json | jq .changed        one JSON object for each pass
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.paper import note, plural, problem, progress_bar, short_path, styled

if TYPE_CHECKING:
    import argparse

    from lorelog.services.watch import Pass
    from lorelog.services.watch_survey import Survey
    from lorelog.wiring import Holdings, Standpoint


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories; '!PATH' leaves one out")
    parser.add_argument("--tenant", metavar="NAME", help="whose memories (scope.tenant); nothing crosses tenants")
    add_common(parser, asks=False)


def run(args: argparse.Namespace) -> int:
    """Watch until interrupted, which is how it ends and no failure."""
    from lorelog.services.watch import Watcher
    from lorelog.wiring import Holdings, settings_at, standpoint

    here = standpoint(project=args.project)
    settings = settings_at(here, {"scope.tenant": args.tenant})
    passes: SimpleQueue[Pass | None] = SimpleQueue()
    survey = _survey(args, here, Holdings(), settings.tenant())
    watcher = Watcher(survey, settings.watching(), on_pass=passes.put)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: passes.put(None))
    watcher.start()
    roots = sorted(path for _, path in survey.look().roots)
    _tell({"event": "watching", "roots": roots}, _opening(roots), as_json=args.json)
    while (one := passes.get()) is not None:
        _tell(_shape(one), _line(one), as_json=args.json)
        if not args.json:
            _trouble(one)
    watcher.stop()
    return 0


def _survey(args: argparse.Namespace, here: Standpoint, holdings: Holdings, tenant: str) -> Survey:
    """Return what is to be watched; named paths are indexed first, which makes them roots."""
    from lorelog.services.reach import Named, real_path, usual_roots
    from lorelog.services.watch_survey import Survey
    from lorelog.wiring import standpoint

    def engine_at(tenant: str, directory: str) -> Any:
        there = standpoint(home=here.home, directory=directory, environment=_without_project(here.environment))
        return holdings.engine(there, {"scope.tenant": tenant})

    with holdings.engine(here, {"scope.tenant": tenant}) as engine:
        if not args.paths:
            usual_roots(engine.place, engine.watched().roots)  # raises where there is nothing
            return Survey(here.home, engine_at, tenants=(tenant,), directory=here.project.root)
        project = here.project.id if args.project else None
        with progress_bar() as progress:
            report = engine.index(Named(tuple(args.paths), project), progress=progress)
    for one in report.problems:
        problem(one.path, one.message, one.hint)
    only = {real_path(path) for path in args.paths if not path.startswith("!")}
    return Survey(here.home, engine_at, tenants=(tenant,), only=only)


def _without_project(environment: Any) -> dict[str, str]:
    """Return an environment that does not say where to stand: each root is indexed as from its own project."""
    return {name: value for name, value in environment.items() if name != "LORELOG_PROJECT"}


def _tell(shape: dict[str, Any], line: str, *, as_json: bool) -> None:
    print(json.dumps(shape, ensure_ascii=False) if as_json else line, flush=True)


def _shape(one: Pass) -> dict[str, Any]:
    from lorelog.operations.shapes import index_shape

    if one.report is None:
        return {"event": "error", "at": one.at, "message": one.error, "hint": one.hint}
    return {"event": "pass", "at": one.at, **index_shape(one.report)}


def _opening(roots: Iterable[str]) -> str:
    names = [short_path(path) or "." for path in roots]
    return f"Watching {plural(len(names), 'root')}: {', '.join(names) or 'none'}. Ctrl-C ends it."


def _line(one: Pass) -> str:
    at = styled(one.at[11:19], "dim")
    if one.report is None:
        return f"{at}  {styled('could not follow:', 'red')} {one.error}"
    report = one.report
    parts = [f"{report.changed:,} changed"]
    parts += [f"{report.removed:,} removed"] if report.removed else []
    parts += [f"{plural(report.embedded, 'text')} embedded"] if report.embedded else []
    return f"{at}  {', '.join(parts)}, {report.seconds:.1f} s"


def _trouble(one: Pass) -> None:
    for text in () if one.report is None else one.report.notes:
        note(text)
    for bad in () if one.report is None else one.report.problems:
        problem(bad.path, bad.message, bad.hint)
    if one.hint:
        note(one.hint)
