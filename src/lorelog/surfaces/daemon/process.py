"""The daemon process: composes the server with its operations, background threads, file watching and HTTP.

One thread turns spooled hook events into memories, one indexes new records, one has statements judged. None delays a request: a client never waits for a model
or for Git.

Run as `python -m lorelog.surfaces.daemon.process --home DIRECTORY` by `light/daemon_control.py`. Nothing heavy is imported
before the socket listens: clients that arrive meanwhile queue there, and do not each try to start a daemon.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from lorelog.core import VERSION
from lorelog.core.errors import Cancelled, ConfigError, DaemonError, LorelogError, ModelUnavailable, StoreBusy
from lorelog.core.paths import cache_folder, tenant_folder
from lorelog.core.processes import limit_heap, trim_memory
from lorelog.light.daemon_connection import DaemonAddress
from lorelog.light.daemon_control import LOCK_DESCRIPTOR, READY, start_detached
from lorelog.surfaces.daemon.connection import OperationRunner, ServerLimits
from lorelog.surfaces.daemon.server import DaemonHooks, DaemonServer, InstanceLock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorelog.core.options import DaemonOptions, HttpOptions, ScanOptions, WatchOptions
    from lorelog.engine import Engine
    from lorelog.operations.dispatch import ClientIdentity
    from lorelog.services.code.watcher import CodeWatcher
    from lorelog.services.watch.watcher import Watcher, WatchPass
    from lorelog.surfaces.daemon.readers import ReaderPool
    from lorelog.surfaces.http.server import RunningServer
    from lorelog.wiring import Location, ResourcePool


_MAX_LOG_BYTES = 1_000_000
_MAX_ENTRY_CHARS = 4_000
_MODEL_CHECK_S = 15.0
"""How often to look for models to unload."""
_PAUSE_S = 2.0
"""Time without an operation after which free memory is given back."""
_RESTART = "idle: another daemon takes over, to give back memory"
_BACKGROUND_DELAY_S = 1.0
"""Watching and HTTP start this long after the daemon: the client that started it waits for a response."""
_MAX_VISITED = 1_000
"""Projects remembered as known to the watcher. Forgotten ones are announced again."""
_DAEMON_VARIABLES = ("LORELOG_DAEMON_", "LORELOG_WATCH_", "LORELOG_HTTP_")
"""Prefixes of variables that configure the daemon and are taken from the environment that it was started in."""
_YIELD_S = 0.2
_SPOOL_POLL_S = 1.0
"""How often to read the spool without a wake-up: a hook that cannot reach the daemon still writes its event."""
_MAX_CONCURRENT_SESSIONS = 4
"""Sessions captured at a time. A model that summarizes one session delays only that session."""
_DEBOUNCE_S = 1.0
"""Changes within this time are indexed together; a search that indexes them itself comes first."""
_RETRY_S = 5.0
_QUIET_S = 300.0
"""Time without a captured turn after which what was said is judged, if the session has not ended. Shorter than `daemon.model_idle_s`, after
which the daemon restarts and forgets it: what was said is then judged after the next session."""
_JUDGE_PAUSE_S = 3600.0
"""A judge that failed is not asked again for this long."""
_WATCHED_CACHE_FILES = ("catalog.db", "catalog.db-wal", "code.db")

TenantStamp = tuple[object, ...]
_CLOSE_S = 0.5
"""How long to wait for background threads at exit."""


class DaemonLog:
    """The daemon's log file, which is also its standard output and error. Thread-safe.

    Libraries and a dying interpreter therefore write into it too. If it cannot be written (full disk, deleted home), the
    daemon keeps working.
    """

    def __init__(self, path: str, *, max_bytes: int = _MAX_LOG_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = Lock()

    def open(self) -> None:
        """Redirect standard output and error to the file, or to /dev/null if it cannot be opened."""
        try:
            Path(self.path).parent.mkdir(0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            descriptor = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)

    def write(self, text: str) -> None:
        """Append an entry with a timestamp."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        entry = f"{stamp} [{os.getpid()}] {text[:_MAX_ENTRY_CHARS]}\n".encode("utf-8", "replace")
        with self._lock, suppress(OSError):
            if os.fstat(2).st_size > self._max_bytes:
                for newer, older in ((f"{self.path}.1", f"{self.path}.2"), (self.path, f"{self.path}.1")):
                    with suppress(FileNotFoundError):
                        Path(newer).replace(older)
                if Path(self.path).parent.is_dir():  # do not recreate a deleted home just to log in it
                    self.open()
            os.write(2, entry)


