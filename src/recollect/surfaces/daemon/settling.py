"""The daemon's thread that makes records searchable once they were written: nobody who writes or searches waits for a model.

It looks after calls, and not by the clock: a ledger that has not changed since costs one look at its size. Many records that come
one after another are seen to together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.core.errors import RecollectError, StoreBusy

if TYPE_CHECKING:
    from recollect.engine import Engine
    from recollect.surfaces.daemon.work import Work

_GATHER_S = 1.0
"""What is written within this time is seen to together, and searches that make pages themselves come first."""
_AGAIN_S = 5.0
_STEP_ASIDE_S = 0.2

Stamp = tuple[int, int, int]


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
        self._thread = threading.Thread(target=self._run, name="recollect-settle", daemon=True)

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
        stamp = self._stamp(tenant)
        if stamp is None or stamp == self._settled.get(tenant) or self._stopped.is_set():
            return True
        try:
            self._engine_at(tenant, directory).settle_records(self._go_on)
        except StoreBusy:
            return False
        except Exception as error:  # noqa: BLE001  (words find them; the next change tries again)
            if not (isinstance(error, RecollectError) and self._stopped.is_set()):
                self._work.note("settle", error)
        self._settled[tenant] = stamp
        return True

    def _go_on(self) -> bool:
        """Step aside for a moment while somebody is being answered, and go on unless told to stop."""
        if self._work.running():
            self._stopped.wait(_STEP_ASIDE_S)
        return not self._stopped.is_set()

    def _stamp(self, tenant: str) -> Stamp | None:
        with suppress(OSError):
            seen = (self._tenants / tenant / "ledger.jsonl").stat()
            return seen.st_ino, seen.st_size, seen.st_mtime_ns
        return None
