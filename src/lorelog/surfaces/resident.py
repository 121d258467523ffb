"""The process that stays: composes the daemon's server with what it answers, watches and serves.

`python -m lorelog.surfaces.resident --home H`, started by `daemon/control.py`. Nothing heavy is loaded before the socket
stands: those who come meanwhile wait there, and not for one another to start a daemon.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from lorelog.core.errors import LorelogError
from lorelog.core.version import VERSION
from lorelog.surfaces.daemon.address import Address
from lorelog.surfaces.daemon.control import READY
from lorelog.surfaces.daemon.desk import House
from lorelog.surfaces.daemon.log import Log
from lorelog.surfaces.daemon.presence import Presence
from lorelog.surfaces.daemon.server import Limits, Server
from lorelog.surfaces.daemon.work import Work

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from lorelog.core.options import DaemonOptions, HttpOptions, ScanOptions, WatchOptions
    from lorelog.engine import Engine
    from lorelog.operations.dispatch import Caller, Dispatcher
    from lorelog.services.code.indexing import CodeReport
    from lorelog.services.code.keeping import Keeper
    from lorelog.services.watch import Pass, Watcher
    from lorelog.surfaces.daemon.draining import Draining
    from lorelog.surfaces.daemon.job import Request
    from lorelog.surfaces.daemon.settling import Settling
    from lorelog.surfaces.http.server import Serving
    from lorelog.wiring import Holdings, Standpoint

_REST_S = 15.0
"""How often it is seen whether a model can be let go."""
_SETTLE_S = 1.0
"""Watching and serving begin so long after the start: whoever started us waits for an answer."""
_MOST_VISITED = 1_000
"""Projects of which we know that the watcher has heard of them; it is told again of those that we forgot."""
_OF_THE_DAEMON = ("LORELOG_DAEMON_", "LORELOG_WATCH_", "LORELOG_HTTP_")
"""Variables that are about the daemon, and so may be meant for it by whoever starts it."""
_STEP_ASIDE_S = 0.2
_CLOSE_S = 0.5
"""What goes on beside answering ends in this time, or with the process."""


def main(words: list[str]) -> NoReturn:
    """Become the daemon of a home, and leave when it has left."""
    if len(words) != 2 or words[0] != "--home":
        sys.exit("usage: python -m lorelog.surfaces.resident --home DIRECTORY")
    _detach()
    log = Log(Address(words[1]).log)
    try:
        presence = Presence(Address(words[1]))
        listener = presence.listen()
    except (LorelogError, OSError) as error:
        os.write(2, f"{error}\n".encode("utf-8", "replace"))
        os._exit(1)
    os.write(2, READY)
    log.open()
    log.write(f"started: lorelog {VERSION}, home {words[1]}")
    resident = Resident(presence, log)
    why = resident.stay(listener)
    log.write(f"left: {why}")
    resident.close()
    presence.leave()
    # Threads that hang must not keep the process: what is written is written, and locks end with us.
    os._exit(0)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person chose for the daemon, as it was when it started."""

    daemon: DaemonOptions
    watching: WatchOptions
    serving: Callable[[], HttpOptions]
    """May raise: a token that is referred to may not be there."""
    environment: Mapping[str, str]
    """What holds for what it does on its own account."""


