"""Watching: from what the system says of changed files to an index that has followed them.

One thread waits for changes, lets them come to rest, and makes one pass over all of them, however many they are. Events
can be lost (a queue that overflows, a share on a network, directories made faster than they can be watched), so now and then all
roots are compared by their stamps, and what was missed is made good. Whatever goes wrong in a pass is kept to be told,
its changes are kept to be tried again, and watching goes on.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

from lorelog.core.errors import Cancelled, LorelogError, StoreBusy
from lorelog.core.memory import IndexReport
from lorelog.core.options import WatchOptions
from lorelog.services.follow import Changes, together
from lorelog.services.roots import Root
from lorelog.services.watch_events import DELETED, Deaf, Ears, Heard
from lorelog.services.watch_survey import Post, Survey, View

SUFFIXES = (".md", ".markdown")

_LOOK_S = 2.0
"""How often it is seen whether roots were added, vanished or came back: a few stamps each time."""
_POLL_S = 30.0
"""How often all roots are compared where the system lets us hear nothing."""
_RESTLESS = 20
"""A pass waits no longer than so many quiet times for files that never come to rest."""
_LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: when it began, how long it took and what it did."""

    at: str
    seconds: float
    report: IndexReport | None
    error: str = ""
    hint: str = ""
    busy: bool = False
    """Whether it only has to wait for others who write."""


@dataclass(slots=True)
class _Notes:
    """What was heard for one post, until it is followed."""

    roots: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    suspected: set[str] = field(default_factory=set)

    def changes(self) -> Changes:
        return Changes(*map(frozenset, (self.roots, self.files, self.gone, self.suspected)))

    def add(self, other: _Notes) -> None:
        self.roots |= other.roots
        self.files |= other.files
        self.gone |= other.gone
        self.suspected |= other.suspected


@dataclass(frozen=True, slots=True)
class _Pause:
    """Until when a post that failed is left alone: each time for longer."""

    until: float = 0.0
    failures: int = 0

    def longer(self, quiet: float) -> _Pause:
        pause = min(quiet * 2 ** min(self.failures + 1, 20), _LONGEST_PAUSE_S)
        return _Pause(time.monotonic() + pause, self.failures + 1)


