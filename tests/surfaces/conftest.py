"""A shell to type commands into, and a project to stand in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lorelog.operations.dispatch import Dispatcher
from lorelog.surfaces.cli.main import main
from lorelog.wiring import ResourcePool


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shell = Callable[..., Outcome]


MINE = "# mine\nmodel = 'x'\n"


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a Codex configuration."""
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    write(Path.home() / ".codex" / "config.toml", MINE)
    return Path.home()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project to stand in, with vectors from the fake provider."""
    place = tmp_path / "app"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    return place


@pytest.fixture
def shell(project: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Types a command, in this process."""

    def type_command(*words: object) -> Outcome:
        capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as ended:  # argparse leaves this way
            status = int(ended.code or 0)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return type_command


def command_line(*words: object) -> list[str]:
    """A command as a process of its own."""
    return [sys.executable, "-m", "lorelog", *(str(word) for word in words)]


def run_process(
    words: Sequence[object],
    cwd: Path,
    *,
    env: Mapping[str, str] | None = None,
    mortal: bool = False,
    timeout: float = 300,
) -> Outcome:
    """Run a command in a process of its own; a mortal one may not write or read what file modes forbid, even as root."""
    prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if mortal and os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, *command_line(*words)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def write(path: Path, text: str) -> Path:
    """Write a file and the directories it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def files_with(word: str, *folders: Path) -> list[str]:
    """Return the files that contain a word, whatever their format."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if word.encode() in path.read_bytes()]


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    """A dispatcher whose engines are closed after the test."""
    pool = ResourcePool()
    yield Dispatcher(pool.engine)
    pool.close()