def main(arguments: list[str]) -> NoReturn:
    """Run as the daemon of a home until it stops."""
    # A search makes thousands of short-lived objects and hardly a cycle; the default of 700 costs it a tenth of its time.
    gc.set_threshold(5_000, 10, 10)
    if len(arguments) != 2 or arguments[0] != "--home":
        sys.exit("usage: python -m lorelog.surfaces.daemon.process --home DIRECTORY")
    address = DaemonAddress(arguments[1])
    log = DaemonLog(address.log)
    _daemonize()
    try:
        instance_lock = InstanceLock(address)
        listener = instance_lock.listen()
    except (LorelogError, OSError) as error:
        os.write(2, f"{error}\n".encode("utf-8", "replace"))
        os._exit(1)
    os.write(2, READY)
    with suppress(OSError):  # only a detached start has passed its lock on
        os.close(LOCK_DESCRIPTOR)
    log.open()
    log.write(f"started: lorelog {VERSION}, home {address.home}")
    daemon = Daemon(instance_lock, log)
    reason = daemon.run(listener)
    log.write(f"stopped: {reason}")
    daemon.close()
    if reason == _RESTART:
        # Before the lock is released: `stop` finds this daemon, or waits for the next one. The next one waits for the lock.
        start_detached(address)
    instance_lock.release()
    # Hanging threads must not keep the process alive. Writes are complete, and the locks end with the process.
    os._exit(0)


class DaemonSettings(Struct, frozen=True):
    """The user's settings for the daemon, read when it starts."""

    daemon: DaemonOptions
    watch: WatchOptions
    http: Callable[[], HttpOptions]
    """May raise, for example if a referenced token is not set."""
    environment: Mapping[str, str]
    """Environment for the daemon's own work: watching, background indexing, HTTP."""
    tenant: str


class SpoolDrainThread(threading.Thread):
    """Turns spooled hook events into memories until it is stopped. Failures are recorded and end nothing."""

    def __init__(
        self, home: str, runner: OperationRunner, environment: Mapping[str, str], wake_event: threading.Event
    ) -> None:
        from lorelog.services.sessions.drain import Drainer

        super().__init__(name="lorelog-drain", daemon=True)
        self._home, self._runner, self._environment, self._wake_event = home, runner, environment, wake_event
        self._drainer = Drainer(home, self._capture, runner.record_failure, _MAX_CONCURRENT_SESSIONS)
        self._stopped = False

    def stop(self) -> None:
        """Stop after the current event."""
        self._stopped = True
        self._wake_event.set()

    def run(self) -> None:
        while not self._stopped:
            self._wake_event.clear()
            pause_s = _SPOOL_POLL_S
            try:
                drained = self._drainer.drain()
                pause_s = _SPOOL_POLL_S if drained.pause_s is None else min(_SPOOL_POLL_S, drained.pause_s)
            except (Cancelled, DaemonError):
                pass  # the daemon is stopping; the next one continues
            except Exception as error:
                self._runner.record_failure("drain", error)
            if not self._stopped:
                self._wake_event.wait(max(pause_s, 0.05))

    def _capture(self, event: dict[str, Any]) -> dict[str, Any]:
        from lorelog.core.caller import hook_environment
        from lorelog.operations.dispatch import ClientIdentity
        from lorelog.services.sessions.drain import capture_arguments, event_directory

        environment = hook_environment(self._environment, event.get("environment"))
        caller = ClientIdentity(event_directory(event, self._home), environment, self._home)
        return self._runner.call("session.capture", capture_arguments(event), caller)


