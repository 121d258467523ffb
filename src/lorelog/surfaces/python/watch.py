"""Index files as they change, from a thread of this process: `Lorelog.watch`, and what `lorelog watch` shares with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from lorelog.core.memory import FileProblem
    from lorelog.core.ports import Progress
    from lorelog.engine import Engine
    from lorelog.services.watch.watcher import WatchDiscovery, Watcher, WatchPass
    from lorelog.surfaces.python.calls import OperationCaller
    from lorelog.wiring import Location, ResourcePool


class FileWatch:
    """A running watch. It ends with `stop()`, with its `with` block, or when its `Lorelog` is closed."""

    def __init__(self, watcher: Watcher, resources: ResourcePool, roots: Sequence[str]) -> None:
        self._watcher, self._resources = watcher, resources
        self.roots = tuple(roots)
        """The watched files and directories."""
        self.running = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"FileWatch(roots={list(self.roots)!r}, running={self.running})"

    def stop(self) -> None:
        """Stop watching. A pass that is running ends first; finished work is kept. May be called twice."""
        if self.running:
            self.running = False
            self._watcher.stop(wait_s=30.0)
            self._resources.close()


def start_watch(
    caller: OperationCaller, paths: Sequence[str], on_event: Callable[[WatchPass], object] | None
) -> FileWatch:
    """Watch paths, after indexing them, or all roots of the project if there are none."""
    from lorelog.services.watch.watcher import Watcher
    from lorelog.wiring import ResourcePool, settings_at

    options = settings_at(caller.location, caller.settings)
    resources = ResourcePool()
    try:
        overrides = {**caller.settings, "scope.tenant": options.tenant()}
        discovery, _ = discover_watched(caller.location, resources, overrides, paths)
        watcher = Watcher(discovery, options.watch_options(), on_pass=_guard(on_event))
        watcher.start()
    except BaseException:
        resources.close()
        raise
    return FileWatch(watcher, resources, sorted(path for _, path in discovery.discover().roots))


def discover_watched(
    location: Location,
    resources: ResourcePool,
    overrides: Mapping[str, Any],
    paths: Sequence[str],
    *,
    project: str | None = None,
    progress: Progress | None = None,
) -> tuple[WatchDiscovery, Sequence[FileProblem]]:
    """Return what to watch, and the problems of indexing it. `overrides` are settings with the tenant.

    Given paths are indexed first, which makes them roots, those without files too. Without paths, all roots of the
    project are watched. Raise UsageError if there are none.
    """
    from lorelog.services.places.root_selection import IndexTargets, real_path, select_default_roots
    from lorelog.services.watch.watcher import WatchDiscovery
    from lorelog.wiring import resolve_location

    tenant = overrides["scope.tenant"]
    # Each root is indexed from its own project.
    environment = {name: value for name, value in location.environment.items() if name != "LORELOG_PROJECT"}

    def engine_at(tenant: str, directory: str) -> Engine:
        place = resolve_location(home=location.home, directory=directory, environment=environment)
        return resources.engine(place, {**overrides, "scope.tenant": tenant})

    with resources.engine(location, overrides) as engine:
        if not paths:
            select_default_roots(engine.place, engine.maintenance().watch_set().roots)  # raises if there are no roots
            return WatchDiscovery(location.home, engine_at, tenants=(tenant,), directory=location.project.root), ()
        report = engine.maintenance().index(IndexTargets(tuple(paths), project, keep_empty=True), progress=progress)
    only = {real_path(path) for path in paths if not path.startswith("!")}
    return WatchDiscovery(location.home, engine_at, tenants=(tenant,), only=only), report.problems


def _guard(on_event: Callable[[WatchPass], object] | None) -> Callable[[WatchPass], None] | None:
    """Return a callback whose errors are logged: they must not end the watcher's thread."""
    if on_event is None:
        return None

    def report(watch_pass: WatchPass) -> None:
        try:
            on_event(watch_pass)
        except Exception:
            import logging

            logging.getLogger("lorelog").exception("on_event of Lorelog.watch failed")

    return report
