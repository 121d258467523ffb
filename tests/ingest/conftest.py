"""Fixtures for the ingest tests: small file trees, and a process to which file permissions apply."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Plant = Callable[[Mapping[str, str]], Path]
RunUnprivileged = Callable[..., str]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write files (path below the root to text) and return the root as a real path."""
    root = Path(os.path.realpath(tmp_path)) / "root"

    def write(files: Mapping[str, str]) -> Path:
        root.mkdir(exist_ok=True)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        return root

    return write


@pytest.fixture
def run_unprivileged() -> RunUnprivileged:
    """Run Python code in a process without the right to read everything, even if the tests run as root."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("running as root, and there is no setpriv to give up the right to read everything")
        prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]

    def run(code: str, *arguments: str) -> str:
        done = subprocess.run(
            [*prefix, sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
