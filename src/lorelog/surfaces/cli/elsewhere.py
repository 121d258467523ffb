"""Asking for operations where somebody else stands: in the directory of a session, with the settings of its environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lorelog.core.errors import DaemonError
from lorelog.surfaces.cli.asking import warm_mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lorelog.operations.dispatch import Dispatcher
    from lorelog.wiring import Holdings


class Elsewhere:
    """Asks the daemon where one runs, and does the work here where none does. Close it."""

    def __init__(self, warm: str | None = None) -> None:
        self._mode = warm_mode(warm)
        self._cold: Dispatcher | None = None
        self._held: Holdings | None = None

    def ask(
        self, op: str, arguments: Mapping[str, Any], directory: str, environment: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Carry out an operation from a directory. Raise LorelogError as the operation does."""
        told = {**os.environ, **(environment or {})}
        if self._mode != "off" and self._cold is None:
            from lorelog.surfaces.daemon import client

            try:
                return client.ask(op, arguments, directory=directory, environment=told)
            except DaemonError:
                if self._mode == "required":
                    raise
        return self._here(op, arguments, directory, told)

    def _here(
        self, op: str, arguments: Mapping[str, Any], directory: str, environment: Mapping[str, str]
    ) -> dict[str, Any]:
        from lorelog.operations.dispatch import Caller, Dispatcher
        from lorelog.wiring import Holdings

        if self._cold is None:
            self._held = Holdings()
            self._cold = Dispatcher(self._held.engine)
        return self._cold.call(op, arguments, Caller(directory, environment))

    def close(self) -> None:
        """Let go of what the calls shared."""
        if self._held is not None:
            self._held.close()
