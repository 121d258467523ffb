"""Watch all roots of a home's tenants, and index their changes.

A root is indexed from its project, with the settings that apply there; global roots from the home. The engine of each target lists
its roots; a few file stamps show when it must be asked again.

One thread waits for events, lets them settle, and indexes all of them in one pass. Events can be lost (a queue overflow, a network
share, directories created faster than they can be watched), so all roots are compared by their stamps now and then. Errors of a pass
are kept and reported, its changes are tried again, and watching continues.

File events come from watchfiles, and are collected in threads and delivered in batches. Directories are watched recursively; a single file is watched through its directory, because an editor that saves by renaming replaces
it. The set of directories of a listener is fixed, so a new set needs new listeners; the old ones deliver their last events.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from lorelog.core.document import GLOBAL_PROJECT, FileStamp
from lorelog.core.errors import Cancelled, LorelogError, StoreBusy
from lorelog.core.memory import IndexReport
from lorelog.core.options import MARKDOWN_SUFFIXES, TEXT_SUFFIXES, WatchOptions
from lorelog.core.paths import cache_folder, data_folder, is_below, tenant_folder
from lorelog.core.ports import Progress
from lorelog.core.serializable import Serializable
from lorelog.services.indexing.incremental import FileChanges, merge_reports
from lorelog.services.places.root_selection import WatchScope
from lorelog.services.places.roots import Root, Roots
from lorelog.services.places.workspace import find_project

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


DELETED = 3
"""watchfiles' number for a deletion; of other kinds only the path counts."""

_POLL_STEP_MS = 200
"""How often a listener checks for events, and whether it should stop."""
_BATCH_MS = 1_000
_POLL_DELAY_MS = 300


class FileEventBatch(Struct, frozen=True):
    """Events of a listener, or the fault that ended it."""

    changes: frozenset[tuple[int, str]] = frozenset()
    fault: str = ""


class WatchUnavailable(Exception):
    """The system refuses to watch: too many watches, or none allowed."""


