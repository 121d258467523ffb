"""An Ollama server in a container: started when it is first needed, by one of many processes, and stopped when idle.

As Loop runs it: look, remove what is stale, run with a named volume so that models outlive the container, wait until it
answers, pull the model if it is not there. Four things are different. A server that already answers is used, whoever
started it, and Docker is not asked at all. It is looked after once in a process and again only when a request fails, not at
every call. The start is behind a lock, so that of twenty commands one starts it and all use it. And the port is bound
to this machine: Ollama asks nobody for a key.

Who stops it is `ollama_keeper`, a process of its own, because commands end and a daemon need not run. What they agree by
lies in one folder: `lock` (of who starts or stops), `started` (that the container is ours), `last-used`, `keeper.lock`.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from lorelog.core.errors import ModelUnavailable
from lorelog.core.locking import locks_within
from lorelog.core.options import OllamaOptions
from lorelog.core.paths import home_folder
from lorelog.core.spawning import spawn_apart

READY_S = 30.0
_LOOK_S = 0.5
_ANSWER_S = 2.0
_QUICK_S = 30.0
_PULL_S = 1800.0
"""A model, or Ollama itself, may be gigabytes."""
_TURN_S = 60.0
"""How long another process's start is waited for; a search finds by words meanwhile."""
KEEPER = "lorelog.models.ollama_keeper"
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "SSH_AUTH_SOCK", "VIRTUAL_ENV")
_HERE = {"localhost", "127.0.0.1", "::1"}


def docker(*words: str, timeout_s: float = _QUICK_S) -> tuple[int, str, str]:
    """Run a Docker command; return its status, what it said, and the last line of its complaints."""
    try:
        done = subprocess.run(
            ["docker", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_environment(),
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise ModelUnavailable(
            "no Ollama server answers, and Docker, which ollama.manage would start one with, is not installed",
            hint="start Ollama, or install Docker",
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelUnavailable(f"docker {words[0]} did not work: {error}") from error
    complaints = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
    return done.returncode, done.stdout.decode("utf-8", "replace").strip(), complaints[-1][:200]


def is_running(container: str) -> bool:
    """Say whether a container of this name runs."""
    status, said, _ = docker("inspect", "--format", "{{.State.Running}}", container)
    return status == 0 and said == "true"


class Container:
    """The container behind one address, as one process sees it. Threads may share it."""

    def __init__(self, options: OllamaOptions, url: str) -> None:
        self._options = options
        self._url = url
        self._folder = Path(options.folder or f"{home_folder('')}/ollama")
        self._lock = Lock()
        self._is_seen = False
        self._is_ours = False
        self._pulled: set[str] = set()

    def ensure(self, model: str, *, anew: bool = False) -> None:
        """See to it that a server answers, once; `anew` looks again. Raise ModelUnavailable when none can be had."""
        if self._is_seen and not anew:
            return
        with self._alone():
            if self._is_seen and not anew:
                return
            if not self.answers():
                self._start(model)
            self._is_ours = (self._folder / "started").is_file()
            self._is_seen = True
            self.used()
            if self._is_ours:
                self._keep()

    def answers(self) -> bool:
        """Say whether a server is there; whatever it says counts."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        parts = urlsplit(self._url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_ANSWER_S)
        try:
            connection.request("GET", f"{parts.path}/")
            connection.getresponse().read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        return True

    def pull(self, model: str) -> bool:
        """Fetch a model that the server lacks, where it is ours; return whether that was done."""
        with self._alone():
            if not self._is_ours or model in self._pulled:
                return False
            with self._turn():
                self._pull(model)
            return True

    def used(self) -> None:
        """Note that the server was used just now, so that nobody stops it."""
        if self._is_ours:
            with suppress(OSError):
                (self._folder / "last-used").touch()

    def _start(self, model: str) -> None:
        parts = urlsplit(self._url)
        if parts.hostname not in _HERE:
            raise ModelUnavailable(
                f"no Ollama server answers at {parts.hostname}",
                hint="ollama.manage starts one on this machine only: is the address right?",
            )
        with self._turn():
            if self.answers():
                return  # another process was first
            name = self._options.container
            (self._folder / "last-used").touch()  # or who stops it would find an old one
            if not is_running(name):
                docker("rm", "-f", name)
                self._run(name, parts.hostname or "", parts.port or 80)
            (self._folder / "started").write_text(f"{name}\n", "utf-8")
            self._await()
            names = {line.split()[0] for line in docker("exec", name, "ollama", "list")[1].splitlines() if line.strip()}
            if not {model, f"{model}:latest"} & names:
                self._pull(model)

    def _run(self, name: str, host: str, port: int) -> None:
        bound = "[::1]" if host == "::1" else "127.0.0.1"
        options = ("--name", name, "-v", f"{self._options.volume}:/root/.ollama", "-p", f"{bound}:{port}:11434")
        status, _, complaint = docker("run", "-d", *options, self._options.image, timeout_s=_PULL_S)
        if status and not is_running(name):  # one of another home may have been first
            raise ModelUnavailable(
                f"Docker could not start {self._options.image}: {complaint or status}",
                hint="is Docker running, and is the port free? (docker ps)",
            )

    def _await(self) -> None:
        deadline = time.monotonic() + READY_S
        while not self.answers():
            if time.monotonic() >= deadline:
                raise ModelUnavailable(
                    f"Ollama in the container {self._options.container} did not become ready within {READY_S:g} s",
                    hint=f"docker logs {self._options.container} says why",
                )
            time.sleep(_LOOK_S)

    def _pull(self, model: str) -> None:
        self._pulled.add(model)
        if model.startswith("-"):
            raise ModelUnavailable(f"{model} is no model's name", hint="check embedding.model")
        status, _, complaint = docker("exec", self._options.container, "ollama", "pull", model, timeout_s=_PULL_S)
        if status:
            raise ModelUnavailable(
                f"Ollama could not pull {model}: {complaint or status}", hint="check embedding.model and the network"
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the one thread of this process that sees after it. A pull takes minutes, and no search waits for that."""
        if not self._lock.acquire(timeout=_TURN_S):
            raise ModelUnavailable(
                f"Ollama has been starting, or pulling a model, for more than {_TURN_S:g} s", hint="try again later"
            )
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Be the one of all processes that starts, stops or pulls."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ModelUnavailable(f"Ollama cannot be started: {error}") from error
        try:
            if not locks_within(descriptor, _TURN_S):
                raise ModelUnavailable(
                    f"another process has been starting Ollama for more than {_TURN_S:g} s", hint="try again later"
                )
            yield
        finally:
            os.close(descriptor)

    def _keep(self) -> None:
        """Begin to watch over it, unless somebody does or it is to stay."""
        if not self._options.idle_s or not sys.executable:
            return
        with suppress(OSError):
            descriptor = os.open(self._folder / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                os.close(descriptor)
            words = (str(self._folder), self._options.container, f"{self._options.idle_s:g}")
            _spawn([sys.executable, "-P", "-m", KEEPER, *words])


def _spawn(words: list[str]) -> None:
    """Start a process that nobody waits for, and that nobody hears."""
    nowhere = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY, 0) for number in range(3)
    ]
    spawn_apart(words, _environment(), nowhere)


def _environment() -> dict[str, str]:
    """Return what Docker and the keeper need of ours: how to find things, and no key."""
    starts = ("DOCKER_", "XDG_", "PYTHON", "LC_")
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(starts)}
