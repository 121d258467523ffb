"""How a command gets its answer: from the warm daemon where there is one, else by doing the work here.

Nothing but the standard library is loaded on the warm way: whoever has a daemon waits for Python to start, and for little
else.
"""

from __future__ import annotations

import os

from lorelog.core.errors import ConfigError, DaemonError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from lorelog.core.ports import Progress
    from lorelog.operations.dispatch import Dispatcher
    from lorelog.wiring import Holdings

MODES = ("auto", "off", "required")


def add_warm(parser: argparse.ArgumentParser) -> None:
    """Declare whether a command goes through the daemon."""
    parser.add_argument(
        "--warm",
        choices=MODES,
        help="go through the warm daemon: where possible, never, or not without it (daemon.warm)",
    )


def ask(
    args: argparse.Namespace,
    op: str,
    arguments: Mapping[str, Any],
    *,
    progress: Progress | None = None,
    starts: bool = False,
) -> Any:
    """Carry out one operation as the common flags say, and return its JSON. `starts`: worth starting a daemon for."""
    asker = Asker(getattr(args, "warm", None), starts=starts)
    return asker.ask(op, with_standpoint(args, arguments), progress)


def warm_mode(flag: str | None) -> str:
    """Return whether to go through the daemon: as the flag says, the environment, the person's settings, or auto."""
    mode = flag or os.environ.get("LORELOG_DAEMON_WARM") or _settled()
    if mode not in MODES:
        raise ConfigError(f"the environment variable LORELOG_DAEMON_WARM is {mode!r}", hint="auto, off or required")
    return mode


def _settled() -> str:
    """Return what the settings say. They are only loaded where the file has the word in it: that takes as long as the rest."""
    from lorelog.surfaces.daemon.address import find_address

    home = find_address(None, None).home
    try:
        with open(f"{home}/config.toml", "rb") as file:  # noqa: PTH123
            said = b"warm" in file.read(1_000_000)
    except OSError:
        return "auto"
    if not said:
        return "auto"
    from pathlib import Path

    from lorelog.wiring_settings import settings_of_person

    return settings_of_person(Path(home)).daemon().warm


def with_standpoint(args: argparse.Namespace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the project and the tenant of the flags. What null means is the operation's to say."""
    flags = {"project": args.project, "tenant": args.tenant}
    return {**arguments, **{name: value for name, value in flags.items() if value is not None}}


class Asker:
    """Asks one operation after another. Once the daemon could not be had, the rest is done here, and `many` share what is open."""

    def __init__(self, warm: str | None, *, starts: bool, many: bool = False) -> None:
        self._mode = warm_mode(warm)
        self._starts = starts
        self._many = many
        self._cold: Dispatcher | None = None
        self._held: Holdings | None = None

    def ask(self, op: str, arguments: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Carry out an operation. Raise LorelogError as the operation does."""
        if op.startswith("daemon."):  # the daemon's own, which `lorelog warm` asks for
            raise UsageError(f"there is no operation {op!r}", hint="'lorelog ops' lists them")
        if self._mode != "off" and self._cold is None:
            from lorelog.surfaces.daemon import client

            if self._mode == "required":
                self._insist()
                return client.ask(op, arguments, progress=progress)
            try:
                return client.ask(op, arguments, starts=self._starts, progress=progress)
            except DaemonError:
                pass  # silently: the answer is the same
        return self._here(op, arguments, progress)

    def _insist(self) -> None:
        """Have a daemon, whether or not this is worth starting one for, and whether or not a start has just failed."""
        from lorelog.surfaces.daemon.address import find_address
        from lorelog.surfaces.daemon.client import answers_at

        address = find_address(None, None)
        if not answers_at(address):
            from lorelog.surfaces.daemon.control import start

            start(address, insists=True)

    def _here(self, op: str, arguments: Mapping[str, Any], progress: Progress | None) -> dict[str, Any]:
        from lorelog.operations.dispatch import Caller, Dispatcher
        from lorelog.wiring import Holdings, working_directory

        if self._cold is None:
            if self._many:
                self._held = Holdings()
            self._cold = Dispatcher(self._held.engine) if self._held else Dispatcher()
        return self._cold.call(op, arguments, Caller(working_directory(), dict(os.environ)), progress)

    def close(self) -> None:
        """Let go of what many calls shared."""
        if self._held is not None:
            self._held.close()
