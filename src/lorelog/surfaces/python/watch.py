"""`Lorelog.watch`: index files as they change, from a thread of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from lorelog.engine import Engine
    from lorelog.services.watch.watcher import Watcher, WatchPass
    from lorelog.surfaces.python.calls import OperationCaller
    from lorelog.wiring import ResourcePool


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
    """Watch paths, which were indexed before, or all roots of the project if there are none."""
    from lorelog.services.places.root_selection import real_path, select_default_roots
    from lorelog.services.watch.watcher import WatchDiscovery, Watcher
    from lorelog.wiring import ResourcePool, resolve_location, settings_at

    location, settings = caller.location, caller.settings
    options = settings_at(location, settings)
    resources = ResourcePool()
    # Each root is indexed from its own project.
    environment = {name: value for name, value in location.environment.items() if name != "LORELOG_PROJECT"}

    def engine_at(tenant: str, directory: str) -> Engine:
        place = resolve_location(home=location.home, directory=directory, environment=environment)
        return resources.engine(place, {**settings, "scope.tenant": tenant})

    tenant = options.tenant()
    if paths:
        only = {real_path(path) for path in paths if not path.startswith("!")}
        discovery = WatchDiscovery(location.home, engine_at, tenants=(tenant,), only=only)
    else:
        with engine_at(tenant, location.project.root) as engine:
            select_default_roots(engine.place, engine.watch_set().roots)  # raises if there are no roots
        discovery = WatchDiscovery(location.home, engine_at, tenants=(tenant,), directory=location.project.root)
    watcher = Watcher(discovery, options.watch_options(), on_pass=_guard(on_event))
    watcher.start()
    return FileWatch(watcher, resources, sorted(path for _, path in discovery.discover().roots))


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
