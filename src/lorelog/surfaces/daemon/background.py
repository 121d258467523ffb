"""Background threads of the daemon: one turns spooled hook events into memories, one indexes new records.

Neither delays a request: a client never waits for a model or for Git.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import Cancelled, DaemonError, LorelogError, StoreBusy
from lorelog.core.paths import cache_folder, tenant_folder
from lorelog.operations.dispatch import ClientIdentity
from lorelog.services.sessions.drain import Drainer, capture_arguments, event_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lorelog.engine import Engine
    from lorelog.surfaces.daemon.connection import OperationRunner


_SPOOL_POLL_S = 1.0
"""How often to read the spool without a wake-up: a hook that cannot reach the daemon still writes its event."""
_MAX_CONCURRENT_SESSIONS = 4
"""Sessions captured at a time. A model that summarizes one session delays only that session."""
_DEBOUNCE_S = 1.0
"""Changes within this time are indexed together; a search that indexes them itself comes first."""
_RETRY_S = 5.0
_YIELD_S = 0.2
_WATCHED_CACHE_FILES = ("catalog.db", "catalog.db-wal", "code.db")

TenantStamp = tuple[object, ...]


class SpoolDrainThread:
    """Turns spooled hook events into memories until it is stopped. Failures are recorded and end nothing."""

    def __init__(
        self, home: str, runner: OperationRunner, environment: Mapping[str, str], wake_event: threading.Event
    ) -> None:
        self._home, self._runner, self._environment, self._wake_event = home, runner, environment, wake_event
        self._drainer = Drainer(home, self._capture, runner.record_failure, _MAX_CONCURRENT_SESSIONS)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="lorelog-drain", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current event."""
        self._stopped = True
        self._wake_event.set()

    def _run(self) -> None:
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
        variables = event.get("environment")
        environment = {**self._environment, **(variables if isinstance(variables, dict) else {})}
        caller = ClientIdentity(event_directory(event, self._home), environment, self._home)
        return self._runner.call("session.capture", capture_arguments(event), caller)


class BackgroundIndexThread:
    """Indexes new records and finds the code that new memories name, until it is stopped. Failures end nothing.

    It runs after operations and not on a timer: an unchanged tenant costs a few `stat` calls.
    """

    def __init__(
        self,
        home: str,
        runner: OperationRunner,
        engine_at: Callable[[str, str], Engine],
        directories: Mapping[str, str],
    ) -> None:
        # `directories`: the directory of each tenant's latest request.
        self._home = home
        self._runner, self._engine_at, self._directories = runner, engine_at, directories
        self._indexed: dict[str, TenantStamp] = {}
        self._waiting = False
        self._wake_event, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lorelog-settle", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopped.set()
        self._wake_event.set()

    def is_idle(self) -> bool:
        """Return whether everything that was written is indexed."""
        return self._waiting and not self._wake_event.is_set()

    def wake(self) -> None:
        """Check for changes soon: an operation has ended and may have written something."""
        self._wake_event.set()

    def _run(self) -> None:
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
        stamp = self._stamp(tenant, directory)
        if stamp is None or stamp == self._indexed.get(tenant) or self._stopped.is_set():
            return True
        try:
            self._engine_at(tenant, directory).run_background_work(self._should_continue)
        except StoreBusy:
            return False
        except Exception as error:
            if not (isinstance(error, LorelogError) and self._stopped.is_set()):
                self._runner.record_failure("settle", error)
        self._indexed[tenant] = stamp
        return True

    def _should_continue(self) -> bool:
        """Pause briefly while an operation runs. Return False once the thread is stopped."""
        if self._runner.running():
            self._stopped.wait(_YIELD_S)
        return not self._stopped.is_set()

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
