"""The daemon's thread that makes records searchable once they were written, and finds out which code new memories name: nobody who
writes or searches waits for a model or for Git.

It looks after calls, and not by the clock: what has not changed since costs a look at the sizes of files. Many records that come
one after another are seen to together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lorelog.core.errors import LorelogError, StoreBusy

if TYPE_CHECKING:
    from lorelog.engine import Engine
    from lorelog.surfaces.daemon.work import Work

_GATHER_S = 1.0
"""What is written within this time is seen to together, and searches that make pages themselves come first."""
_AGAIN_S = 5.0
_STEP_ASIDE_S = 0.2

_FILES = ("ledger.jsonl", "index/catalog.db", "index/catalog.db-wal", "index/code.db")

Stamp = tuple[object, ...]


class Settling:
    """Settles records until it is stopped. Faults are the work's to tell; they end nothing."""

    def __init__(
        self, home: str, work: Work, engine_at: Callable[[str, str], Engine], places: Mapping[str, str]
    ) -> None:
        # `places`: from which directory each tenant's memory was last asked for.
        self._tenants = Path(home) / "tenants"
        self._work, self._engine_at = work, engine_at
        self._places = places
        self._settled: dict[str, Stamp] = {}
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lorelog-settle", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pages that are being seen to."""
        self._stopped.set()
        self._woken.set()

    def wake(self) -> None:
        """Take note that something was asked for, and may have been written."""
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait()
            self._stopped.wait(_GATHER_S)
            self._woken.clear()
            places = list(self._places.items())  # as one step: others add to it
            done = [self._settle(tenant, directory) for tenant, directory in places]
            if not all(done):
                self._stopped.wait(_AGAIN_S)
                self._woken.set()

    def _settle(self, tenant: str, directory: str) -> bool:
        """Settle what a tenant has recorded since; return whether that is done."""
        stamp = self._stamp(tenant, directory)
        if stamp is None or stamp == self._settled.get(tenant) or self._stopped.is_set():
            return True
        try:
            self._engine_at(tenant, directory).settle(self._go_on)
        except StoreBusy:
            return False
        except Exception as error:  # noqa: BLE001  (words find them; the next change tries again)
            if not (isinstance(error, LorelogError) and self._stopped.is_set()):
                self._work.note("settle", error)
        self._settled[tenant] = stamp
        return True

    def _go_on(self) -> bool:
        """Step aside for a moment while somebody is being answered, and go on unless told to stop."""
        if self._work.running():
            self._stopped.wait(_STEP_ASIDE_S)
        return not self._stopped.is_set()

    def _stamp(self, tenant: str, directory: str) -> Stamp | None:
        """Return what changes with every record and every memory, and with the place that is asked from; None where there is nothing."""
        seen: list[object] = []
        for name in _FILES:
            with suppress(OSError):
                status = (self._tenants / tenant / name).stat()
                seen += [status.st_ino, status.st_size, status.st_mtime_ns]
        return (directory, *seen) if seen else None
