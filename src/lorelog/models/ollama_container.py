"""An Ollama server in a Docker container: started on first use by one of many processes, stopped when idle.

A server that already answers is used, no matter who started it, and Docker is not called. Otherwise: remove a stale
container, run one with a named volume so that models survive it, wait until it answers, pull the model if it is missing. The
server is checked once per process and again only after a failed request. A lock ensures that of twenty commands one starts it
and all use it. The port is bound to loopback: Ollama does not authenticate.

Commands exit and a daemon need not run, so a separate process stops the container:
`python -m lorelog.models.ollama_container FOLDER CONTAINER IDLE_S`. At most one runs per folder. It sleeps until the container
could have been idle long enough, checks when it was last used, and exits with it. It releases `keeper.lock` before `lock`, so
that the next start finds no keeper and starts another. The files in the folder: `lock` (held to start or stop), `started`
(the container is ours), `last-used`, `keeper.lock`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import OllamaOptions
from lorelog.core.paths import home_folder, modified_at
from lorelog.core.processes import FileLock, spawn_detached

READY_TIMEOUT_S = 30.0
_POLL_S = 0.5
_PROBE_TIMEOUT_S = 2.0
_COMMAND_TIMEOUT_S = 30.0
_PULL_TIMEOUT_S = 1800.0
"""A model, or Ollama's image, may be gigabytes."""
_LOCK_TIMEOUT_S = 60.0
"""How long to wait for a start by another process; meanwhile a search uses keywords only."""
KEEPER_MODULE = "lorelog.models.ollama_container"
_PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "SSH_AUTH_SOCK", "VIRTUAL_ENV")
_LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "::1"}