class TenantThread(threading.Thread):
    """Does background work for the tenants that requests came from, until it is stopped. Failures end nothing."""

    def __init__(
        self,
        home: str,
        runner: OperationRunner,
        engine_at: Callable[[str, str], Engine],
        directories: Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # `directories`: the directory of each tenant's latest request.
        super().__init__(name=f"lorelog-{type(self).__name__}", daemon=True)
        self._home, self._environment = home, environment or {}
        self._runner, self._engine_at, self._directories = runner, engine_at, directories
        self._wake_event, self._stopped = threading.Event(), threading.Event()
        self._indexed: dict[str, TenantStamp] = {}

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopped.set()
        self._wake_event.set()


class BackgroundIndexThread(TenantThread):
    """Indexes new records and finds the code that new memories name.

    It runs after operations and not on a timer: an unchanged tenant costs a few `stat` calls.
    """

    _waiting = False

    def is_idle(self) -> bool:
        """Return whether everything that was written is indexed."""
        return self._waiting and not self._wake_event.is_set()

    def wake(self) -> None:
        """Check for changes soon: an operation has ended and may have written something."""
        self._wake_event.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            self._waiting = True
            self._wake_event.wait()
            self._waiting = False
            self._stopped.wait(_DEBOUNCE_S)
            self._wake_event.clear()
            directories = list(self._directories.items())  # a copy: other threads add to it
            done = [self._index_tenant(tenant, directory) for tenant, directory in directories]
            if not all(done):
                self._stopped.wait(_RETRY_S)
                self._wake_event.set()

    def _index_tenant(self, tenant: str, directory: str) -> bool:
        """Index what a tenant has written since the last pass. Return False if its index is locked."""
        from lorelog.operations.review import count_inbox

        stamp = self._stamp(tenant, directory)
        if stamp is None or stamp == self._indexed.get(tenant) or self._stopped.is_set():
            return True

        def may_continue() -> bool:
            if self._runner.running():  # requests come first
                self._stopped.wait(_YIELD_S)
            return not self._stopped.is_set()

        try:
            self._engine_at(tenant, directory).run_background_work(may_continue, lambda engine: count_inbox(engine, {}))
        except StoreBusy:
            return False
        except Exception as error:
            if not (isinstance(error, LorelogError) and self._stopped.is_set()):
                self._runner.record_failure("settle", error)
        self._indexed[tenant] = stamp
        return True

    def _stamp(self, tenant: str, directory: str) -> TenantStamp | None:
        """Return a value that changes with every record and memory, and with the directory; None without any files."""
        stamps: list[object] = []
        folder = tenant_folder(self._home, tenant)
        cache = cache_folder(folder)
        for file in (f"{folder}/ledger.jsonl", *(f"{cache}/{name}" for name in _WATCHED_CACHE_FILES)):
            with suppress(OSError):
                status = Path(file).stat()
                stamps += [status.st_ino, status.st_size, status.st_mtime_ns]
        return (directory, *stamps) if stamps else None


class ReviewThread(TenantThread):
    """Asks the judge that the user allowed to file what was said, after a session.

    Each project's statements are judged in that project, newest first, by `review.run`. After a failure the judge is left alone for an hour.
    """

    _due_at, _paused_until = math.inf, 0.0

    def on_capture(self, moment: str) -> None:
        """Note that something was said: it is judged when the session ends, or when nobody has spoken for a while."""
        self._due_at = time.monotonic() + (0 if moment == "session-end" else _QUIET_S)
        self._wake_event.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            if (pause_s := self._pause_s()) > 0:
                self._wake_event.wait(min(pause_s, threading.TIMEOUT_MAX))
                self._wake_event.clear()
                continue
            due_at = self._due_at
            for tenant in list(self._directories):
                try:
                    self._review_tenant(tenant)
                except (Cancelled, DaemonError):
                    return  # the daemon is stopping
                except Exception as error:
                    self._due_at = self._paused_until = time.monotonic() + _JUDGE_PAUSE_S
                    if not isinstance(error, LorelogError):  # the runner has noted the others
                        self._runner.record_failure("review", error)
            if self._due_at == due_at:  # nothing was said meanwhile
                self._due_at = math.inf

    def _pause_s(self) -> float:
        return max(self._due_at, self._paused_until) - time.monotonic()

    def _review_tenant(self, tenant: str) -> None:
        with self._engine_at(tenant, self._home) as engine:
            projects = engine.judged_projects(self._environment, _JUDGE_PAUSE_S)
        for project in projects:
            if not project or Path(project).is_dir():  # elsewhere its rules could not be written
                with suppress(ConfigError):  # a file that came with one project must not keep the others waiting
                    self._review_project(tenant, project or self._home)

    def _review_project(self, tenant: str, directory: str) -> None:
        from lorelog.operations.dispatch import ClientIdentity

        caller = ClientIdentity(directory, self._environment, self._home)
        left, before = math.inf, math.nan
        while left and left != before and not self._stopped.is_set():
            while self._runner.running() and not self._stopped.wait(_YIELD_S):
                pass  # requests come first
            reply = self._runner.call("review.run", {"tenant": tenant}, caller)
            if reply["stopped"]:
                raise ModelUnavailable(reply["stopped"])
            left, before = reply["left"], left


class Daemon:
    """One running daemon: its resources, background threads and callbacks for the server."""

    def __init__(self, instance_lock: InstanceLock, log: DaemonLog) -> None:
        self._home = instance_lock.address.home
        self._instance_lock = instance_lock
        self._log = log
        self._runner = OperationRunner(self._call, log.write)
        self._load_lock = threading.Lock()
        self._resources: ResourcePool | None = None
        self._readers: ReaderPool | None = None
        self._watcher: Watcher | None = None
        self._http_server: RunningServer | None = None
        self._http_record = ExitStack()
        """Held while the HTTP server runs: `lorelog ui` finds it by its record."""
        self._drain_thread: SpoolDrainThread | None = None
        self._index_thread: BackgroundIndexThread | None = None
        self._review_thread: ReviewThread | None = None
        self._code_watcher: CodeWatcher | None = None
        self._settings: DaemonSettings | None = None
        self._start_thread: threading.Thread | None = None
        self._stop_thread: threading.Thread | None = None
        self._unload_thread: threading.Thread | None = None
        self._models_checked_at = self._started_at = time.monotonic()
        self._rested_after = -1
        """Number of operations after which everything was closed."""
        self._trimmed_at = (0, 0, False)
        """When memory was last given back: number of operations and of loaded models, and whether there was a pause."""
        self._had_model = False
        self._server: DaemonServer | None = None
        self._visited: set[tuple[str, str]] = set()
        self._directories: dict[str, str] = {}
        """The directory of each tenant's latest request."""
        self._logged_waiting = False
        self._spool_event = threading.Event()
        """Set when a hook has written to the spool."""

    def run(self, listener: socket.socket) -> str:
        """Serve requests until it is time to stop. Return the reason."""
        limit_heap()
        options = self._read_settings()

        def status_fields() -> dict[str, Any]:
            return {
                "readers": [] if self._readers is None else self._readers.status(),
                "models_loaded": 0 if self._resources is None else self._resources.unload_idle(float("inf")),
                "watch": None if self._watcher is None else self._watcher.state(),
                "http": None if self._http_server is None else {"url": self._http_server.url},
            }

        hooks = DaemonHooks(
            status_fields=status_fields,
            on_tick=self._tick,
            on_wake=self._spool_event.set,
            on_shutdown=self._stop_background,
            idle_s=options.idle_s,
        )
        self._server = server = DaemonServer(
            listener, instance_lock=self._instance_lock, runner=self._runner, hooks=hooks, limits=ServerLimits()
        )
        signal.set_wakeup_fd(server.waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # the server reads it from the wake-up descriptor
        return server.run()

    def close(self) -> None:
        """Stop the background threads that stop in time."""
        self._stop_background()
        if self._stop_thread is not None:
            self._stop_thread.join(_CLOSE_S)
        if self._readers is not None:
            self._readers.clear()
        if self._resources is not None:
            self._resources.end_programs()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _call(self, op: str, arguments: Any, caller: ClientIdentity, progress: Any) -> dict[str, Any]:
        time.tzset()  # the machine's time zone may have changed
        try:
            reply = self._load_readers().call(op, arguments, caller, progress)
            if op == "session.capture" and self._review_thread is not None:
                self._review_thread.on_capture(str(arguments.get("moment")))
            return reply
        finally:
            if self._index_thread is not None:
                self._index_thread.wake()

    def _load_readers(self) -> ReaderPool:
        with self._load_lock:
            if self._readers is None:
                from lorelog.operations.dispatch import Dispatcher
                from lorelog.surfaces.daemon.readers import ReaderPool
                from lorelog.wiring import ResourcePool

                self._resources = ResourcePool()
                self._readers = ReaderPool(Dispatcher(self._engine), self._home, self._log.write, self._note_place)
            return self._readers

    def _engine(self, location: Location, flags: Mapping[str, object] | None = None) -> Engine:
        """Return an engine, and have its project watched."""
        if self._resources is None:
            raise TypeError("the dispatcher must be loaded before an engine is opened")
        engine = self._resources.engine(location, flags)
        self._note_place(engine.place.tenant, engine.place.project.root)
        return engine

    def _note_place(self, tenant: str, root: str) -> None:
        self._directories[tenant] = root
        if self._watcher is not None and (tenant, root) not in self._visited:
            self._visited = {(tenant, root), *(self._visited if len(self._visited) < _MAX_VISITED else ())}
            self._watcher.visit(tenant, root)

    # -- background --------------------------------------------------------------------------------------------------

    def _read_settings(self) -> DaemonOptions:
        """Read the user's settings. `daemon.status` and every request report what is wrong with them."""
        from lorelog.core.options import DaemonOptions, WatchOptions

        try:
            from lorelog.wiring import resolve_location, settings_at

            environment = daemon_environment(os.environ, self._home)
            settings = settings_at(resolve_location(home=self._home, directory=self._home, environment=environment))
            # A setting may refer to any variable for a secret, even to one that daemon_environment leaves out.
            for key in ("embedding.api_key", "http.token"):
                variable = str(settings.value(key)).removeprefix("env:")
                if variable in os.environ:
                    environment[variable] = os.environ[variable]
            self._settings = DaemonSettings(
                settings.options(DaemonOptions),
                settings.options(WatchOptions),
                lambda: settings.http_options(environment),
                environment,
                settings.tenant(),
            )
        except (LorelogError, OSError) as error:
            self._runner.record_failure("settings", error)
            return DaemonOptions()
        return self._settings.daemon

    def _tick(self) -> None:
        """Start the background threads after the first responses, and unload idle models."""
        now = time.monotonic()
        if self._readers is not None:
            self._readers.tick()
        if self._settings is None:
            return
        if self._start_thread is None and now - self._started_at > _BACKGROUND_DELAY_S:
            self._start_thread = _start_thread(self._start_background, self._settings, name="lorelog-beside")
        if self._is_check_due(now):
            # In a thread of its own: closing a model may take long.
            self._models_checked_at = now
            arguments = (self._resources, self._settings)
            self._unload_thread = _start_thread(self._unload_idle_models, *arguments, name="lorelog-rest")

    def _is_check_due(self, now: float) -> bool:
        """Return whether to look for memory to give back: now and then, and once in a pause."""
        is_unloading = self._unload_thread is not None and self._unload_thread.is_alive()
        if self._resources is None or self._settings is None or is_unloading:
            return False
        loaded = self._resources.unload_idle(float("inf"))
        self._had_model = self._had_model or loaded > 0
        if now - self._models_checked_at >= min(_MODEL_CHECK_S, self._settings.daemon.model_idle_s):
            return True
        is_new = (self._runner.calls, loaded, True) != self._trimmed_at
        return loaded != self._trimmed_at[1] or (is_new and self._quiet_s() >= _PAUSE_S)

    def _quiet_s(self) -> float:
        """Return the seconds since the last operation; 0 while one runs."""
        return 0.0 if self._runner.running() else time.monotonic() - self._runner.last_used_at

    def _start_background(self, settings: DaemonSettings) -> None:
        def start_draining(settings: DaemonSettings) -> None:
            self._drain_thread = SpoolDrainThread(self._home, self._runner, settings.environment, self._spool_event)
            self._drain_thread.start()

        steps: dict[str, Callable[[DaemonSettings], None]] = {"settle": self._start_indexing, "drain": start_draining}
        if settings.watch.enabled:
            steps |= {"watch": self._start_watching, "code": self._start_code_indexing}
        if settings.daemon.http:
            steps["http"] = self._start_http
        for what, start in steps.items():
            try:
                if self._stop_thread is None:
                    start(settings)
            except Exception as error:
                self._runner.record_failure(what, error)

    def _stop_background(self) -> None:
        if self._stop_thread is not None:
            return

        def stop() -> None:
            threads = (self._drain_thread, self._index_thread, self._review_thread, self._watcher, self._code_watcher)
            for task in (*threads, self._http_server):
                if task is not None:
                    with suppress(Exception):
                        task.stop()

        self._stop_thread = _start_thread(stop, name="lorelog-ending")

    def _start_indexing(self, settings: DaemonSettings) -> None:
        self._load_readers()
        place = (self._home, self._runner, partial(self._engine_at, settings), self._directories)
        self._review_thread = ReviewThread(*place, environment=settings.environment)
        self._index_thread = BackgroundIndexThread(*place)
        for thread in (self._review_thread, self._index_thread):
            thread.start()
        self._index_thread.wake()

    def _engine_at(self, settings: DaemonSettings, tenant: str, directory: str) -> Engine:
        """Return an engine for the daemon's own work."""
        from lorelog.wiring import resolve_location

        location = resolve_location(home=self._home, directory=directory, environment=settings.environment)
        return self._engine(location, {"scope.tenant": tenant})

    def _start_watching(self, settings: DaemonSettings) -> None:
        from lorelog.services.watch.watcher import WatchDiscovery, Watcher

        self._load_readers()
        discovery = WatchDiscovery(Path(self._home), partial(self._engine_at, settings))
        watcher = Watcher(discovery, settings.watch, on_pass=self._on_watch_pass)
        for project in list(self._visited):
            watcher.visit(*project)
        watcher.start()
        self._watcher = watcher

    def _start_code_indexing(self, settings: DaemonSettings) -> None:
        from lorelog.services.code.watcher import CodeWatcher

        def scan_options(tenant: str, directory: str) -> ScanOptions:
            with self._engine_at(settings, tenant, directory) as engine:
                return engine.defaults.scan

        def may_continue() -> bool:
            if self._runner.running():  # requests come first
                time.sleep(_YIELD_S)
            return self._stop_thread is None

        self._load_readers()
        self._code_watcher = CodeWatcher(
            Path(self._home),
            scan_options,
            settings.watch,
            may_continue=may_continue,
            on_run=lambda run: self._runner.record_failure("code", run) if isinstance(run, Exception) else None,
        )
        self._code_watcher.start()

    def _on_watch_pass(self, watch_pass: WatchPass) -> None:
        if watch_pass.busy:  # normal while other processes write
            if not self._logged_waiting:
                self._log.write(f"watch: waiting for another index run ({watch_pass.error}); logged once")
            self._logged_waiting = True
        elif watch_pass.error:  # retried until it succeeds; `daemon.status` shows it
            self._log.write(f"watch: {watch_pass.error}")

    def _start_http(self, settings: DaemonSettings) -> None:
        from lorelog.operations.dispatch import ClientIdentity
        from lorelog.surfaces.http.server import serve_in_thread
        from lorelog.surfaces.http.tickets import announce_server, with_token
        from lorelog.surfaces.mcp.endpoint import mcp_routes
        from lorelog.surfaces.page.app import PageContext, page_routes

        caller = ClientIdentity(self._home, dict(settings.environment), self._home, own=False)
        options = with_token(settings.http(), self._home)
        page = page_routes(self._runner.call, caller, PageContext("", self._home, settings.tenant))
        server = serve_in_thread(self._runner.call, options, caller, mcp_routes(self._runner.call, caller), page)
        self._http_server = server
        self._http_record.enter_context(announce_server(self._home, server.url, server.port))
        self._log.write(f"serving {server.url}")

    def _unload_idle_models(self, resources: ResourcePool, settings: DaemonSettings) -> None:
        """Unload models that are idle; after as long without any operation also close all files, and have another process take over."""
        idle_s, quiet_s = settings.daemon.model_idle_s, self._quiet_s()
        state = (self._runner.calls, resources.unload_idle(idle_s), quiet_s >= _PAUSE_S)
        rests = quiet_s >= idle_s and self._rested_after != self._runner.calls
        if rests:
            self._rested_after = self._runner.calls
            resources.rest()
        if rests or state != self._trimmed_at:
            trim_memory(mapped=rests)
        self._trimmed_at = state
        if self._quiet_s() >= idle_s and self._server is not None and self._may_restart() and self._server.is_idle():
            self._server.shut_down(_RESTART)

    def _may_restart(self) -> bool:
        """Return whether another process would need less memory, and nothing is in use that would be lost."""
        if self._http_server is not None or self._stop_thread is not None:
            return False
        if not self._runner.calls and not self._had_model:
            return False
        if self._resources is not None and self._resources.unload_idle(float("inf")):
            return False  # the background uses the model
        started = self._start_thread is not None and not self._start_thread.is_alive()
        watcher, index_thread = self._watcher, self._index_thread
        settled = index_thread is None or index_thread.is_idle()
        return started and settled and (watcher is None or not watcher.state()["busy"])


def _start_thread(work: Callable[..., None], *arguments: Any, name: str) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def daemon_environment(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the environment for the daemon's own work.

    The client that started it may have set variables for one command. They must not last or reach other projects, so
    settings come from config.toml; only variables that configure the daemon itself are kept.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("LORELOG_") or name.startswith(_DAEMON_VARIABLES)
    }
    return {**kept, "LORELOG_HOME": home}


def _daemonize() -> None:
    """Detach from the process that started this one: session, directory, descriptors and signals.

    The umask is kept: journals in projects are created with it, and clients with another umask are rejected
    (`server.py`). Files in the home have explicit modes.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.closerange(3, LOCK_DESCRIPTOR)
    os.closerange(LOCK_DESCRIPTOR + 1, 1_048_576)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


if __name__ == "__main__":
    main(sys.argv[1:])
