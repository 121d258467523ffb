"""Measurement of commands, and the embedding service as a process; shared by all benches.

Responsible for one number being honest: wall time from the fork to the end, CPU time and peak memory of the process and
the children it waited for, as the kernel reports them to wait4. Nothing here knows who is measured.

Linux carries the starter's own memory peak over into the process it starts, so the benches that report memory import
the standard library only: about 25 MB is the least any command can show.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LIMIT_S = 3 * 3600
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, kibibytes elsewhere


@dataclass(frozen=True)
class Measured:
    """One run of one command."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    status: int
    output: str
    errors: str

    @property
    def succeeded(self) -> bool:
        return self.status == 0

    def last_words(self) -> str:
        """The line with the reason of a failure: the last one of a traceback."""
        lines = [line.strip() for line in (self.errors or self.output).splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"exit status {self.status}, nothing said"


class CommandFailed(Exception):
    """A measured command failed, so its time means nothing."""


class Running:
    """A started command. `finish` waits for it; `stop` sends a signal first."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], directory: Path) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed in finish; files, as a full pipe would stall it
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._measured: Measured | None = None
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            [str(part) for part in command],
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
        )

    def is_running(self) -> bool:
        """Whether it is running. Does not reap it, so that `finish` can read its usage."""
        if self._measured is not None:
            return False
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self, number: signal.Signals = signal.SIGINT, patience_s: float = 20.0) -> Measured:
        """Terminate it, then kill it if it does not end."""
        if self.is_running():
            os.kill(self._process.pid, number)
        end = time.perf_counter() + patience_s
        while self.is_running() and time.perf_counter() < end:
            time.sleep(0.02)
        if self.is_running():
            os.kill(self._process.pid, signal.SIGKILL)
        return self.finish()

    def finish(self, limit_s: float = LIMIT_S) -> Measured:
        if self._measured is None:
            timer = threading.Timer(limit_s, os.kill, (self._process.pid, signal.SIGKILL))
            timer.daemon = True
            timer.start()
            _, status, usage = os.wait4(self._process.pid, 0)
            wall_s = time.perf_counter() - self._started
            timer.cancel()
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._measured = Measured(
                wall_s=wall_s,
                cpu_s=usage.ru_utime + usage.ru_stime,
                peak_bytes=usage.ru_maxrss * RSS_UNIT,
                status=self._process.returncode,
                output=_drain(self._output),
                errors=_drain(self._errors),
            )
        return self._measured


def _drain(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def run(command: Sequence[str | Path], environment: Mapping[str, str], directory: Path) -> Measured:
    """Run a command to its end and measure it, whatever its exit status."""
    return Running(command, environment, directory).finish()


def require(measured: Measured, what: str) -> Measured:
    """Run and measure a command. Raise if it fails."""
    if not measured.succeeded:
        raise CommandFailed(f"{what} failed with status {measured.status}: {measured.last_words()}")
    return measured


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def disk_bytes(directory: Path) -> int:
    """Return the disk usage of a folder in blocks, so that holes in sparse files do not count."""
    return sum(entry.lstat().st_blocks * 512 for entry in directory.rglob("*") if entry.is_file())


def clean_environment(home: Path) -> dict[str, str]:
    """Return a minimal environment, so that no setting or proxy of the user affects a program."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "*"}


@dataclass(frozen=True)
class EmbeddingService:
    """The embedding service of this run, in a separate process."""

    root: str

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def texts(self) -> int:
        """Return the number of embedded texts since the last reset."""
        return self._ask("/counts", None)["texts"]

    def reset(self) -> None:
        self._ask("/reset", b"")

    def _ask(self, path: str, body: bytes | None) -> dict[str, int]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.root + path, data=body, timeout=10) as reply:
            answer: dict[str, int] = json.load(reply)
        return answer


@contextlib.contextmanager
def embedding_service() -> Iterator[EmbeddingService]:
    """Start the service on a free loopback port, and stop it afterwards."""
    script = Path(__file__).with_name("embedding_server.py")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            root = process.stdout.readline().strip()
            if not root:
                raise CommandFailed("the embedding service did not start")
            yield EmbeddingService(root)
        finally:
            process.terminate()