def run_docker(*words: str, timeout_s: float = _COMMAND_TIMEOUT_S) -> tuple[int, str, str]:
    """Run a Docker command; return its status, output, and the last line of its stderr."""
    try:
        done = subprocess.run(
            ["docker", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_child_environment(),
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise ModelUnavailable(
            "no Ollama server is running, and Docker, which ollama.manage needs to start one, is not installed",
            hint="start Ollama, or install Docker",
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelUnavailable(f"docker {words[0]} failed: {error}") from error
    errors = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
    return done.returncode, done.stdout.decode("utf-8", "replace").strip(), errors[-1][:200]


def is_running(container: str) -> bool:
    status, output, _ = run_docker("inspect", "--format", "{{.State.Running}}", container)
    return status == 0 and output == "true"


class OllamaContainer:
    """The container at one address, as seen by one process. Thread-safe."""

    def __init__(self, options: OllamaOptions, url: str) -> None:
        self._options = options
        self._url = url
        self._folder = Path(options.folder or f"{home_folder('')}/ollama")
        self._lock = Lock()
        self._is_checked = False
        self._is_ours = False
        self._pulled: set[str] = set()

    def ensure(self, model: str, *, recheck: bool = False) -> None:
        """Make sure that a server answers, once per process unless `recheck`. Raise ModelUnavailable if none can be started."""
        if self._is_checked and not recheck:
            return
        with self._thread_lock():
            if self._is_checked and not recheck:
                return
            if not self.is_reachable():
                self._start(model)
            self._is_ours = (self._folder / "started").is_file()
            self._is_checked = True
            self.record_use()
            if self._is_ours:
                self._start_keeper()

    def is_reachable(self) -> bool:
        """Return True if a server answers, with any status."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        parts = urlsplit(self._url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_PROBE_TIMEOUT_S)
        try:
            connection.request("GET", f"{parts.path}/")
            connection.getresponse().read()
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
        return True

    def pull(self, model: str) -> bool:
        """Pull a missing model if the container is ours; return whether that was done."""
        with self._thread_lock():
            if not self._is_ours or model in self._pulled:
                return False
            with self._process_lock():
                self._pull(model)
            return True

    def record_use(self) -> None:
        """Record that the server was used, so that it is not stopped."""
        if self._is_ours:
            with suppress(OSError):
                (self._folder / "last-used").touch()

    def _start(self, model: str) -> None:
        parts = urlsplit(self._url)
        if parts.hostname not in _LOOPBACK_HOSTS:
            raise ModelUnavailable(
                f"no Ollama server answers at {parts.hostname}",
                hint="check the address: ollama.manage starts a server on this machine only",
            )
        with self._process_lock():
            if self.is_reachable():
                return  # another process was first
            name = self._options.container
            (self._folder / "last-used").touch()  # otherwise the keeper would read an old time
            if not is_running(name):
                run_docker("rm", "-f", name)
                self._run(name, parts.hostname or "", parts.port or 80)
            (self._folder / "started").write_text(f"{name}\n", "utf-8")
            deadline = time.monotonic() + READY_TIMEOUT_S
            while not self.is_reachable():
                if time.monotonic() >= deadline:
                    raise ModelUnavailable(
                        f"Ollama in the container {name} did not become ready within {READY_TIMEOUT_S:g} s",
                        hint=f"see: docker logs {name}",
                    )
                time.sleep(_POLL_S)
            names = {
                line.split()[0] for line in run_docker("exec", name, "ollama", "list")[1].splitlines() if line.strip()
            }
            if not {model, f"{model}:latest"} & names:
                self._pull(model)

    def _run(self, name: str, host: str, port: int) -> None:
        bound = "[::1]" if host == "::1" else "127.0.0.1"
        options = ("--name", name, "-v", f"{self._options.volume}:/root/.ollama", "-p", f"{bound}:{port}:11434")
        status, _, error_line = run_docker("run", "-d", *options, self._options.image, timeout_s=_PULL_TIMEOUT_S)
        if status and not is_running(name):  # a process with another home may have started it first
            raise ModelUnavailable(
                f"Docker could not start {self._options.image}: {error_line or status}",
                hint="check that Docker is running and that the port is free (docker ps)",
            )

    def _pull(self, model: str) -> None:
        self._pulled.add(model)
        if model.startswith("-"):
            raise ModelUnavailable(f"{model} is not a valid model name", hint="check embedding.model")
        status, _, error_line = run_docker(
            "exec", self._options.container, "ollama", "pull", model, timeout_s=_PULL_TIMEOUT_S
        )
        if status:
            raise ModelUnavailable(
                f"Ollama could not pull {model}: {error_line or status}", hint="check embedding.model and the network"
            )

    @contextmanager
    def _thread_lock(self) -> Iterator[None]:
        """Hold the lock among threads. A pull takes minutes, so waiting for the lock is limited."""
        if not self._lock.acquire(timeout=_LOCK_TIMEOUT_S):
            raise ModelUnavailable(
                f"Ollama has been starting, or pulling a model, for more than {_LOCK_TIMEOUT_S:g} s",
                hint="try again later",
            )
        try:
            yield
        finally:
            self._lock.release()

    def _process_lock(self) -> FileLock:
        """Return the lock among processes to start, stop or pull."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ModelUnavailable(f"Ollama cannot be started: {error}") from error
        busy = f"another process has been starting Ollama for more than {_LOCK_TIMEOUT_S:g} s"
        return FileLock(self._folder / "lock", ModelUnavailable(busy, hint="try again later"), _LOCK_TIMEOUT_S)

    def _start_keeper(self) -> None:
        """Start the process that stops the idle container, unless one runs or the container should stay."""
        if not self._options.idle_s or not sys.executable:
            return
        with suppress(OSError):
            with FileLock(self._folder / "keeper.lock", BlockingIOError()):
                pass  # no keeper runs
            words = (str(self._folder), self._options.container, f"{self._options.idle_s:g}")
            null_files = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
            spawn_detached([sys.executable, "-P", "-m", KEEPER_MODULE, *words], _child_environment(), null_files)


def _child_environment() -> dict[str, str]:
    """Return the environment of Docker and the keeper: variables to find programs and settings, and no keys."""
    prefixes = ("DOCKER_", "XDG_", "PYTHON", "LC_")
    return {name: value for name, value in os.environ.items() if name in _PASSED_VARIABLES or name.startswith(prefixes)}


_MAX_SLEEP_S = 60.0
_MIN_SLEEP_S = 0.05


def stop_when_idle(folder: Path, container: str, idle_s: float) -> None:
    """Wait until the container has been idle for `idle_s`, stop it, and return."""
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder / "keeper.lock", BlockingIOError()))
        except BlockingIOError:
            return
        while True:
            left = idle_s - _idle_seconds(folder)
            if left > 0:
                time.sleep(min(max(left, _MIN_SLEEP_S), _MAX_SLEEP_S))
                continue
            with FileLock(folder / "lock"):
                if _idle_seconds(folder) < idle_s:
                    continue  # used while waiting for the lock
                with suppress(ModelUnavailable):  # without Docker the container does not run either
                    if is_running(container):
                        run_docker("rm", "-f", container)
                (folder / "started").unlink(missing_ok=True)
                stack.close()
                return


def _idle_seconds(folder: Path) -> float:
    """Return the seconds since the last use, or since 1970 if none is recorded."""
    return time.time() - modified_at(folder / "last-used")


if __name__ == "__main__":
    stop_when_idle(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