class Watcher:
    """Follows the roots of a survey until it is stopped. `on_pass` is told of each pass, on the watcher's own thread."""

    def __init__(
        self, survey: Survey, options: WatchOptions | None = None, *, on_pass: Callable[[Pass], None] | None = None
    ) -> None:
        self._survey = survey
        self._options = options or WatchOptions()
        self._on_pass = on_pass
        self._heard: SimpleQueue[Heard | None] = SimpleQueue()
        self._ears = Ears(self._heard.put)
        self._stopped = Event()
        self._woken = Event()
        self._thread = Thread(target=self._run, name="lorelog-watch", daemon=True)
        self._view = View()
        self._signs: object = None
        self._there: dict[str, object] = {}
        self._heeded: dict[str, object] | None = None
        self._folders: frozenset[str] = frozenset()
        self._pending: dict[Post, _Notes] = {}
        self._pauses: dict[Post, _Pause] = {}
        self._first = self._last = 0.0
        self._reconcile_at = 0.0
        self._deaf = ""
        self._busy = False
        self._passes = 0
        self._last_pass: Pass | None = None
        self._last_error: Pass | None = None
        self._told = ""
        self._reconciled = ""
        self._since = ""

    # -- for others --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch; a first comparison of all roots follows shortly."""
        self._since = _now()
        self._thread.start()

    def stop(self, wait_s: float = 1.0) -> bool:
        """End, within a second unless a model is being asked; return whether it has ended. What was done is kept."""
        self._stopped.set()
        self._heard.put(None)
        if self._thread.is_alive():
            self._thread.join(wait_s)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Compare all roots now."""
        self._woken.set()
        self._heard.put(None)

    def visit(self, tenant: str, directory: str) -> None:
        """Watch the project of a directory too: what a host keeps for it is found though nothing of it was indexed yet."""
        if self._survey.visit(tenant, directory):
            self._heard.put(None)

    def state(self) -> dict[str, Any]:
        """Return what is watched and how it goes, fit for JSON."""
        there, view = self._there, self._view
        paths = sorted({path for _, path in view.roots})
        return {
            "running": self._thread.is_alive(),
            "since": self._since,
            "mode": "polling" if self._deaf else "events",
            "why": self._deaf,
            "roots": paths,
            "missing": [path for path in paths if there.get(path, path) is None],
            "passes": self._passes,
            "busy": self._busy or bool(self._pending),
            "last_pass": _pass_shape(self._last_pass),
            "last_error": _error_shape(self._last_error),
            "reconciled_at": self._reconciled,
        }

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        quiet = self._options.debounce_ms / 1000
        look_at = 0.0
        self._reconcile_at = time.monotonic() + quiet
        try:
            while not self._stopped.is_set():
                now = time.monotonic()
                if now >= look_at or self._heeded is None:
                    look_at = now + _LOOK_S
                    self._guarded(self._look)
                if now >= self._reconcile_at or self._woken.is_set():
                    self._woken.clear()
                    self._guarded(self._reconcile)
                self._busy = True
                self._pass()
                self._busy = False
                self._hear(self._wait_s(look_at))
        finally:
            self._ears.close()

    def _hear(self, wait_s: float) -> None:
        """Wait for something to be heard, and take down all there is."""
        with suppress(Empty):
            heard = self._heard.get(timeout=wait_s)
            while True:
                if heard is not None:
                    self._guarded(partial(self._note, heard))
                heard = self._heard.get_nowait()

    def _wait_s(self, look_at: float) -> float:
        until = min(look_at, self._reconcile_at, *(self._due_at(post) for post in self._pending))
        return min(max(until - time.monotonic(), 0.01), _LOOK_S)

    def _due_at(self, post: Post) -> float:
        quiet = self._options.debounce_ms / 1000
        rest = min(self._last + quiet, self._first + _RESTLESS * quiet)
        return max(rest, self._pauses[post].until) if post in self._pauses else rest

    # -- what is there -----------------------------------------------------------------------------------------------

    def _look(self, *, closely: bool = False) -> None:
        """See whether the roots are still the same ones, and listen to those that there are now."""
        signs, there = self._survey.signs(), _identities(self._view)
        if not closely and self._heeded is not None and (signs, there) == (self._signs, self._there):
            return
        self._view = self._survey.look()
        for error in self._view.errors:
            self._fail(error)
        self._signs, self._there = signs, _identities(self._view)
        before = self._heeded
        now = {path: self._there[path] for _, path in self._view.roots if self._there[path] is not None}
        if before is None or now != before or self._deaf:
            self._heeded = now
            self._listen(now)
            self._suspect(key for key in self._view.roots if now.get(key[1]) != (before or {}).get(key[1]))

    def _listen(self, there: Iterable[str]) -> None:
        """Listen to the roots that are there. Where the system refuses, all of them are compared more often instead."""
        trees = [path for path in there if os.path.isdir(path)]  # noqa: PTH112
        self._folders = frozenset(os.path.dirname(path) for path in there if path not in trees)  # noqa: PTH120
        try:
            self._ears.listen(trees, list(self._folders))
        except FileNotFoundError:
            self._heeded = None  # it went just now; the next look will see that
        except Deaf as error:
            self._deaf = str(error)
            self._reconcile_at = min(self._reconcile_at, time.monotonic() + _POLL_S)
        else:
            self._deaf = ""

    def _suspect(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            post, root = self._view.roots[key]
            self._notes(post).suspected.add(root.path)

    def _reconcile(self) -> None:
        """Compare all roots with the index, and settings and watches with what they were."""
        every = self._options.reconcile_s
        self._look(closely=True)
        self._suspect(self._view.roots)
        self._first = self._last = 0.0  # nothing to wait for
        self._reconciled = _now()
        folders = [path for _, path in self._view.roots if os.path.isdir(path)]  # noqa: PTH112
        if not self._deaf and folders and self._ears.is_full(folders[0]):
            self._deaf = "the system's limit of watches is reached (fs.inotify.max_user_watches)"
        if self._deaf:
            every = min(every or _POLL_S, _POLL_S)
        self._reconcile_at = time.monotonic() + (every or float("inf"))

    # -- what was heard ----------------------------------------------------------------------------------------------

    def _note(self, heard: Heard) -> None:
        if heard.fault:  # a name that is no text, mostly; the listener is gone, and so is what it had gathered
            self._heeded = None
            self._suspect(self._view.roots)
        for kind, path in heard.changes:
            if kind == DELETED and (path in self._folders or isinstance(self._there.get(path), tuple)):
                self._heeded = None  # whatever comes in its place has to be listened to anew
            for post, root in _innermost(path, self._view):
                self._note_one(kind, path, post, root)

    def _note_one(self, kind: int, path: str, post: Post, root: Root) -> None:
        *above, name = path[len(root.path) + 1 :].split("/")
        if any(part.startswith(".") for part in above):
            return
        if path == root.path:
            self._notes(post).files.add(path)
        elif name in self._view.ignore_files:
            self._notes(post).roots.add(root.path)
        elif name.startswith("."):
            return
        elif name.lower().endswith(SUFFIXES):
            self._notes(post).files.add(path)
        elif kind == DELETED:
            self._notes(post).gone.add(path)
        elif _is_directory(path):
            self._notes(post).roots.add(root.path)

    def _notes(self, post: Post) -> _Notes:
        """Return where to take something down that has just been heard."""
        now = time.monotonic()
        self._first = self._first if self._pending else now
        self._last = now
        return self._pending.setdefault(post, _Notes())

    # -- passes ------------------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        """Follow everything that has come to rest, in one go."""
        now, at = time.monotonic(), _now()
        taken = {post: self._pending.pop(post) for post in list(self._pending) if self._due_at(post) <= now}
        reports: list[IndexReport] = []
        for post, notes in taken.items():
            try:
                report = self._follow(post, notes)
            except Cancelled:
                return
            except Exception as error:  # noqa: BLE001  (a fault in one pass must not end all watching)
                self._fail(error, at, time.monotonic() - now)
                self._pending.setdefault(post, _Notes()).add(notes)
                self._pauses[post] = self._pauses.get(post, _Pause()).longer(self._options.debounce_ms / 1000)
            else:
                self._pauses.pop(post, None)
                reports += [] if report is None else [report]
        if reports:
            self._passes += 1
            self._told = ""
            self._last_pass = Pass(at, round(time.monotonic() - now, 3), together(reports))
            if self._on_pass:
                self._on_pass(self._last_pass)

    def _follow(self, post: Post, notes: _Notes) -> IndexReport | None:
        if not os.path.isdir(post.directory):  # noqa: PTH112
            return None  # its roots are gone with it, and compared when they come back
        with self._survey.engine_at(post.tenant, post.directory) as engine:
            return engine.follow(notes.changes(), self._keep_going)

    def _keep_going(self, stage: str, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise Cancelled("watching was stopped")

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001  (as in a pass)
            self._fail(error)

    def _fail(self, error: Exception, at: str = "", seconds: float = 0.0) -> None:
        """Keep what went wrong, and tell it once."""
        message, hint = f"{type(error).__name__}: {error}", "a fault of lorelog itself; please report it"
        busy = isinstance(error, StoreBusy)
        if isinstance(error, LorelogError):
            message, hint = error.message, error.hint
        self._last_error = Pass(at or _now(), round(seconds, 3), None, message, hint, busy)
        told = "busy" if busy else message  # who is waited for, and how long, is another message each time
        if self._on_pass and told != self._told:
            self._told = told
            self._on_pass(self._last_error)


def _innermost(path: str, view: View) -> list[tuple[Post, Root]]:
    """Return the innermost root that holds a path, for each tenant that has one."""
    found: dict[str, tuple[Post, Root]] = {}
    for (tenant, _), (post, root) in view.roots.items():
        if root.holds(path) and (tenant not in found or len(found[tenant][1].path) < len(root.path)):
            found[tenant] = (post, root)
    return list(found.values())


def _identities(view: View) -> dict[str, object]:
    """Return which directory lies at each root and awaited place, or that a file does, or None."""
    found: dict[str, object] = {}
    for path in (*(path for _, path in view.roots), *view.awaited):
        try:
            status = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError):
            found[path] = None
        else:
            found[path] = (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else "file"
    return found


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _pass_shape(one: Pass | None) -> dict[str, Any] | None:
    if one is None or one.report is None:
        return None
    report = one.report
    return {
        "at": one.at,
        "seconds": one.seconds,
        "files": report.files,
        "changed": report.changed,
        "removed": report.removed,
        "embedded": report.embedded,
        "waiting": report.waiting,
        "problems": len(report.problems),
    }


def _error_shape(one: Pass | None) -> dict[str, Any] | None:
    return None if one is None else {"at": one.at, "message": one.error, "hint": one.hint}
