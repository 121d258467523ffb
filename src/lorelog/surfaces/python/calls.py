"""How the methods of `Lorelog` reach their operations, in the daemon or in this process, and how files are watched."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

from msgspec import ValidationError, convert

from lorelog.core.errors import DaemonError, DaemonUnresponsive, ReplyLost, UsageError
from lorelog.core.ports import Progress
from lorelog.operations.catalogue import find_operation
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.operations.operation import Operation
from lorelog.surfaces.python.methods import DaemonMode, PathArgument, to_arguments
from lorelog.wiring import ResourcePool, open_engine, resolve_location, settings_at, working_directory

if TYPE_CHECKING:
    from lorelog.core.memory import FileProblem
    from lorelog.engine import Engine
    from lorelog.services.watch.watcher import WatchDiscovery, Watcher, WatchPass
    from lorelog.wiring import Location

_log = logging.getLogger("lorelog")


class OperationCaller:
    """Calls operations for one `Lorelog`. Threads may share it.

    A call goes to the daemon if one runs and may be used; otherwise, and if the daemon goes away before it has begun a
    write, this object's own engine does the work.
    """

    def __init__(
        self,
        project: PathArgument | None,
        *,
        home: PathArgument | None,
        settings: Mapping[str, object] | None,
        daemon: DaemonMode | None,
    ) -> None:
        self.location = resolve_location(home=home, project=project)
        self.settings = {key: value for key, value in (settings or {}).items() if value is not None}
        self.engine = open_engine(self.location, self.settings)
        configured = settings_at(self.location, self.settings).text("daemon.warm")
        self._daemon = daemon or configured
        if self._daemon not in get_args(DaemonMode):
            raise UsageError(f"daemon must be auto, off or required (got {self._daemon!r})")
        self._variables = _settings_as_variables(self.settings)
        if self._variables is None and self._daemon == "required":
            raise UsageError("settings with an empty value cannot be sent to the daemon", hint='use daemon="off"')
        start = project or self.location.environment.get("LORELOG_PROJECT") or ""
        self._directory = str(Path(working_directory(), start))
        self._project = None if project is None else self._directory
        self._home = None if home is None else str(self.location.home)
        self._dispatcher = Dispatcher(lambda _location, _overrides: nullcontext(self.engine))
        self._closed = False

    def close(self) -> None:
        """Close files and models. May be called twice."""
        self._closed = True
        self.engine.close()

    def check_open(self) -> None:
        """Raise UsageError after `close`."""
        if self._closed:
            raise UsageError("this Lorelog is closed", hint="open another one, or keep it open with 'with'")

    def run(self, name: str, fields: Mapping[str, Any], /) -> Any:
        """Run an operation and return its value. The fields may name another project or tenant."""
        self.check_open()
        operation = find_operation(name)
        arguments = to_arguments(operation.request, fields)
        progress: Progress | None = arguments.pop("progress", None)
        dispatcher, complete = self._dispatch(arguments)
        reply = self._ask_daemon(name, complete, progress, wants_value=True)
        if reply is None:
            return dispatcher.value(name, complete, self._client(), progress)
        return read_value(operation, reply)

    def call(self, op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation by name and return its JSON."""
        self.check_open()
        dispatcher, complete = self._dispatch(arguments)
        reply = self._ask_daemon(find_operation(op).name, complete, None, wants_value=False)
        return dispatcher.call(op, complete, self._client()) if reply is None else reply

    def _dispatch(self, arguments: Mapping[str, Any]) -> tuple[Dispatcher, dict[str, Any]]:
        """Return the dispatcher for a call: with this object's engine, unless the call names a project or tenant."""
        complete = {"project": self._project, **arguments}
        if arguments.get("project") is None and arguments.get("tenant") is None:
            return self._dispatcher, complete
        return Dispatcher(lambda place, overrides: open_engine(place, {**self.settings, **overrides})), complete

    def _client(self) -> ClientIdentity:
        return ClientIdentity(working_directory(), dict(os.environ), self._home)

    def _ask_daemon(
        self, op: str, arguments: Mapping[str, Any], progress: Progress | None, *, wants_value: bool
    ) -> dict[str, Any] | None:
        """Return the daemon's reply; None if this process should do the work."""
        if self._daemon == "off" or self._variables is None:
            return None
        from lorelog.light.daemon_client import call_daemon
        from lorelog.light.daemon_control import start

        try:
            return call_daemon(
                op,
                arguments,
                directory=working_directory(),
                environment={**os.environ, "LORELOG_PROJECT": self._directory, **self._variables},
                home=str(self.location.home),
                caller={"wants_value": wants_value},
                start=partial(start, force=True) if self._daemon == "required" else None,
                progress=progress if progress is None else _guard(progress),
            )
        except _ProgressFailed as failed:
            raise failed.error from None
        except DaemonError as error:
            if self._daemon == "required":
                raise
            if isinstance(error, DaemonUnresponsive) and error.first:
                _log.warning("%s; working without it", error.message)
            return None


def read_value(operation: Operation[Any, Any], reply: Mapping[str, Any]) -> Any:
    """Return the value in a daemon's reply. Raise ReplyLost if the daemon, of another version, replies in another form."""
    try:
        return convert(reply["value"], operation.reply)
    except (KeyError, ValidationError) as error:
        raise ReplyLost(
            f"{operation.name} was done, but the reply of the daemon cannot be read: it has another version ({error})",
            hint="restart this program and the daemon (lorelog daemon restart)",
        ) from error


class _ProgressFailed(BaseException):
    """Carries an error of the user's callback past the handlers for a lost connection."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _guard(progress: Progress) -> Progress:
    def report(stage: str, done: int, total: int) -> None:
        try:
            progress(stage, done, total)
        except Exception as error:
            raise _ProgressFailed(error) from error

    return report


def _settings_as_variables(settings: Mapping[str, object]) -> dict[str, str] | None:
    """Return settings as environment variables for the daemon; None if one cannot be written so.

    An empty variable counts as not set, so an empty value cannot be sent.
    """
    variables = {}
    for key, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if text in {"", "[]"}:
            return None
        variables[f"LORELOG_{key.replace('.', '_').upper()}"] = text
    return variables


class FileWatch:
    """A running watch. It ends with `stop()`, with its `with` block, or when its `Lorelog` is closed."""

    def __init__(self, watcher: Watcher, resources: ResourcePool, roots: Sequence[str]) -> None:
        self._watcher, self._resources = watcher, resources
        self.roots = tuple(roots)
        """The watched files and directories."""
        self.running = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
    from lorelog.core.options import WatchOptions
    from lorelog.services.watch.watcher import Watcher

    def report(watch_pass: WatchPass) -> None:
        """Log errors of the callback: they must not end the watcher's thread."""
        try:
            if on_event is not None:
                on_event(watch_pass)
        except Exception:
            _log.exception("on_event of Lorelog.watch failed")

    options = settings_at(caller.location, caller.settings)
    resources = ResourcePool()
    try:
        overrides = {**caller.settings, "scope.tenant": options.tenant()}
        discovery, _ = discover_watched(caller.location, resources, overrides, paths)
        watcher = Watcher(discovery, options.options(WatchOptions), on_pass=report)
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
