"""A person's machine in a folder: a home, a project under git, lorelog on the PATH, and nothing of the real one.

Every row of the table has a world of its own, so that a failure is told by its files alone. The home is HOME and
LORELOG_HOME is not set, because some hosts start MCP servers with hardly any environment: what works here works for a
person who set nothing. Hosts get proxies that lead nowhere, and, where the machine lets us, a network with loopback
only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from e2e.installing import Installed
from e2e.model import Model

REPOSITORY = Path(__file__).resolve().parents[1]
DEAD_PROXY = "http://127.0.0.1:9"
"""Port 9 discards: connections other than to loopback fail at once."""
_ENTRY = re.compile(r"^### .*?(?=^#{1,3} |\Z)", re.MULTILINE | re.DOTALL)


class Failed(Exception):
    """An expected behaviour was not observed; the message says what was."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A journal entry."""

    text: str
    fields: dict[str, str]

    @property
    def bullets(self) -> str:
        return "\n".join(line for line in self.text.splitlines() if not line.startswith(("###", "<!--")))


@dataclasses.dataclass
class World:
    """One person, one project, one scripted model."""

    place: Path
    model: Model
    hosts: dict[str, Installed]

    def __post_init__(self) -> None:
        self.home = self.place / "home"
        self.project = self.place / "project"
        self.bin = self.place / "bin"
        self.logs = self.place / "logs"
        for folder in (self.home, self.project, self.bin, self.logs, self.place / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        self._make_project()
        # Codex runs commands in a login shell, whose PATH is made anew: as an installer for users does, tell the profile.
        (self.home / ".profile").write_text(f'export PATH="{self.bin}:$PATH"\n')
        (self.bin / "lorelog").symlink_to(Path(sys.executable).with_name("lorelog"))

    def _make_project(self) -> None:
        git = ["git", "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-C", str(self.project)]
        (self.project / "README.md").write_text("# A project\n")
        for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
            subprocess.run([*git, *command], check=True, capture_output=True, env=self.environment())

    @property
    def memory_home(self) -> Path:
        return self.home / ".lorelog"

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of programs started here."""
        programs = [str(self.bin)]
        if "node" in self.hosts:
            programs.append(str(self.hosts["node"].programs))
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), DEAD_PROXY)
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
        return {
            "PATH": os.pathsep.join([*programs, "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "TMPDIR": str(self.place / "tmp"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            **proxies,
            **direct,
            **more,
        }

    def lorelog(self, *arguments: str, directory: Path | None = None, environment: dict[str, str] | None = None) -> str:
        """Run lorelog and return its output. Raise Failed if it fails."""
        program = Path(sys.executable).with_name("lorelog")
        done = subprocess.run(
            [program, *arguments],
            cwd=directory or self.project,
            env=environment or self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise Failed(
                f"lorelog {' '.join(arguments)} ended with {done.returncode}: {(done.stderr + done.stdout).strip()[-400:]}"
            )
        return done.stdout

    def found(self, words: str) -> list[dict[str, Any]]:
        """Return the hits of a search."""
        hits: list[dict[str, Any]] = json.loads(self.lorelog("search", words, "--json"))["hits"]
        return hits

    def journals(self) -> str:
        """Return every journal's text, oldest first."""
        return "\n".join(path.read_text() for path in sorted(self._journal_files()))

    def _journal_files(self) -> Iterator[Path]:
        for place in (self.project, self.home):
            yield from _journals_below(place)
        yield from (self.home / ".openclaw").rglob("workspace*/.lorelog/**/*.md")

    def entries(self, *, turns_only: bool = True) -> list[Entry]:
        """Return the journal entries in order."""
        found, seen = [], set()
        for path in sorted(set(self._journal_files())):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            for match in _ENTRY.finditer(path.read_text()):
                comment = re.search(r"<!--(.*?)-->", match.group(), re.DOTALL)
                words = comment.group(1).split() if comment else []
                fields = dict(word.split(":", 1) for word in words if ":" in word)
                if fields.get("type") == "turn" or not turns_only:
                    found.append(Entry(match.group().strip(), fields))
        return found

    def wait_for_entries(self, enough: Callable[[list[Entry]], bool], what: str, limit_s: float = 45.0) -> list[Entry]:
        """Wait for a number of entries and an empty spool. Raise Failed after a time limit."""
        end = time.monotonic() + limit_s
        while True:
            entries = self.entries()
            if enough(entries) and not self.spooled():
                return entries
            if time.monotonic() > end:
                heads = [entry.bullets[:100].replace("\n", " ") for entry in entries]
                raise Failed(f"{what}; the journal has {len(entries)} turns {heads}, the spool {self.spooled()}")
            time.sleep(0.2)

    def settle(self, seconds: float = 3.0, limit_s: float = 45.0) -> None:
        """Wait until the spool is empty, and a little longer, so that duplicates would show."""
        end = time.monotonic() + limit_s
        while self.spooled() and time.monotonic() < end:
            time.sleep(0.2)
        if self.spooled():
            raise Failed(f"the spool still holds {self.spooled()} after {limit_s:.0f} seconds")
        time.sleep(seconds)

    def spooled(self) -> list[str]:
        folder = self.memory_home / "spool"
        return sorted(path.name for path in folder.glob("*.json")) if folder.is_dir() else []

    def daemon(self) -> int:
        """Return the daemon's process id, 0 if it is not running."""
        try:
            return int((self.memory_home / "run" / "daemon.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def kill_daemon(self) -> bool:
        """Kill the daemon; return True if it was running."""
        pid = self.daemon()
        if not pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def remove_lorelog(self) -> None:
        """Remove the program, as an uninstalled or broken environment would."""
        (self.bin / "lorelog").unlink()

    def close(self) -> None:
        """End all processes started here."""
        self.kill_daemon()
        for pid in self._still_there():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.model.stop()

    def _still_there(self) -> list[int]:
        """Return every process with this world's home: Codex's terminal program leaves a server running."""
        home = f"HOME={self.home}".encode()
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if home in environment.read_bytes().split(b"\0"):
                    found.append(int(environment.parent.name))
        return found

    def keep(self, where: Path) -> None:
        """Copy requests, logs, journals and the home without caches, for the report of a failure."""
        where.mkdir(parents=True, exist_ok=True)
        with (where / "requests.jsonl").open("w") as file:
            for request in self.model.requests():
                step = dataclasses.asdict(request.step)
                file.write(
                    json.dumps({"n": request.number, "at": request.at, "body": request.body, "step": step}) + "\n"
                )
        skip = shutil.ignore_patterns("node_modules", "index", "*.sock", "cache", ".cache", ".git")
        for folder in (self.logs, self.home, self.project):
            with contextlib.suppress(shutil.Error, OSError):
                shutil.copytree(folder, where / folder.name, ignore=skip, symlinks=True, dirs_exist_ok=True)


def _journals_below(place: Path) -> Iterator[Path]:
    """Yield journals. `os.walk` passes over folders that vanish: a host deletes its clones meanwhile."""
    for folder, _, names in os.walk(place):
        parts = Path(folder).relative_to(place).parts
        if ".lorelog" in parts and parts[-1] == "memory":
            yield from (Path(folder, name) for name in names if name.endswith(".md"))


def eventually(look: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    """Wait until a condition holds. Raise Failed after a time limit."""
    end = time.monotonic() + limit_s
    while not look():
        if time.monotonic() > end:
            raise Failed(what)
        time.sleep(0.2)