class FileEventSource:
    """Watches directories, and delivers events from its own threads."""

    def __init__(self, on_events: Callable[[FileEventBatch], None]) -> None:
        self._on_events = on_events
        self._listeners: list[_EventListener] = []

    def listen(self, trees: Sequence[str], folders: Sequence[str]) -> None:
        """Watch trees, and folders without their subfolders, instead of the previous ones.

        Raise FileNotFoundError if one of them is gone, and WatchUnavailable if they are too many; the previous watches then stay.
        """
        listeners: list[_EventListener] = []
        try:
            for paths, recursive in ((outermost_paths(trees), True), (sorted(set(folders)), False)):
                if paths:
                    listeners.append(_EventListener(_open_notifier(paths, recursive=recursive), self._on_events))
        except BaseException:
            for listener in listeners:
                listener.stop()
            raise
        self.close()
        self._listeners = listeners

    def is_full(self, folder: str) -> bool:
        """Return whether the system would refuse one more watch. New directories are then silently not watched."""
        try:
            _make_notifier([folder], recursive=False, lenient=False).close()
        except (PermissionError, FileNotFoundError):
            return False
        except (OSError, RuntimeError):
            return True
        return False

    def close(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.stop()


class _EventListener:
    def __init__(self, notify: RustNotify, on_events: Callable[[FileEventBatch], None]) -> None:
        self._notify = notify
        self._on_events = on_events
        self._stopped = Event()
        self._thread = Thread(target=self._listen, name="lorelog-ears", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _listen(self) -> None:
        with self._notify as notify:
            while not self._stopped.is_set():
                try:
                    # Without a timeout: one that expires at the wrong moment would lose collected events.
                    events = notify.watch(_BATCH_MS, _POLL_STEP_MS, 0, self._stopped)
                except Exception as error:  # noqa: BLE001  (any failure ends the listener and must be reported)
                    self._on_events(FileEventBatch(fault=str(error)))
                    return
                if isinstance(events, set):
                    self._on_events(FileEventBatch(frozenset(events)))
            with suppress(Exception):
                events = notify.watch(1, 1, 1, None)
                if isinstance(events, set):
                    self._on_events(FileEventBatch(frozenset(events)))


def outermost_paths(paths: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: (len(path), path)):
        if not any(is_below(path, outer) for outer in kept):
            kept.append(path)
    return sorted(kept)


def _open_notifier(paths: list[str], *, recursive: bool) -> RustNotify:
    """Open a listener and skip directories without permission. Raise WatchUnavailable if nothing can be watched."""
    try:
        try:
            return _make_notifier(paths, recursive=recursive, lenient=False)
        except PermissionError:
            # A lenient listener ignores every failure, also running out of watches: one more watch shows that.
            opened = _make_notifier(paths, recursive=recursive, lenient=True)
            _make_notifier(paths[:1], recursive=False, lenient=False).close()
            return opened
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise WatchUnavailable(f"may not be watched: {error}") from error
    except (OSError, RuntimeError) as error:
        raise WatchUnavailable(str(error)) from error


def _make_notifier(paths: list[str], *, recursive: bool, lenient: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify

    poll = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in {"", "false", "disable", "disabled"}
    return RustNotify(paths, False, poll, _POLL_DELAY_MS, recursive, lenient)


_MAX_QUIET_PERIODS = 20
"""Changes settle for at most this many quiet periods while files keep changing."""
_MAX_DOUBLINGS = 20


class FileWatcher:
    """A thread that works step by step, and between two steps waits for file events. Subclasses say what a step is."""

    def __init__(self, name: str, options: WatchOptions) -> None:
        self._options = options
        self._quiet_s = options.debounce_ms / 1000
        self._queue: SimpleQueue[FileEventBatch | None] = SimpleQueue()
        self._events = FileEventSource(self._queue.put)
        self._stopped = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._unavailable = ""
        """Why the system refuses to watch; empty if it does not."""

    def start(self) -> None:
        """Start watching; a first comparison of everything follows shortly."""
        self._thread.start()

    def stop(self, wait_s: float = 1.0) -> bool:
        """Stop, within a second unless a model call is active; return whether it has stopped. Finished work is kept."""
        self._stopped.set()
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                wait_s = self._step()
                with suppress(Empty):  # wait for events, and handle all that are queued
                    batch = self._queue.get(timeout=wait_s)
                    while True:
                        if batch is not None:
                            self._guarded("events", partial(self._handle_batch, batch))
                        batch = self._queue.get_nowait()
        finally:
            self._events.close()

    def _step(self) -> float:
        """Do what is due; return the seconds until the next step, unless there is an event."""
        raise NotImplementedError

    def _handle_batch(self, batch: FileEventBatch) -> None:
        raise NotImplementedError

    def _report(self, source: object, error: Exception | None) -> None:
        """Note that a target, or a step of the loop, failed or succeeded."""
        raise NotImplementedError

    def _guarded(self, source: object, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001  (an error in one target must not end all watching)
            self._report(source, error)
        else:
            self._report(source, None)

    def _listen(self, trees: Sequence[str], folders: Sequence[str] = ()) -> bool:
        """Listen to existing trees and folders; return False if one of them has just vanished."""
        try:
            self._events.listen(trees, folders)
            self._unavailable = ""
        except FileNotFoundError:
            return False
        except WatchUnavailable as error:
            self._unavailable = str(error)
        return True

    def _settled_at(self, first: float, last: float) -> float:
        """Return when changes have settled, by the times of the first and the last of them."""
        return min(last + self._quiet_s, first + _MAX_QUIET_PERIODS * self._quiet_s)


def retry_pause(first_s: float, failures: int, max_s: float) -> float:
    """Return the pause after some failures in a row: it doubles with each."""
    return float(min(first_s * 2 ** min(failures, _MAX_DOUBLINGS), max_s))


def tenant_names(home: Path | str) -> list[str]:
    """Return the tenants of a home, sorted."""
    try:
        with os.scandir(data_folder(home)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def file_identity(path: str) -> tuple[int, int] | str:
    """Return the identity of a directory, `file` for a file, and an empty string if there is neither."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else "file"


_MAX_VISITED = 100


class FollowedIndex(Protocol):
    """The part of an index's maintenance that the watcher needs."""

    def watch_set(self) -> WatchScope:
        """Return what to watch for its project."""

    def follow(self, changes: FileChanges, progress: Progress | None = None) -> IndexReport | None:
        """Index changes; return None if there were none."""


class WatchEngine(Protocol):
    """The part of an engine that the watcher needs."""

    def maintenance(self) -> FollowedIndex:
        """Return the maintenance of its project's index."""


OpenWatchEngine = Callable[[str, str], AbstractContextManager[WatchEngine]]
"""Opens the engine of a tenant in a directory."""


class WatchTarget(Struct, frozen=True):
    """A tenant and directory from which roots are indexed."""

    tenant: str
    directory: str


class WatchSet(Struct, frozen=True):
    roots: dict[tuple[str, str], tuple[WatchTarget, Root]] = field(default_factory=dict)
    """By tenant and path."""
    awaited: frozenset[str] = frozenset()
    ignore_files: frozenset[str] = frozenset()
    errors: tuple[LorelogError, ...] = ()

    def identities(self) -> dict[str, object]:
        return {path: file_identity(path) for path in (*(path for _, path in self.roots), *self.awaited)}


class WatchDiscovery:
    """Finds the roots of a home. Threads may share it."""

    def __init__(
        self,
        home: Path,
        engine_at: OpenWatchEngine,
        *,
        tenants: Iterable[str] | None = None,
        directory: str | None = None,
        only: Iterable[str] | None = None,
    ) -> None:
        """Cover all tenants or some, all of their projects or one directory, and all roots or some paths."""
        self._home = home
        self.open_engine = engine_at
        self._tenants = None if tenants is None else tuple(tenants)
        self._directory = directory
        self._only = None if only is None else frozenset(only)
        self._visited: dict[WatchTarget, None] = {}
        self._lock = Lock()

    def visit(self, tenant: str, directory: str) -> bool:
        """Watch the project of a directory, too, even if nothing of it is indexed yet; return whether it is new."""
        target = WatchTarget(tenant, find_project(directory).root)
        with self._lock:
            new = self._visited.pop(target, self) is self
            self._visited[target] = None
            while len(self._visited) > _MAX_VISITED:
                self._visited.pop(next(iter(self._visited)))
        return new

    def fingerprint(self) -> object:
        """Return a value that changes when roots are added or removed. Called every few seconds."""
        with self._lock:
            visited = tuple(self._visited)
        return visited, tuple((tenant, FileStamp.of(self._roots_file(tenant))) for tenant in self._all_tenants())

    def catalogs(self) -> dict[str, int]:
        """Return the inode of each tenant's catalog; a tenant without one is left out."""
        inodes = {}
        for tenant in self._all_tenants():
            with suppress(OSError):
                inodes[tenant] = os.stat(f"{cache_folder(tenant_folder(self._home, tenant))}/catalog.db").st_ino
        return inodes

    def discover(self) -> WatchSet:
        """Return the roots to watch now. Targets that fail are left out and listed in the errors."""
        watch_set = WatchSet()
        awaited: set[str] = set()
        ignore_files: set[str] = set()
        errors: list[LorelogError] = []
        for tenant in self._all_tenants():
            targets: Iterable[WatchTarget] = ()
            with _collected(errors):
                targets = self._find_targets(tenant)
            for target in targets:
                if not os.path.isdir(target.directory):
                    awaited.add(target.directory)
                    continue
                watched = WatchScope(())
                with _collected(errors), self.open_engine(target.tenant, target.directory) as engine:
                    watched = engine.maintenance().watch_set()
                for root in watched.roots:
                    if self._only is None or root.path in self._only:
                        watch_set.roots.setdefault((tenant, root.path), (target, root))
                awaited.update(() if self._only is not None else watched.awaited)
                ignore_files.update(watched.ignore_files)
        return WatchSet(watch_set.roots, frozenset(awaited), frozenset(ignore_files), tuple(errors))

    def _find_targets(self, tenant: str) -> tuple[WatchTarget, ...]:
        if self._directory is not None:
            return (WatchTarget(tenant, self._directory),)
        projects = {root.project for root in Roots(self._roots_file(tenant)).all() if root.project != GLOBAL_PROJECT}
        with self._lock:
            visited = [target for target in self._visited if target.tenant == tenant]
        # The home comes first: it takes the global roots, even if a project has them, too.
        targets = [
            WatchTarget(tenant, str(self._home)),
            *(WatchTarget(tenant, project) for project in sorted(projects)),
            *visited,
        ]
        return tuple(dict.fromkeys(targets))

    def _all_tenants(self) -> tuple[str, ...]:
        if self._tenants is not None:
            return self._tenants
        with self._lock:
            visited = [target.tenant for target in self._visited]
        return tuple(sorted({*tenant_names(self._home), *visited}))

    def _roots_file(self, tenant: str) -> Path:
        return Path(tenant_folder(self._home, tenant)) / "roots.json"


@contextmanager
def _collected(errors: list[LorelogError]) -> Iterator[None]:
    try:
        yield
    except LorelogError as error:
        errors.append(error)


_CHECK_TARGETS_S = 2.0
"""Interval of checks whether roots were added, vanished or came back: a few stamps each time."""
_POLL_S = 30.0
"""Interval of comparing all roots if the system refuses to watch."""
_MAX_BACKOFF_S = 300.0
_REPORTED = ("files", "changed", "removed", "embedded", "waiting")


class WatchPass(Serializable, Struct, frozen=True):
    """Start, duration and result of one pass."""

    at: str
    seconds: float
    report: IndexReport | None
    error: str = ""
    hint: str = ""
    busy: bool = False
    """Whether it only has to wait for other writers."""


class Watcher(FileWatcher):
    """Indexes changes until it is stopped. `on_pass` is called after each pass, on the watcher's own thread."""

    def __init__(
        self,
        discovery: WatchDiscovery,
        options: WatchOptions | None = None,
        *,
        on_pass: Callable[[WatchPass], None] | None = None,
    ) -> None:
        super().__init__("lorelog-watch", options or WatchOptions())
        self._discovery = discovery
        self._on_pass = on_pass
        self._wake_requested = Event()
        self._watch_set = WatchSet()
        self._fingerprint: object = None
        self._catalogs: dict[str, int] = {}
        self._there: dict[str, object] = {}
        self._listening: dict[str, object] | None = None
        self._folders: frozenset[str] = frozenset()
        self._pending: dict[WatchTarget, FileChanges] = {}
        self._backoffs: dict[WatchTarget, tuple[float, int]] = {}
        """When a failed target is tried again, and its failures in a row."""
        self._first = self._last = 0.0
        self._look_at = 0.0
        self._reconcile_at = time.monotonic() + self._quiet_s
        self._busy = False
        self._passes = 0
        self._last_pass: WatchPass | None = None
        self._errors: dict[object, WatchPass] = {}
        """Errors that still hold, oldest first, by their source: a target, or a step of the loop. Success removes them."""
        self._waiting_for = ""
        self._last_message = ""
        self._reconciled = ""
        self._since = _now()

    # -- public ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Compare all roots now."""
        self._wake_requested.set()
        self._queue.put(None)

    def visit(self, tenant: str, directory: str) -> None:
        """Watch the project of a directory, too: a host's files for it are found even if nothing is indexed yet."""
        if self._discovery.visit(tenant, directory):
            self._queue.put(None)

    def state(self) -> dict[str, Any]:
        """Return the state of watching, as JSON values."""
        there, view = self._there, self._watch_set
        paths = sorted({path for _, path in view.roots})
        last = next(reversed(list(self._errors.values())), None)
        last_pass = None
        if self._last_pass is not None and self._last_pass.report is not None:
            report = self._last_pass.report
            last_pass = {"at": self._last_pass.at, "seconds": self._last_pass.seconds}
            last_pass |= {name: getattr(report, name) for name in _REPORTED} | {"problems": len(report.problems)}
        return {
            "running": self._thread.is_alive(),
            "since": self._since,
            "mode": "polling" if self._unavailable else "events",
            "why": self._unavailable,
            "roots": paths,
            "missing": [path for path in paths if not there.get(path, path)],
            "passes": self._passes,
            "busy": self._busy or bool(self._pending),
            "pending": bool(self._pending or self._waiting_for),  # also while it is tried again
            "waiting_for": self._waiting_for,
            "last_pass": last_pass,
            "last_error": {"at": last.at, "message": last.error, "hint": last.hint} if last is not None else None,
            "reconciled_at": self._reconciled,
        }

    # -- the thread --------------------------------------------------------------------------------------------------

    def _step(self) -> float:
        now = time.monotonic()
        if now >= self._look_at or self._listening is None:
            self._look_at = now + _CHECK_TARGETS_S
            self._guarded("targets", self._refresh_targets)
        if now >= self._reconcile_at or self._wake_requested.is_set():
            self._wake_requested.clear()
            self._guarded("reconcile", self._reconcile)
        self._busy = True
        self._pass()
        self._busy = False
        until = min(self._look_at, self._reconcile_at, *map(self._due_at, self._pending))
        return min(max(until - time.monotonic(), 0.01), _CHECK_TARGETS_S)

    def _due_at(self, target: WatchTarget) -> float:
        return max(self._settled_at(self._first, self._last), self._backoffs.get(target, (0.0, 0))[0])

    # -- roots -------------------------------------------------------------------------------------------------------

    def _refresh_targets(self, *, closely: bool = False) -> None:
        """Check whether the roots are still the same, and listen to the current ones."""
        catalogs = self._discovery.catalogs()
        if any(catalogs.get(tenant) != inode for tenant, inode in self._catalogs.items()):
            self._wake_requested.set()  # the cache was deleted: all roots are read again
        self._catalogs = catalogs
        fingerprint, identities = self._discovery.fingerprint(), self._watch_set.identities()
        is_same = (fingerprint, identities) == (self._fingerprint, self._there)
        if not closely and self._listening is not None and is_same:
            return
        self._watch_set = self._discovery.discover()
        for error in self._watch_set.errors or (None,):
            self._report("discovery", error)
        self._fingerprint, self._there = fingerprint, self._watch_set.identities()
        before = self._listening
        now = {path: self._there[path] for _, path in self._watch_set.roots if self._there[path]}
        if before is None or now != before or self._unavailable:
            self._listening = now
            self._listen_to(now)
            self._suspect(key for key in self._watch_set.roots if now.get(key[1]) != (before or {}).get(key[1]))

    def _listen_to(self, paths: Iterable[str]) -> None:
        """Listen to existing roots. If the system refuses, all of them are compared more often instead."""
        trees = [path for path in paths if os.path.isdir(path)]
        self._folders = frozenset(os.path.dirname(path) for path in paths if path not in trees)
        if not self._listen(trees, list(self._folders)):
            self._listening = None  # the next check will notice
        elif self._unavailable:
            self._reconcile_at = min(self._reconcile_at, time.monotonic() + _POLL_S)

    def _suspect(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            target, root = self._watch_set.roots[key]
            self._pending_for(target).suspected.add(root.path)

    def _reconcile(self) -> None:
        """Compare all roots with the index, and refresh settings and watches."""
        every = self._options.reconcile_s
        self._refresh_targets(closely=True)
        self._suspect(self._watch_set.roots)
        self._first = self._last = 0.0  # no need to settle
        self._reconciled = _now()
        folders = [path for _, path in self._watch_set.roots if os.path.isdir(path)]
        if not self._unavailable and folders and self._events.is_full(folders[0]):
            self._unavailable = "the system's limit of watches is reached (fs.inotify.max_user_watches)"
        if self._unavailable:
            every = min(every or _POLL_S, _POLL_S)
        self._reconcile_at = time.monotonic() + (every or float("inf"))

    # -- events ------------------------------------------------------------------------------------------------------

    def _handle_batch(self, batch: FileEventBatch) -> None:
        if batch.fault:  # mostly a file name that is not valid text; the listener and its events are lost
            self._listening = None
            self._suspect(self._watch_set.roots)
        for kind, path in batch.changes:
            if kind == DELETED and (path in self._folders or isinstance(self._there.get(path), tuple)):
                self._listening = None  # its replacement needs a new listener
            innermost: dict[str, tuple[WatchTarget, Root]] = {}
            for (tenant, _), (target, root) in self._watch_set.roots.items():
                if root.holds(path) and (tenant not in innermost or len(innermost[tenant][1].path) < len(root.path)):
                    innermost[tenant] = (target, root)
            for target, root in innermost.values():
                self._handle_event(kind, path, target, root)

    def _handle_event(self, kind: int, path: str, target: WatchTarget, root: Root) -> None:
        *above, name = path[len(root.path) + 1 :].split("/")
        if any(part.startswith(".") for part in above):
            return
        if name in self._watch_set.ignore_files and path != root.path:
            self._pending_for(target).roots.add(root.path)
        elif path == root.path or (
            not name.startswith(".") and name.lower().endswith((*MARKDOWN_SUFFIXES, *TEXT_SUFFIXES))
        ):
            self._pending_for(target).files.add(path)
        elif name.startswith("."):
            return
        elif kind == DELETED:
            self._pending_for(target).gone.add(path)
        elif os.path.isdir(path) and not os.path.islink(path):
            self._pending_for(target).roots.add(root.path)

    def _pending_for(self, target: WatchTarget) -> FileChanges:
        """Return the pending changes of a target, and note that an event has just arrived."""
        now = time.monotonic()
        self._first = self._first if self._pending else now
        self._last = now
        return self._pending.setdefault(target, FileChanges())

    # -- passes ------------------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        """Index all settled changes."""
        now, at = time.monotonic(), _now()
        taken = {target: self._pending.pop(target) for target in list(self._pending) if self._due_at(target) <= now}
        reports: list[IndexReport] = []
        for target, notes in taken.items():
            try:
                report = self._follow(target, notes)
            except Cancelled:
                return
            except Exception as error:  # noqa: BLE001  (an error in one pass must not end all watching)
                self._report(target, error, at, time.monotonic() - now)
                self._pending.setdefault(target, FileChanges()).add(notes)
                failures = self._backoffs.get(target, (0.0, 0))[1] + 1
                pause = retry_pause(self._quiet_s, failures, _MAX_BACKOFF_S)
                self._backoffs[target] = (time.monotonic() + pause, failures)
            else:
                self._backoffs.pop(target, None)
                self._report(target, None)
                reports += [] if report is None else [report]
        if not self._pending:
            self._waiting_for = ""
        if reports:
            self._passes += 1
            self._last_message = ""
            self._last_pass = WatchPass(at, round(time.monotonic() - now, 3), merge_reports(reports))
            if self._on_pass:
                self._on_pass(self._last_pass)

    def _follow(self, target: WatchTarget, pending: FileChanges) -> IndexReport | None:
        if not os.path.isdir(target.directory):
            return None  # its roots are gone, too, and are compared when they come back

        def keep_going(stage: str, done: int, total: int) -> None:
            if self._stopped.is_set():
                raise Cancelled("watching was stopped")

        with self._discovery.open_engine(target.tenant, target.directory) as engine:
            return engine.maintenance().follow(pending, keep_going)

    def _report(self, source: object, error: Exception | None, at: str = "", seconds: float = 0.0) -> None:
        """Keep an error until its source succeeds, and report it once. Waiting for the run lock is not an error."""
        self._errors.pop(source, None)
        if error is None:
            return
        message, hint = f"{type(error).__name__}: {error}", "a fault of lorelog itself; please report it"
        busy = isinstance(error, StoreBusy)
        if isinstance(error, LorelogError):
            message, hint = error.message, error.hint
        failed = WatchPass(at or _now(), round(seconds, 3), None, message, hint, busy)
        if busy:
            self._waiting_for = message
        else:
            self._errors[source] = failed
        # The message about the lock names a process and seconds: it always differs.
        report = "busy" if busy else message
        if self._on_pass and report != self._last_message:
            self._last_message = report
            self._on_pass(failed)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
