"""A home with its daemon, for benches that call it over the socket and read what the kernel knows of it."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contenders import own_program
from bench.measure import clean_environment, median, require, run

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class WarmHome:
    """A project and a home whose daemon is running."""

    project: Path
    environment: Mapping[str, str]

    @property
    def pid(self) -> int:
        """The daemon's process, which is another one after a long pause; 0 while it changes."""
        try:
            return int(Path(self.environment["LORELOG_HOME"], "run", "daemon.pid").read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation over the socket, in this process."""
        from lorelog.light import daemon_client as client

        return client.call_daemon(op, arguments, directory=str(self.project), environment=self.environment)

    def timed(self, op: str, **arguments: Any) -> float:
        """Return the seconds that a call takes."""
        began = time.perf_counter()
        self.call(op, **arguments)
        return time.perf_counter() - began

    def cpu_s(self) -> float:
        """Return the CPU time that the daemon has used, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def bytes_read(self) -> int:
        """Return the bytes that the daemon has read by system calls, from files and from sockets."""
        return self._number("io", "rchar:", 1)

    def resident(self) -> int:
        """Return the daemon's resident memory, with mapped files."""
        return self._number("status", "VmRSS:", 1024)

    def anonymous(self) -> int:
        """Return the part of its resident memory that no file backs."""
        return self._number("status", "RssAnon:", 1024)

    def settle(self, quiet_s: float = 1.0, limit_s: float = 120.0) -> None:
        """Wait until the daemon uses no CPU time for a while: work that a call left behind is done then."""
        end = time.monotonic() + limit_s
        before, since = self.cpu_s(), time.monotonic()
        while time.monotonic() < min(end, since + quiet_s):
            time.sleep(0.1)
            if (now := self.cpu_s()) > before + 1.5 / CLOCK_TICKS:
                before, since = now, time.monotonic()

    def _number(self, file: str, name: str, unit: int) -> int:
        lines = Path(f"/proc/{self.pid}/{file}").read_text("ascii").splitlines()
        return next(int(line.split()[1]) * unit for line in lines if line.startswith(name))


def home_environment(place: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a home below a folder. Settings are named as in LORELOG_NAME, without the prefix."""
    fixed = {"LORELOG_HOME": str(place / "home"), "LORELOG_WATCH_ENABLED": "false", "LORELOG_CACHE_ANSWERS": "false"}
    return clean_environment(place) | fixed | {f"LORELOG_{name}": value for name, value in settings.items()}


@contextmanager
def start_daemon(project: Path, environment: Mapping[str, str]) -> Iterator[WarmHome]:
    """Start the daemon of a home, and stop it afterwards."""
    program = own_program()
    require(run([program, "daemon", "start", "--json"], environment, project), "daemon start")
    try:
        yield WarmHome(project, environment)
    finally:
        run([program, "daemon", "stop"], environment, project)


def new_project(place: Path) -> Path:
    """Make a folder that counts as a project."""
    project = place / "app"
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".git" / "refs").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    return project


def percentile(values: list[float], number: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * number // 100)]


def show_ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def show_p50_p99(values: list[float]) -> str:
    return f"{median(values) * 1000:.1f} / {percentile(values, 99) * 1000:.1f}"


def show_mb(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
