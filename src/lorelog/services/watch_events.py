"""What the system says about changed files, by way of watchfiles: gathered by threads of its own, handed over in sets.

Directories are heard with everything below them; a single file is heard through its directory, because an editor that
saves by renaming puts another file in its place. A listener cannot be told of further directories, so a new set of them
is a new pair of listeners; the old ones hand over what they still have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from lorelog.core.paths import is_below

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

DELETED = 3
"""The kind of change that watchfiles gives this number: of the others only the path counts."""

_STEP_MS = 200
"""How often a listener looks whether something was gathered, and whether it is to end."""
_GATHER_MS = 1_000
_POLL_DELAY_MS = 300


@dataclass(frozen=True, slots=True)
class Heard:
    """What a listener heard, or that it can hear no longer."""

    changes: frozenset[tuple[int, str]] = frozenset()
    fault: str = ""


class Deaf(Exception):
    """The system does not let us listen: too many watches, or none at all."""


class Ears:
    """Listens to directories, and tells what it hears from threads of its own."""

    def __init__(self, tell: Callable[[Heard], None]) -> None:
        self._tell = tell
        self._listeners: list[_Listener] = []

    def listen(self, trees: Sequence[str], folders: Sequence[str]) -> None:
        """Listen to trees, and to folders without what lies below them, in place of what was listened to before.

        Raise FileNotFoundError when one of them is gone, and Deaf when they are too many; what was heard before still is.
        """
        listeners: list[_Listener] = []
        try:
            for paths, recursive in ((outermost(trees), True), (sorted(set(folders)), False)):
                if paths:
                    listeners.append(_Listener(_open(paths, recursive=recursive), self._tell))
        except BaseException:
            for one in listeners:
                one.stop()
            raise
        before, self._listeners = self._listeners, listeners
        for one in before:
            one.stop()

    def is_full(self, folder: str) -> bool:
        """Say whether the system would refuse one more watch. New directories then go unheard, and nobody is told."""
        try:
            _notify([folder], recursive=False, lenient=False).close()
        except PermissionError:
            return False
        except FileNotFoundError:
            return False
        except (OSError, RuntimeError):
            return True
        return False

    def close(self) -> None:
        """Listen to nothing."""
        listeners, self._listeners = self._listeners, []
        for one in listeners:
            one.stop()


class _Listener:
    def __init__(self, notify: RustNotify, tell: Callable[[Heard], None]) -> None:
        self._notify = notify
        self._tell = tell
        self._stopped = Event()
        self._thread = Thread(target=self._listen, name="lorelog-ears", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _listen(self) -> None:
        with self._notify as notify:
            while not self._stopped.is_set():
                try:
                    # Without a time limit: one that runs out just then would lose what has just been gathered.
                    heard = notify.watch(_GATHER_MS, _STEP_MS, 0, self._stopped)
                except Exception as error:  # noqa: BLE001  (whatever it is, somebody must know that we hear nothing)
                    self._tell(Heard(fault=str(error)))
                    return
                if isinstance(heard, set):
                    self._tell(Heard(frozenset(heard)))
            with suppress(Exception):
                heard = notify.watch(1, 1, 1, None)
                if isinstance(heard, set):
                    self._tell(Heard(frozenset(heard)))


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that lie in none of the others."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda one: (len(one), one)):
        if not any(is_below(path, outer) for outer in kept):
            kept.append(path)
    return sorted(kept)


def _open(paths: list[str], *, recursive: bool) -> RustNotify:
    """Open a listener. Directories that may not be looked into are passed over; what cannot be heard at all raises Deaf."""
    try:
        try:
            return _notify(paths, recursive=recursive, lenient=False)
        except PermissionError:
            # Lenient, it passes over every failure, running out of watches too: one more then shows whether it did.
            opened = _notify(paths, recursive=recursive, lenient=True)
            _notify(paths[:1], recursive=False, lenient=False).close()
            return opened
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise Deaf(f"may not be watched: {error}") from error
    except (OSError, RuntimeError) as error:
        raise Deaf(str(error)) from error


def _notify(paths: list[str], *, recursive: bool, lenient: bool) -> RustNotify:
    from watchfiles._rust_notify import RustNotify

    poll = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in {"", "false", "disable", "disabled"}
    return RustNotify(paths, False, poll, _POLL_DELAY_MS, recursive, lenient)