class Resident:
    """What one daemon holds."""

    def __init__(self, presence: Presence, log: Log) -> None:
        self._home = presence.address.home
        self._presence = presence
        self._log = log
        self._work = Work(self._answer, log.write)
        self._loading = threading.Lock()
        self._dispatcher: Dispatcher | None = None
        self._holdings: Holdings | None = None
        self._watcher: Watcher | None = None
        self._serving: Serving | None = None
        self._draining: Draining | None = None
        self._settling: Settling | None = None
        self._keeper: Keeper | None = None
        self._choices: Choices | None = None
        self._beside: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._resting: threading.Thread | None = None
        self._rested = self._started = time.monotonic()
        self._visited: set[tuple[str, str]] = set()
        self._stood: dict[str, str] = {}
        """Where each tenant's memory was last asked for from."""
        self._told_busy = False
        self._woken = threading.Event()
        """Set when a hook has left something in the spool."""

    def stay(self, listener: socket.socket) -> str:
        """Answer until it is time to leave; return why."""
        options = self._settle()
        house = House(
            caller_of=self._caller,
            streams={"daemon.mcp": self._speak_mcp},
            describe=self._describe,
            chores=self._chores,
            wake=self._wake,
            leaving=self._end,
            idle_s=options.idle_s,
        )
        server = Server(listener, self._presence, self._work, house, Limits())
        signal.set_wakeup_fd(server.waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)  # told to the server through the descriptor
        return server.run()

    def close(self) -> None:
        """Let go of everything that lets go in time."""
        self._end()
        if self._ending is not None:
            self._ending.join(_CLOSE_S)

    def _end(self) -> None:
        """Begin to end what goes on beside answering."""
        if self._ending is not None:
            return

        def end() -> None:
            for one in (self._draining, self._settling, self._watcher, self._keeper, self._serving):
                if one is not None:
                    with suppress(Exception):
                        one.stop()

        self._ending = threading.Thread(target=end, name="lorelog-ending", daemon=True)
        self._ending.start()

    # -- answering ---------------------------------------------------------------------------------------------------

    def _answer(self, op: str, arguments: Any, caller: Caller, progress: Any) -> dict[str, Any]:
        time.tzset()  # the machine may have been carried elsewhere since
        try:
            return self._dispatch().call(op, arguments, caller, progress)
        finally:
            if self._settling is not None:
                self._settling.wake()

    def _dispatch(self) -> Dispatcher:
        with self._loading:
            if self._dispatcher is None:
                from lorelog.operations.dispatch import Dispatcher
                from lorelog.wiring import Holdings

                self._holdings = Holdings()
                self._dispatcher = Dispatcher(self._engine)
            return self._dispatcher

    def _engine(self, here: Standpoint, flags: Mapping[str, object] | None = None) -> Engine:
        """Return an engine, and have the project it stands in watched."""
        if self._holdings is None:
            raise TypeError("an engine was asked for before there was anything to lend")
        engine = self._holdings.engine(here, flags)
        visitor = (engine.place.tenant, engine.place.project.root)
        self._stood[engine.place.tenant] = engine.place.project.root
        if self._watcher is not None and visitor not in self._visited:
            if len(self._visited) >= _MOST_VISITED:
                self._visited.clear()
            self._visited.add(visitor)
            self._watcher.visit(*visitor)
        return engine

    def _caller(self, request: Request) -> Caller:
        from lorelog.operations.dispatch import Caller

        return Caller(request.directory, request.environment, self._home, own=request.own)

    def _speak_mcp(self, connection: socket.socket, caller: Caller) -> None:
        from lorelog.surfaces.mcp.session import serve_stream

        serve_stream(connection, self._work.call, caller)

    def _wake(self) -> None:
        self._woken.set()

    # -- beside answering --------------------------------------------------------------------------------------------

    def _settle(self) -> DaemonOptions:
        """Read the person's settings. What is wrong with them is told by status, and by every call."""
        from lorelog.core.options import DaemonOptions

        try:
            from lorelog.wiring import settings_at, standpoint

            environment = own_environment(os.environ, self._home)
            settings = settings_at(standpoint(home=self._home, directory=self._home, environment=environment))
            # A secret may be kept in any variable, also in one of our prefix; that it is referred to is the person's choice.
            for key in ("embedding.api_key", "http.token"):
                variable = str(settings.value(key)).removeprefix("env:")
                if variable in os.environ:
                    environment[variable] = os.environ[variable]
            self._choices = Choices(
                settings.daemon(), settings.watching(), lambda: settings.serving(environment), environment
            )
        except (LorelogError, OSError) as error:
            self._work.note("settings", error)
            return DaemonOptions()
        return self._choices.daemon

    def _chores(self) -> None:
        """Begin what goes on beside answering, once those who wait have been answered; let go of models that rest."""
        now = time.monotonic()
        if self._choices is None:
            return
        if self._beside is None and now - self._started > _SETTLE_S:
            self._beside = threading.Thread(target=self._begin_beside, name="lorelog-beside", daemon=True)
            self._beside.start()
        busy = self._resting is not None and self._resting.is_alive()
        idle_s = self._choices.daemon.model_idle_s
        if self._holdings is not None and not busy and now - self._rested >= min(_REST_S, idle_s):
            # In a thread of its own: closing a model may take its time.
            self._rested = now
            self._resting = threading.Thread(target=self._rest, args=(idle_s,), name="lorelog-rest", daemon=True)
            self._resting.start()

    def _begin_beside(self) -> None:
        begun = (
            ("drain", self._begin_draining),
            ("settle", self._begin_settling),
            ("watch", self._begin_watching),
            ("code", self._begin_keeping),
            ("http", self._begin_serving),
        )
        for what, begin in begun:
            try:
                if self._choices is not None and self._ending is None:
                    begin(self._choices)
            except Exception as error:  # noqa: BLE001  (the daemon answers without them; status tells)
                self._work.note(what, error)

    def _begin_draining(self, choices: Choices) -> None:
        from lorelog.surfaces.daemon.draining import Draining

        self._draining = Draining(self._home, self._work, choices.environment, self._woken)
        self._draining.start()

    def _begin_settling(self, choices: Choices) -> None:
        from lorelog.surfaces.daemon.settling import Settling

        self._dispatch()
        self._settling = Settling(self._home, self._work, partial(self._engine_at, choices), self._stood)
        self._settling.start()
        self._settling.wake()

    def _engine_at(self, choices: Choices, tenant: str, directory: str) -> Engine:
        """Return an engine for what the daemon does on its own account."""
        from lorelog.wiring import standpoint

        here = standpoint(home=self._home, directory=directory, environment=choices.environment)
        return self._engine(here, {"scope.tenant": tenant})

    def _begin_watching(self, choices: Choices) -> None:
        if not choices.watching.enabled:
            return
        from pathlib import Path

        from lorelog.services.watch import Watcher
        from lorelog.services.watch_survey import Survey

        self._dispatch()
        survey = Survey(Path(self._home), partial(self._engine_at, choices))
        watcher = Watcher(survey, choices.watching, on_pass=self._passed)
        watcher.start()
        self._watcher = watcher

    def _begin_keeping(self, choices: Choices) -> None:
        if not choices.watching.enabled:
            return
        from pathlib import Path

        from lorelog.services.code.keeping import Keeper

        def scan_at(tenant: str, directory: str) -> ScanOptions:
            with self._engine_at(choices, tenant, directory) as engine:
                return engine.defaults.scan

        self._dispatch()
        self._keeper = Keeper(Path(self._home), scan_at, choices.watching, self._step_aside, self._kept)
        self._keeper.start()

    def _step_aside(self) -> bool:
        """Wait for a moment while somebody is being answered; say whether to go on."""
        if self._work.running():
            time.sleep(_STEP_ASIDE_S)
        return self._ending is None

    def _kept(self, done: CodeReport | Exception) -> None:
        if isinstance(done, Exception):
            self._work.note("code", done)

    def _passed(self, done: Pass) -> None:
        if done.busy:  # as it should be where several write; one line tells that it happens
            if not self._told_busy:
                self._log.write(f"watch: waits for its turn ({done.error}); this is told once")
            self._told_busy = True
        elif done.error:  # tried again until it goes; its state tells of it
            self._log.write(f"watch: {done.error}")

    def _begin_serving(self, choices: Choices) -> None:
        if not choices.daemon.http:
            return
        from lorelog.operations.dispatch import Caller
        from lorelog.surfaces.http.late import late
        from lorelog.surfaces.http.server import serve_in_thread

        caller = Caller(self._home, dict(choices.environment), self._home, own=False)

        def load() -> Any:
            from lorelog.surfaces.mcp.mount import mount

            return mount(self._work.call, caller)

        self._serving = serve_in_thread(self._work.call, choices.serving(), caller, [late("/mcp", load)])
        self._log.write(f"serving {self._serving.url}")

    def _rest(self, idle_s: float) -> None:
        if self._holdings is not None:
            self._holdings.rest(idle_s)
        give_back()

    def _describe(self) -> dict[str, Any]:
        return {
            "models_loaded": 0 if self._holdings is None else self._holdings.rest(float("inf")),
            "watch": None if self._watcher is None else self._watcher.state(),
            "http": None if self._serving is None else {"url": self._serving.url},
        }


def give_back() -> None:
    """Hand memory that is free, but held for later, back to the system, where its allocator can be asked to.

    A write takes tens of megabytes for a moment, and what it frees stays with the process: after two thousand operations one
    held 105 MB, of which 92 were left after this.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own; others give back by themselves
    if trim is not None:
        trim(0)


def own_environment(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return what of an environment holds for what the daemon does on its own account.

    Whoever started it may have set something for one command. That must not last, nor reach other projects: settings come
    from config.toml, but for those of the daemon itself.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("LORELOG_") or name.startswith(_OF_THE_DAEMON)
    }
    return {**kept, "LORELOG_HOME": home}


def _detach() -> None:
    """Leave the one who started us: session, directory, descriptors and signals are not theirs any more.

    The mask for new files stays: journals in projects are made by it, and whoever has another one is not served with it
    (`desk.py`). What lies in the home has modes of its own.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.closerange(3, 1_048_576)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)


if __name__ == "__main__":
    main(sys.argv[1:])
