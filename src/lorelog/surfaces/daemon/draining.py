"""The daemon's thread that turns what hooks have spooled into memories."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import Cancelled, DaemonError
from lorelog.operations.dispatch import Caller
from lorelog.services.session.asking import arguments_of, directory_of
from lorelog.services.session.drain import Drainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorelog.surfaces.daemon.work import Work

_LOOK_S = 1.0
"""How often the spool is looked at where nobody wakes us: a hook that could not reach the daemon leaves its event all the same."""

_AT_ONCE = 4
"""Sessions that are captured at a time: a model that words a note keeps its own waiting, and three more."""


class Draining:
    """Drains until it is stopped. Faults are the work's to tell; they end nothing."""

    def __init__(self, home: str, work: Work, environment: Mapping[str, str], woken: threading.Event) -> None:
        self._home, self._work, self._environment, self._woken = home, work, environment, woken
        self._drainer = Drainer(home, self._capture, work.note, _AT_ONCE)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="lorelog-drain", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the event that is being seen to."""
        self._stopped = True
        self._woken.set()

    def _run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            pause = _LOOK_S
            with suppress(Cancelled, DaemonError):  # the daemon is leaving; the next one goes on
                try:
                    drained = self._drainer.drain()
                    pause = _LOOK_S if drained.pause_s is None else min(_LOOK_S, drained.pause_s)
                except (Cancelled, DaemonError):
                    raise
                except Exception as error:  # noqa: BLE001  (the next pass may go)
                    self._work.note("drain", error)
            if not self._stopped:
                self._woken.wait(max(pause, 0.05))

    def _capture(self, event: dict[str, Any]) -> dict[str, Any]:
        told = event.get("environment")
        environment = {**self._environment, **(told if isinstance(told, dict) else {})}
        caller = Caller(directory_of(event, self._home), environment, self._home)
        return self._work.call("session.capture", arguments_of(event), caller)
