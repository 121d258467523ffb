"""File events from the operating system, by watchfiles: collected in threads, delivered in batches.

Directories are watched recursively; a single file is watched through its directory, because an editor that saves by renaming replaces
it. The set of directories of a listener is fixed, so a new set needs new listeners; the old ones deliver their last events.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from msgspec import Struct

from lorelog.core.paths import is_below

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
        before, self._listeners = self._listeners, listeners
        for listener in before:
            listener.stop()

    def is_full(self, folder: str) -> bool:
        """Return whether the system would refuse one more watch. New directories are then silently not watched."""
        try:
            _make_notifier([folder], recursive=False, lenient=False).close()
        except PermissionError:
            return False
        except FileNotFoundError:
            return False
        except (OSError, RuntimeError):
            return True
        return False

    def close(self) -> None:
        """Stop watching."""
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
    """Return the paths that are not inside others."""
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
